package plan

import (
	"fmt"
	"math"
	"slices"

	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
	"gpipebench/nn/trace"
)

// Limits of what is planned. They are far beyond any machine, and keep counts of
// elements, bytes and FLOPs within 63 bits for any input.
const (
	MaxExamples = 1 << 24 // N, of a mini-batch
	MaxTasks    = 1 << 20 // K*M: each takes memory and time to schedule

	maxTensor = 1 << 40 // elements of one tensor
	maxTotal  = 1 << 52 // elements of all tensors of a step
	maxFLOPs  = 1 << 61 // of a micro-batch's forward function
)

// MisfitError says that a network cannot run on micro-batches of the given size, or
// on examples of the given shapes. It is known from shapes alone.
type MisfitError struct{ Reason error }

func (e *MisfitError) Error() string {
	return fmt.Sprintf("the network does not fit its input: %v", e.Reason)
}

func (e *MisfitError) Unwrap() error { return e.Reason }

// Misfit, deferred by functions that trace layers, turns a *graph.Misuse panic into a
// *MisfitError: whether layers and input fit together depends on the input. Any other
// panic continues.
func Misfit(err *error) {
	switch v := recover().(type) {
	case nil:
	case *graph.Misuse:
		*err = &MisfitError{v}
	default:
		panic(v)
	}
}

// countable rejects stages whose element or FLOP counts could overflow. Each is
// traced for one of the given number of micro-batches.
func countable(layers []nn.Layer, storage program.Storage, stages []*trace.Stage, micro int) error {
	var total float64
	for k, st := range stages {
		var flops float64
		add := func(what string, s graph.Shape, times float64) error {
			size := elements(s)
			if size > maxTensor {
				return &MisfitError{fmt.Errorf("%s has shape %v: want at most %d elements", what, s, int64(maxTensor))}
			}
			total += size * times
			return nil
		}
		for i, p := range st.Params {
			if err := add(st.Function.Params[i].Name, p.Shape, 1); err != nil {
				return err
			}
		}
		for _, in := range slices.Concat(st.Function.In, st.Function.Feeds) {
			if err := add(in.Name, in.Shape, float64(micro)); err != nil {
				return err
			}
		}
		for _, c := range st.Function.Graph.Calls {
			where := layerName(layers, c.Layer) + ": a result of " + c.Op.Name()
			for _, o := range c.Out {
				if err := add(where, o.Shape, float64(micro)); err != nil {
					return err
				}
			}
			op, ok := c.Op.(graph.Hider)
			if !ok {
				flops += float64(c.Op.FLOPs(c))
				continue
			}
			hidden, each := op.Hidden(c)
			flops += each * elements(hidden)
			if storage.KeepScores {
				if err := add(where, hidden, float64(micro)); err != nil {
					return err
				}
			}
		}
		if flops > maxFLOPs {
			return &MisfitError{fmt.Errorf("stage %d: %.3g FLOPs for a micro-batch: want at most %d", k, flops, int64(maxFLOPs))}
		}
	}
	if total > maxTotal {
		return &MisfitError{fmt.Errorf("%.3g elements in a step's tensors: want at most %d", total, int64(maxTotal))}
	}
	return nil
}

// elements is Shape.Elems for shapes where that overflows.
func elements(s graph.Shape) float64 {
	n := 1.0
	for _, d := range s {
		n *= math.Max(float64(d), 0)
	}
	return n
}
