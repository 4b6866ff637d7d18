package claims

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpipebench/internal/expr"
	"gpipebench/lab"
	"gpipebench/lab/records"
)

// Judgement is a claim and its outcome.
type Judgement struct {
	Claim
	Verdict      Verdict    `json:"verdict"`
	Within       *Tolerance `json:"within,omitempty"`   // the claim's tolerance
	Figure       *Figure    `json:"figure,omitempty"`   // what is compared with the paper's
	Over         *Range     `json:"unstated,omitempty"` // what Figure becomes over what the paper does not state
	Compared     *Compared  `json:"compared,omitempty"` // what a design judges
	Shown        []string   `json:"shown,omitempty"`    // further figures
	Evidence     []string   `json:"evidence,omitempty"` // what the check read, row by row
	Why          string     `json:"why,omitempty"`      // of no record, of a design's verdict, and of a figure that only the tolerance accepts
	Records      []string   `json:"records,omitempty"`  // the experiments whose records it rests on
	Profile      string     `json:"profile,omitempty"`  // of these records; several if they differ
	records.Cost            // of these records

	misnamed string // a column or a row that a table lacks
}

// Figure is a figure of ours, compared with the paper's.
type Figure struct {
	Value     float64 `json:"value"`
	Low       float64 `json:"low"` // the ends of its interval; equal if it has none
	High      float64 `json:"high"`
	Deviation float64 `json:"deviation"` // from the paper's, relative

	text string
}

// Range is what a figure of ours becomes over what the paper leaves open.
type Range struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	What string  `json:"what"` // is open

	text string
}

// judge computes a claim's verdict. Its error is of the claim.
func (c Claim) judge(e *evaluator) (Judgement, error) {
	v := Judgement{Claim: c, Within: c.tolerance, Verdict: NotAttempted}
	if c.Kind == Tested {
		v.Verdict = ByTest
	}
	for _, shown := range c.Shows {
		x, err := e.Evaluate(shown.expression)
		if err == nil {
			v.Shown = append(v.Shown, fmt.Sprintf("%s: %v", shown.name, x))
		} else if missing, is := errors.AsType[*lab.NoCell](err); !is {
			return v, err
		} else if missing.In != "" {
			v.misnamed = missing.What
		}
	}
	if !c.Kind.judged() {
		return v, nil
	}
	if c.Design != "" {
		err := v.compare(e)
		return v, err
	}
	e.reads, e.rests = cellsRead{}, map[string]claimTable{} // what is shown decides nothing
	truth, err := v.decide(e)
	within := false
	if err == nil {
		within, err = v.unstated(e)
	}
	v.Records = slices.Sorted(maps.Keys(e.rests))
	var profiles []string
	for _, id := range v.Records {
		profiles = append(profiles, e.rests[id].profile)
		v.Cost = v.Cost.Plus(e.rests[id].cost)
	}
	slices.Sort(profiles)
	v.Profile = strings.Join(slices.Compact(slices.Clone(profiles)), ", ")
	if missing, is := errors.AsType[*lab.NoCell](err); is {
		v.Verdict, v.Why = NoRecord, missing.What
		if missing.In != "" {
			v.misnamed = missing.What
		}
		return v, nil
	}
	if err != nil {
		return v, err
	}
	if err := v.checkDesign(e); err != nil {
		return v, err
	}
	v.Evidence = e.reads.texts()
	yes, open, no := c.Kind.outcomes()
	v.Verdict = map[expr.Truth]Verdict{expr.Yes: yes, expr.Undecided: open, expr.No: no}[truth]
	if within && truth != expr.Yes {
		v.Verdict = Unstated
	}
	if v.Over != nil && !within && truth == expr.Yes {
		v.Why = "by the tolerance alone: the paper's figure is not among ours over what it does not state"
	}
	if slices.Contains(profiles, lab.Profiles[0]) && v.needsMore(truth) {
		v.Verdict = TooSmall
	}
	return v, nil
}

// unstated computes what the figure becomes over what the paper leaves open, and reports
// whether the paper's is among these.
func (v *Judgement) unstated(e *evaluator) (within bool, err error) {
	if v.over == "" {
		return false, nil
	}
	n, err := e.Number(v.over)
	if err != nil {
		return false, err
	}
	paper, _ := readPrinted(v.Paper, v.Unit)
	v.Over = &Range{n.Lo, n.Hi, v.Unstated.What, fmt.Sprintf("%s to %s", paper.print(n.Lo), paper.print(n.Hi))}
	return n.Lo-paper.half <= paper.value && paper.value <= n.Hi+paper.half, nil
}

// needsMore reports whether the smoke profile, which is for testing programs, says too
// little: a condition that does not hold there, or a figure that it measures.
func (v *Judgement) needsMore(truth expr.Truth) bool {
	switch v.Kind {
	case Trend, StandIn, Ours, Derived, Extension:
		return truth != expr.Yes
	case Ratio:
		return v.Basis == Measured
	}
	return false
}

// decide evaluates the check.
func (v *Judgement) decide(e *evaluator) (expr.Truth, error) {
	if v.tolerance == nil {
		return e.Truth(v.check)
	}
	n, err := e.Number(v.check)
	if err != nil {
		return 0, err
	}
	paper, _ := readPrinted(v.Paper, v.Unit)
	v.Figure = &Figure{n.X, n.Lo, n.Hi, n.X/paper.value - 1, paper.print(n.X)}
	v.Figure.text = lab.Starred(lab.Value{Text: v.Figure.text}, !e.reads.starred).Text
	if !n.IsExact() {
		v.Figure.text += fmt.Sprintf(" [%s, %s]", paper.print(n.Lo), paper.print(n.Hi))
	}
	switch lo, hi := v.tolerance.reach(paper); {
	case lo <= n.Lo && n.Hi <= hi:
		return expr.Yes, nil
	case n.Lo <= hi && lo <= n.Hi:
		return expr.Undecided, nil
	}
	return expr.No, nil
}

// printedBy returns the paper's figure, marked unless it is printed there.
func (c *Claim) printedBy() string {
	if c.Paper == "" {
		return "-"
	}
	if c.Reading != "" && c.Reading != "printed" {
		return c.Paper + " (" + c.Reading + ")"
	}
	return c.Paper
}

// tolerated returns the tolerance in a few characters.
func (c *Judgement) tolerated() string {
	if c.Within == nil {
		return "-"
	}
	return c.Within.String()
}

// here returns our side of a claim in a few words.
func (c *Judgement) here() string {
	parts := slices.Clone(c.Shown)
	if f := c.Figure; f != nil {
		parts = slices.Insert(parts, 0, fmt.Sprintf("%s (%+.3g%%)", f.text, 100*f.Deviation))
	} else if len(parts) == 0 {
		parts = slices.Clone(c.Evidence[:min(6, len(c.Evidence))])
		if len(c.Evidence) > 6 {
			parts = append(parts, "...")
		}
	}
	if c.Over != nil {
		parts = append(parts, fmt.Sprintf("%s over %s", c.Over.text, c.Over.What))
	}
	if c.Same != "" {
		parts = append(parts, "counted as "+c.Same)
	}
	for _, text := range []string{c.Why, c.Reason} {
		if text != "" {
			parts = append(parts, text)
		}
	}
	if c.StandIn != "" {
		parts = append(parts, "stand-in: "+c.StandIn)
	}
	if c.Note != "" {
		parts = append(parts, c.Note)
	}
	return cmp.Or(strings.Join(parts, "; "), "-")
}
