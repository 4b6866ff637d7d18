package claims

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpipebench/experiments"
	"gpipebench/internal/testkit"
)

// A row holds only if no claim is against it or open, and a claim against it is never
// outvoted.
func TestRowVerdicts(t *testing.T) {
	for _, c := range []struct {
		verdicts []Verdict
		want     RowVerdict
	}{
		{[]Verdict{Agrees, Holds, Reproduced}, RowHolds},
		{[]Verdict{Holds}, RowHolds},
		{[]Verdict{Holds, Unstated}, RowHolds},
		{[]Verdict{Holds, Holds, Holds, Differs}, RowInPart},
		{[]Verdict{Agrees, Disagrees}, RowInPart},
		{[]Verdict{Agrees, NoDifference}, RowInPart},
		{[]Verdict{Agrees, Undecided}, RowInPart},
		{[]Verdict{Reproduced, NoRecord}, RowMissing},
		{[]Verdict{Disagrees, CannotTell}, RowDiffer},
		{[]Verdict{Differs, Unstated}, RowDiffer},
		{[]Verdict{Fails}, RowDiffer},
		{[]Verdict{CannotTell, Undecided, Inconclusive, NotDecided, TooSmall}, RowOpen},
		{[]Verdict{CannotTell, JudgedAtFull}, RowPending},
		{[]Verdict{Agrees, JudgedAtFull}, RowInPart},
		{[]Verdict{Unstated}, RowOpen},
	} {
		r, all := Row{ID: "row", Says: "so"}, []Judgement{}
		for i, v := range c.verdicts {
			id := string(rune('a' + i))
			r.Claims = append(r.Claims, id)
			all = append(all, Judgement{Claim: Claim{ID: id}, Verdict: v})
		}
		slices.Reverse(all) // the order of the ledger does not matter
		o, ok := r.outcome(all)
		if !ok || o.Verdict != c.want || len(o.For)+len(o.Against)+len(o.Open)+len(o.Untold)+len(o.Pending)+len(o.Beside) != len(c.verdicts) || (o.Why == "no record for b") != (c.want == RowMissing) {
			t.Errorf("%v: %+v, want %s", c.verdicts, o, c.want)
		}
		if _, ok := r.outcome(all[1:]); ok {
			t.Errorf("%v: a row without one of its claims", c.verdicts)
		}
		for i := range all {
			all[i].Verdict = NoRecord
		}
		if _, ok := r.outcome(all); ok {
			t.Errorf("a row without records")
		}
	}
}

// What a row comes to names the claims that differ and counts others; figures of a row that is not
// decided yet are marked.
func TestOutcomesInWords(t *testing.T) {
	shown := []RowFigure{{Of: "gain", Here: "1"}, {Of: "loss", Here: "2", Verdict: Undecided}}
	v := &Verification{Headline: []Outcome{
		{Verdict: RowInPart, For: []string{"a"}, Against: []string{"b", "c"}, Open: []string{"d"}, Pending: []string{"e", "f"}, Beside: []string{"g"}, Shown: shown},
		{Verdict: RowPending, Pending: []string{"a"}, Why: "registered", Shown: []RowFigure{{Of: "gain", Here: "1", Verdict: JudgedAtFull}}},
	}}
	rows := v.HeadlineTable().Printed()
	testkit.Equal(t, rows[0][1], "holds in part (1 of 7 claims: a; differs: b, c; 1 open; 1 depend on what the paper does not state; 2 not decided yet)")
	testkit.Equal(t, rows[0][3], "gain: 1; loss: 2, open")
	testkit.Equal(t, rows[1][1], "not decided yet: registered")
	testkit.Equal(t, rows[1][3], "gain: 1 (small trial run, not judged)")
}

// A row shows the figures of its claims: that of a ratio with its interval, or what another
// claim shows.
func TestRowFigures(t *testing.T) {
	r := Row{ID: "row", Claims: []string{"a"}, Shows: evidences{{"growth", "a"}, {"gain", "b"}, {"none", "c"}}}
	o, ok := r.outcome([]Judgement{
		{Claim: Claim{ID: "a", Claim: "grows", Paper: "3.5", Basis: Measured}, Verdict: Reproduced, Figure: &Figure{text: "3.24 [3.18, 3.28]"}, Over: &Range{text: "3 to 4"}, Shown: []string{"more"}},
		{Claim: Claim{ID: "b"}, Shown: []string{"of seeds: 1 [0, 2]"}, Evidence: []string{"a cell"}},
		{Claim: Claim{ID: "c"}},
	})
	want := []RowFigure{{"a", "growth", Measured, "3.5", "3.24 [3.18, 3.28]", "3 to 4", Reproduced}, {Claim: "b", Of: "gain", Here: "1 [0, 2]"}, {Claim: "c", Of: "none", Here: "-"}}
	testkit.Equal(t, ok, true, "there is an outcome")
	testkit.EqualAll(t, o.Shown, want)
}

// The GPipe paper comes to nine rows.
func TestHeadline(t *testing.T) {
	v := VerdictsOf(t, FullDir)
	testkit.Equal(t, len(v.Headline), 9, "rows")
	testkit.Equal(t, len(v.Of(experiments.Papers[0].Name).Headline), 9, "rows of the first paper")
	for _, o := range v.Headline {
		t.Logf("%-18s %-20s %d for, %d against %v, %d open", o.Row, o.Verdict, len(o.For), len(o.Against), o.Against, len(o.Open))
	}
}

const goodHeadline = `versions: {N: the paper}
headline:
  - {id: row, says: it is so, where: Table 1, claims: [a], shows: {more so: b}}
claims:
  - {id: a, version: N, where: Table 1, claim: is so, kind: trend, check: {measured: 1 < 2}}
  - {id: b, version: N, where: Table 1, claim: is more so, kind: derived, same_as: a, check: {arithmetic: 1 < 2}}
`

// What a ledger refers to must be there, and count.
func TestReferences(t *testing.T) {
	check := func(text string) error {
		l, err := parseLedger("claims.yaml", []byte(text))
		if err != nil {
			return err
		}
		return refer([]*Ledger{l})
	}
	testkit.NoError(t, check(goodHeadline))
	for _, c := range []struct{ old, replacement, want string }{
		{"claims: [a]", "claims: [c]", `claims.yaml:3: row: "c": want the ID of a claim of this paper`},
		{"so: b", "so: c", `claims.yaml:3: row: "c": want the ID of a claim of this paper`},
		{"claims: [a]", "claims: [b]", "claims.yaml:3: row: b is derived: want claims of the kinds count, ratio, trend, stand-in"},
		{"same_as: a", "same_as: c", `/claims.yaml:6: b: same as "c": want the ID of a claim that is not the same as another`},
		{"same_as: a", "same_as: b", `/claims.yaml:6: b: same as "b": want the ID of a claim that is not the same as another`},
		{"same_as: a", "same_as: {measured: a}", `claims.yaml:6:75: claims.1.same_as: "measured": want the basis of a check`},
	} {
		testkit.Equal(t, fmt.Sprint(check(strings.Replace(goodHeadline, c.old, c.replacement, 1))), c.want)
	}
}
