package claims

import (
	"fmt"
	"slices"
	"strings"

	"gpipebench/internal/printable"
	"gpipebench/lab"
)

// ParseOnly reads IDs of papers' claims and verdicts, with commas between them.
func ParseOnly(papers []lab.Paper, text string) ([]string, error) {
	all, err := loadClaims(papers)
	if err != nil {
		return nil, err
	}
	names := strings.Split(text, ",")
	for _, name := range names {
		isClaim := slices.ContainsFunc(all, func(c Claim) bool { return c.ID == name })
		isVerdict := slices.ContainsFunc(Verdicts, func(m VerdictMeaning) bool { return string(m.Verdict) == name })
		if !isClaim && !isVerdict {
			var verdicts []string
			for _, m := range Verdicts {
				verdicts = append(verdicts, string(m.Verdict))
			}
			return nil, fmt.Errorf("%s is neither: want IDs of claims, which verify prints, or verdicts (%s)", printable.Quoted(name), strings.Join(verdicts, ", "))
		}
	}
	return names, nil
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
