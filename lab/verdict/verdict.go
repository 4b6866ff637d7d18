// Package verdict says what the comparisons of a registered design show.
//
// There is one rule for all that is measured over seeds. Competence comes first: a network that a
// dictionary beats shows nothing about networks. Then the confidence interval of the mean
// difference is held against the margin that was registered with the design:
//
//	above the margin               Agrees        the difference is as claimed, and more than the margin
//	below minus the margin         Disagrees     it is the other way round
//	within both                    NoDifference  it is smaller than the margin (two one-sided tests, Schuirmann 1987)
//	anything else                  Open          an effect below Detectable could not be seen
//
// A point estimate never decides. The comparisons of a design are one family: the level of each
// interval is Holm's (1979), so that the probability of one false verdict or more is at most the
// level of the family. Verdicts may be read at the looks that the design names alone, and the level
// is spent over these as Lan and DeMets (1983) do it for O'Brien and Fleming's boundaries, so that
// looking early costs next to nothing at the end.
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
	Level  float64 // of the family: 0.05
	Margin float64 // in the unit of the differences: less does not matter; 0: any difference does
	Looks  []int   // the numbers of seeds at which verdicts may be read, ascending
}

// Comparison is one of a design's family: the differences of two arms, seed by seed, positive
// where the claim says so.
type Comparison struct {
	Name        string
	Differences []float64
	// Items is the variance of the mean difference that comes from the choice of test items, as
	// sentences or images: the variance of their differences, each averaged over seeds, divided
	// by their number. It is 0 if all that could be drawn are in the test.
	Items float64
	Gates []Gate
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

	Seeds     int // that count: of the last complete look
	Mean, SD  float64
	Low, High float64 // the interval at Level
	Level     float64 // of this comparison at this look: its interval has confidence 1 - Level
	P         float64 // the least level at which it would be decided
	// Detectable is the least difference that this look at this level shows to be beyond the
	// margin in 80% of repetitions, if the standard error is as estimated.
	Detectable float64
}

// power is how often an effect of Detectable would be seen.
const power = 0.8

// Judge gives each comparison of a family its verdict. All must have the same seeds. Comparisons
// that fail a gate are still of the family: what is left out for its outcome would make the rest
// look better than it is.
func (d Design) Judge(family []Comparison) ([]Result, error) {
	if d.Level <= 0 || d.Level >= 1 || d.Margin < 0 || len(d.Looks) == 0 || d.Looks[0] < 2 || !ascending(d.Looks) {
		return nil, fmt.Errorf("level %g, margin %g, looks %v: want a level between 0 and 1, a margin of 0 or more and ascending looks from 2 seeds", d.Level, d.Margin, d.Looks)
	}
	for _, c := range family {
		if n := len(family[0].Differences); len(c.Differences) != n {
			return nil, fmt.Errorf("%s has %d seeds and %s %d: want one number in a family", family[0].Name, n, c.Name, len(c.Differences))
		}
	}
	results := d.decide(family, d.levels())
	for i, c := range family {
		r := &results[i]
		if r.Seeds > 0 {
			t, se := c.student(r.Seeds)
			r.Detectable = d.Margin + se*noncentrality(t.Nu, t.Quantile(1-r.Level/2))
		}
		switch {
		case r.Seeds == 0:
			r.Why = fmt.Sprintf("%d seeds of the %d at which the design looks first", len(c.Differences), d.Looks[0])
		case r.Verdict == Open:
			r.Why = fmt.Sprintf("an effect below %.3g could not be seen", r.Detectable)
		}
		if why := incompetent(c.Gates); why != "" {
			r.Verdict, r.Why = CannotTell, why
		}
	}
	return results, nil
}

func ascending(looks []int) bool {
	return slices.IsSorted(looks) && len(slices.Compact(slices.Clone(looks))) == len(looks)
}

// decide is Judge without gates and words, with the levels of the looks.
func (d Design) decide(family []Comparison, levels []float64) []Result {
	results := make([]Result, len(family))
	var open []int // not decided yet
	for i, c := range family {
		results[i], open = Result{Name: c.Name, Verdict: Open, P: 1}, append(open, i)
	}
	for look, n := range d.Looks {
		if len(family) == 0 || n > len(family[0].Differences) {
			break
		}
		for _, i := range open {
			results[i] = d.estimate(family[i], n)
		}
		// Holm: the least p is held against the level divided by the number of those that are
		// open, and so on until one fails. What was decided at a look before stays decided.
		slices.SortStableFunc(open, func(i, j int) int { return cmp.Compare(results[i].P, results[j].P) })
		for len(open) > 0 {
			r := &results[open[0]]
			if r.Verdict = r.at(levels[look]/float64(len(open)), family[open[0]], d.Margin); r.Verdict == Open {
				break
			}
			open = open[1:]
		}
		// Those after the one that failed stay open, also where their own intervals would do.
		for _, i := range open {
			results[i].at(levels[look]/float64(len(open)), family[i], d.Margin)
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
		return "not competent: it does not hold that " + strings.Join(failed, ", nor that ")
	case unknown != nil:
		return "not shown competent: it is not known whether " + strings.Join(unknown, ", nor whether ")
	}
	return ""
}

// estimate summarises the first n differences of a comparison.
func (d Design) estimate(c Comparison, n int) Result {
	r := Result{Name: c.Name, Verdict: Open, Seeds: n}
	r.Mean, r.SD = stats.MeanAndSD(c.Differences[:n])
	t, se := c.student(n)
	outside := func(by float64) float64 {
		switch {
		case se > 0:
			return 2 * t.Survival(by/se)
		case by > 0:
			return 0
		}
		return 1
	}
	r.P = min(1, outside(r.Mean-d.Margin), outside(-d.Margin-r.Mean), outside(d.Margin-math.Abs(r.Mean)))
	return r
}

// student returns the distribution of the mean of the first n differences in units of its standard
// error, and this. The variance of items has no error here, so that both together have more degrees
// of freedom than seeds alone (Satterthwaite 1946).
func (c Comparison) student(n int) (distuv.StudentsT, float64) {
	_, sd := stats.MeanAndSD(c.Differences[:n])
	seeds := sd * sd / float64(n)
	variance := seeds + c.Items
	degrees := float64(n - 1)
	if seeds > 0 {
		degrees = min(degrees*variance*variance/(seeds*seeds), 1e6)
	} else if c.Items > 0 {
		degrees = 1e6
	}
	return distuv.StudentsT{Sigma: 1, Nu: degrees}, math.Sqrt(variance)
}

// at sets the interval at a level, and returns what it shows.
func (r *Result) at(level float64, c Comparison, margin float64) Verdict {
	t, se := c.student(r.Seeds)
	half := 0.0
	if se > 0 {
		half = t.Quantile(1-level/2) * se
	}
	r.Level, r.Low, r.High = level, r.Mean-half, r.Mean+half
	switch {
	case r.Low > margin:
		return Agrees
	case r.High < -margin:
		return Disagrees
	case r.Low > -margin && r.High < margin:
		return NoDifference
	}
	return Open
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
