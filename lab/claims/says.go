package claims

import (
	"fmt"
	"slices"
	"strings"

	"gpipebench/lab"
)

// Says returns what the verdicts say about the paper, in one paragraph. It counts facts.
func (v *Verification) Says() string {
	facts := v.facts()
	of := func(k Kind, verdicts ...Verdict) (n int) {
		for _, c := range facts {
			if c.Kind == k && !c.waits() && (len(verdicts) == 0 || slices.Contains(verdicts, c.Verdict)) {
				n++
			}
		}
		return n
	}
	some := func(k Kind, verdict Verdict) string {
		if n, all := of(k, verdict), of(k); n < all {
			return fmt.Sprintf("%d of %d", n, all)
		}
		return fmt.Sprintf("all %d", of(k))
	}
	var says []string
	if n := of(Ratio); n > 0 {
		says = append(says, fmt.Sprintf("Of %d comparisons with ratios in the paper (some are both measured and modelled) %d are within tolerance and %d outside it; in %d the paper's figure is within our range over what it leaves open, and in %d our interval spans the limit.",
			n, of(Ratio, Reproduced), of(Ratio, Differs), of(Ratio, Unstated), of(Ratio, NotDecided)))
	}
	if of(Count) > 0 && of(Trend) > 0 {
		says = append(says, fmt.Sprintf("Counts reproduced: %s. Trends that hold: %s.", some(Count, Reproduced), some(Trend, Holds)))
	}
	waiting := 0
	for _, c := range facts {
		if c.Kind == StandIn && c.waits() {
			waiting++
		}
	}
	if n := of(StandIn); n > 0 {
		says = append(says, fmt.Sprintf("%d claims can be tested only on small networks or modelled devices: %d agree with the paper, %d disagree, %d show no difference, %d have intervals too wide to decide, and %d cannot be judged here.",
			n, of(StandIn, Agrees), of(StandIn, Disagrees), of(StandIn, NoDifference), of(StandIn, Inconclusive, Undecided), of(StandIn, CannotTell)))
	}
	if waiting > 0 {
		says = append(says, fmt.Sprintf("%d more await training runs of profile full.", waiting))
	}
	return strings.Join(says, " ")
}

// InSmall returns the outcomes of what is shown in small or on modelled devices only.
func (v *Verification) InSmall() *lab.Table {
	t := &lab.Table{ID: "claims-in-small", Title: "What is shown in small, or on modelled devices only"}
	t.Texts("claim", "evidence", "here", "verdict")
	for _, c := range v.Claims {
		if c.Kind == StandIn {
			here := c.Shown
			if len(here) == 0 {
				here = c.Evidence
			}
			t.Add(c.Claim.Claim, string(c.Basis), strings.Join(here, "; "), string(c.Verdict))
		}
	}
	return t
}

// Answer counts what the papers' main sentences come to; "" if there are none.
func (v *Verification) Answer() string {
	if len(v.Headline) == 0 {
		return ""
	}
	var each []string
	for _, verdict := range []struct {
		is        RowVerdict
		one, more string
	}{
		{RowHolds, "holds", "hold"}, {RowInPart, "holds in part", "hold in part"}, {RowDiffer, "differs", "differ"},
		{RowOpen, "cannot be told here", "cannot be told here"}, {RowPending, "is not decided yet", "are not decided yet"},
		{RowMissing, "is not measured", "are not measured"},
	} {
		n := 0
		for _, o := range v.Headline {
			if o.Verdict == verdict.is {
				n++
			}
		}
		switch {
		case n == 1:
			each = append(each, "1 "+verdict.one)
		case n > 1:
			each = append(each, fmt.Sprintf("%d %s", n, verdict.more))
		}
	}
	if last := len(each) - 1; last > 0 {
		each = append(each[:last-1], each[last-1]+" and "+each[last])
	}
	return fmt.Sprintf("Of the %d main sentences below, %s.", len(v.Headline), strings.Join(each, ", "))
}
