package page

import (
	"fmt"
	"strings"
	"testing"

	"gpipebench/lab/claims"
)

// Every claim has an id that its own names make, and what filters find it by: each
// verdict, kind and version that occurs.
func TestLedger(t *testing.T) {
	one := func(id, version string, kind claims.Kind, verdict claims.Verdict) claims.Judgement {
		return claims.Judgement{Claim: claims.Claim{ID: id, Version: version, Kind: kind, Basis: claims.Measured}, Verdict: verdict, Profile: "full"}
	}
	v := &claims.Verification{Versions: map[string]string{"N": "NeurIPS 2019"}, Claims: []claims.Judgement{
		one("growth/Naive-1", "N, V1", claims.Ratio, claims.Differs),
		one("hash", "here", claims.Ours, claims.Holds),
	}}
	l, err := newLedger(v, []pageCount{{claims.VerdictMeaning{Verdict: claims.Holds}, "good", 1}, {claims.VerdictMeaning{Verdict: claims.Fails}, "bad", 0}, {claims.VerdictMeaning{Verdict: claims.Differs}, "fair", 1}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := l.RowID(0), "claim-growth-Naive-1"; got != want {
		t.Errorf("id %s, want %s", got, want)
	}
	if got, want := l.RowClass(0), "verdict-differs kind-ratio basis-measured profile-full paper-N paper-V1"; got != want {
		t.Errorf("class %s, want %s", got, want)
	}
	if len(l.Verdicts) != 2 {
		t.Errorf("verdicts to choose from: %v, want those that occur", l.Verdicts)
	}
	for _, hides := range []string{
		"main:has(#verdict-holds:target) .ledger tbody tr:not(.verdict-holds)",
		"main:has(#only-kind-ours:checked) .ledger tbody tr:not(.kind-ours)",
		"main:has(#only-paper-V1:checked) .ledger tbody tr:not(.paper-V1)",
	} {
		if !strings.Contains(string(l.Styles), hides) {
			t.Errorf("no style %s in %s", hides, l.Styles)
		}
	}
	if means := l.Filters[3].Values[0].Means; !strings.Contains(means, "NeurIPS") {
		t.Errorf("version N is %q", means)
	}
}

// Every claim is counted on one tile.
func TestTiles(t *testing.T) {
	v := &claims.Verification{Counts: map[claims.Verdict]int{}}
	for i, m := range claims.Verdicts {
		for range i + 1 {
			v.Claims = append(v.Claims, claims.Judgement{Claim: claims.Claim{ID: fmt.Sprint("c", len(v.Claims)), Version: "N", Kind: claims.Ratio}, Verdict: m.Verdict})
			v.Counts[m.Verdict]++
		}
	}
	c, err := newPageClaims(v)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, tile := range c.Counts {
		sum += tile.N
	}
	if sum != c.Total || c.Total == 0 {
		t.Errorf("tiles count %d claims of %d", sum, c.Total)
	}
}
