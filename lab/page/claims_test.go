package page

import (
	"fmt"
	"testing"

	"gpipebench/internal/testkit"
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
	l := testkit.Must(newLedger(v, []pageCount{{claims.VerdictMeaning{Verdict: claims.Holds}, "good", 1}, {claims.VerdictMeaning{Verdict: claims.Fails}, "bad", 0}, {claims.VerdictMeaning{Verdict: claims.Differs}, "fair", 1}}))(t)
	testkit.Equal(t, l.RowID(0), "claim-growth-Naive-1", "id")
	testkit.Equal(t, l.RowClass(0), "verdict-differs kind-ratio basis-measured profile-full paper-N paper-V1", "class")
	testkit.Equal(t, len(l.Verdicts), 2, "verdicts to choose from: %v, want those that occur", l.Verdicts)
	testkit.Has(t, string(l.Styles),
		"main:has(#verdict-holds:target) .ledger tbody tr:not(.verdict-holds)",
		"main:has(#only-kind-ours:checked) .ledger tbody tr:not(.kind-ours)",
		"main:has(#only-paper-V1:checked) .ledger tbody tr:not(.paper-V1)")
	testkit.Has(t, l.Filters[3].Values[0].Means, "NeurIPS")
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
	c := testkit.Must(newPageClaims(v))(t)
	sum := 0
	for _, tile := range c.Counts {
		sum += tile.N
	}
	if sum != c.Total || c.Total == 0 {
		t.Errorf("tiles count %d claims of %d", sum, c.Total)
	}
}
