package claims

import (
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/lab"
)

// Counts count the verdicts.
func TestSays(t *testing.T) {
	one := func(k Kind, b Basis, text string, verdict Verdict) Judgement {
		return Judgement{Claim: Claim{Kind: k, Basis: b, Claim: text}, Verdict: verdict}
	}
	again := one(StandIn, Modelled, "deep is better still", Disagrees) // the same fact
	again.Same = "deep"
	v := &Verification{Claims: []Judgement{
		one(Ratio, Measured, "a", Reproduced), one(Ratio, Modelled, "b", Differs), one(Ratio, Modelled, "c", NotDecided),
		one(Count, Counted, "d", Reproduced), one(Count, Counted, "e", Fails), one(Trend, Measured, "f", Holds),
		one(StandIn, Measured, "deep is better", Disagrees), one(StandIn, Modelled, "deep is better", Disagrees), one(StandIn, Measured, "g", Agrees), one(StandIn, Measured, "h", Inconclusive),
		one(StandIn, Measured, "h1", Undecided), one(StandIn, Measured, "h2", CannotTell), one(StandIn, Measured, "h3", JudgedAtFull),
		one(Contradiction, Arithmetic, "i", Contradicted), one(Derived, Arithmetic, "j", Follows), one(Tested, "", "k", ByTest), one(NotHere, "", "l", NotAttempted),
		one(Ratio, Modelled, "m", Unstated), one(Extension, Modelled, "n", DoesNotHold), again,
	}}
	v.count()
	says := v.Says()
	testkit.Has(t, says,
		"Of 4 comparisons with ratios in the paper (some are both measured and modelled) 1 are within tolerance and 1 outside it; in 1 the paper's figure is within our range over what it leaves open, and in 1 our interval",
		"Counts reproduced: 1 of 2. Trends that hold: all 1.", "6 claims can be tested only", "1 agree with the paper, 2 disagree, 0 show no difference, 2 have intervals too wide to decide, and 1 cannot be judged", "1 more await")
	testkit.Equal(t, len(v.InSmall().Rows), 8, "in small")
	if v.Counts[Disagrees] != 3 || v.Facts[Disagrees] != 2 {
		t.Errorf("%d claims disagree, %d facts", v.Counts[Disagrees], v.Facts[Disagrees])
	}
	byKind, byBasis := v.Summary()
	for _, table := range []*lab.Table{byKind, byBasis} {
		sum := 0.0
		for _, row := range table.Rows {
			all := 0.0
			for _, cell := range row[2:] {
				if len(cell.Numbers) > 0 {
					all += cell.Numbers[0]
				}
			}
			testkit.Equal(t, row[1].Numbers[0], all, "%s: %v", table.ID, row)
			sum += all
		}
		testkit.Equal(t, int(sum), len(v.Claims)-1, "%s counts %v", table.ID, sum)
	}
}

// Claims without a record on either side are not compared.
func TestAgainst(t *testing.T) {
	of := func(verdicts ...Verdict) *Verification {
		v := &Verification{Results: "R"}
		for i, id := range []string{"a", "b", "c", "d"} {
			v.Claims = append(v.Claims, Judgement{Claim: Claim{ID: id}, Verdict: verdicts[i]})
		}
		return v
	}
	got := of(Holds, Fails, NoRecord, NoRecord).Against(of(Holds, Holds, Holds, NoRecord))
	testkit.Equal(t, got.Says(), "1 of 2 verdicts are as on R; differing: b (fails, there holds).")
}

// The reader's first question has a sentence.
func TestAnswer(t *testing.T) {
	v := &Verification{}
	testkit.Equal(t, v.Answer(), "")
	v.Headline = []Outcome{{Verdict: RowInPart}}
	testkit.Equal(t, v.Answer(), "Of the 1 main sentences below, 1 holds in part.")
	v.Headline = []Outcome{{Verdict: RowPending}, {Verdict: RowHolds}, {Verdict: RowPending}, {Verdict: RowDiffer}}
	testkit.Equal(t, v.Answer(), "Of the 4 main sentences below, 1 holds, 1 differs and 2 are not decided yet.")
}
