// Package verdict says what the comparisons of a registered design show.
//
// There is one rule for all that is measured over seeds. Competence comes first: a network that a
// dictionary beats shows nothing about networks. Then the confidence interval of the mean
// difference is held against the margin that was registered with the design. Where a claim says
// that one arm has more than the other:
//
//	above the margin               Agrees        the difference is as claimed, and more than the margin
//	below minus the margin         Disagrees     it is the other way round
//	within both                    NoDifference  it is smaller than the margin (two one-sided tests, Schuirmann 1987)
//	anything else                  Open          an effect below Detectable could not be seen
//
// Where it says that they are the same, an interval within both agrees, and one beyond either
// disagrees; where it says that one is not less, one above minus the margin agrees. Intervals are
// by Student's t, or of what is far from normal by flips of signs.
//
// A point estimate never decides. The comparisons of a design are one family: the level of each
// interval is Holm's (1979), so that the probability of one false verdict or more is at most the
// level of the family. Verdicts may be read at the looks that the design names alone, and the level
// is spent over these as Lan and DeMets (1983) do it for O'Brien and Fleming's boundaries, so that
// looking early costs next to nothing at the end. Its levels are for normal differences: with Student's t of few seeds
// a single comparison errs in 5.3% at looks of 3 and 5 seeds, and in 5.2% at 4 and 8, instead of 5%. And Holm divides the
// nominal level of a look, not what is spent there: at 4 and 8 seeds a family of 8 errs in up to 5.06% of normal differences.
package verdict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"

	"gpipebench/internal/stats"
)

// Verdict is what a comparison shows.
type Verdict string

const (
	Agrees       Verdict = "agrees"
	Disagrees    Verdict = "disagrees"
	NoDifference Verdict = "no difference"
	Open         Verdict = "open"
	CannotTell   Verdict = "cannot be told here"
)

// Design is what was registered before the first record.
type Design struct {
	Level float64 // of the family: 0.05
	Looks []int   // the numbers of seeds at which verdicts may be read, ascending
}

// Claimed is what a claim says of a difference. The zero value is More.
type Claimed string

const (
	More    Claimed = ""
	Same    Claimed = "same"     // within the margin, either way
	NotLess Claimed = "not less" // than minus the margin
)

// Comparison is one of a design's family.
type Comparison struct {
	Name    string
	Claimed Claimed
	// Differences of two arms, part by part and seed by seed, are positive where the claim says so.
	// Most comparisons have one part. Of several, such as one for each language, a claim holds if
	// all show it, each at the whole level (intersection-union, Berger 1982), and fails if one
	// refutes it, at its share of the level (Bonferroni).
	Differences [][]float64
	Margin      float64 // in the unit of the differences: less does not matter; 0: any difference does
	Test        Test
	Gates       []Gate
}

// Gate is a condition without which a comparison shows nothing.
type Gate struct {
	Condition string // in words, such as "small beats the dictionary"
	Passed    Passed
}

// Passed is whether a condition holds by all that is known.
type Passed int

const (
	Unknown Passed = iota
	No
	Yes
)

// Result is the verdict of a comparison and what it rests on.
type Result struct {
	Name    string
	Verdict Verdict
	Why     string // of Open and CannotTell

	Seeds     int     // that count: of the last complete look
	Mean, SD  float64 // of the part that is the least as claimed, or that refutes the claim
	Low, High float64 // the interval of its mean at Level
	Level     float64 // of this comparison at this look: its interval has confidence 1 - Level
	P         float64 // the least level at which it would be decided
	// Detectable is the least difference that this look at this level shows to be beyond the
	// margin (of NotLess: above minus the margin) in 80% of repetitions, if the standard error is
	// as estimated, by Student's t, which is near enough for SignFlip; of Sign it is exact, if no difference is 0.
	Detectable float64

	part    int     // that Mean is of
	leans   Verdict // what it is at a level of P or more
	refutes int     // the part that refutes the claim at the least level
}

// power is how often an effect of Detectable would be seen.
const power = 0.8

// Judge gives each comparison of a family its verdict, at a level between 0 and 1 and looks from 2 seeds on. All have the
// same seeds; what is the same or not less has a margin, and a test of signs neither of these claims nor a margin.
// Comparisons that fail a gate are still of the family: what is left out for its outcome would make the rest look better
// than it is.
func (d Design) Judge(family []Comparison) []Result {
	results := d.decide(family, d.levels())
	for i, c := range family {
		r := &results[i]
		if r.Seeds > 0 {
			r.Detectable = c.detectable(r.part, r.Seeds, r.Level)
		}
		switch {
		case r.Seeds == 0:
			r.Why = fmt.Sprintf("%d seeds of the %d at which the design looks first", c.seeds(), d.Looks[0])
		case r.Verdict == Open:
			r.Why = fmt.Sprintf("an effect below %.3g could not be seen", r.Detectable)
		}
		if why := incompetent(c.Gates); why != "" {
			r.Verdict, r.Why = CannotTell, why
		}
	}
	return results
}

// detectable is what Result.Detectable is of a part's first n differences, at a level.
func (c Comparison) detectable(part, n int, level float64) float64 {
	if c.Test == Sign {
		return detectableSigns(n, level)
	}
	_, t, se := c.student(part, n)
	seen := se * noncentrality(t.Nu, t.Quantile(1-level/2))
	if c.Claimed == NotLess {
		return seen - c.Margin
	}
	return seen + c.Margin
}

// Sight is what seeds can see of a comparison, whatever came out.
type Sight struct {
	SD         float64 // of the part whose differences vary the most
	Detectable float64 // as Result's
}

// Sights are of the first n seeds of a family, at the level of that look over the number of comparisons.
func (d Design) Sights(family []Comparison, n int) []Sight {
	level := d.levels()[slices.Index(d.Looks, n)] / float64(len(family))
	var all []Sight
	for _, c := range family {
		s, most := Sight{}, 0
		for i, differences := range c.Differences {
			if _, sd := stats.MeanAndSD(differences[:n]); sd > s.SD {
				s.SD, most = sd, i
			}
		}
		s.Detectable = c.detectable(most, n, level)
		all = append(all, s)
	}
	return all
}

// seeds are as many as each part has.
func (c Comparison) seeds() int { return len(c.Differences[0]) }

// decide is Judge without gates and words, with the levels of the looks.
func (d Design) decide(family []Comparison, levels []float64) []Result {
	results := make([]Result, len(family))
	var open []int // not decided yet
	for i, c := range family {
		results[i], open = Result{Name: c.Name, Verdict: Open, P: 1}, append(open, i)
	}
	for look, n := range d.Looks {
		if len(family) == 0 || n > family[0].seeds() {
			break
		}
		for _, i := range open {
			results[i] = family[i].estimate(n)
		}
		// Holm: the least p is held against the level divided by the number of those that are
		// open, and so on until one fails. What was decided at a look before stays decided.
		slices.SortStableFunc(open, func(i, j int) int { return cmp.Compare(results[i].P, results[j].P) })
		for len(open) > 0 {
			i := open[0]
			r := &results[i]
			r.at(levels[look]/float64(len(open)), family[i])
			if r.P > r.Level {
				break
			}
			r.Verdict, open = r.leans, open[1:]
			// One part refutes, at its share of the level: its interval and its p are shown.
			if c := family[i]; r.Verdict == Disagrees && len(c.Differences) > 1 {
				r.part = r.refutes
				r.Mean, r.SD = stats.MeanAndSD(c.Differences[r.part][:n])
				r.P /= float64(len(c.Differences))
				r.at(r.Level/float64(len(c.Differences)), c)
			}
		}
		// Those after the one that failed stay open, also where their own intervals would do.
		for _, i := range open {
			results[i].at(levels[look]/float64(len(open)), family[i])
		}
	}
	return results
}

// incompetent is why gates are not passed; "": they are.
func incompetent(gates []Gate) string {
	var failed, unknown []string
	for _, g := range gates {
		switch g.Passed {
		case No:
			failed = append(failed, g.Condition)
		case Unknown:
			unknown = append(unknown, g.Condition)
		}
	}
	switch {
	case failed != nil:
		return "not competent: a condition is not met: " + strings.Join(failed, ", and ")
	case unknown != nil:
		return "not shown competent: a condition is not known to be met: " + strings.Join(unknown, ", and ")
	}
	return ""
}

// estimate summarises the first n differences of a comparison. Its p is the least level at which
// an interval lies where one of the verdicts is.
func (c Comparison) estimate(n int) Result {
	r := Result{Name: c.Name, Verdict: Open, Seeds: n}
	agrees, disagrees, neither := 0.0, 1.0, 0.0
	least := 0.0
	for i, differences := range c.Differences {
		mean, sd := stats.MeanAndSD(differences[:n])
		if c.Test == Sign {
			mean = newSigns(differences[:n]).mean()
		}
		in := c.interval(i, n)
		notLess, notMore := in.above(-c.Margin), in.below(c.Margin)
		within, above, below := max(notLess, notMore), in.above(c.Margin), in.below(-c.Margin)
		claimed, refuted := mean, below
		switch c.Claimed {
		case Same:
			agrees, neither = max(agrees, within), 1
			claimed, refuted = -math.Abs(mean), min(above, below)
		case NotLess:
			agrees, neither = max(agrees, notLess), 1
		default:
			agrees, neither = max(agrees, above), max(neither, within)
		}
		if refuted < disagrees {
			disagrees, r.refutes = refuted, i
		}
		if i == 0 || claimed < least {
			r.Mean, r.SD, r.part, least = mean, sd, i, claimed
		}
	}
	disagrees = min(1, disagrees*float64(len(c.Differences)))
	r.P = min(agrees, disagrees, neither)
	switch r.P {
	case agrees:
		r.leans = Agrees
	case disagrees:
		r.leans = Disagrees
	default:
		r.leans = NoDifference
	}
	return r
}

// student returns the mean of a part's first n differences, its distribution in units of its
// standard error, and this.
func (c Comparison) student(part, n int) (mean float64, t distuv.StudentsT, se float64) {
	mean, sd := stats.MeanAndSD(c.Differences[part][:n])
	return mean, distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}, sd / math.Sqrt(float64(n))
}

// at sets the interval at a level.
func (r *Result) at(level float64, c Comparison) {
	r.Level = level
	r.Low, r.High = c.interval(r.part, r.Seeds).ends(level)
}

// noncentrality is how many standard errors an effect must have to exceed a critical value with
// probability power, where the standard error is estimated with some degrees of freedom.
func noncentrality(degrees, critical float64) float64 {
	errors := make([]float64, 200) // quantiles of the estimate, in units of the true standard error
	for i := range errors {
		errors[i] = math.Sqrt(2 * mathext.GammaIncRegInv(degrees/2, (float64(i)+0.5)/float64(len(errors))) / degrees)
	}
	lo, hi := 0.0, 1.0
	for exceeds(errors, critical, hi) < power {
		lo, hi = hi, 2*hi
	}
	for hi-lo > 1e-6*hi {
		if mid := (lo + hi) / 2; exceeds(errors, critical, mid) < power {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// exceeds is the probability that an effect in standard errors, with its error and over an
// estimated standard error, exceeds a critical value (the noncentral t distribution).
func exceeds(errors []float64, critical, effect float64) (p float64) {
	for _, e := range errors {
		p += distuv.UnitNormal.Survival(critical*e-effect) / float64(len(errors))
	}
	return p
}
