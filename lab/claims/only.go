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
