package claims

import (
	"fmt"
	"strings"

	"gpipebench/lab"
)

// Comparison is where the verdicts on two directories of results differ.
type Comparison struct {
	Results string         `json:"results"`
	Against string         `json:"against"`
	Claims  int            `json:"claims"` // that were compared: with a record on one side or both
	Differ  []OtherVerdict `json:"differ"`
}

// OtherVerdict is a claim with two verdicts.
type OtherVerdict struct {
	ID      string  `json:"id"`
	Claim   string  `json:"claim"`
	Verdict Verdict `json:"verdict"`
	Other   Verdict `json:"against"`
	here    string
	there   string
}

// Against compares the verdicts with those on other results, claim by claim. Other must
// be about the same papers, or about more.
func (v *Verification) Against(other *Verification) *Comparison {
	there := map[string]Judgement{}
	for _, c := range other.Claims {
		there[c.ID] = c
	}
	r := &Comparison{Results: v.Results, Against: other.Results}
	for _, c := range v.Claims {
		o := there[c.ID]
		if c.Verdict != NoRecord || o.Verdict != NoRecord {
			r.Claims++
		}
		if c.Verdict != o.Verdict {
			r.Differ = append(r.Differ, OtherVerdict{c.ID, c.Claim.Claim, c.Verdict, o.Verdict, c.here(), o.here()})
		}
	}
	return r
}

// Says counts the claims whose verdicts are the same, of those that have one here, and names the
// others.
func (r *Comparison) Says() string {
	var differing []string
	missing := 0
	for _, c := range r.Differ {
		if c.Verdict == NoRecord {
			missing++
			continue
		}
		differing = append(differing, fmt.Sprintf("%s (%s, there %s)", c.ID, c.Verdict, c.Other))
	}
	says := fmt.Sprintf("%d of %d verdicts are as on %s", r.Claims-len(r.Differ), r.Claims-missing, r.Against)
	if len(differing) > 0 {
		says += "; differing: " + strings.Join(differing, ", ")
	}
	return says + "."
}

// Table returns the claims that differ.
func (r *Comparison) Table() *lab.Table {
	t := &lab.Table{ID: "claims-against", Title: fmt.Sprintf("Verdicts on %s against %s", r.Results, r.Against)}
	t.Texts("id", "claim", "verdict", "against", "here", "there")
	for _, c := range r.Differ {
		t.Add(c.ID, c.Claim, string(c.Verdict), string(c.Other), c.here, c.there)
	}
	t.Notes = []string{fmt.Sprintf("%d of %d verdicts differ.", len(r.Differ), r.Claims)}
	return t
}

// Err returns an error if verdicts differ.
func (r *Comparison) Err() error {
	if len(r.Differ) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %d of %d verdicts differ from those on %s", r.Results, len(r.Differ), r.Claims, r.Against)
}
