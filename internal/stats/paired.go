package stats

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Paired is the result of n pairs of values for the mean of their differences,
// which are assumed to be normally distributed: Student's t with n-1 degrees of
// freedom.
type Paired struct {
	N        int
	Mean, sd float64 // of the differences; sd is the estimate with n-1
}

// Pairs summarises the differences as[i] - bs[i], of at least one pair.
func Pairs(as, bs []float64) Paired { return Sampled(Differences(as, bs)) }

// Differences returns as[i] - bs[i].
func Differences(as, bs []float64) []float64 {
	ds := make([]float64, len(as))
	for i := range as {
		ds[i] = as[i] - bs[i]
	}
	return ds
}

// Sampled summarises at least one value, in the place of differences.
func Sampled(xs []float64) Paired {
	mean, sd := MeanAndSD(xs)
	return Paired{len(xs), mean, sd}
}

// MeanAndSD returns the mean and the standard deviation of a sample; the latter
// is 0 for a single value.
func MeanAndSD(xs []float64) (mean, sd float64) {
	if len(xs) < 2 {
		return stat.Mean(xs, nil), 0
	}
	return stat.MeanStdDev(xs, nil)
}

// standardError returns the standard error of the mean.
func (p Paired) standardError() float64 { return p.sd / math.Sqrt(float64(p.N)) }

// Interval returns the confidence interval of the mean; ok is false for a
// single pair.
func (p Paired) Interval(confidence float64) (lo, hi float64, ok bool) {
	if p.N < 2 {
		return 0, 0, false
	}
	half := float64(studentQuantile(0.5+float64(confidence/2), p.N-1) * p.standardError())
	return p.Mean - half, p.Mean + half, true
}

// Equivalence returns the p value of two one-sided tests (Schuirmann 1987) of
// the hypothesis that the mean differs from 0 by margin or more, in either
// direction. It is below 5% exactly if the 90% interval is within the margin.
// For a single pair it is 1.
func (p Paired) Equivalence(margin float64) float64 {
	inside := margin - math.Abs(p.Mean) // distance from the nearer end
	switch {
	case p.N < 2:
		return 1
	case p.sd == 0 && inside > 0:
		return 0
	case p.sd == 0:
		return 1
	}
	return student(p.N - 1).Survival(inside / p.standardError())
}

// SmallestMargin returns the smallest margin with that p value for the same
// pairs.
func (p Paired) SmallestMargin(level float64) (margin float64, ok bool) {
	lo, hi, ok := p.Interval(1 - 2*level)
	return max(-lo, hi), ok
}

func student(degrees int) distuv.StudentsT { return distuv.StudentsT{Sigma: 1, Nu: float64(degrees)} }

// studentQuantile returns the p-quantile of Student's t distribution.
func studentQuantile(p float64, degrees int) float64 { return student(degrees).Quantile(p) }

// Sign returns the sign of the mean if its 95% interval does not contain 0,
// else 0.
func (p Paired) Sign() int {
	lo, hi, ok := p.Interval(0.95)
	switch {
	case ok && lo > 0:
		return 1
	case ok && hi < 0:
		return -1
	}
	return 0
}
