package gpipe

import (
	"errors"

	"gpipebench/nn"
)

// The average of the weights (Pipeline.EMA) is one more tensor of a parameter's
// optimiser state. It moves behind every update on the device that owns the
// weight; stages that share a weight move their copies alike.

// stateSlots is the number of tensors of state that a parameter has.
func (n *network) stateSlots() int {
	slots := len(n.Optimizer.Slots())
	if n.EMA.Kept() {
		slots++
	}
	return slots
}

// copies is how often a device holds each of its trained weights: itself, its
// gradient, its state.
func (n *network) copies() int {
	if !n.trains() {
		return 1 + n.stateSlots()
	}
	return 2 + n.stateSlots()
}

// startState makes a weight's state, all zeros so far, what it starts from.
func (n *network) startState(w *weight) {
	for i, state := range w.state[:len(n.Optimizer.Slots())] {
		nn.InitState(n.Optimizer, i, state)
	}
	if n.EMA.Kept() {
		copy(w.average(), w.w)
	}
}

// average is the weight's, if averages are kept.
func (w *weight) average() []float32 { return w.state[len(w.state)-1] }

// Averaged runs f with the averages in the weights' places, to the bit: what f
// evaluates, predicts, hashes or saves is of them. Batch norm's moving averages
// are no weights and stay. Neither Step nor Load is possible meanwhile; behind f
// the weights are what they were. It is an error if no averages are kept.
func (t *Trainer) Averaged(f func() error) error {
	switch {
	case t.broken != nil:
		return t.broken
	case !t.net.EMA.Kept():
		return errors.New("no averages of the weights are kept: want a pipeline with an EMA")
	case t.averaged:
		return errors.New("the averages are in the weights' places already")
	}
	t.swapAverages()
	defer t.swapAverages()
	return f()
}

// swapAverages lets weights and averages change places.
func (t *Trainer) swapAverages() {
	t.averaged = !t.averaged
	for _, d := range t.devices {
		for i := range d.weights {
			w := &d.weights[i]
			average := w.average()
			for j, v := range w.w {
				w.w[j], average[j] = average[j], v
			}
		}
	}
}

// restartAverages makes every average that of the present weights alone.
func (t *Trainer) restartAverages() {
	if !t.net.EMA.Kept() {
		return
	}
	for _, d := range t.devices {
		for i := range d.weights {
			copy(d.weights[i].average(), d.weights[i].w)
		}
	}
}

// trainable refuses to change weights while the averages are in their places.
func (t *Trainer) trainable() error {
	if t.averaged {
		return errors.New("the averages are in the weights' places: want to train or load behind Averaged")
	}
	return nil
}
