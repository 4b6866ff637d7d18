package verdict

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"gpipebench/internal/testkit"
)

// Lan and DeMets' levels, by the boundaries that their papers and ldbounds print.
func TestLooks(t *testing.T) {
	for _, c := range []struct {
		looks []int
		z     []float64
	}{
		{[]int{8}, []float64{1.960}},
		{[]int{4, 8}, []float64{2.963, 1.969}},
		{[]int{4, 8, 12}, []float64{3.710, 2.511, 1.993}},
		{[]int{2, 4, 6, 8, 10}, []float64{4.877, 3.357, 2.680, 2.290, 2.031}},
	} {
		for i, level := range (Design{Level: 0.05, Looks: c.looks}).levels() {
			testkit.Near(t, distuv.UnitNormal.Quantile(1-level/2), c.z[i], 0.002, "looks %v: boundary %d", c.looks, i)
		}
	}
	levels := Design{Level: 0.05, Looks: []int{3, 5}}.levels()
	for i, want := range []float64{0.0076, 0.0476} {
		testkit.Near(t, levels[i], want, 5e-5, "level %d, at 3 and 5 of 5 seeds", i)
	}
}

// Each outcome, and why.
func TestJudge(t *testing.T) {
	around := func(mean float64) []float64 { return []float64{mean - 1, mean + 1, mean - 0.5, mean + 0.5, mean, mean} }
	yes, no, unknown := Gate{"small beats the dictionary", Yes}, Gate{"larger fits the training data", No}, Gate{"no rate at an edge", Unknown}
	for _, c := range []struct {
		name    string
		claimed Claimed
		mean    float64
		margin  float64
		gates   []Gate
		want    Verdict
		why     string
	}{
		{"above", More, 4, 2, []Gate{yes}, Agrees, ""},
		{"below", More, -4, 2, nil, Disagrees, ""},
		{"within", More, 0.1, 2, nil, NoDifference, ""},
		{"at the margin", More, 2, 2, nil, Open, "an effect below"},
		{"no margin", More, 0.1, 0, nil, Open, "an effect below"},
		{"the same", Same, 0.1, 2, nil, Agrees, ""},
		{"not the same, above", Same, 4, 2, nil, Disagrees, ""},
		{"not the same, below", Same, -4, 2, nil, Disagrees, ""},
		{"the same or not", Same, 1.5, 2, nil, Open, "an effect below"},
		{"not less, above", NotLess, 4, 2, nil, Agrees, ""},
		{"not less, within", NotLess, -0.1, 2, nil, Agrees, ""},
		{"less", NotLess, -4, 2, nil, Disagrees, ""},
		{"less or not", NotLess, -2, 2, nil, Open, "an effect below"},
		{"incompetent", More, 4, 2, []Gate{yes, no}, CannotTell, "not competent: a condition is not met: larger fits the training data"},
		{"not known to be competent", More, 4, 2, []Gate{unknown}, CannotTell, "not shown competent: a condition is not known to be met: no rate at an edge"},
	} {
		got := Design{Level: 0.05, Looks: []int{6}}.Judge([]Comparison{{Name: c.name, Claimed: c.claimed, Margin: c.margin, Differences: [][]float64{around(c.mean)}, Gates: c.gates}})
		if got[0].Verdict != c.want || !strings.HasPrefix(got[0].Why, c.why) || (c.why == "") != (got[0].Why == "") {
			t.Errorf("%s: %+v; want %s, %s", c.name, got, c.want, c.why)
		}
	}
}

// Seeds beyond a complete look do not count, and a look is not read before it is complete.
func TestIncompleteLooks(t *testing.T) {
	d := Design{Level: 0.05, Looks: []int{4, 8}}
	far := []float64{1, 1.1, 0.9, 1, -50, -50, -50}
	for n, seeds := range map[int]int{3: 0, 4: 4, 7: 4} {
		got := d.Judge([]Comparison{{Differences: [][]float64{far[:n]}}})
		testkit.Equal(t, got[0].Seeds, seeds, "%d seeds: of the verdict", n)
	}
}

// drawn are the differences of some comparisons over seeds, with a standard deviation of 1. Those
// of a family share an arm and so half their variance.
func drawn(random *rand.Rand, comparisons, seeds int, effect, margin float64) []Comparison {
	family := make([]Comparison, comparisons)
	for i := range family {
		family[i] = Comparison{Differences: make([][]float64, 1), Margin: margin}
	}
	for range seeds {
		shared := random.NormFloat64()
		for i := range family {
			family[i].Differences[0] = append(family[i].Differences[0], effect+(shared+random.NormFloat64())/math.Sqrt2)
		}
	}
	return family
}

// In 10,000 families whose effects are 0, or exactly the margin, at most 5% have a false verdict.
func TestFalseVerdicts(t *testing.T) {
	const families = 10000
	for i, c := range []struct {
		d           Design
		comparisons int
		effect      float64
		margin      float64
		false       []Verdict
	}{
		{Design{Level: 0.05, Looks: []int{5}}, 1, 0, 0, []Verdict{Agrees, Disagrees}},
		{Design{Level: 0.05, Looks: []int{5}}, 5, 0, 0, []Verdict{Agrees, Disagrees}},
		{Design{Level: 0.05, Looks: []int{4, 8}}, 5, 0, 0, []Verdict{Agrees, Disagrees}},
		{Design{Level: 0.05, Looks: []int{3, 5}}, 3, 0, 0, []Verdict{Agrees, Disagrees}},
		{Design{Level: 0.05, Looks: []int{8, 16}}, 2, 1, 1, []Verdict{Agrees, Disagrees, NoDifference}},
		{Design{Level: 0.05, Looks: []int{8, 16}}, 2, -1, 1, []Verdict{Agrees, Disagrees, NoDifference}},
	} {
		random, levels, wrong := rand.New(rand.NewPCG(1, uint64(i))), c.d.levels(), 0
		for range families {
			if slices.ContainsFunc(c.d.decide(drawn(random, c.comparisons, c.d.Looks[len(c.d.Looks)-1], c.effect, c.margin), levels), func(r Result) bool { return slices.Contains(c.false, r.Verdict) }) {
				wrong++
			}
		}
		// Three standard errors of the simulation are 0.65 points.
		if share := float64(wrong) / families; share > 0.05+0.0065 || c.comparisons == 1 && share < 0.05-0.0065 {
			t.Errorf("%+v, %d comparisons, effect %g: %.2f%% of families with a false verdict, want 5%%", c.d, c.comparisons, c.effect, 100*share)
		} else {
			t.Logf("%+v, %d comparisons, effect %g: %.2f%%", c.d, c.comparisons, c.effect, 100*share)
		}
	}
}

// An effect of Detectable is seen in 80% of repetitions, to 3 points; and one of some standard
// deviations as often as the noncentral t distribution says.
func TestPower(t *testing.T) {
	const families = 4000
	for _, margin := range []float64{0, 0.5} {
		for _, n := range []int{4, 8, 16} {
			d := Design{Level: 0.05, Looks: []int{n}}
			s := distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}
			effect := margin + noncentrality(s.Nu, s.Quantile(0.975))/math.Sqrt(float64(n))
			random, levels, seen := rand.New(rand.NewPCG(2, uint64(n))), d.levels(), 0
			for range families {
				if d.decide(drawn(random, 1, n, effect, margin), levels)[0].Verdict == Agrees {
					seen++
				}
			}
			testkit.Near(t, float64(seen)/families, power, 0.03, "%d seeds, margin %g: an effect of %.3f is seen in a share of", n, margin, effect)
		}
	}
}

// A claim of several parts is refuted by the one whose interval does so, which is shown; and what seeds can see does not
// depend on what was decided, nor on when.
func TestRefutingPart(t *testing.T) {
	wide, narrow := []float64{-11, 9, -11, 9, -11, 9, -11, 5}, []float64{-0.5, -0.6, -0.4, -0.5, -0.6, -0.4, -0.5, -0.5}
	d := Design{Level: 0.05, Looks: []int{4, 8}}
	family := []Comparison{{Differences: [][]float64{wide, narrow}}, {Claimed: NotLess, Margin: 1, Differences: [][]float64{narrow}}}
	r := d.Judge(family)[0]
	if r.Verdict != Disagrees || r.Seeds != 4 || r.P > r.Level || r.Mean > -0.4 || r.Mean < -0.6 || r.High >= 0 || r.Level != d.levels()[0]/2 {
		t.Errorf("%+v: want the interval of the part that refutes", r)
	}
	sights := d.Sights(family, 8)
	testkit.Near(t, sights[0].SD, 10.24, 0.01, "sd of the part that varies the most")
	if s := sights[1]; s.Detectable > -0.7 || s.Detectable < -1 {
		t.Errorf("%v: want a difference above -1, the margin, that is shown not to be less", s.Detectable)
	}
}

// Holm: a comparison that would pass by itself stays open in a family in which a smaller p fails,
// and is decided where it does not.
func TestHolm(t *testing.T) {
	at := func(p float64) Comparison { // of 5 seeds, of the given p
		s := distuv.StudentsT{Sigma: 1, Nu: 4}
		mean := s.Quantile(1-p/2) / math.Sqrt(5) * math.Sqrt(2.5)
		return Comparison{Name: fmt.Sprint(p), Differences: [][]float64{{mean - 2, mean - 1, mean, mean + 1, mean + 2}}}
	}
	for _, c := range []struct {
		ps   []float64
		want []Verdict
	}{
		{[]float64{0.04}, []Verdict{Agrees}},
		{[]float64{0.04, 0.03}, []Verdict{Open, Open}},
		{[]float64{0.04, 0.02}, []Verdict{Agrees, Agrees}},
		{[]float64{0.011, 0.04, 0.02, 0.012}, []Verdict{Agrees, Agrees, Agrees, Agrees}},
		{[]float64{0.013, 0.001, 0.03}, []Verdict{Agrees, Agrees, Agrees}},
		{[]float64{0.026, 0.001, 0.03}, []Verdict{Open, Agrees, Open}},
	} {
		var family []Comparison
		for _, p := range c.ps {
			family = append(family, at(p))
		}
		for i, r := range (Design{Level: 0.05, Looks: []int{5}}).Judge(family) {
			testkit.Equal(t, r.Verdict, c.want[i], "p %v: verdict %d", c.ps, i)
			testkit.Near(t, r.P, c.ps[i], 1e-9, "p %v: p %d", c.ps, i)
		}
	}
}

// Of several parts all must show what is claimed, and one suffices to refute it; the figures
// come from the part that is the least as claimed.
func TestParts(t *testing.T) {
	around := func(mean float64) []float64 { return []float64{mean - 1, mean + 1, mean - 0.5, mean + 0.5, mean, mean} }
	for _, c := range []struct {
		parts [][]float64
		mean  float64
		want  Verdict
	}{
		{[][]float64{around(4), around(3)}, 3, Agrees},
		{[][]float64{around(4), around(0)}, 0, Open},
		{[][]float64{around(4), around(-3)}, -3, Disagrees},
		{[][]float64{around(0.7)}, 0.7, Open},
		{[][]float64{around(-0.85)}, -0.85, Disagrees},
		{[][]float64{around(-0.85), around(4), around(4), around(4)}, -0.85, Open}, // at a quarter of the level
		{[][]float64{around(0.85), around(0.85), around(0.85)}, 0.85, Agrees},      // at the whole level
	} {
		got := Design{Level: 0.05, Looks: []int{6}}.Judge([]Comparison{{Differences: c.parts}})
		testkit.Equal(t, got[0].Verdict, c.want, "%v", c.parts)
		testkit.Near(t, got[0].Mean, c.mean, 1e-12, "%v: mean", c.parts)
	}
}

// Flips by hand: of two differences, three means of subsets divide the line into four parts.
func TestFlips(t *testing.T) {
	f := newFlips([]float64{1, 3})
	testkit.EqualAll(t, f, flips{1, 2, 3})
	for x, want := range map[float64][2]float64{0: {0.5, 1}, 1: {1, 1}, 1.5: {1, 1}, 2.5: {1, 1}, 3: {1, 1}, 4: {1, 0.5}} {
		if f.above(x) != want[0] || f.below(x) != want[1] {
			t.Errorf("%v: above at %v, below at %v, want %v", x, f.above(x), f.below(x), want)
		}
	}
	if lo, hi := f.ends(0.5); lo != 1 || hi != 3 {
		t.Errorf("half of the intervals: %v to %v, want 1 to 3", lo, hi)
	}
	if lo, hi := f.ends(0.4); !math.IsInf(lo, -1) || !math.IsInf(hi, 1) {
		t.Errorf("less than two parts: %v to %v", lo, hi)
	}
	if unknown := newFlips([]float64{1, math.NaN()}); unknown.above(0) != 1 || unknown.below(9) != 1 {
		t.Errorf("of what is not a number: %v", unknown)
	}
	// Ten differences of one sign: one of 1,024 ways to flip them is as far from 0 on that side.
	same := newFlips([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
	if same.above(0) != 2./1024 || same.below(0) != 1 || len(same) != 1023 {
		t.Errorf("ten of one sign: %v, %v", same.above(0), same.below(0))
	}
}

// Eight correlations of one sign agree, which mixed ones do not; intervals at a level are those that
// decide at it; and designs whose seeds cannot decide anything are refused.
func TestSignFlipVerdicts(t *testing.T) {
	d := Design{Level: 0.05, Looks: []int{8}}
	positive := []float64{0.9, 0.2, 0.6, 0.7, 0.1, 0.8, 0.5, 0.3}
	mixed := []float64{0.9, -0.8, 0.6, -0.7, 0.1, -0.8, 0.5, -0.3}
	got := d.Judge([]Comparison{{Name: "a", Test: SignFlip, Differences: [][]float64{positive}}, {Name: "b", Test: SignFlip, Differences: [][]float64{mixed}}})
	if got[0].Verdict != Agrees || got[0].P != 2./256 || got[0].Low <= 0 || got[1].Verdict != Open || got[1].Low >= 0 || got[1].High <= 0 {
		t.Errorf("%+v", got)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		var xs []float64
		for range 8 {
			xs = append(xs, random.NormFloat64())
		}
		for _, level := range []float64{0.01, 0.025, 0.05} {
			f := newFlips(xs)
			lo, hi := f.ends(level)
			if f.above(math.Nextafter(lo, -1e9)) > level || f.above(lo) <= level || f.below(math.Nextafter(hi, 1e9)) > level || f.below(hi) <= level {
				t.Errorf("%v at %v: %v to %v", xs, level, lo, hi)
			}
		}
	}
	for _, d := range []Design{{Level: 0.05, Looks: []int{5}}, {Level: 0.05, Looks: []int{4, 8}}, {Level: 0.05, Looks: []int{30}}} {
		testkit.Fails(t, d.CheckFlips(1), "sign flips of")
	}
}
