package yamldoc

import (
	"errors"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"gpipebench/internal/testkit"
)

// even is an even number, with its own UnmarshalYAML.
type even int

func (e *even) UnmarshalYAML(n *yaml.Node) error {
	if err := n.Decode((*int)(e)); err != nil || *e%2 != 0 {
		return WantError("an even number")
	}
	return nil
}

// printed is a text with a sign, with its own UnmarshalYAML, which may be missing.
type printed string

func (p *printed) UnmarshalYAML(n *yaml.Node) error {
	if *p = printed(n.Value); !strings.HasPrefix(n.Value, "+") {
		return WantError("a number with a sign")
	}
	return nil
}

func (p printed) IsZero() bool { return p == "" }

type item struct {
	Name string `yaml:"name" want:"name,key"`
	Of   string `yaml:"of" want:"colour,optional"`
	N    int    `yaml:"n" want:"0..9"`
}

type document struct {
	ID    string         `yaml:"id" want:"id"`
	Rate  float64        `yaml:"rate" want:">0..1"`
	Two   [2]int         `yaml:"two"`
	Even  even           `yaml:"even"`
	Paper printed        `yaml:"paper"`
	Items []*item        `yaml:"items" want:"optional"`
	By    map[string]int `yaml:"by"`
}

func TestDecode(t *testing.T) {
	const good = "id: a-1\nrate: 0.5\ntwo: [1, 2]\neven: 4\nitems: [{name: x, of: red, n: 3}, {name: y}]\nby: {k: 7}\n"
	words := Vocabularies{"colour": OneOf("red", "blue")}
	for _, c := range []struct{ old, replacement, want string }{
		{"", "", ""},
		{"id: a-1", "id: A", `x.yaml:1:5: id: "A": want lower-case letters`},
		{"id: a-1\n", "", "x.yaml:1:1: no id: want lower-case letters"},
		{"id: a-1", "name: b", "x.yaml:1:1: unknown field name: want id, rate, two"},
		{"rate: 0.5", "rate: 0", `x.yaml:2:7: rate: "0": want a number above 0 to 1`},
		{"rate: 0.5", "rate: half", `x.yaml:2:7: rate: "half": want a number above 0 to 1`},
		{"rate: 0.5", "rate: 0.5\nrate: 0.5", "x.yaml:3:1: field rate is there twice"},
		{"[1, 2]", "[1, 2, 3]", "x.yaml:3:6: two: 3 entries: want 2"},
		{"[1, 2]", "[1, 1.5]", `x.yaml:3:10: two.1: "1.5": want a whole number from 1`},
		{"even: 4", "even: 5", `x.yaml:4:7: even: "5": want an even number`},
		{"even: 4\n", "", "x.yaml:1:1: no even: want an even number"},
		{"even: 4", "even: 4\npaper: 4", `x.yaml:5:8: paper: "4": want a number with a sign`},
		{"even: 4", "even: 4\npaper: ''", `x.yaml:5:8: paper: "": want a number with a sign`},
		{"of: red", "of: green", `x.yaml:5:23: items.0.of: unknown "green": want red, blue`},
		{"n: 3", "n: 10", `items.0.n: "10": want a whole number from 0 to 9`},
		{"name: y", "name: x", "items.1: an entry of this name is there already, as entry 0"},
		{"items: [", "items: 1 #", "items: \"1\": want a list"},
		{"{k: 7}", "{}", "by: no entry: want at least one"},
		{"{k: 7}", "{k: 8}", "x.yaml:6:6: by.k: too large"},
	} {
		var d document
		err := Decode("x.yaml", []byte(strings.Replace(good, c.old, c.replacement, 1)), &d, words, func() *Problem {
			if d.By["k"] > 7 {
				return At(errors.New("too large"), "k").In("by")
			}
			return nil
		})
		switch {
		case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), "x.yaml:") || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %s", c.replacement, err, c.want)
		case c.want == "" && err != nil:
			t.Error(err)
		case c.want == "" && (d.Two != [2]int{1, 2} || len(d.Items) != 2 || *d.Items[0] != item{"x", "red", 3}):
			t.Errorf("decoded %+v", d)
		case c.want == "":
			testkit.EqualAll(t, Words(&d, "colour"), []string{"red"}, "colours")
		}
	}
}

// A tag with an unknown vocabulary is a defect of the program.
func TestUnknownVocabulary(t *testing.T) {
	var d struct {
		Of string `yaml:"of" want:"flavour"`
	}
	testkit.Panics(t, func() { _ = Decode("x.yaml", []byte("of: red"), &d, nil, nil) }, "flavour")
}
