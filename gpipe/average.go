package gpipe

import (
	"errors"
	"fmt"
)

// The average of the weights (Pipeline.EMA) is one more tensor of a parameter's
// optimiser state. It moves after every update, on the device that owns the
// weight; stages that share a weight move their copies alike.

// average is the average of the part that the replica updates. Averages must be kept.
func (w *weight) average() []float32 { return w.state[len(w.state)-1] }

// Averaged runs f with the averages in the weights' places: what f evaluates,
// predicts, hashes or saves is theirs. Batch norm's moving averages are not weights
// and stay. Step and Load are errors meanwhile; after f the weights have the bits
// that they had before. It is an error if no averages are kept.
func (t *Trainer) Averaged(f func() error) (err error) {
	switch {
	case t.broken != nil:
		return t.broken
	case !t.net.EMA.Kept():
		return errors.New("no averages of the weights are kept: want a pipeline with an EMA")
	case t.averaged:
		return errors.New("the averages are in the weights' places already")
	}
	if err := swapAverages(t); err != nil {
		return err
	}
	compared := t.compared
	t.compared = -1
	defer func() { // after a panic of f, too
		if e := swapAverages(t); err == nil {
			err = e
		}
		t.compared = compared
	}()
	return f()
}

// swapAverages exchanges the weights and the averages. If each replica has averages of
// a part, they hand these on afterwards.
func swapAverages(t *Trainer) error {
	t.averaged = !t.averaged
	for _, d := range t.devices {
		for i := range d.weights {
			w := &d.weights[i]
			average := w.average()
			weights := w.w[w.own.From:w.own.To]
			for j, v := range weights {
				weights[j], average[j] = average[j], v
			}
		}
	}
	if !t.net.ShardUpdate {
		return nil
	}
	if err := gatherParts(t, weightsOf); err != nil {
		t.broken = fmt.Errorf("averages: %w", err)
		return t.broken
	}
	return nil
}

// restartAverages sets every average to the present weights.
func restartAverages(t *Trainer) {
	if !t.net.EMA.Kept() {
		return
	}
	for _, d := range t.devices {
		for i := range d.weights {
			w := &d.weights[i]
			copy(w.average(), w.w[w.own.From:])
		}
	}
}
