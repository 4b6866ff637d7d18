package claims

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"

	"gpipebench/internal/printable"
	"gpipebench/internal/units"
	"gpipebench/internal/yamldoc"
	"gpipebench/lab"
)

// Ledger is what a paper claims, in all of its versions, and how each claim is checked:
// claims.yaml in the paper's folder.
type Ledger struct {
	Versions   map[string]string    `yaml:"versions"` // of the paper: their short names and what they are
	Tolerances map[string]Tolerance `yaml:"tolerances" want:"optional"`
	Headline   []Row                `yaml:"headline" want:"optional"`
	Claims     []Claim              `yaml:"claims"`
}

// Schema is the JSON Schema (2020-12) of a ledger, by the same types and tags that read one. What
// [Ledger.Check] finds between fields is not in it.
func Schema() map[string]any {
	return yamldoc.Schema(&Ledger{}, "Ledger of what a paper claims, claims.yaml")
}

// Tolerance is how far from the paper's figure ours may be and still count as
// reproduced, and why so far.
type Tolerance struct {
	Name    string  `yaml:"-" json:"name"`
	Percent float64 `yaml:"percent" json:"percent" want:"optional,0..100"` // 0: half a unit of the last digit that is printed
	// Gain says that the percentage is of what a factor gains or loses, its difference from
	// 1. A share of a small factor itself may contain 1, no effect at all.
	Gain    bool   `yaml:"gain" json:"gain,omitempty" want:"optional"`
	Because string `yaml:"because" json:"because"`
}

// String is a tolerance in a few characters.
func (t Tolerance) String() string {
	if t.Percent == 0 {
		return "digits"
	}
	return t.Name + ", " + t.share()
}

// share is a tolerance that is not of digits.
func (t Tolerance) share() string {
	of := ""
	if t.Gain {
		of = " of the difference from 1"
	}
	return fmt.Sprintf("%g%%%s", t.Percent, of)
}

// reach returns the figures that are within the tolerance of a paper's.
func (t Tolerance) reach(p printed) (lo, hi float64) {
	reach := p.half * (1 + 1e-9)
	if t.Percent > 0 {
		from := p.value
		if t.Gain {
			from--
		}
		reach = t.Percent / 100 * math.Abs(from) * (1 + 1e-12)
	}
	return p.value - reach, p.value + reach
}

// Claim is one claim of a paper.
type Claim struct {
	ID      string `yaml:"id" json:"id"`           // never changes, as others refer to it
	Version string `yaml:"version" json:"version"` // one of Ledger.Versions, or several: N, V1
	Where   string `yaml:"where" json:"where"`     // section, table or figure
	Claim   string `yaml:"claim" json:"claim"`
	Paper   string `yaml:"paper" json:"paper,omitempty" want:"optional"` // the figure as it is printed
	// Reading says how the paper's figure was had: printed, the zero value, digitised, or
	// what it is derived from.
	Reading string `yaml:"reading" json:"reading,omitempty" want:"optional"`
	Unit    string `yaml:"unit" json:"unit,omitempty" want:"optional"` // of the paper's figure, where its letters do not say it
	Kind    Kind   `yaml:"kind" json:"kind"`
	// Tolerance is the name of one of Ledger.Tolerances, of a claim whose check is a
	// number: it is compared with the paper's figure.
	Tolerance string `yaml:"tolerance" json:"tolerance,omitempty" want:"optional"`
	// Design names the primary of an experiment's design that judges the claim, EXPERIMENT/PRIMARY,
	// in place of a check: what is measured over seeds is judged so, and by nothing else.
	Design string `yaml:"design" json:"design,omitempty" want:"optional"`
	// Check is the evidence, an expression by its basis: a number if there is a
	// tolerance, otherwise a condition that is true if the claim is. Checks on several
	// bases make several claims, with the basis at the end of their IDs. See the
	// evaluator for what an expression may be.
	Check evidences `yaml:"check" json:"-" want:"optional"`
	// Shows are further figures, by what they are, which decide nothing.
	Shows evidences `yaml:"shows" json:"-" want:"optional"`
	// FalsifiedBy are values with which a condition turns, wherever one is read: see
	// claims.yaml. Only tests use them.
	FalsifiedBy counterexample `yaml:"falsified_by" json:"falsified_by,omitempty" want:"optional"`
	// SameAs is the claim that judges the same cell or fact: this one is shown, and counts in
	// no total. It may differ by the basis of the check, which {basis} stands for; none: there
	// is none.
	SameAs sameAs `yaml:"same_as" json:"-" want:"optional"`
	// Unstated is what the paper leaves open, and our figures over all of it.
	Unstated *Open `yaml:"unstated" json:"-" want:"optional"`
	// Reason is why a claim cannot be reproduced here or has not been tried, and
	// StandIn what is done in its place.
	Reason  string `yaml:"reason" json:"reason,omitempty" want:"optional"`
	StandIn string `yaml:"stand_in" json:"stand_in,omitempty" want:"optional"`
	Note    string `yaml:"note" json:"note,omitempty" want:"optional"`
	Command string `yaml:"command" json:"command,omitempty" want:"optional"` // that makes the evidence; of what is counted, one that shows it
	// Each makes several claims of one: in every text {name} is replaced.
	Each []map[string]string `yaml:"each" json:"-" want:"optional"`

	Basis  Basis  `yaml:"-" json:"basis,omitempty"`   // of the check
	Same   string `yaml:"-" json:"same_as,omitempty"` // the claim that counts for this one
	Ledger string `yaml:"-" json:"ledger"`            // the name of its paper

	check     string
	over      string // an expression whose interval is our figures' over what is unstated; "": nothing is
	tolerance *Tolerance
	line      int
}

// Open is what a paper leaves open.
type Open struct {
	What  string    `yaml:"what"`  // M, the cut, ...
	Range evidences `yaml:"range"` // our figures over it, by the basis of the check: span(lowest, highest)
}

// sameAs is the ID of another claim by the basis of the check; of a single ID, by "".
type sameAs map[Basis]string

// of returns the expression of a basis; "": it is missing.
func (s sameAs) of(basis Basis) string {
	id := cmp.Or(s[basis], s[""])
	if id == "none" {
		return ""
	}
	return strings.ReplaceAll(id, "{basis}", string(basis))
}

func (s *sameAs) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*s = sameAs{"": n.Value}
		return nil
	}
	return n.Decode((*map[Basis]string)(s))
}

func (sameAs) Schema() map[string]any {
	byBasis := map[string]any{"type": "object", "propertyNames": map[string]any{"enum": Bases}, "additionalProperties": yamldoc.TextSchema()}
	return map[string]any{"anyOf": []any{yamldoc.TextSchema(), byBasis}}
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
			return fmt.Errorf("%s: want an expression", printable.Quoted(n.Content[i].Value))
		}
		*e = append(*e, evidence{n.Content[i].Value, n.Content[i+1].Value})
	}
	return nil
}

func (evidences) Schema() map[string]any {
	return map[string]any{"type": "object", "additionalProperties": yamldoc.TextSchema()}
}

// with returns the expressions after replacements.
func (e evidences) with(replace func(string) string) evidences {
	e = slices.Clone(e)
	for i := range e {
		e[i].expression = replace(e[i].expression)
	}
	return e
}

// of returns the expression of a basis; "": there is none.
func (e evidences) of(basis Basis) string {
	for _, v := range e {
		if v.name == string(basis) {
			return v.expression
		}
	}
	return ""
}

// ranges are the ranges of what is open; none if nothing is.
func (o *Open) ranges() evidences {
	if o == nil {
		return nil
	}
	return o.Range
}

// counterexample is one value, or a list.
type counterexample []string

func (c *counterexample) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*c = counterexample{n.Value}
		return nil
	}
	return n.Decode((*[]string)(c))
}

func (counterexample) Schema() map[string]any {
	list := map[string]any{"type": "array", "items": yamldoc.TextSchema()}
	return map[string]any{"anyOf": []any{yamldoc.TextSchema(), list}}
}

// loadLedgers reads the ledgers of all papers, in their order.
func loadLedgers(papers []lab.Paper) (all []*Ledger, err error) {
	of := map[string]string{} // paper, by a claim's ID
	for _, p := range papers {
		l, err := parseLedger(p.Name+"/claims.yaml", p.Claims)
		if err != nil {
			return nil, err
		}
		for i := range l.Claims {
			c := &l.Claims[i]
			if of[c.ID] != "" {
				return nil, fmt.Errorf("%s/claims.yaml:%d: %s is a claim of %s: want an ID of its own", p.Name, c.line, c.ID, of[c.ID])
			}
			c.Ledger, of[c.ID] = p.Name, p.Name
		}
		for i := range l.Headline {
			l.Headline[i].ledger = p.Name
		}
		all = append(all, l)
	}
	return all, refer(all)
}

// refer refuses names of claims that are none, or that count for nothing themselves.
func refer(ledgers []*Ledger) error {
	counts := map[string]bool{} // in a total, by ID
	for _, l := range ledgers {
		for _, c := range l.Claims {
			counts[c.ID] = c.Same == ""
		}
	}
	for _, l := range ledgers {
		for _, c := range l.Claims {
			if c.Same != "" && !counts[c.Same] {
				return fmt.Errorf("%s/claims.yaml:%d: %s: same as %s: want the ID of a claim that is not the same as another", c.Ledger, c.line, c.ID, printable.Quoted(c.Same))
			}
		}
		for _, r := range l.Headline {
			if err := r.refer(l); err != nil {
				return err
			}
		}
	}
	return nil
}

// claimsOf are the claims of ledgers, in their order.
func claimsOf(ledgers []*Ledger) (all []Claim) {
	for _, l := range ledgers {
		all = append(all, l.Claims...)
	}
	return all
}

func parseLedger(name string, text []byte) (*Ledger, error) {
	l := &Ledger{}
	if err := lab.Decode(name, text, l, l.Check); err != nil {
		return nil, err
	}
	root, err := yamldoc.Parse(name, text)
	if err != nil {
		return nil, err
	}
	for i := range l.Headline {
		l.Headline[i].at = fmt.Sprintf("%s:%d", name, yamldoc.NodeAt(root, []string{"headline", strconv.Itoa(i)}, false).Line)
	}
	var all []Claim
	for i, c := range l.Claims {
		c.line = yamldoc.NodeAt(root, []string{"claims", strconv.Itoa(i)}, false).Line
		for _, one := range c.expand() {
			if t, ok := l.Tolerances[one.Tolerance]; ok {
				t.Name = one.Tolerance
				one.tolerance = &t
			}
			all = append(all, one)
		}
	}
	l.Claims = all
	return l, nil
}

func (l *Ledger) Check() *lab.Problem {
	if len(l.Versions) == 0 {
		return lab.At(errors.New("none: want at least one"), "versions")
	}
	seen, used := map[string]bool{}, map[string]bool{}
	for i, c := range l.Claims {
		used[c.Tolerance] = true
		for j, each := range append(c.Each, nil) {
			if each == nil && len(c.Each) > 0 {
				break
			}
			one := c.with(each)
			if field, err := one.validate(l); err != nil {
				if each != nil {
					err = fmt.Errorf("%w (each %d)", err, j+1)
				}
				return lab.At(err, "claims", strconv.Itoa(i), field)
			}
			for _, based := range one.byBasis() {
				if seen[based.ID] {
					return lab.At(fmt.Errorf("%s is there twice", based.ID), "claims", strconv.Itoa(i), "id")
				}
				seen[based.ID] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.Tolerances)) {
		if !used[name] {
			return lab.At(errors.New("no claim has this tolerance"), "tolerances", name)
		}
	}
	return nil
}

// validate returns the first field that is wrong.
func (c *Claim) validate(l *Ledger) (field string, err error) {
	for _, f := range []struct{ name, text string }{{"id", c.ID}, {"where", c.Where}, {"claim", c.Claim}, {"kind", string(c.Kind)}} {
		if f.text == "" {
			return f.name, fmt.Errorf("no %s", f.name)
		}
		if strings.ContainsAny(f.text, "{}") {
			return f.name, fmt.Errorf("%q: no value for what is in braces", f.text)
		}
	}
	for v := range strings.SplitSeq(c.Version, ", ") {
		if l.Versions[v] == "" {
			return "version", fmt.Errorf("unknown version %q: want %s", v, strings.Join(slices.Sorted(maps.Keys(l.Versions)), ", "))
		}
	}
	for _, list := range []struct {
		field string
		of    evidences
	}{{"check", c.Check}, {"shows", c.Shows}, {"unstated", c.Unstated.ranges()}} {
		for _, v := range list.of {
			if list.field == "check" && !slices.Contains(Bases, Basis(v.name)) {
				return "check", fmt.Errorf("%s: want the basis of the evidence: %s", printable.Quoted(v.name), lab.JoinWith(Bases, ", "))
			}
			if list.field == "unstated" && (c.Kind != Ratio || c.Check.of(Basis(v.name)) == "") {
				return "unstated", fmt.Errorf("%s: want a basis of the check, of a ratio", printable.Quoted(v.name))
			}
			if err := checkExpression(v.expression); err != nil {
				return list.field, fmt.Errorf("%s: %w", v.name, err)
			}
		}
	}
	if _, known := l.Tolerances[c.Tolerance]; c.Tolerance != "" && !known {
		return "tolerance", fmt.Errorf("%q: want one of the ledger's tolerances: %s", c.Tolerance, strings.Join(slices.Sorted(maps.Keys(l.Tolerances)), ", "))
	}
	if _, ok := readPrinted(c.Paper, c.Unit); c.Tolerance != "" && !ok {
		return "paper", fmt.Errorf("%q: want the figure that the paper has", c.Paper)
	}
	if c.Kind == Ratio && c.Tolerance == "" {
		return "tolerance", fmt.Errorf("want one of the ledger's tolerances: %s", strings.Join(slices.Sorted(maps.Keys(l.Tolerances)), ", "))
	}
	if c.Kind == Ratio {
		p, _ := readPrinted(c.Paper, c.Unit)
		if lo, hi := l.Tolerances[c.Tolerance].reach(p); p.isFactor() && lo <= 1 && 1 <= hi {
			return "tolerance", fmt.Errorf("%s: 1, no effect, is within it of %s: want one of the gain", c.Tolerance, c.Paper)
		}
	}
	for basis := range c.SameAs {
		if basis != "" && c.Check.of(basis) == "" {
			return "same_as", fmt.Errorf("%s: want the basis of a check", printable.Quoted(string(basis)))
		}
	}
	if c.Design != "" {
		if experiment, primary, ok := strings.Cut(c.Design, "/"); !ok || experiment == "" || primary == "" {
			return "design", fmt.Errorf("%s: want EXPERIMENT/PRIMARY", printable.Quoted(c.Design))
		}
		if c.Kind != StandIn && c.Kind != Extension || len(c.Check)+len(c.FalsifiedBy) > 0 || c.Tolerance != "" {
			return "design", errors.New("want a stand-in or an extension without check, tolerance and falsified_by, as the design judges it")
		}
	} else if c.Kind.judged() != (len(c.Check) > 0) {
		return "check", map[bool]error{true: errors.New("want an expression"), false: fmt.Errorf("%s is not judged: figures that decide nothing are among shows", c.Kind)}[c.Kind.judged()]
	}
	if c.Reason == "" && (c.Kind == NotHere || c.Kind == NotYet) {
		return "reason", errors.New("want a reason")
	}
	if c.StandIn == "" && c.Kind == StandIn {
		return "stand_in", errors.New("want what stands in")
	}
	if c.Kind == Tested && !strings.HasPrefix(c.Command, "go test ") {
		return "command", errors.New("want go test, with the test that holds it")
	}
	return "", nil
}

// expand returns a claim for each of Each and each basis.
func (c Claim) expand() (all []Claim) {
	if len(c.Each) == 0 {
		return c.byBasis()
	}
	for _, each := range c.Each {
		all = append(all, c.with(each).byBasis()...)
	}
	return all
}

// byBasis returns a claim for each basis of the check.
func (c Claim) byBasis() (all []Claim) {
	if len(c.Check) == 0 {
		if c.Design != "" {
			c.Basis = Measured
		}
		c.Same = c.SameAs.of("")
		return []Claim{c}
	}
	for _, v := range c.Check {
		one := c
		one.Basis, one.check, one.over = Basis(v.name), v.expression, c.Unstated.ranges().of(Basis(v.name))
		one.Same = c.SameAs.of(one.Basis)
		if len(c.Check) > 1 {
			one.ID += "-" + v.name
		}
		all = append(all, one)
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
	for _, text := range []*string{&c.ID, &c.Version, &c.Where, &c.Claim, &c.Paper, &c.Reading, &c.Reason, &c.StandIn, &c.Note, &c.Command, &c.Design} {
		*text = replace(*text)
	}
	if c.Unstated != nil {
		c.Unstated = &Open{replace(c.Unstated.What), c.Unstated.Range.with(replace)}
	}
	c.SameAs = maps.Clone(c.SameAs)
	for basis, id := range c.SameAs {
		c.SameAs[basis] = replace(id)
	}
	c.FalsifiedBy = slices.Clone(c.FalsifiedBy)
	for i := range c.FalsifiedBy {
		c.FalsifiedBy[i] = replace(c.FalsifiedBy[i])
	}
	c.Check, c.Shows, c.Each = c.Check.with(replace), c.Shows.with(replace), nil
	return c
}

// printed is a figure of a paper: its value, half a unit of its last digit, and the unit
// in which it is printed, with the letters for it.
type printed struct {
	value, half, unit float64
	letters           string
}

// readPrinted reads a figure in the unit that its letters say, or in unit.
func readPrinted(text, unit string) (printed, bool) {
	number := strings.TrimRightFunc(text, func(r rune) bool { return r == '%' || unicode.IsLetter(r) })
	p := printed{letters: text[len(number):]}
	value, half, ok := units.ReadFigure(number)
	p.unit, _, _ = units.ReadFigure("1" + cmp.Or(unit, p.letters))
	p.value, p.half = value*p.unit, half*p.unit
	return p, ok
}

// isFactor reports whether the figure is one number over another, without a unit: 1 is no
// effect.
func (p printed) isFactor() bool { return p.unit == 1 && p.letters == "" }

// print prints a value in the figure's unit, with four digits and no exponent that a count would not have.
func (p printed) print(x float64) string {
	text := fmt.Sprintf("%.4g", x/p.unit)
	if rounded, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(rounded) >= 1e4 && math.Abs(rounded) < 1e15 {
		text = strconv.FormatFloat(rounded, 'f', 0, 64)
	}
	return text + p.letters
}
