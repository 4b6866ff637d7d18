package claims

import (
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/lab/verdict"
)

// made is a family of 6 seeds, whose comparisons have these mean differences and a standard
// deviation of 0.71.
func made(profile string, gates []lab.Gate, means ...float64) *judged {
	d := &lab.Design{Registered: "2026-12-01", Looks: map[string][]int{"full": {6}}, Level: 0.05, Margin: lab.Margin{Unit: "points"}, Gates: gates}
	f := &lab.Family{Registration: &lab.Registration{Design: d, Profile: profile, Seeds: []uint64{1, 2, 3, 4, 5, 6}}}
	for i, mean := range means {
		name := string(rune('a' + i))
		d.Primaries = append(d.Primaries, lab.Primary{Name: name})
		f.Comparisons = append(f.Comparisons, verdict.Comparison{Name: name, Differences: [][]float64{{mean - 1, mean + 1, mean - 0.5, mean + 0.5, mean, mean}}})
	}
	return &judged{Family: f, experiment: "x", cost: records.Cost{Seconds: 7}}
}

// judgement is a claim's on the first primary of a family.
func judgement(t *testing.T, kind Kind, of *judged) Judgement {
	t.Helper()
	tables := claimTables()
	testkit.NoError(t, of.judge(tables))
	e := newEvaluator(tables)
	e.families = map[string]*judged{"x": of}
	return testkit.Must(Claim{Kind: kind, Design: "x/a"}.judge(e))(t)
}

// What no paper says holds or does not; what a look leaves open waits for the next; and signs are counted.
func TestVerdictsOfOtherDesigns(t *testing.T) {
	for mean, want := range map[float64]Verdict{1: Holds, -1: DoesNotHold, 0.7: Undecided} {
		testkit.Equal(t, judgement(t, Extension, made("full", nil, mean)).Verdict, want, "an extension with a mean of %g", mean)
	}
	of := made("full", nil, 0.7)
	if got := judgement(t, StandIn, of); got.waits() {
		t.Errorf("%+v waits", got)
	}
	of.Looks["full"], of.Seeds = []int{6, 12}, make([]uint64, 12)
	if got := judgement(t, StandIn, of); !got.waits() || !strings.HasPrefix(got.Why, "6 of 12 seeds have run; an effect below ") {
		t.Errorf("%s, %q: want it to wait", got.Verdict, got.Why)
	}
	of = made("full", nil, 0)
	of.Primaries[0].Test, of.Comparisons[0].Test, of.Comparisons[0].Margin = verdict.Sign, verdict.Sign, 0
	of.Comparisons[0].Differences[0] = []float64{1, 1, 1, 1, -1, 0}
	testkit.Equal(t, judgement(t, StandIn, of).Shown[0], "4 of 6 seeds as claimed, 1 the other way (p = 0.38, level 0.05)")
}

// A claim that names a primary has its verdict by the design: competence first, and the interval at
// the level that Holm leaves it in its family. Its kind is the same whatever that is.
func TestVerdictsByDesign(t *testing.T) {
	small := lab.Gate{That: "small is better than a dictionary", Holds: `cell("a", "speed", "K", 2) > 1.7`}
	narrow := lab.Gate{That: "the rate is at no edge", Holds: `cell("a", "speed", "K", 2) > 1.5`}
	for _, c := range []struct {
		name  string
		is    *judged
		want  Verdict
		why   string
		shown string
	}{
		{"above", made("full", nil, 1), Agrees, "", "+1 [+0.258, +1.74] points (6 seeds, 95% interval)"},
		{"below", made("full", nil, -1), Disagrees, "", "-1 ["},
		{"a point estimate above", made("full", nil, 0.7), Undecided, "an effect below ", "+0.7 [-0.0"},
		{"alone", made("full", nil, 0.8), Agrees, "", "+0.8 ["},
		{"among others", made("full", nil, 0.8, 0, 0), Undecided, "an effect below ", "+0.8 [-"},
		{"a gate that fails", made("full", []lab.Gate{small}, 1), CannotTell, "not competent: a condition is not met: small is better than a dictionary", "+1 ["},
		{"a gate that is open", made("full", []lab.Gate{narrow}, 1), CannotTell, "not shown competent: a condition is not known to be met: the rate is at no edge", "+1 ["},
		{"a gate without records", made("full", []lab.Gate{{That: "all is well", Holds: `cell("none", "speed") > 1`}}, 1), CannotTell, "not shown competent", "+1 ["},
		{"a gate of others", made("full", []lab.Gate{{That: "all is well", Holds: small.Holds, For: []string{"b"}}}, 1, 1), Agrees, "", "+1 ["},
		{"another profile", made("quick", []lab.Gate{small}, 1), JudgedAtFull, "runs at profile full decide it", "+1.00 [+0.26, +1.74] points (6 seeds)"},
	} {
		got := judgement(t, StandIn, c.is)
		if got.Verdict != c.want || !strings.HasPrefix(got.Why, c.why) || (c.why == "") != (got.Why == "") || !strings.HasPrefix(got.Shown[0], c.shown) {
			t.Errorf("%s: %s, %q, %q; want %s, %q, %q", c.name, got.Verdict, got.Why, got.Shown, c.want, c.why, c.shown)
		}
		if got.Kind != StandIn || !slices.Equal(got.Records, []string{"x"}) || got.Seconds != 7 {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	e := newEvaluator(claimTables())
	testkit.Equal(t, testkit.Must((Claim{Kind: StandIn, Design: "x/a"}).judge(e))(t).Verdict, NoRecord, "without records")
	e.families = map[string]*judged{"x": made("quick", nil, 1)}
	testkit.Refused((Claim{Kind: StandIn, Design: "x/z"}).judge(e))(t, `no primary "z": want one of a`)
	// A check on the same experiment would decide by another rule, or by a point estimate.
	check := Claim{Kind: StandIn, Basis: Measured, check: `cell("a", "speed", "K", 2) > 1`}
	testkit.Refused(check.judge(e))(t, "want design: x/PRIMARY in place of check")
}

// Every primary is claimed, and its claim agrees, disagrees or is open, by the differences alone, if
// all gates are passed.
func TestDesignedClaimsCanTurn(t *testing.T) {
	ledger := allClaims(t)
	reading := Committed(t, FullDir)
	all := testkit.Must(families(reading.deciding(), reading.tables()))(t)
	tried := 0
	for id, f := range all {
		for i, p := range f.Primaries {
			if !slices.ContainsFunc(ledger, func(c Claim) bool { return c.Design == id+"/"+p.Name }) {
				t.Errorf("%s/%s: no claim names it", id, p.Name)
			}
			if f.Looks[f.Profile] == nil {
				continue
			}
			tried++
			margin := f.Comparisons[i].Margin
			far := 100 + 10*margin
			want := map[float64]verdict.Verdict{far: verdict.Agrees, -far: verdict.Disagrees, margin: verdict.Open, -margin: verdict.Open}
			if f.Comparisons[i].Claimed == verdict.Same {
				want[far] = verdict.Disagrees
			}
			if f.Comparisons[i].Claimed == verdict.NotLess {
				want[margin] = verdict.Agrees
			}
			for mean, want := range want {
				moved := *f.Family
				moved.Comparisons = slices.Clone(f.Comparisons)
				differences := slices.Clone(moved.Comparisons[i].Differences)
				for part := range differences {
					differences[part] = nil
					for seed := range f.Seeds {
						differences[part] = append(differences[part], mean+0.01*float64(1-2*(seed%2))*(1+margin))
					}
				}
				moved.Comparisons[i].Differences = differences
				results := moved.Judge(func(lab.Gate) verdict.Passed { return verdict.Yes })
				testkit.Equal(t, results[i].Verdict, want, "%s/%s at %g", id, p.Name, mean)
			}
		}
	}
	t.Logf("%d primaries", tried)
}
