// Package claims judges what the paper claims, by expressions over tables.
package claims

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"gpipebench/experiments/suite"
	"gpipebench/internal/plain"
	"gpipebench/internal/units"
	"gpipebench/internal/yamldoc"
)

// Ledger is what the paper claims, in both of its versions, and how each claim
// is checked: claims.yaml.
type Ledger struct {
	Versions map[string]string `yaml:"versions"` // of the paper: their short names and what they are
	Claims   []Claim           `yaml:"claims"`
}

// Claim is one claim of the paper.
type Claim struct {
	ID      string `yaml:"id" json:"id"`
	Version string `yaml:"version" json:"version"` // one of Ledger.Versions, or several: N, V1
	Where   string `yaml:"where" json:"where"`     // section, table or figure
	Claim   string `yaml:"claim" json:"claim"`
	Paper   string `yaml:"paper" json:"paper,omitempty" want:"optional"` // the figure as it is printed
	Kind    Kind   `yaml:"kind" json:"kind"`
	// Tolerance is how far from the paper a figure may be and still count as
	// reproduced, in percent. 0: of exact claims, half a unit of the last digit
	// that is printed.
	Tolerance float64 `yaml:"tolerance" json:"tolerance,omitempty"`
	// Values are expressions for the figure, by what they are: modelled, measured,
	// counted; where the claim itself is not reproduced, what its stand-in shows.
	// See the evaluator for what an expression may be.
	Values evidences `yaml:"values" json:"-" want:"optional"`
	Holds  string    `yaml:"holds" json:"-" want:"optional"` // an expression that is true if the claim is
	// Noisy is an expression that is true if the records are too noisy to refute a
	// claim of ours.
	Noisy string `yaml:"noisy" json:"-" want:"optional"`
	// Reason is why a claim cannot be reproduced here or has not been tried, and
	// StandIn what is done in its place.
	Reason  string `yaml:"reason" json:"reason,omitempty" want:"optional"`
	StandIn string `yaml:"stand_in" json:"stand_in,omitempty" want:"optional"`
	Note    string `yaml:"note" json:"note,omitempty" want:"optional"`
	Command string `yaml:"command" json:"command,omitempty" want:"optional"` // that makes the evidence; of what is counted, one that shows it
	// Each makes several claims of one: in every text {name} is replaced.
	Each []map[string]string `yaml:"each" json:"-" want:"optional"`

	line int
}

// Kind says how a claim is judged.
type Kind string

const (
	// Exact claims are recomputed, and fail where they do not come out.
	Exact Kind = "exact"
	// Ratio claims are figures of the paper's machines. That ours differ is shown,
	// and is no failure.
	Ratio Kind = "ratio"
	// Trend claims are predicates over what was measured, and fail where they do
	// not hold.
	Trend Kind = "trend"
	// Contradiction is the evidence that the paper contradicts itself or arithmetic.
	// It fails where the evidence does not hold.
	Contradiction Kind = "contradiction"
	// Ours are promises about this suite's own tools. They fail as trends do, unless
	// Noisy is true.
	Ours Kind = "ours"
	// NotHere is what cannot be reproduced on an ordinary machine.
	NotHere Kind = "not here"
	// NotYet is what has not been attempted.
	NotYet Kind = "not yet"
)

// Kinds lists the kinds in the order of the report.
var Kinds = []Kind{Exact, Ratio, Trend, Contradiction, Ours, NotHere, NotYet}

func (k *Kind) UnmarshalYAML(n *yaml.Node) error {
	var names []string
	for _, known := range Kinds {
		if n.Value == string(known) {
			*k = known
			return nil
		}
		names = append(names, string(known))
	}
	return yamldoc.WantError(strings.Join(names, ", "))
}

// evidences are expressions by name, in the order in which they stand.
type evidences []evidence

type evidence struct{ name, expression string }

func (e *evidences) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return yamldoc.WantError("names and expressions")
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i+1].Kind != yaml.ScalarNode {
			return fmt.Errorf("%s: want an expression", plain.Quoted(n.Content[i].Value))
		}
		*e = append(*e, evidence{n.Content[i].Value, n.Content[i+1].Value})
	}
	return nil
}

//go:embed claims.yaml
var ledgerText []byte

// loadLedger reads the ledger that is part of the program.
func loadLedger() (*Ledger, error) {
	return parseLedger("claims.yaml", ledgerText)
}

// Versions are the ledger's: the short names of what makes claims, and what they are.
func Versions() (map[string]string, error) {
	l, err := loadLedger()
	if err != nil {
		return nil, err
	}
	return l.Versions, nil
}

func parseLedger(name string, text []byte) (*Ledger, error) {
	l := &Ledger{}
	if err := suite.Decode(name, text, l, l.Check); err != nil {
		return nil, err
	}
	root, err := yamldoc.Parse(name, text)
	if err != nil {
		return nil, err
	}
	var all []Claim
	for i, c := range l.Claims {
		c.line = yamldoc.NodeAt(root, []string{"claims", strconv.Itoa(i)}, false).Line
		all = append(all, c.expand()...)
	}
	l.Claims = all
	return l, nil
}

func (l *Ledger) Check() *suite.Problem {
	if len(l.Versions) == 0 {
		return suite.At(errors.New("none: want at least one"), "versions")
	}
	seen := map[string]bool{}
	for i, c := range l.Claims {
		for j, each := range append(c.Each, nil) {
			if each == nil && len(c.Each) > 0 {
				break
			}
			one := c.with(each)
			if field, err := one.Check(l.Versions); err != nil {
				if each != nil {
					err = fmt.Errorf("%w (each %d)", err, j+1)
				}
				return suite.At(err, "claims", strconv.Itoa(i), field)
			}
			if seen[one.ID] {
				return suite.At(fmt.Errorf("%s is there twice", one.ID), "claims", strconv.Itoa(i), "id")
			}
			seen[one.ID] = true
		}
	}
	return nil
}

// Check returns the first field that is wrong.
func (c *Claim) Check(versions map[string]string) (field string, err error) {
	for _, f := range []struct{ name, text string }{{"id", c.ID}, {"where", c.Where}, {"claim", c.Claim}, {"kind", string(c.Kind)}} {
		if f.text == "" {
			return f.name, fmt.Errorf("no %s", f.name)
		}
		if strings.ContainsAny(f.text, "{}") {
			return f.name, fmt.Errorf("%q: no value for what is in braces", f.text)
		}
	}
	for v := range strings.SplitSeq(c.Version, ", ") {
		if versions[v] == "" {
			return "version", fmt.Errorf("unknown version %q: want %s", v, strings.Join(slices.Sorted(maps.Keys(versions)), ", "))
		}
	}
	for _, v := range append(slices.Clone(c.Values), evidence{"holds", c.Holds}, evidence{"noisy", c.Noisy}) {
		if v.expression == "" {
			continue
		}
		if err := checkExpression(v.expression); err != nil {
			if v.name != "holds" && v.name != "noisy" {
				return "values", fmt.Errorf("%s: %w", v.name, err)
			}
			return v.name, err
		}
	}
	_, _, readable := units.ReadFigure(c.Paper)
	switch c.Kind {
	case Exact, Ratio:
		switch {
		case len(c.Values) == 0 && (c.Kind == Ratio || c.Holds == ""):
			return "kind", errors.New("no evidence: want values, or of what is exact what holds")
		case len(c.Values) > 0 && !readable:
			return "paper", fmt.Errorf("%q: want the figure that the paper has", c.Paper)
		case c.Kind == Ratio && !(c.Tolerance > 0):
			return "tolerance", errors.New("want a number of percent above 0")
		}
	case Trend, Contradiction, Ours:
		if c.Holds == "" {
			return "holds", errors.New("want an expression")
		}
	case NotHere, NotYet:
		if c.Reason == "" {
			return "reason", errors.New("want a reason")
		}
		if c.Holds != "" {
			return "holds", errors.New("what is not reproduced cannot hold; values are shown as the stand-in's")
		}
	}
	if c.Noisy != "" && c.Kind != Ours {
		return "noisy", fmt.Errorf("only claims of kind %s may be left open by noise", Ours)
	}
	if c.Tolerance < 0 {
		return "tolerance", errors.New("want a number of percent above 0")
	}
	return "", nil
}

// expand returns a claim for each of Each.
func (c Claim) expand() []Claim {
	if len(c.Each) == 0 {
		return []Claim{c}
	}
	var all []Claim
	for _, each := range c.Each {
		all = append(all, c.with(each))
	}
	return all
}

// with returns the claim with values for the names in braces.
func (c Claim) with(each map[string]string) Claim {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(each)) {
		pairs = append(pairs, "{"+name+"}", each[name])
	}
	replace := strings.NewReplacer(pairs...).Replace
	for _, text := range []*string{&c.ID, &c.Version, &c.Where, &c.Claim, &c.Paper, &c.Holds, &c.Noisy, &c.Reason, &c.StandIn, &c.Note, &c.Command} {
		*text = replace(*text)
	}
	values := slices.Clone(c.Values)
	for i := range values {
		values[i].expression = replace(values[i].expression)
	}
	c.Values, c.Each = values, nil
	return c
}
