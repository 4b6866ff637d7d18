package page

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"gpipebench/experiments/claims"
	"gpipebench/experiments/suite"
)

// pageClaims are the verdicts.
type pageClaims struct {
	Says    string     // what all verdicts together say about the paper
	Summary *pageTable // counts by kind
	Counts  []pageCount
	Wrong   []string
	Fails   []claims.Judgement
	Ledger  *pageLedger
	Total   int
}

// pageCount is a verdict: how many claims have it, what it means, and its colour.
type pageCount struct {
	Verdict claims.Verdict
	Tone    string // good, fair, bad; "": grey
	N       int
	Means   string
}

// verdictMeanings in the order in which they are shown.
var verdictMeanings = []pageCount{
	{Verdict: claims.Reproduced, Tone: "good", Means: "exact, or within the tolerance"},
	{Verdict: claims.Holds, Tone: "good", Means: "a trend, in what was measured"},
	{Verdict: claims.Shown, Tone: "good", Means: "the paper against itself"},
	{Verdict: claims.Partly, Tone: "fair", Means: "some of our figures are near"},
	{Verdict: claims.Differs, Tone: "fair", Means: "a figure of other machines"},
	{Verdict: claims.Fails, Tone: "bad", Means: "does not come out here"},
	{Verdict: claims.Noisy, Tone: "fair", Means: "this machine cannot tell"},
	{Verdict: claims.TooSmall, Means: "a trend that needs more than the smoke profile"},
	{Verdict: claims.NoRecord, Means: "not measured in these results"},
	{Verdict: claims.NotAttempted, Means: "not possible here, or not yet"},
}

// toneOf returns a verdict's colour.
func toneOf(verdict string) string {
	for _, m := range verdictMeanings {
		if string(m.Verdict) == verdict {
			return m.Tone
		}
	}
	return ""
}

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

func (r Reporting) claims(ctx context.Context) (*pageClaims, error) {
	v, err := claims.Verifying(r).Run(ctx)
	if err != nil {
		return nil, err
	}
	c := &pageClaims{Wrong: v.Wrong, Total: len(v.Claims)}
	for _, m := range verdictMeanings {
		m.N = v.Counts[m.Verdict]
		c.Counts = append(c.Counts, m)
	}
	for _, one := range v.Claims {
		if one.Verdict == claims.Fails {
			c.Fails = append(c.Fails, one)
		}
	}
	c.Summary = &pageTable{Table: claimsByKind(v), Class: "summary"}
	c.Ledger, err = newLedger(v, c.Counts)
	return c, err
}

// claimsByKind counts verdicts.
func claimsByKind(v *claims.Verification) *suite.Table {
	counts := map[claims.Kind]map[claims.Verdict]int{}
	for _, one := range v.Claims {
		if counts[one.Kind] == nil {
			counts[one.Kind] = map[claims.Verdict]int{}
		}
		counts[one.Kind][one.Verdict]++
	}
	summary := &suite.Table{ID: "claims-summary", Title: "Claims by kind"}
	summary.Texts("kind of claim")
	summary.Numbers("claims")
	for _, m := range verdictMeanings {
		summary.Numbers(string(m.Verdict))
	}
	for _, kind := range claims.Kinds {
		row, sum := []any{}, 0
		for _, m := range verdictMeanings {
			n := counts[kind][m.Verdict]
			sum += n
			if n > 0 {
				row = append(row, n)
			} else {
				row = append(row, "")
			}
		}
		if sum > 0 {
			summary.Add(string(kind), sum, row)
		}
	}
	return summary
}

// newLedger is the table of all claims, a row for each in the verification's order.
func newLedger(v *claims.Verification, counts []pageCount) (*pageLedger, error) {
	tables := v.Tables()
	at := slices.IndexFunc(tables, func(t *suite.Table) bool { return t.ID == "claims" })
	if at < 0 || len(tables[at].Rows) != len(v.Claims) {
		return nil, fmt.Errorf("%d claims and no table of as many rows", len(v.Claims))
	}
	l := &pageLedger{pageTable: pageTable{Table: tables[at], Class: "ledger"}}
	l.Verdicts = slices.DeleteFunc(slices.Clone(counts), func(c pageCount) bool { return c.N == 0 })
	versions, err := claims.Versions()
	if err != nil {
		return nil, err
	}
	kinds := &pageFilter{Name: "kind", Label: "Kind"}
	papers := &pageFilter{Name: "paper", Label: "Version"}
	for _, c := range v.Claims {
		class := "verdict-" + idOf(c.Verdict) + " " + kinds.count(string(c.Kind), "")
		for _, version := range strings.Split(c.Version, ", ") {
			class += " " + papers.count(version, versions[version])
		}
		l.rows = append(l.rows, pageRow{"claim-" + idOf(c.ID), class})
	}
	slices.SortStableFunc(kinds.Values, func(a, b pageChoice) int {
		return cmp.Compare(slices.Index(claims.Kinds, claims.Kind(a.Value)), slices.Index(claims.Kinds, claims.Kind(b.Value)))
	})
	l.Filters = []pageFilter{*kinds, *papers}
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
