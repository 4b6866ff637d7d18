package trained

import (
	"math"

	"gpipebench/internal/stats"
)

// Comparison is an arm's accuracies beside a baseline's, in percentage points and paired by
// seed.
type Comparison struct {
	stats.Paired
	Equivalent float64 // p value of equivalence at the margin
	Within     int     // runs within two standard deviations of the baseline's mean
	MeanWithin bool    // the mean is within them
}

// Compare compares accuracies, those of one seed at the same place of both.
func Compare(own, base []float64, margin float64) Comparison {
	c := Comparison{Paired: stats.Pairs(own, base)}
	c.Equivalent = c.Paired.Equivalence(margin)
	center, sd := stats.MeanAndSD(base)
	inside := func(x float64) bool { return math.Abs(x-center) <= 2*sd }
	for _, x := range own {
		if inside(x) {
			c.Within++
		}
	}
	mean, _ := stats.MeanAndSD(own)
	c.MeanWithin = inside(mean)
	return c
}

// Outcomes of a comparison.
const (
	equivalent   = "equivalent"
	notEqual     = "equivalent, though not equal"
	inconclusive = "inconclusive"
	different    = "different"
)

// Says is the outcome in words: what was shown, and if nothing, that. Both may
// be seen at once: a difference that is not 0 and is within the margin.
func (c Comparison) Says(level float64) string {
	differs := c.Sign() != 0
	switch {
	case c.Equivalent < level && differs:
		return notEqual
	case c.Equivalent < level:
		return equivalent
	case differs:
		return different
	}
	return inconclusive
}
