package program

import (
	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
)

func init() {
	of := func(op graph.AdditiveAttentionOp, in []*graph.Node) product {
		_, queries, keys, hidden, values := op.Dims(in)
		return product{"attention", min(hidden, values, queries, keys), []int{hidden + values, keys}}
	}
	register(func(op graph.AdditiveAttentionOp, c *graph.Call) traits {
		return traits{
			product: of(op, c.In),
			kernel:  func(*step, bool, int) (kernelFunc, int) { return lowerAdditive(op, c.In) },
		}
	})
	// The inputs do and softmax precede those of the attention.
	register(func(op graph.AdditiveAttentionGradOp, c *graph.Call) traits {
		return traits{
			product: of(op.Of, c.In[2:]),
			kernel:  func(*step, bool, int) (kernelFunc, int) { return lowerAdditiveGrad(op.Of, c.In[2:]) },
		}
	})
}

// additive is an additive attention of all examples, which threads share.
type additive struct {
	kernel.AdditiveShape
	examples int
	padded   bool
}

func additiveOf(op graph.AdditiveAttentionOp, in []*graph.Node) additive {
	b, tq, tk, h, d := op.Dims(in)
	return additive{kernel.AdditiveShape{Queries: tq, Keys: tk, Hidden: h, Values: d, Valid: tk}, b, op.Padded}
}

// each calls f for a thread's examples, with the shape of each and a function that cuts
// it out of a tensor. In are the attention's inputs.
func (a additive) each(in [][]float32, part, parts int, f func(s kernel.AdditiveShape, of func([]float32) []float32)) {
	from, to := share(a.examples, part, parts, 1)
	for e := from; e < to; e++ {
		s := a.AdditiveShape
		if a.padded {
			s.Valid = int(ints(in[len(in)-1])[e])
		}
		f(s, func(x []float32) []float32 {
			n := len(x) / a.examples
			return x[e*n : (e+1)*n : (e+1)*n]
		})
	}
}

func lowerAdditive(op graph.AdditiveAttentionOp, in []*graph.Node) (kernelFunc, int) {
	a := additiveOf(op, in)
	return func(w *worker, in, out [][]float32, part, parts int) {
		a.each(in, part, parts, func(s kernel.AdditiveShape, of func([]float32) []float32) {
			kernel.AdditiveAttention(s, of(out[0]), of(out[1]), of(in[0]), of(in[1]), of(in[2]), of(in[3]), w.scratch)
		})
	}, a.Scratch()
}

func lowerAdditiveGrad(op graph.AdditiveAttentionOp, in []*graph.Node) (kernelFunc, int) {
	a := additiveOf(op, in)
	return func(w *worker, in, out [][]float32, part, parts int) {
		of := in[2:]
		a.each(of, part, parts, func(s kernel.AdditiveShape, cut func([]float32) []float32) {
			kernel.AdditiveAttentionGrad(s, cut(out[0]), cut(out[1]), cut(out[2]), cut(out[3]), cut(in[0]), cut(in[1]), cut(of[0]), cut(of[1]), cut(of[2]), cut(of[3]), w.scratch)
		})
	}, a.GradScratch()
}
