package claims

import (
	"fmt"
	"slices"
	"strings"

	"gpipebench/lab"
)

// Says returns what all verdicts together say about the paper, in one paragraph. It counts
// facts.
func (v *Verification) Says() string {
	facts := v.facts()
	of := func(k Kind, basis Basis, verdicts ...Verdict) (n int) {
		for _, c := range facts {
			if c.Kind == k && (basis == "" || c.Basis == basis) && (len(verdicts) == 0 || slices.Contains(verdicts, c.Verdict)) {
				n++
			}
		}
		return n
	}
	some := func(k Kind, verdict Verdict) string {
		if n, all := of(k, "", verdict), of(k, ""); n < all {
			return fmt.Sprintf("%d of %d", n, all)
		}
		return fmt.Sprintf("all %d", of(k, ""))
	}
	var near []string
	for _, basis := range Bases {
		if all := of(Ratio, basis); all > 0 {
			near = append(near, fmt.Sprintf("%d of %d %s", of(Ratio, basis, Reproduced), all, basis))
		}
	}
	says := []string{
		fmt.Sprintf("The paper prints %d ratios that were measured on other machines. Ours are within the stated tolerance in %d cases (%s) and outside it in %d; %d are within what the paper leaves unstated, and %d are not decided, since our interval spans the limit.",
			of(Ratio, ""), of(Ratio, "", Reproduced), strings.Join(near, ", "), of(Ratio, "", Differs), of(Ratio, "", Unstated), of(Ratio, "", NotDecided)),
		fmt.Sprintf("Counts come out in %s cases, trends hold in %s.", some(Count, Reproduced), some(Trend, Holds)),
		fmt.Sprintf("Of %d claims that can only be shown in small or on modelled devices, %d agree with the paper, %d disagree, %d show no difference, %d are left open by their intervals, and %d cannot be told here, since the networks trained here do not beat their baselines.",
			of(StandIn, "")-of(StandIn, "", JudgedAtFull), of(StandIn, "", Agrees), of(StandIn, "", Disagrees), of(StandIn, "", NoDifference), of(StandIn, "", Inconclusive, Undecided), of(StandIn, "", CannotTell)),
	}
	if n := of(StandIn, "", JudgedAtFull); n > 0 {
		says = append(says, fmt.Sprintf("%d more are trained at this profile and judged at full alone.", n))
	}
	if n := v.atFull(); n > 0 {
		says = append(says, fmt.Sprintf("%d of the verdicts rest on runs of profile full.", n))
	}
	if list := v.disagreeing(); len(list) > 0 {
		says = append(says, "Unlike in the paper, these do not hold here: "+strings.Join(list, "; ")+".")
	}
	says = append(says, fmt.Sprintf("The ledger shows %d places where the paper contradicts itself or arithmetic. Not experiments: %d claims follow from the paper's own figures or from how a step is built, %d are properties that our tests check, and %d are ours. %d we could not test, or have not.",
		of(Contradiction, "", Shown), of(Derived, ""), of(Tested, ""), of(Ours, "")+of(Extension, ""), of(NotHere, "")+of(NotYet, "")))
	if n := len(v.Claims) - len(facts); n > 0 {
		says = append(says, fmt.Sprintf("Each fact counts once: %d further claims judge a cell or a fact again.", n))
	}
	return strings.Join(says, " ")
}

// atFull counts the verdicts on what was measured at profile full.
func (v *Verification) atFull() (n int) {
	for _, c := range v.facts() {
		if c.Basis == Measured && strings.Contains(c.Profile, lab.Profiles[len(lab.Profiles)-1]) {
			n++
		}
	}
	return n
}

// disagreeing lists the claims that disagree, each with what shows it.
func (v *Verification) disagreeing() (list []string) {
	all := v.facts()
	for i := 0; i < len(all); i++ {
		c := all[i]
		if c.Verdict != Disagrees {
			continue
		}
		shown := string(c.Basis)
		for ; i+1 < len(all) && all[i+1].Verdict == Disagrees && all[i+1].Claim.Claim == c.Claim.Claim; i++ {
			shown += ", " + string(all[i+1].Basis)
		}
		list = append(list, fmt.Sprintf("%q (%s)", c.Claim.Claim, shown))
	}
	return list
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
