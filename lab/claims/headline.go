package claims

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gpipebench/internal/printable"
	"gpipebench/lab"
)

// Row is a sentence of a paper in plain words, and the claims that make it.
type Row struct {
	ID    string `yaml:"id" want:"id,key"`
	Says  string `yaml:"says"`
	Where string `yaml:"where"` // section, table or figure
	// Claims decide the row together. They are of kinds that speak of the paper and that
	// evidence can refute: count, ratio, trend, stand-in.
	Claims []string `yaml:"claims"`
	// Shows are the claims whose figures stand in the row, the paper's and ours, by what they
	// are of. They need not be among those that decide.
	Shows evidences `yaml:"shows"`

	ledger, at string
}

// RowVerdict is what the claims of a row come to.
type RowVerdict string

const (
	RowHolds  RowVerdict = "holds"
	RowInPart RowVerdict = "holds in part"
	RowDiffer RowVerdict = "differs"
	RowOpen   RowVerdict = "cannot be told here"
	// RowPending is a row that trainings decide which have not run to their end.
	RowPending RowVerdict = "not decided yet"
	// RowMissing is a row some of whose claims have no record in these results.
	RowMissing RowVerdict = "not measured"
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
	Open    []string    `json:"open,omitempty"`    // whose intervals decide nothing,
	Untold  []string    `json:"untold,omitempty"`  // that cannot be told here,
	Pending []string    `json:"pending,omitempty"` // that trainings to come decide,
	Beside  []string    `json:"beside,omitempty"`  // and whose figure depends on what the paper does not state
	Why     string      `json:"why,omitempty"`     // of a row that is open, not decided yet or not measured
	Shown   []RowFigure `json:"shown"`

	records []string // the experiments that the figures rest on
}

// RowFigure is a figure of the paper, as it is printed or derived, beside ours with its
// interval. Paper is "" where the paper has words alone.
type RowFigure struct {
	Claim   string  `json:"claim"` // its ID
	Of      string  `json:"of"`
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

// outcome is the row's verdict by those on its claims; false if one of these is not there, or none
// has a record. One rule serves all rows whose claims have records: a row holds if claims are for
// it and none is against it or open, and differs if claims are against it and none is for it. With
// claims for it and others against it or open it holds in part; with none for or against it, it
// cannot be told, or is not decided yet if a claim is judged by trainings to come. A figure within
// what the paper does not state is neither for nor against it, and leaves nothing open that could be
// decided.
func (r Row) outcome(all []Judgement) (Outcome, bool) {
	o := Outcome{Row: r.ID, Ledger: r.ledger, Says: r.Says, Where: r.Where}
	find := func(id string) *Judgement {
		if i := slices.IndexFunc(all, func(c Judgement) bool { return c.ID == id }); i >= 0 {
			return &all[i]
		}
		return nil
	}
	var missing []string
	for _, id := range r.Claims {
		c := find(id)
		if c == nil {
			return o, false
		}
		if c.Verdict == NoRecord {
			missing = append(missing, id)
		}
		list := &o.Open
		switch stance := c.Verdict.stance(); {
		case stance > 0:
			list = &o.For
		case stance < 0:
			list = &o.Against
		case c.waits():
			list = &o.Pending
		case c.Verdict == Unstated:
			list = &o.Beside
		case c.Verdict == CannotTell:
			list = &o.Untold
		}
		*list = append(*list, id)
		if why := reason(c.Why); why != "" && (o.Why == "" || len(why) < len(o.Why)) {
			o.Why = why
		}
	}
	switch {
	case len(missing) == len(r.Claims):
		return o, false
	case missing != nil:
		o.Verdict, o.Why = RowMissing, "no record for "+strings.Join(missing, ", ")
	case len(o.For) > 0 && len(o.Against)+len(o.Open)+len(o.Untold)+len(o.Pending) == 0:
		o.Verdict = RowHolds
	case len(o.For) > 0:
		o.Verdict = RowInPart
	case len(o.Against) > 0:
		o.Verdict = RowDiffer
	case len(o.Pending) > 0:
		o.Verdict = RowPending
	default:
		o.Verdict = RowOpen
	}
	if !slices.Contains([]RowVerdict{RowOpen, RowPending, RowMissing}, o.Verdict) {
		o.Why = ""
	}
	for _, shown := range r.Shows {
		c := find(shown.expression)
		if c == nil {
			return o, false
		}
		f := RowFigure{Claim: c.ID, Of: shown.name, Basis: c.Basis, Paper: c.Paper, Here: c.figure(), Verdict: c.Verdict}
		if c.Design != "" {
			f.Paper = "" // ours is a difference
		}
		if c.Over != nil {
			f.Over = c.Over.text
		}
		o.Shown, o.records = append(o.Shown, f), append(o.records, c.Records...)
	}
	slices.Sort(o.records)
	o.records = slices.Compact(o.records)
	return o, true
}

// figure is ours in a few words: the one that is compared with the paper's, or else the
// first of those that are shown, without its name, or the first cell that was read.
func (c *Judgement) figure() string {
	if c.Figure != nil {
		return c.Figure.text
	}
	if len(c.Shown) > 0 {
		if _, figure, named := strings.Cut(c.Shown[0], ": "); named {
			return figure
		}
	}
	return cmp.Or(append(slices.Concat(c.Shown, c.Evidence), "-")...)
}

var inBrackets = regexp.MustCompile(` \([^()]*\)`)

// reason is why a claim decides nothing, without details in brackets and after a semicolon.
func reason(why string) string {
	why, _, _ = strings.Cut(inBrackets.ReplaceAllString(why, ""), ";")
	if _, gate, failed := strings.Cut(why, "competent: "); failed {
		return gate
	}
	return why
}

// HeadlineTable is what the papers' main sentences come to: a row for each.
func (v *Verification) HeadlineTable() *lab.Table {
	t := &lab.Table{ID: "headline", Title: "Did it hold?"}
	t.Texts("the paper says", "outcome", "paper", "here", "evidence")
	for _, o := range v.Headline {
		var paper, here []string
		for _, f := range o.Shown {
			if f.Paper != "" {
				paper = append(paper, f.Of+": "+f.Paper)
			}
			if f.Over != "" {
				f.Here += " (" + f.Over + " over settings that the paper does not state)"
			}
			switch f.Verdict {
			case JudgedAtFull:
				f.Here += " (small trial run, not judged)"
			case Undecided, CannotTell, Inconclusive, NotDecided:
				f.Here += ", " + string(f.Verdict)
			}
			here = append(here, f.Of+": "+f.Here)
		}
		outcome := string(o.Verdict)
		switch {
		case o.Verdict == RowInPart:
			all := len(o.For) + len(o.Against) + len(o.Open) + len(o.Untold) + len(o.Pending) + len(o.Beside)
			outcome += fmt.Sprintf(" (%d of %d claims", len(o.For), all)
			if 2*len(o.For) < all {
				outcome += ": " + strings.Join(o.For, ", ")
			}
			if len(o.Against) > 0 {
				outcome += "; differs: " + strings.Join(o.Against, ", ")
			}
			for _, rest := range []struct {
				are string
				ids []string
			}{{"open", o.Open}, {"cannot be told", o.Untold}, {"depend on what the paper does not state", o.Beside}, {"not decided yet", o.Pending}} {
				if n := len(rest.ids); n > 0 {
					outcome += fmt.Sprintf("; %d %s", n, rest.are)
				}
			}
			outcome += ")"
		case o.Why != "":
			outcome += ": " + o.Why
		}
		t.Add(o.Says+" ("+o.Where+")", outcome, cmp.Or(strings.Join(paper, "; "), "-"), strings.Join(here, "; "), strings.Join(o.records, ", "))
	}
	return t
}

// refer refuses names that are no claims of the ledger, and claims that cannot decide.
func (r Row) refer(l *Ledger) error {
	ids := slices.Clone(r.Claims)
	for _, shown := range r.Shows {
		ids = append(ids, shown.expression)
	}
	for _, id := range ids {
		i := slices.IndexFunc(l.Claims, func(c Claim) bool { return c.ID == id })
		if i < 0 {
			return fmt.Errorf("%s: %s: %s: want the ID of a claim of this paper", r.at, r.ID, printable.Quoted(id))
		}
		if deciding := []Kind{Count, Ratio, Trend, StandIn}; slices.Contains(r.Claims, id) && !slices.Contains(deciding, l.Claims[i].Kind) {
			return fmt.Errorf("%s: %s: %s is %s: want claims of the kinds %s", r.at, r.ID, id, l.Claims[i].Kind, lab.JoinWith(deciding, ", "))
		}
	}
	return nil
}
