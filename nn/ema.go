package nn

import (
	"fmt"

	"gpipebench/internal/kernel"
)

// EMA is an exponential moving average of weights, with which AmoebaNet is
// evaluated, as tf.train.ExponentialMovingAverage computes it:
//
//	average += (1 - d_t) (w - average)
//
// after the update of each step t = 1, 2, ..., where d_t = min(Decay,
// (1+t)/(10+t)). TensorFlow calls this num_updates; it keeps the initial
// weights from dominating the average for 1/(1-Decay) steps. The average starts
// from the initial weights. The zero value keeps no average.
type EMA struct {
	Decay    float64 // in [0, 1); 0: no average is kept
	Constant bool    // d_t is Decay from the first step on
}

// Kept reports whether an average is kept.
func (e EMA) Kept() bool { return e.Decay != 0 }

// At returns d_t, for t from 1.
func (e EMA) At(step int) float64 {
	if e.Constant {
		return e.Decay
	}
	return min(e.Decay, float64(1+step)/float64(10+step))
}

// Update moves the average, element by element, after the update of the given
// step, which counts from 1.
func (e EMA) Update(average, w []float32, step int) {
	kernel.Average(average, w, float32(1-e.At(step)))
}

// Validate reports a decay that is out of range.
func (e EMA) Validate() error {
	if !(e.Decay >= 0 && e.Decay < 1) {
		return fmt.Errorf("moving average with a decay of %v: want at least 0 (0: none) and less than 1", e.Decay)
	}
	return nil
}
