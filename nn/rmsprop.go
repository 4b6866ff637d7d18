package nn

import (
	"cmp"

	"gpipebench/internal/kernel"
)

// RMSProp is the optimiser of Tieleman and Hinton (2012) with momentum, in the
// form of TensorFlow 1 (tf.train.RMSPropOptimizer), with which AmoebaNet was
// trained:
//
//	ms  = Decay*ms + (1-Decay)*g²
//	mom = Momentum*mom + rate*g / sqrt(ms + Eps)
//	w  -= mom
//
// Eps is inside the root, the mean of squares starts from one, and the rate
// enters the momentum. In PyTorch Eps is outside the root, the mean starts from
// zero, and the rate is outside the momentum. The zero value has the
// hyper-parameters of AmoebaNet's published training program
// (models/official/amoeba_net of tensorflow/tpu).
type RMSProp struct {
	Decay    float32 // of the mean of squares, in [0, 1); 0: 0.9
	Momentum float32 // in [0, 1); 0: 0.9
	Eps      float32 // added under the root, not negative; 0: 1
}

func (o RMSProp) Name() string { return "rmsprop" }

// Slots are the mean of squares and the momentum.
func (o RMSProp) Slots() []string { return []string{"mean_square", "momentum"} }

// InitState is one for the mean of squares.
func (o RMSProp) InitState(slot int) float32 {
	if slot == 0 {
		return 1
	}
	return 0
}

func (o RMSProp) Update(u Update) {
	decay, momentum, eps := cmp.Or(o.Decay, 0.9), cmp.Or(o.Momentum, 0.9), cmp.Or(o.Eps, 1)
	kernel.RMSProp(u.W, u.State[0], u.State[1], u.G, u.LR, decay, momentum, eps, u.Scale, u.L2)
}

func (o RMSProp) Validate() error {
	return cmp.Or(wantShare("rmsprop", "Decay", o.Decay, "0.9"), wantShare("rmsprop", "Momentum", o.Momentum, "0.9"),
		wantNotNegative("rmsprop", "Eps", o.Eps, " (0: 1)"))
}
