package claims

import (
	"slices"
	"strings"
	"testing"

	"gpipebench/experiments"
	"gpipebench/internal/testkit"
)

// The first paper is always judged, another if there are records of it or if it is asked
// for.
func TestPapersOfAVerification(t *testing.T) {
	ledger := allClaims(t)
	first, other := experiments.Papers[0].Name, experiments.Papers[1].Name
	var all []string
	for _, p := range experiments.Papers {
		all = append(all, p.Name)
	}
	own := ledger[slices.IndexFunc(ledger, func(c Claim) bool { return c.Ledger == other })].ID
	none, some := RecordsState{Paper: other, State: "none"}, RecordsState{Paper: other, State: "incomplete"}
	for _, c := range []struct {
		v      Verifying
		states []RecordsState
		want   []string
	}{
		{Verifying{}, nil, []string{first}},
		{Verifying{}, []RecordsState{none}, []string{first}},
		{Verifying{}, []RecordsState{none, some}, []string{first, other}},
		{Verifying{Only: []string{"fails"}}, nil, []string{first}},
		{Verifying{Only: []string{own}}, nil, []string{first, other}},
		{Verifying{Paper: other}, nil, []string{other}},
		{Verifying{Paper: first}, []RecordsState{some}, []string{first}},
		{Verifying{Paper: experiments.AllPapers}, nil, all},
	} {
		c.v.All = experiments.Papers
		testkit.EqualAll(t, testkit.Must(c.v.papers(c.states, ledger))(t), c.want, "%+v, %+v", c.v, c.states)
	}
	testkit.Refused((Verifying{All: experiments.Papers, Paper: "none"}).papers(nil, ledger))(t, "want "+first)
}

// A part of a verification counts its own claims and records, and is printed under its own
// title.
func TestVerificationOfAPaper(t *testing.T) {
	first, other := experiments.Papers[0], experiments.Papers[1]
	v := &Verification{
		Papers: []string{first.Name, other.Name}, subjects: experiments.Papers,
		Claims: []Judgement{
			{Claim: Claim{ID: "a", Claim: "first", Ledger: first.Name}, Verdict: Holds}, {Claim: Claim{ID: "b", Claim: "second", Ledger: other.Name}, Verdict: Holds},
			{Claim: Claim{ID: "c", Claim: "third", Ledger: other.Name}, Verdict: Fails},
		},
		Records: []RecordsState{{Experiment: "x", Paper: first.Name}, {Experiment: "y", Paper: other.Name}},
	}
	v.count()
	part := v.Of(other.Name)
	if len(part.Claims) != 2 || part.Claims[0].ID != "b" || part.Counts[Holds] != 1 || part.Counts[Fails] != 1 || len(part.Records) != 1 || part.Records[0].Experiment != "y" {
		t.Errorf("%+v", part)
	}
	if v.Counts[Holds] != 2 || len(v.Claims) != 3 {
		t.Errorf("the whole is changed: %+v", v)
	}
	testkit.Equal(t, part.Subjects(), other.Of, "about")
	var b strings.Builder
	testkit.NoError(t, v.WriteText(&b, true))
	rest := b.String()
	for _, want := range []string{"Claims of " + first.Of + ", and", "first", "Claims of " + other.Of + ", and", "second", "third", "3 claims: 2 holds, 1 fails."} {
		var there bool
		if _, rest, there = strings.Cut(rest, want); !there {
			t.Fatalf("no %q in its place in\n%s", want, &b)
		}
	}
	table := v.Tables()[0]
	testkit.Equal(t, table.Rows[2][table.Column("ledger")].Text, other.Name, "ledger")
}
