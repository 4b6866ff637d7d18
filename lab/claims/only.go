package claims

import (
	"slices"
	"strings"

	"gpipebench/internal/failure"
	"gpipebench/internal/printable"
)

// checkOnly refuses names that are neither IDs of claims nor verdicts.
func checkOnly(names []string, all []Claim) error {
	for _, name := range names {
		isClaim := slices.ContainsFunc(all, func(c Claim) bool { return c.ID == name })
		isVerdict := slices.ContainsFunc(Verdicts, func(m VerdictMeaning) bool { return string(m.Verdict) == name })
		if !isClaim && !isVerdict {
			var verdicts []string
			for _, m := range Verdicts {
				verdicts = append(verdicts, string(m.Verdict))
			}
			return failure.Usagef("--only: %s is no claim and no verdict: want IDs of claims, which verify prints, or verdicts (%s)", printable.Quoted(name), strings.Join(verdicts, ", "))
		}
	}
	return nil
}

// selects reports whether a judgement is among IDs of claims and verdicts; no names
// select all.
func selects(names []string, c Judgement) bool {
	return len(names) == 0 || slices.Contains(names, c.ID) || slices.Contains(names, string(c.Verdict))
}

// needs reports whether an experiment is read: if Only names claims alone, by one of these.
func (v Verifying) needs(ledger []Claim, experiment string) bool {
	for _, name := range v.Only {
		i := slices.IndexFunc(ledger, func(c Claim) bool { return c.ID == name })
		if i < 0 || ledger[i].mayRead(experiment) { // a verdict may be any claim's
			return true
		}
	}
	return len(v.Only) == 0
}

// mayRead reports whether a claim has the name of an experiment's design, or of a table of it, which
// begins with the experiment's own.
func (c *Claim) mayRead(experiment string) bool {
	if strings.HasPrefix(c.Design, experiment+"/") {
		return true
	}
	return slices.ContainsFunc(slices.Concat(c.Check, c.Shows, c.Unstated.ranges()), func(e evidence) bool {
		return strings.Contains(e.expression, `"`+experiment+`"`) || strings.Contains(e.expression, `"`+experiment+"-")
	})
}
