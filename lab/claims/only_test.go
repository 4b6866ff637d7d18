package claims

import (
	"testing"

	"gpipebench/experiments"
	"gpipebench/internal/testkit"
)

// Verdicts on some claims take the records of the experiments that these read, and no others.
func TestOnlyReadsWhatClaimsRead(t *testing.T) {
	ledger := allClaims(t)
	by := map[string]*Claim{}
	for i := range ledger {
		by[ledger[i].ID] = &ledger[i]
	}
	for _, c := range VerdictsOf(t, FullDir).Claims {
		for _, id := range c.Records {
			if !by[c.ID].mayRead(id) {
				t.Errorf("%s rests on %s, which is not read for it", c.ID, id)
			}
		}
	}
	v := Verifying{All: experiments.Papers, Results: FullDir, Rest: QuickDir, Only: []string{"table1-25x"}}
	r := testkit.Must(v.Read(t.Context()))(t)
	for _, d := range r.dirs {
		if len(d.all) != 1 || d.all[0].Experiment != "counts" {
			t.Errorf("%s: %d experiments are read, want counts alone", d.in.Results, len(d.all))
		}
	}
	is := testkit.Must(r.Judge())(t)
	if len(is.Claims) != 1 || is.Claims[0].Verdict != Contradicted || len(is.Wrong) > 0 {
		t.Errorf("%d claims, wrong: %v", len(is.Claims), is.Wrong)
	}
	if v.Only = append(v.Only, string(Fails)); !v.needs(ledger, "table1") {
		t.Error("a verdict is any claim's")
	}
}
