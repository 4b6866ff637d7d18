package lab

import (
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/lab/records"
	"gpipebench/lab/verdict"
)

func someDesign() *Design {
	return &Design{
		Registered: "2026-12-01", Looks: map[string][]int{"full": {2, 4}}, Level: 0.05, Margin: Margin{Size: 1, Unit: "points", Because: "small"},
		Primaries: []Primary{{Name: "late", Of: several{`score("late", "accuracy") - score("early", "accuracy")`}}},
		Gates:     []Gate{{That: "all is well", Holds: `cell("t", "c") > 0`}},
	}
}

func registered(d *Design) *Registration {
	return &Registration{d, "full", []uint64{11, 12, 13, 14}, []uint64{101}}
}

// The digest is another one for all that decides, and the same for reasons and other profiles.
func TestDesignDigest(t *testing.T) {
	was := registered(someDesign()).Digest()
	for what, change := range map[string]func(*Registration){
		"the day": func(r *Registration) { r.Registered = "2026-12-02" }, "looks": func(r *Registration) { r.Looks["full"] = []int{4} },
		"the level": func(r *Registration) { r.Level = 0.1 }, "the margin": func(r *Registration) { r.Margin.Size = 2 },
		"seeds": func(r *Registration) { r.Seeds = r.Seeds[:3] }, "the statistic": func(r *Registration) { r.Primaries[0].Of[0] += " + 1" },
		"what is claimed": func(r *Registration) { r.Primaries[0].Claims = verdict.Same }, "a primary's margin": func(r *Registration) { r.Primaries[0].Margin = &Margin{Size: 3} },
		"a gate": func(r *Registration) { r.Gates[0].Holds = `cell("t", "c") > 1` }, "no gate": func(r *Registration) { r.Gates = nil },
	} {
		r := registered(someDesign())
		if change(r); r.Digest() == was {
			t.Errorf("%s: the same digest", what)
		}
	}
	r := registered(someDesign())
	r.Margin.Because, r.Looks["quick"] = "as small", []int{4}
	testkit.Equal(t, r.Digest(), was, "a reason and another profile make another digest")
}

// Samples are of the design's seeds, made under it, and not before it was registered.
func TestDesignHoldsItsRecords(t *testing.T) {
	r := registered(someDesign())
	none := registered(someDesign())
	none.Registered, none.Exploratory = "none", "none were registered then"
	for _, c := range []struct {
		name   string
		of     *Registration
		seed   uint64
		design string
		time   string
		want   string // "": nothing is wrong
	}{
		{"as registered", r, 11, r.Digest(), "2026-12-01T07:00:00Z", ""},
		{"a pilot", r, 101, r.Digest(), "2026-12-02T07:00:00Z", ""},
		{"no random numbers", r, 0, r.Digest(), "2026-12-02T07:00:00Z", ""},
		{"a seed more", r, 15, r.Digest(), "2026-12-02T07:00:00Z", "sample s: seed 15 is not of the design: want one of 11, 12, 13, 14"},
		{"under another design", r, 11, "0123", "2026-12-02T07:00:00Z", `made under design "0123", which is now ` + r.Digest()},
		{"under none", r, 11, "", "2026-12-02T07:00:00Z", `made under design "", which is now`},
		{"before", r, 11, r.Digest(), "2026-11-30T23:59:59Z", "before the design was registered on 2026-12-01"},
		{"older than designs", none, 11, "", "2026-11-30T23:59:59Z", ""},
		{"exploratory", none, 11, none.Digest(), "2026-11-30T23:59:59Z", ""},
		{"exploratory, with another margin", none, 11, r.Digest(), "2026-12-02T07:00:00Z", "a design does not change after its first record"},
	} {
		log := records.New(records.Key{Experiment: "x", Profile: "full"})
		log.Put(&records.Record{Sample: "s", Seed: c.seed, Design: c.design, Time: c.time})
		err := c.of.Holds(log)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

// What a design must not be.
func TestDesignErrors(t *testing.T) {
	seeds := func(string) []uint64 { return []uint64{11, 12, 13, 14} }
	if p := someDesign().check(seeds); p != nil {
		t.Fatal(p)
	}
	for _, c := range []struct {
		change func(*Design)
		at     string
		want   string
	}{
		{func(d *Design) { d.Registered = "today" }, "registered", "want a day, such as 2026-12-01, or none"},
		{func(d *Design) { d.Registered = "none" }, "exploratory", "want the reason"},
		{func(d *Design) { d.Exploratory = "it is" }, "exploratory", "and nothing otherwise"},
		{func(d *Design) { d.Looks["full"] = []int{2} }, "looks.full", "2 seeds at the last look: want 4"},
		{func(d *Design) { d.Looks["fast"] = []int{4} }, "looks.fast", "unknown profile"},
		{func(d *Design) { d.Margin.Size, d.Primaries[0].Claims = 0, verdict.Same }, "primaries.0.claims", "same: want a margin above 0"},
		{func(d *Design) { d.Primaries[0].Test = verdict.Sign }, "primaries.0.test", "signs are counted without a margin"},
		{func(d *Design) { d.Primaries[0].Test = verdict.SignFlip }, "primaries.0.test", "full: sign flips of 2 seeds"},
		{func(d *Design) { d.Primaries[0].Of[0] = `cell("t", "c")` }, "primaries.0.of", "cell is no function"},
		{func(d *Design) { d.Gates[0].Holds = `sum("t", "c") > 0` }, "gates.0.holds", "sum is no function"},
		{func(d *Design) { d.Gates[0].For = []string{"early"} }, "gates.0.for", `no primary "early": want one of late`},
	} {
		d := someDesign()
		c.change(d)
		p := d.check(seeds)
		if p == nil || strings.Join(p.Path, ".") != c.at || !strings.Contains(p.Err.Error(), c.want) {
			t.Errorf("%+v; want %s: %s", p, c.at, c.want)
		}
	}
}

// A family is of the differences of each seed, and says what it can see: with margin 1, a standard
// deviation of 1.29 and 4 seeds at the level 0.0483, 3.8 points.
func TestFamily(t *testing.T) {
	scores := Scores{}
	scores.Put("late", "accuracy", []float64{11, 12, 13, 14})
	scores.Put("early", "accuracy", []float64{10, 10, 10, 10})
	f := testkit.Must(registered(someDesign()).family(scores))(t)
	testkit.Equal(t, len(f.Comparisons), 1, "comparisons")
	testkit.Near(t, f.Comparisons[0].Differences[0][3], 4, 1e-12, "the last difference")
	testkit.Equal(t, f.Comparisons[0].Margin, 1, "margin")
	testkit.Equal(t, f.Sees(), "Effects detectable with 80% power with n = 4 seeds: at least 3.8 points (standard deviation of the differences: 1.3).")
	testkit.Equal(t, f.Figure("late"), "+2.50 [+0.45, +4.55] points (4 seeds)")
	f.Comparisons[0].Claimed = verdict.NotLess
	testkit.Has(t, f.Sees(), "at least 1.8 points for non-inferiority (")
	f.Comparisons[0].Test, f.Comparisons[0].Claimed = verdict.Sign, verdict.More
	testkit.Equal(t, f.Figure("late"), "4 of 4 seeds as claimed, 0 the other way")
	if f.Unfinished() != "" {
		t.Error("all looks are complete")
	}
	f.Comparisons[0].Differences[0], f.Looks["full"] = []float64{1, 2, 3}, []int{2, 4}
	testkit.Equal(t, f.Unfinished(), "2 of 4 seeds have run")
	f.Profile = "quick"
	testkit.Has(t, f.Sees(), "claims are judged at profile full")
	delete(scores["early"], "accuracy")
	testkit.Refused(registered(someDesign()).family(scores))(t, `early has no "accuracy"`)
	delete(scores, "early")
	testkit.Refused(registered(someDesign()).family(scores))(t, `no arm "early": want one of late`)
}
