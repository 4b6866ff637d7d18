package nn

import (
	"fmt"
	"math"
)

// Optimizer updates one parameter after another, in place. Implementations are
// plain structs of hyper-parameters; all state is in the device's memory.
type Optimizer interface {
	// Name is "sgd", "adam", ...
	Name() string
	// Slots names the state tensors of a parameter's size that the device keeps
	// for each parameter, zero at the start unless the optimiser is a
	// StateInitializer.
	Slots() []string
	// Update applies one mini-batch's gradient.
	Update(u Update)
	// Validate reports a hyper-parameter that is out of range.
	Validate() error
}

// StateInitializer is implemented by an optimiser whose state does not start
// from zero.
type StateInitializer interface {
	// InitState is the initial value of every element of a slot.
	InitState(slot int) float32
}

// LayerWise is implemented by an optimiser that adapts the rate of each parameter to
// the norms of its values and of its gradient, such as [LARS]. Update.Norms has them.
type LayerWise interface {
	Optimizer
	// ReadsNorms says that Update reads Norms.
	ReadsNorms()
}

// Norms are Euclidean norms over all elements of a parameter.
type Norms struct {
	W float64 // of the values before the update
	G float64 // of the gradient, before Scale and without L2
}

// Update is one parameter (or a piece of it: given the norms of the whole, updates are
// element-wise) and what the optimiser needs for its update.
type Update struct {
	W, G    []float32
	State   [][]float32 // as Optimizer.Slots names them
	Step    int         // 1 for the first update
	LR      float32
	Scale   float32 // factor of G, applied first: 1, or less where the global norm is clipped
	L2      float32 // L2*W is added to the scaled gradient; 0 for parameters with NoDecay
	NoDecay bool    // a bias, or the gain or offset of a norm: no decoupled weight decay, and no rate of its own
	Norms   Norms   // of the whole parameter, for a LayerWise optimiser unless NoDecay; else zero
}

// LRSchedule gives the learning rate of an update.
type LRSchedule interface {
	// Rate is the rate of update step, which counts from 1.
	Rate(step int) float64
}

// wantShare checks a hyper-parameter in [0, 1), of which 0 means instead.
func wantShare(optimizer, field string, v float32, instead string) error {
	if v >= 0 && v < 1 {
		return nil
	}
	return fmt.Errorf("%s: %s is %v, want at least 0 (0: %s) and less than 1", optimizer, field, v, instead)
}

// wantNotNegative checks a hyper-parameter without an upper limit.
func wantNotNegative[T float32 | float64](optimizer, field string, v T, zero string) error {
	if v >= 0 && !math.IsInf(float64(v), 1) {
		return nil
	}
	return fmt.Errorf("%s: %s is %v, want at least 0%s", optimizer, field, v, zero)
}
