package program

import (
	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

func init() {
	of := func(in []*graph.Node) product {
		s := additiveShape(in)
		return product{"attention", min(s.Hidden, s.Values, s.Queries, s.Keys), []int{s.Hidden + s.Values, s.Keys}, Dims{}}
	}
	register(func(o op.AdditiveAttention, c *graph.Call) traits {
		return traits{
			product: of(c.In),
			kernel:  func(*step, bool, int) (kernelFunc, int) { return lowerAdditive(o, c.In) },
		}
	})
	// The inputs do and softmax precede those of the attention.
	register(func(o op.AdditiveAttentionGrad, c *graph.Call) traits {
		return traits{
			product: of(c.In[2:]),
			kernel:  func(*step, bool, int) (kernelFunc, int) { return lowerAdditiveGrad(o.Of, c.In[2:]) },
		}
	})
}

// additive is an additive attention of all examples, which threads share.
type additive struct {
	kernel.AdditiveShape
	examples int
	padded   bool
}

func additiveOf(o op.AdditiveAttention, in []*graph.Node) additive {
	return additive{additiveShape(in), in[0].Shape[0], o.Padded}
}

// additiveShape is the shape of an example, from queries, keys, vectors and values.
func additiveShape(in []*graph.Node) kernel.AdditiveShape {
	q, v := in[0].Shape, in[3].Shape
	return kernel.AdditiveShape{Queries: q[1], Keys: v[1], Hidden: q[2], Values: v[2], Valid: v[1]}
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

func lowerAdditive(o op.AdditiveAttention, in []*graph.Node) (kernelFunc, int) {
	a := additiveOf(o, in)
	return func(w *worker, in, out [][]float32, part, parts int) {
		a.each(in, part, parts, func(s kernel.AdditiveShape, of func([]float32) []float32) {
			kernel.AdditiveAttention(s, of(out[0]), of(out[1]), of(in[0]), of(in[1]), of(in[2]), of(in[3]), w.scratch)
		})
	}, a.Scratch()
}

func lowerAdditiveGrad(o op.AdditiveAttention, in []*graph.Node) (kernelFunc, int) {
	a := additiveOf(o, in)
	return func(w *worker, in, out [][]float32, part, parts int) {
		of := in[2:]
		a.each(of, part, parts, func(s kernel.AdditiveShape, cut func([]float32) []float32) {
			kernel.AdditiveAttentionGrad(s, cut(out[0]), cut(out[1]), cut(out[2]), cut(out[3]), cut(in[0]), cut(in[1]), cut(of[0]), cut(of[1]), cut(of[2]), cut(of[3]), w.scratch)
		})
	}, a.GradScratch()
}
