package page

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"gpipebench/lab"
	"gpipebench/lab/claims"
)

// pageClaims are the verdicts on a paper's claims.
type pageClaims struct {
	Of string // what they are about
	// Answer counts what the main sentences come to.
	Answer string
	// Headline is what the main sentences come to, each with its first figure.
	Headline []pageSentence
	Figures  *pageTable // the same with all figures
	Says     string     // what all verdicts together say
	Summary  *pageTable // counts by kind
	Bases    *pageTable // and by what the evidence is
	// Tolerances say how far a figure may be from the paper's, and why.
	Tolerances *pageTable
	Counts     []pageCount
	Fails      []claims.Judgement
	Ledger     *pageLedger
	Total      int
}

// pageSentence is a sentence of a paper, and what it comes to.
type pageSentence struct {
	Says, Where   string
	Verdict, Tone string
	Of            string // what the figures are of
	Paper, Here   string // "": the paper has words alone
}

// pageCount is a verdict, its colour, and how many claims have it.
type pageCount struct {
	claims.VerdictMeaning
	Tone string // good, fair, bad; "": grey
	N    int
}

// tones of verdicts; others are grey.
var tones = map[claims.Verdict]string{
	claims.Reproduced: "good", claims.Holds: "good", claims.Agrees: "good", claims.Contradicted: "good",
	claims.Differs: "fair", claims.Unstated: "fair", claims.DoesNotHold: "fair", claims.Disagrees: "fair", claims.NoDifference: "fair", claims.Undecided: "fair",
	claims.Inconclusive: "fair", claims.NotDecided: "fair",
	claims.Fails: "bad",
}

// sentenceTones are the same of what sentences come to.
var sentenceTones = map[claims.RowVerdict]string{claims.RowHolds: "good", claims.RowInPart: "fair", claims.RowDiffer: "bad"}

// toneOf returns a verdict's colour.
func toneOf(verdict string) string { return tones[claims.Verdict(verdict)] }

// pageLedger is every claim, which a reader filters by verdict, kind and version of the
// paper. This takes no script: a link to a verdict's id shows its claims alone, and so
// do the choices of a kind and of a version.
type pageLedger struct {
	pageTable
	Verdicts []pageCount // that occur
	Filters  []pageFilter
	Styles   template.CSS
	rows     []pageRow
}

// pageFilter is a choice of one value.
type pageFilter struct {
	Name, Label string
	Values      []pageChoice
}

// pageChoice is a value of a filter, and how many claims have it.
type pageChoice struct {
	Value, Means string
	N            int
}

type pageRow struct{ id, class string }

// RowID is what a link to a claim names.
func (l *pageLedger) RowID(row int) string { return l.rows[row].id }

// RowClass is what filters find a claim by.
func (l *pageLedger) RowClass(row int) string { return l.rows[row].class }

// idOf returns a text as part of an id or of a class.
func idOf(text any) string { return notClass.ReplaceAllString(fmt.Sprint(text), "-") }

// newPageClaims is what a page shows of verdicts.
func newPageClaims(v *claims.Verification) (c *pageClaims, err error) {
	c = &pageClaims{Of: v.Subjects(), Says: v.Says(), Answer: v.Answer(), Total: len(v.Claims)}
	for _, m := range claims.Verdicts {
		c.Counts = append(c.Counts, pageCount{m, tones[m.Verdict], v.Counts[m.Verdict]})
	}
	for _, one := range v.Claims {
		if one.Verdict == claims.Fails {
			c.Fails = append(c.Fails, one)
		}
	}
	for _, o := range v.Headline {
		s := pageSentence{Says: o.Says, Where: o.Where, Verdict: string(o.Verdict), Tone: sentenceTones[o.Verdict]}
		if len(o.Shown) > 0 && o.Verdict != claims.RowPending {
			f := o.Shown[0]
			here, _, _ := strings.Cut(f.Here, " (") // without the numbers of seeds
			s.Of, s.Paper, s.Here = f.Of, f.Paper, here
		}
		c.Headline = append(c.Headline, s)
	}
	if len(c.Headline) > 0 {
		c.Figures = &pageTable{Table: v.HeadlineTable(), Class: "headline", Fold: true}
		c.Figures.Title = "All figures of these sentences"
	}
	byKind, byBasis := v.Summary()
	c.Summary, c.Bases = &pageTable{Table: byKind, Class: "summary", Fold: true}, &pageTable{Table: byBasis, Class: "summary", Fold: true}
	for _, t := range v.Tables() {
		if t.ID == "claims-tolerances" {
			c.Tolerances = newPageTable(t, "")
			c.Tolerances.Heading = t.Title
		}
	}
	c.Ledger, err = newLedger(v, c.Counts)
	return c, err
}

// newLedger is the table of all claims, a row for each in the verification's order.
func newLedger(v *claims.Verification, counts []pageCount) (*pageLedger, error) {
	tables := v.Tables()
	at := slices.IndexFunc(tables, func(t *lab.Table) bool { return t.ID == "claims" })
	if at < 0 || len(tables[at].Rows) != len(v.Claims) {
		return nil, fmt.Errorf("%d claims and no table of as many rows", len(v.Claims))
	}
	l := &pageLedger{pageTable: pageTable{Table: tables[at], Class: "ledger"}}
	l.Verdicts = slices.DeleteFunc(slices.Clone(counts), func(c pageCount) bool { return c.N == 0 })
	kinds := &pageFilter{Name: "kind", Label: "Kind"}
	bases := &pageFilter{Name: "basis", Label: "Evidence"}
	profiles := &pageFilter{Name: "profile", Label: "Profile"}
	papers := &pageFilter{Name: "paper", Label: "Version"}
	for _, c := range v.Claims {
		class := "verdict-" + idOf(c.Verdict) + " " + kinds.count(string(c.Kind), "")
		if c.Basis != "" {
			class += " " + bases.count(string(c.Basis), "")
		}
		if c.Profile != "" {
			class += " " + profiles.count(c.Profile, "")
		}
		for _, version := range strings.Split(c.Version, ", ") {
			class += " " + papers.count(version, v.Versions[version])
		}
		l.rows = append(l.rows, pageRow{"claim-" + idOf(c.ID), class})
	}
	slices.SortStableFunc(kinds.Values, func(a, b pageChoice) int {
		return cmp.Compare(slices.Index(claims.Kinds, claims.Kind(a.Value)), slices.Index(claims.Kinds, claims.Kind(b.Value)))
	})
	l.Filters = []pageFilter{*kinds, *bases, *profiles, *papers}
	l.Styles = l.styles()
	return l, nil
}

// count counts a value, and returns the class of what has it.
func (f *pageFilter) count(value, means string) string {
	i := slices.IndexFunc(f.Values, func(c pageChoice) bool { return c.Value == value })
	if i < 0 {
		i = len(f.Values)
		f.Values = append(f.Values, pageChoice{Value: value, Means: means})
	}
	f.Values[i].N++
	return f.Name + "-" + idOf(value)
}

// styles hide the rows that are not asked for.
func (l *pageLedger) styles() template.CSS {
	var b strings.Builder
	hide := func(when, class string) {
		fmt.Fprintf(&b, "main:has(%s) .ledger tbody tr:not(.%s) { display: none }\n", when, class)
	}
	for _, c := range l.Verdicts {
		class := "verdict-" + idOf(c.Verdict)
		hide("#"+class+":target", class)
		fmt.Fprintf(&b, "main:has(#%s:target) .filter a[href=\"#%[1]s\"] { font-weight: 700; color: inherit; text-decoration: none }\n", class)
	}
	for _, f := range l.Filters {
		for _, c := range f.Values {
			class := f.Name + "-" + idOf(c.Value)
			hide("#only-"+class+":checked", class)
		}
	}
	return template.CSS(b.String())
}
