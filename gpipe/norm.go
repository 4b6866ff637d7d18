package gpipe

import (
	"context"
	"math"

	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/kernel"
)

// The global norm of the gradients is made of float64 sums of squares: with one group
// one for each tensor, with several one for each block of it (reduction.BlockFloats),
// so that replicas can divide them. Blocks are added in ascending order, then tensors
// in layer order.

// normCells is the number of sums of squares of a parameter.
func (n *network) normCells(p *parameter) int {
	if n.Groups == 1 {
		return 1
	}
	return (p.Shape.Elems() + reduction.BlockFloats - 1) / reduction.BlockFloats
}

// norms returns the sums of squares of all the network's parameters, in layer order; 0
// for those that other devices compute, and for frozen ones.
func (r *stageRun) norms(ctx context.Context) ([]float64, error) {
	n := r.trainer.net
	first := make([]int, len(n.params))
	cells := 0
	for i := range n.params {
		first[i] = cells
		cells += n.normCells(&n.params[i])
	}
	sums := make([]float64, cells)
	err := r.timedWork(ctx, timeline.Update, func() {
		if n.Groups == 1 {
			r.addUses() // otherwise they were before the groups
		}
		r.dev.pool.Do(func(part int) {
			if n.Groups == 1 {
				for _, w := range r.dev.weightsFor(part) {
					if n.params[w.param].rate > 0 {
						sums[first[w.param]] = kernel.SumSquares(w.grads[0])
					}
				}
				return
			}
			from, to := r.dev.layout.Owned(n.Replicas, r.at.Replica)
			parts := r.dev.pool.Threads()
			for chunk := from + (to-from)*part/parts; chunk < from+(to-from)*(part+1)/parts; chunk++ {
				for _, b := range r.dev.layout.Blocks(chunk) {
					w := &r.dev.weights[b.Tensor]
					if n.params[w.param].rate == 0 {
						continue
					}
					sums[first[w.param]+b.From/reduction.BlockFloats] = kernel.SumSquares(w.grads[0][b.From:b.To])
				}
			}
		})
	})
	return sums, err
}

// globalNorm adds the sums of squares, those of tied weights once, and returns the
// factor by which clipping multiplies the gradients. Every device computes it from the
// same numbers: all has those of each device.
func (r *stageRun) globalNorm(all [][]float64) (scale float32, err error) {
	n := r.trainer.net
	var total float64
	tensors := make([]float64, len(n.params))
	cell := 0
	for i := range n.params {
		p := &n.params[i]
		for range n.normCells(p) {
			// One replica has it, and the others have 0.
			var sum float64
			for replica := range n.Replicas {
				sum += all[replica*n.Partitions+p.home()][cell]
			}
			tensors[i] += sum
			cell++
		}
		total += tensors[i]
	}
	r.norm = math.Sqrt(total)
	if !n.AllowNonFinite && (math.IsNaN(total) || math.IsInf(total, 0)) {
		// The backward pass starts at the loss, so the origin is the last one in layer order.
		for i := len(n.params) - 1; i >= 0; i-- {
			if v := tensors[i]; math.IsNaN(v) || math.IsInf(v, 0) {
				return 0, &NonFiniteError{What: "gradient", Where: n.params[i].path, Value: float32(v)}
			}
		}
	}
	return n.clipping(r.norm), nil
}

// clipping is the factor of gradients of a global norm.
func (n *network) clipping(norm float64) float32 {
	if n.ClipNorm > 0 && norm > n.ClipNorm {
		return float32(n.ClipNorm / norm)
	}
	return 1
}
