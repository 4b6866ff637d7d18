package nn

import (
	"math"

	"gpipebench/internal/kernel/exactmath"
)

// Schedules are pure functions of the step, which counts from 1. Base is the
// rate that a schedule starts from, or climbs to.

// ConstantLR is one rate for all steps.
type ConstantLR float64

func (r ConstantLR) Rate(int) float64 { return float64(r) }

// WarmUpLR climbs linearly to the first rate of Then in Steps steps and
// continues with Then, whose steps count from the end of the warm-up (Goyal et
// al. 2017, section 2.2).
type WarmUpLR struct {
	Steps int // 0: no warm-up
	Then  LRSchedule
}

func (w WarmUpLR) Rate(step int) float64 {
	if step < w.Steps {
		return w.Then.Rate(1) * float64(step) / float64(w.Steps)
	}
	// The last step of the warm-up is the first of what follows.
	return w.Then.Rate(step - max(w.Steps, 1) + 1)
}

// InverseSqrtLR climbs linearly for WarmUp steps and then falls with the
// inverse square root of the step (Vaswani et al. 2017, section 5.3).
type InverseSqrtLR struct {
	Base   float64
	WarmUp int // at least 1
	// Dim is the width of the model in the paper's formula,
	// Base * Dim^-0.5 * min(step^-0.5, step * WarmUp^-1.5); 0 is the plain form,
	// whose highest rate, at step WarmUp, is Base.
	Dim int
}

func (r InverseSqrtLR) Rate(step int) float64 {
	s, w := float64(step), float64(r.WarmUp)
	rate := r.Base * min(1/math.Sqrt(s), s/(w*math.Sqrt(w)))
	if r.Dim > 0 {
		return rate / math.Sqrt(float64(r.Dim))
	}
	return rate * math.Sqrt(w)
}

// ExponentialLR multiplies the rate by Factor every Every steps: at once if
// Staircase, as in AmoebaNet's training, else a little at each step.
type ExponentialLR struct {
	Base, Factor float64 // Factor in (0, 1]
	Every        int     // at least 1
	Staircase    bool
}

func (r ExponentialLR) Rate(step int) float64 {
	periods := float64(step-1) / float64(r.Every)
	if r.Staircase {
		periods = math.Floor(periods)
	}
	return r.Base * exactmath.Pow(r.Factor, periods)
}

// PolynomialLR falls from Base to Final in Steps steps, by what is left of them to the
// given Power, and stays there. With a power of 2 after a warm-up it is the schedule of
// LARS (You et al. 2017, section 5; tf.train.polynomial_decay in MLPerf's ResNet-50).
type PolynomialLR struct {
	Base, Final, Power float64 // Power is more than 0
	Steps              int     // at least 1
}

func (r PolynomialLR) Rate(step int) float64 {
	left := max(1-float64(step-1)/float64(r.Steps), 0)
	return r.Final + float64((r.Base-r.Final)*exactmath.Pow(left, r.Power))
}

// CosineLR falls from Base to Final along half a cosine in Steps steps and
// stays there (Loshchilov and Hutter 2017, equation 5, without restarts).
type CosineLR struct {
	Base, Final float64
	Steps       int // at least 1
}

func (r CosineLR) Rate(step int) float64 {
	done := min(float64(step-1)/float64(r.Steps), 1)
	return r.Final + float64((r.Base-r.Final)*(1+exactmath.Cos(math.Pi*done))/2)
}
