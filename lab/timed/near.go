package timed

import (
	"fmt"
	"math"
	"slices"

	"gpipebench/internal/stats"
)

// Repetition shows how well a machine repeats a measurement: times over their median.
func Repetition(times []float64) stats.Ratio {
	return stats.RatioOf(times, slices.Repeat([]float64{stats.Median(times)}, len(times)))
}

// NearOne reports whether a ratio to the emulated step is near 1: yes, no, or noisy
// if the rounds do not show it. Noisy needs two things, so that a wrong model fails on
// a noisy machine too, and a slightly wrong one on a quiet machine: the ratio's
// interval reaches within the percentage, and the emulated step's own interval reaches
// as far from its median.
func NearOne(x, emulated stats.Ratio, percent float64) string {
	near := percent / 100
	switch {
	case math.Abs(x.Median-1) <= near:
		return "yes"
	case x.Known && x.Lo <= 1+near && x.Hi >= 1-near && max(emulated.Hi-1, 1-emulated.Lo) > near:
		return "noisy"
	}
	return "no"
}

// Reach is how many ratios are near 1, and how far off the worst is.
type Reach struct {
	of, within int
	worst      float64
}

// Add counts a ratio; percent is how far from 1 is near.
func (r *Reach) Add(x stats.Ratio, percent float64) {
	off := math.Abs(x.Median - 1)
	r.of++
	if off <= percent/100 {
		r.within++
	}
	r.worst = max(r.worst, off)
}

func (r Reach) String() string {
	return fmt.Sprintf("%d of %d, the worst off by %.1f%%", r.within, r.of, 100*r.worst)
}
