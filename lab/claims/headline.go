package claims

import (
	"cmp"
	"fmt"
	"slices"

	"gpipebench/internal/printable"
)

// Row is a sentence of a paper in plain words, and the claims that make it.
type Row struct {
	ID    string `yaml:"id" want:"id,key"`
	Says  string `yaml:"says"`
	Where string `yaml:"where"` // section, table or figure
	// Claims decide the row together. They are of kinds that speak of the paper and that
	// evidence can refute: count, ratio, trend, stand-in.
	Claims []string `yaml:"claims"`
	// Shows are the claims whose figures stand in the row, the paper's and ours. They need
	// not be among those that decide.
	Shows []string `yaml:"shows"`

	ledger, at string
}

// RowVerdict is what the claims of a row come to.
type RowVerdict string

const (
	RowHolds  RowVerdict = "holds"
	RowInPart RowVerdict = "holds in part"
	RowDiffer RowVerdict = "differs"
	RowOpen   RowVerdict = "cannot be told here"
)

// Outcome is a row and what its claims come to.
type Outcome struct {
	Row     string      `json:"row"` // its ID
	Ledger  string      `json:"ledger"`
	Says    string      `json:"says"`
	Where   string      `json:"where"`
	Verdict RowVerdict  `json:"verdict"`
	For     []string    `json:"for,omitempty"`     // the claims that say so,
	Against []string    `json:"against,omitempty"` // that say otherwise,
	Open    []string    `json:"open,omitempty"`    // that decide nothing here,
	Beside  []string    `json:"beside,omitempty"`  // and whose figure hangs on what the paper does not state
	Shown   []RowFigure `json:"shown"`
}

// RowFigure is a figure of the paper, as it is printed or derived, beside ours with its
// interval. Paper is "" where the paper has words alone.
type RowFigure struct {
	Claim   string  `json:"claim"` // its ID
	Of      string  `json:"of"`    // what the claim says
	Basis   Basis   `json:"basis"`
	Paper   string  `json:"paper,omitempty"`
	Here    string  `json:"here"`
	Over    string  `json:"unstated,omitempty"` // ours over what the paper does not state
	Verdict Verdict `json:"verdict"`
}

// stance is what a verdict says of the paper's sentence: 1 for it, -1 against it, 0
// neither. A measured effect that is no larger than the margin is against a sentence that
// claims one.
func (v Verdict) stance() int {
	switch v {
	case Reproduced, Holds, Agrees:
		return 1
	case Differs, Disagrees, Fails, NoDifference:
		return -1
	}
	return 0
}

// outcome is the row's verdict by those on its claims; false if one of these is not there.
// One rule serves all rows: it holds if claims are for it and none is against it or open,
// and differs if claims are against it and none is for it. Of claims for it and others
// against it or open it holds in part; if none is for or against it, it cannot be told. A
// figure within what the paper does not state is neither for nor against it, and leaves
// nothing open that could be decided.
func (r Row) outcome(all []Judgement) (Outcome, bool) {
	o := Outcome{Row: r.ID, Ledger: r.ledger, Says: r.Says, Where: r.Where}
	find := func(id string) *Judgement {
		if i := slices.IndexFunc(all, func(c Judgement) bool { return c.ID == id }); i >= 0 {
			return &all[i]
		}
		return nil
	}
	for _, id := range r.Claims {
		c := find(id)
		if c == nil {
			return o, false
		}
		list := &o.Open
		switch stance := c.Verdict.stance(); {
		case stance > 0:
			list = &o.For
		case stance < 0:
			list = &o.Against
		case c.Verdict == Unstated:
			list = &o.Beside
		}
		*list = append(*list, id)
	}
	switch {
	case len(o.For) > 0 && len(o.Against)+len(o.Open) == 0:
		o.Verdict = RowHolds
	case len(o.For) > 0:
		o.Verdict = RowInPart
	case len(o.Against) > 0:
		o.Verdict = RowDiffer
	default:
		o.Verdict = RowOpen
	}
	for _, id := range r.Shows {
		c := find(id)
		if c == nil {
			return o, false
		}
		f := RowFigure{Claim: id, Of: c.Claim.Claim, Basis: c.Basis, Paper: c.Paper, Here: c.figure(), Verdict: c.Verdict}
		if c.Over != nil {
			f.Over = c.Over.text
		}
		o.Shown = append(o.Shown, f)
	}
	return o, true
}

// figure is ours in a few words: the one that is compared with the paper's, or else the
// first of those that are shown, or the first cell that was read.
func (c *Judgement) figure() string {
	if c.Figure != nil {
		return c.Figure.text
	}
	return cmp.Or(append(slices.Concat(c.Shown, c.Evidence), "-")...)
}

// refer refuses names that are no claims of the ledger, and claims that cannot decide.
func (r Row) refer(l *Ledger) error {
	for _, id := range slices.Concat(r.Claims, r.Shows) {
		i := slices.IndexFunc(l.Claims, func(c Claim) bool { return c.ID == id })
		if i < 0 {
			return fmt.Errorf("%s: %s: %s: want the ID of a claim of this paper", r.at, r.ID, printable.Quoted(id))
		}
		if deciding := []Kind{Count, Ratio, Trend, StandIn}; slices.Contains(r.Claims, id) && !slices.Contains(deciding, l.Claims[i].Kind) {
			return fmt.Errorf("%s: %s: %s is %s: want claims of the kinds %s", r.at, r.ID, id, l.Claims[i].Kind, joined(deciding))
		}
	}
	return nil
}
