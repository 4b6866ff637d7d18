package verdict

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Test is how the interval of a mean difference is made. The zero value is Student's t.
type Test string

const (
	Student Test = ""
	// SignFlip takes nothing for granted but that differences are as likely above their centre as the
	// same distance below it, for scores that are not nearly normal, such as rank correlations. If the
	// centre is x, each of the 2^n ways to flip the signs of the differences from x is equally likely, so that
	// the means of all subsets of the differences divide the line into 2^n equally likely parts
	// (Hartigan, JASA 64, 1969). It counts seeds alone, up to mostFlipped.
	SignFlip Test = "sign-flip"
	// Sign counts only which differences are above 0 and which below it, exactly; those that are 0 do not
	// count. Of differences between outcomes that are 0 or 1 it is McNemar's test. The differences are 1, 0 and -1:
	// see Signs.
	Sign Test = "sign"
)

// mostFlipped bounds the seeds whose subsets are listed.
const mostFlipped = 20

// interval is what is known of a mean: at every level an interval that has it with probability
// 1 - level.
type interval interface {
	// above is the least level at which the interval lies above x, and below at which it lies below
	// x; 1: there is none.
	above(x float64) float64
	below(x float64) float64
	ends(level float64) (low, high float64)
}

// interval estimates the mean of a part's first n differences.
func (c Comparison) interval(part, n int) interval {
	switch c.Test {
	case SignFlip:
		return newFlips(c.Differences[part][:n])
	case Sign:
		return newSigns(c.Differences[part][:n])
	}
	mean, t, se := c.student(part, n)
	return student{t, mean, se}
}

// student is the interval by Student's t.
type student struct {
	t        distuv.StudentsT
	mean, se float64
}

func (s student) above(x float64) float64 { return s.outside(s.mean - x) }
func (s student) below(x float64) float64 { return s.outside(x - s.mean) }

// outside is the least level of an interval that ends this far from the mean.
func (s student) outside(by float64) float64 {
	switch {
	case s.se > 0:
		return min(1, 2*s.t.Survival(by/s.se))
	case s.se == 0 && by > 0:
		return 0
	}
	return 1
}

func (s student) ends(level float64) (low, high float64) {
	half := 0.0
	if s.se != 0 { // not a number where a difference is not finite
		half = s.t.Quantile(1-level/2) * s.se
	}
	return s.mean - half, s.mean + half
}

// flips are the means of all subsets of differences but the empty one, in ascending order; none if one is
// not a number.
type flips []float64

func newFlips(differences []float64) flips {
	sums := []float64{0} // of the subsets of the differences so far
	sizes := []float64{0}
	for _, d := range differences {
		for i := range len(sums) {
			sums, sizes = append(sums, sums[i]+d), append(sizes, sizes[i]+1)
		}
	}
	means := sums[1:]
	for i := range means {
		means[i] /= sizes[i+1]
	}
	if slices.Sort(means); math.IsNaN(means[0]) {
		return nil // nothing is known
	}
	return means
}

func (f flips) above(x float64) float64 {
	at, _ := slices.BinarySearchFunc(f, x, func(mean, x float64) int {
		if mean <= x {
			return -1
		}
		return 1
	})
	return f.level(at)
}

func (f flips) below(x float64) float64 {
	at, _ := slices.BinarySearch(f, x)
	return f.level(len(f) - at)
}

// level is twice the share of the parts of the line, when as many means lie on the other side of x.
func (f flips) level(others int) float64 {
	return min(1, 2*float64(1+others)/float64(1+len(f)))
}

func (f flips) ends(level float64) (low, high float64) {
	beyond := int(level / 2 * float64(1+len(f)))
	if beyond == 0 {
		return math.Inf(-1), math.Inf(1)
	}
	return f[beyond-1], f[len(f)-beyond]
}

// CheckFlips refuses looks at which sign flips cannot decide one of as many comparisons.
func (d Design) CheckFlips(comparisons int) error {
	for i, level := range d.levels() {
		if n := d.Looks[i]; n > mostFlipped || math.Ldexp(2, -n) > level/float64(comparisons) {
			return fmt.Errorf("sign flips of %d seeds, %d comparisons: want up to %d seeds, and at every look so many that 2 in 2^n is at most its level over the comparisons, %.2g", n, comparisons, mostFlipped, level/float64(comparisons))
		}
	}
	return nil
}
