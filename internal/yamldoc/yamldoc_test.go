package yamldoc

import (
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

func TestParse(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"a: 1\n", ""},
		{"---\na: 1\n...\n", ""},
		{"", ""},
		{"# nothing\n", ""},
		{"a: 1\n---\nb: 2\n", "x.yaml:3:1: a second document: want one in a file"},
		{"a: 1\n---\n", "x.yaml:3:1: a second document"},
		{"a: 1\n--- [\n", "x.yaml:2:1: did not find expected node content: want YAML"},
		{"a: [\n", "x.yaml:1:1: did not find expected node content: want YAML"},
		{"a: \xff\n", "x.yaml:1:4: a byte that is not UTF-8: want YAML in UTF-8"},
		{"a: 1\nb: \x01\n", "x.yaml:1:1: control characters are not allowed: want YAML"},
	} {
		_, err := Parse("x.yaml", []byte(c.text))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
	}
}

// Any text gives a document, or an error of one line with a place.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "a: 1\n", "a: &a [*a]", "a: 1\n---\nb: 2\n", "- ? [\n", "\xff", "a: !!binary x\n<<: {b: 1}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := Parse("x.yaml", []byte(text)); err != nil {
			testkit.FailsFirst(t, err, "x.yaml:")
		}
	})
}
