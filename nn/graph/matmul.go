package graph

import (
	"slices"

	"gpipebench/nn/graph/op"
)

// MatMul returns x·w for x (..., k) and a parameter w (k, n): (..., n). For two activations see
// [Graph.BatchMatMul].
func (g *Graph) MatMul(x, w *Node) *Node { return g.apply1(op.MatMul{}, x, w) }

// MatMulT returns x·wᵀ for x (..., k) and w (n, k): (..., n).
func (g *Graph) MatMulT(x, w *Node) *Node { return g.apply1(op.MatMul{TransB: true}, x, w) }

// BatchMatMul returns the products a·b of matrices in the last two dimensions, one for each of
// those before: a (n, ..., m, k) and b (n, ..., k, p) give (n, ..., m, p).
func (g *Graph) BatchMatMul(a, b *Node) *Node { return g.apply1(op.BatchMatMul{}, a, b) }

// BatchMatMulT returns a·bᵀ for a (n, ..., m, k) and b (n, ..., p, k): (n, ..., m, p).
func (g *Graph) BatchMatMulT(a, b *Node) *Node { return g.apply1(op.BatchMatMul{TransB: true}, a, b) }

func init() {
	define(func(o op.MatMul) rules {
		name := transposed("matmul", o)
		return rules{
			name: name,
			infer: func(in []*Node) []Type {
				wantFloat(name, in...)
				a, b := in[0].Shape, in[1].Shape
				ka, kb := a.Last(), b.Rows()
				if o.TransA {
					ka = a.Rows()
				}
				n := b.Last()
				if o.TransB {
					n, kb = b.Rows(), b.Last()
				}
				if ka != kb {
					misuse(name, "inner dimensions of %s and %s differ", in[0], in[1])
				}
				if o.TransA {
					return []Type{{Shape{a.Last(), n}, in[0].DType}}
				}
				return []Type{{a.With(n), in[0].DType}}
			},
			// dx = dy·wᵀ and dw = xᵀ·dy. In the weight's gradient k runs over the rows, that is
			// over the examples: one ascending chain.
			gradient: func(g *Graph, c *Call, dout []*Node) []*Node {
				x, w, dy := c.In[0], c.In[1], dout[0]
				switch {
				case o.TransA:
					panic(noSecondGradient)
				case o.TransB:
					return []*Node{g.MatMul(dy, w), g.apply1(op.MatMul{TransA: true}, dy, x)}
				default:
					return []*Node{g.MatMulT(dy, w), g.apply1(op.MatMul{TransA: true}, x, dy)}
				}
			},
			flops: func(c *Call) int64 {
				m, n, k := o.Dims(c.In[0].Shape, c.In[1].Shape)
				return 2 * int64(m) * int64(n) * int64(k)
			},
			// If the output is a parameter's gradient, the kernel starts its chains from the
			// output's contents.
			accumulates: true,
		}
	})

	define(func(o op.BatchMatMul) rules {
		name := transposed("batch-matmul", op.MatMul(o))
		return rules{
			name: name,
			infer: func(in []*Node) []Type {
				wantFloat(name, in...)
				wantExamples(name, in[0], 3)
				wantExamples(name, in[1], 3)
				a, b := in[0].Shape, in[1].Shape
				last := len(a) - 2
				if len(a) != len(b) || !slices.Equal(a[:last], b[:last]) {
					misuse(name, "%s and %s differ before the last two dimensions", in[0], in[1])
				}
				ka, kb := a[last+1], b[last]
				if o.TransA {
					ka = a[last]
				}
				if o.TransB {
					kb = b[last+1]
				}
				if ka != kb {
					misuse(name, "inner dimensions of %s and %s differ", in[0], in[1])
				}
				_, m, n, _ := o.Dims(a, b)
				return []Type{{append(slices.Clone(a[:last]), m, n), in[0].DType}}
			},
			// da = dy·bᵀ and db = aᵀ·dy.
			gradient: func(g *Graph, c *Call, dout []*Node) []*Node {
				a, b, dy := c.In[0], c.In[1], dout[0]
				switch {
				case o.TransA:
					panic(noSecondGradient)
				case o.TransB:
					return []*Node{g.BatchMatMul(dy, b), g.apply1(op.BatchMatMul{TransA: true}, dy, a)}
				default:
					return []*Node{g.BatchMatMulT(dy, b), g.apply1(op.BatchMatMul{TransA: true}, a, dy)}
				}
			},
			flops: func(c *Call) int64 {
				count, m, n, k := o.Dims(c.In[0].Shape, c.In[1].Shape)
				return 2 * int64(count) * int64(m) * int64(n) * int64(k)
			},
		}
	})
}

// transposed is the name of a product, with what is transposed.
func transposed(name string, o op.MatMul) string {
	if o.TransA {
		name += "-at"
	}
	if o.TransB {
		name += "-bt"
	}
	return name
}
