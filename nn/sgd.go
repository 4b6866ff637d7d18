package nn

import (
	"fmt"

	"gpipebench/internal/kernel"
)

// SGD is stochastic gradient descent, with momentum if that is not 0. The zero
// value has no momentum.
//
// The velocity is v = Momentum*v + g, without the rate: w -= rate*v, or with
// Nesterov w -= rate*(g + Momentum*v) (Sutskever et al. 2013).
type SGD struct {
	Momentum float32 // in [0, 1)
	Nesterov bool    // needs Momentum
}

func (o SGD) Name() string { return "sgd" }

// Slots is the velocity if there is momentum, else empty.
func (o SGD) Slots() []string {
	if o.Momentum == 0 {
		return nil
	}
	return []string{"velocity"}
}

func (o SGD) Update(u Update) {
	if o.Momentum == 0 {
		kernel.SGD(u.W, u.G, u.LR, u.Scale, u.L2)
		return
	}
	kernel.Momentum(u.W, u.State[0], u.G, u.LR, o.Momentum, u.Scale, u.L2, o.Nesterov)
}

func (o SGD) Validate() error {
	if !(o.Momentum >= 0 && o.Momentum < 1) {
		return fmt.Errorf("sgd: momentum %v, want at least 0 and less than 1", o.Momentum)
	}
	if o.Nesterov && o.Momentum == 0 {
		return fmt.Errorf("sgd: Nesterov without momentum, want a momentum above 0")
	}
	return nil
}
