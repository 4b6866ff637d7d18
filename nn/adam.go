package nn

import (
	"cmp"

	"gpipebench/internal/kernel"
	"gpipebench/internal/kernel/exactmath"
)

// Adam is the optimiser of Kingma and Ba (2015, algorithm 1), and AdamW of
// Loshchilov and Hutter (2019) if WeightDecay is not 0. The zero value has the
// paper's hyper-parameters.
type Adam struct {
	Beta1 float32 // decay of the mean of gradients, in [0, 1); 0: 0.9
	Beta2 float32 // decay of the mean of their squares, in [0, 1); 0: 0.999
	Eps   float32 // added to the root, not negative; 0: 1e-8

	// WeightDecay is decoupled: each step first shrinks the weight by the
	// rate times it. Not negative; 0: none.
	WeightDecay float32
}

// Name is "adam", or "adamw" with weight decay.
func (o Adam) Name() string {
	if o.WeightDecay != 0 {
		return "adamw"
	}
	return "adam"
}

// Slots are the means of the gradient and of its square.
func (o Adam) Slots() []string { return []string{"mean", "mean_square"} }

func (o Adam) Update(u Update) {
	beta1, beta2, eps := cmp.Or(o.Beta1, 0.9), cmp.Or(o.Beta2, 0.999), cmp.Or(o.Eps, 1e-8)
	decay := o.WeightDecay
	if u.NoDecay {
		decay = 0
	}
	// The corrections use the rounded betas, as the means do.
	bias1 := float32(1 - exactmath.Pow(float64(beta1), float64(u.Step)))
	bias2 := float32(1 - exactmath.Pow(float64(beta2), float64(u.Step)))
	kernel.Adam(u.W, u.State[0], u.State[1], u.G, u.LR, beta1, beta2, eps, bias1, bias2, u.Scale, u.L2, decay)
}

func (o Adam) Validate() error {
	return cmp.Or(wantShare("adam", "Beta1", o.Beta1, "its default"), wantShare("adam", "Beta2", o.Beta2, "its default"),
		wantNotNegative("adam", "Eps", o.Eps, " (0: 1e-8)"), wantNotNegative("adam", "WeightDecay", o.WeightDecay, ""))
}
