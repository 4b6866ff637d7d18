package gpipe

import (
	"context"
	"math"

	"gpipebench/gpipe/plan"

	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/kernel"
	"gpipebench/nn"
)

// The global norm of the gradients is made of float64 sums of squares: with one group
// one for each tensor, with several one for each block of it (reduction.BlockFloats),
// so that replicas can divide them. Blocks are added in ascending order, then tensors
// in layer order. A layer-wise optimiser (nn.LayerWise) also gets each tensor's own norm
// and that of its values, whose squares are summed in the same way.

// norms returns the sums of squares of all the network's parameters, in layer order: of
// its gradient, then of its values if the optimiser reads their norm; 0 for those that
// other devices compute, and for frozen ones.
func (r *stageRun) norms(ctx context.Context) (sums []float64, err error) {
	err = r.timedWork(ctx, timeline.Update, func() { sums = r.squares() })
	return sums, err
}

// squares adds up the uses of the device's weights, if that has not been done, and returns what
// norms does.
func (r *stageRun) squares() []float64 {
	n := r.trainer.net
	first := make([]int, len(n.Params))
	cells := 0
	for i := range n.Params {
		first[i] = cells
		cells += n.Params[i].Cells
		if n.Params[i].Adapts {
			cells += n.Params[i].Cells
		}
	}
	sums := make([]float64, cells)
	square := func(w *weight, from, to int) {
		p := &n.Params[w.param]
		if p.Rate == 0 || w.twin {
			return
		}
		cell := first[w.param]
		if n.Groups > 1 {
			cell += from / reduction.BlockFloats
		}
		sums[cell] = kernel.SumSquares(w.grads[0][from:to])
		if p.Adapts {
			sums[cell+p.Cells] = kernel.SumSquares(w.w[from:to])
		}
	}
	if n.Groups == 1 {
		r.addUses() // otherwise they were before the groups
	}
	r.dev.pool.Do(func(part int) {
		if n.Groups == 1 {
			for _, w := range r.dev.weightsFor(part) {
				square(&w, 0, len(w.w))
			}
			return
		}
		from, to := r.dev.layout.Owned(n.Replicas, r.at.Replica)
		parts := r.dev.pool.Threads()
		for chunk := from + (to-from)*part/parts; chunk < from+(to-from)*(part+1)/parts; chunk++ {
			for _, b := range r.dev.layout.Blocks(chunk) {
				square(&r.dev.weights[b.Tensor], b.From, b.To)
			}
		}
	})
	return sums
}

// globalNorm adds the sums of squares, those of tied weights once, and returns the
// factor by which clipping multiplies the gradients. It keeps the norms that the optimiser
// reads. Every device computes them from the same numbers: all has those of each device.
func (r *stageRun) globalNorm(all [][]float64) (scale float32, err error) {
	n := r.trainer.net
	var total float64
	tensors := make([]float64, len(n.Params))
	cell := 0
	add := func(p *plan.Parameter) (squares float64) {
		for range p.Cells {
			// One replica has it, and the others have 0.
			var sum float64
			for replica := range n.Replicas {
				sum += all[replica*n.Partitions+n.Device(p.Home())][cell]
			}
			squares += sum
			cell++
		}
		return squares
	}
	r.tensorNorms = make([]nn.Norms, len(n.Params))
	for i := range n.Params {
		p := &n.Params[i]
		tensors[i] = add(p)
		if p.Adapts {
			r.tensorNorms[i] = nn.Norms{G: math.Sqrt(tensors[i]), W: math.Sqrt(add(p))}
		}
		total += tensors[i]
	}
	r.norm = math.Sqrt(total)
	if !n.AllowNonFinite && (math.IsNaN(total) || math.IsInf(total, 0)) {
		// The backward pass starts at the loss, so the origin is the last one in layer order.
		for i := len(n.Params) - 1; i >= 0; i-- {
			if v := tensors[i]; math.IsNaN(v) || math.IsInf(v, 0) {
				return 0, &NonFiniteError{What: "gradient", Where: n.Params[i].Path, Value: float32(v)}
			}
		}
	}
	return clipping(n.ClipNorm, r.norm), nil
}

// clipping is the factor of gradients of a global norm, which may be most; 0: it may be any.
func clipping(most, norm float64) float32 {
	if most > 0 && norm > most {
		return float32(most / norm)
	}
	return 1
}
