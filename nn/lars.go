package nn

import (
	"cmp"

	"gpipebench/internal/kernel"
)

// LARS is layer-wise adaptive rate scaling (You, Gitman and Ginsburg, arXiv 1708.03888)
// with weight decay L2, in the two forms of Kumar et al. (Scale MLPerf-0.6 models on
// Google TPU-v3 Pods, Figures 5 and 6). With g the gradient of a parameter w, after
// clipping:
//
//	ratio = Trust * |w| / (|g| + L2*|w| + Eps)
//
//	scaled (Figure 5):                unscaled (Figure 6):
//	v  = Momentum*v + (g + L2*w)      v  = Momentum*v + rate*ratio*(g + L2*w)
//	w -= rate*ratio*v                 w -= v
//
// The figures have no rate of the schedule; there it is part of their coefficient. Where
// |w| or |g| is 0 the ratio is 1, as in TensorFlow 1's LARSOptimizer. So it is for
// parameters with NoDecay (biases, gains and offsets of norms), which have no L2 either.
// The zero value is the scaled form with the hyper-parameters of MLPerf's ResNet-50.
type LARS struct {
	Unscaled bool
	Momentum float32 // in [0, 1); 0: 0.9
	Trust    float64 // the LARS coefficient, not negative; 0: 0.001
	Eps      float64 // not negative; 0: none, as in MLPerf
}

// Name is "lars" or "lars-unscaled".
func (o LARS) Name() string {
	if o.Unscaled {
		return "lars-unscaled"
	}
	return "lars"
}

// Slots is the velocity.
func (o LARS) Slots() []string { return []string{"velocity"} }

// ReadsNorms makes LARS a LayerWise optimiser.
func (o LARS) ReadsNorms() {}

func (o LARS) Update(u Update) {
	rate := float32(float64(u.LR) * o.ratio(u))
	momentum := cmp.Or(o.Momentum, 0.9)
	if o.Unscaled {
		kernel.Momentum(u.W, u.State[0], u.G, 1, momentum, rate*u.Scale, rate*u.L2, false)
		return
	}
	kernel.Momentum(u.W, u.State[0], u.G, rate, momentum, u.Scale, u.L2, false)
}

// ratio is the factor of the schedule's rate.
func (o LARS) ratio(u Update) float64 {
	if u.NoDecay || u.Norms.W == 0 || u.Norms.G == 0 {
		return 1
	}
	return cmp.Or(o.Trust, 0.001) * u.Norms.W / (float64(float64(u.Scale)*u.Norms.G) + float64(float64(u.L2)*u.Norms.W) + o.Eps)
}

func (o LARS) Validate() error {
	return cmp.Or(wantShare(o.Name(), "Momentum", o.Momentum, "0.9"),
		wantNotNegative(o.Name(), "Trust", o.Trust, " (0: 0.001)"), wantNotNegative(o.Name(), "Eps", o.Eps, ""))
}
