package nn

// Optimizer updates one parameter after another, in place. Implementations are
// plain structs of hyper-parameters; all state lies in the device's memory.
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
	// InitState is what every element of a slot starts from.
	InitState(slot int) float32
}

// InitState makes a slot of an optimiser's state, all zeros so far, what it
// starts from.
func InitState(o Optimizer, slot int, state []float32) {
	s, ok := o.(StateInitializer)
	if !ok {
		return
	}
	if v := s.InitState(slot); v != 0 { // else its pages stay untouched
		for i := range state {
			state[i] = v
		}
	}
}

// Update is one parameter (or a piece of it: updates are element-wise) and
// what the optimiser needs to move it.
type Update struct {
	W, G    []float32
	State   [][]float32 // as Optimizer.Slots names them
	Step    int         // 1 for the first update
	LR      float32
	Scale   float32 // multiplies G first: 1, or what clips the global norm
	L2      float32 // adds L2*W to the scaled gradient; 0 for parameters with NoDecay
	NoDecay bool    // no decoupled weight decay
}

// LRSchedule gives the learning rate of an update.
type LRSchedule interface {
	// Rate is the rate of update step, which counts from 1.
	Rate(step int) float64
}
