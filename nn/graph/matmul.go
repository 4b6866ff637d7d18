package graph

import "slices"

// MatMulOp is a product of two matrices. An operand with more than two
// dimensions is taken as the matrix (product of all but the last, last).
type MatMulOp struct {
	TransA, TransB bool
}

// MatMul returns x·w for x (..., k) and w (k, n): (..., n).
func (g *Graph) MatMul(x, w *Node) *Node { return g.apply1(MatMulOp{}, x, w) }

// MatMulT returns x·wᵀ for x (..., k) and w (n, k): (..., n).
func (g *Graph) MatMulT(x, w *Node) *Node { return g.apply1(MatMulOp{TransB: true}, x, w) }

func (o MatMulOp) Name() string {
	name := "matmul"
	if o.TransA {
		name += "-at"
	}
	if o.TransB {
		name += "-bt"
	}
	return name
}

// Dims returns the product's sizes: C is (m, n), and each element a sum of k
// terms.
func (o MatMulOp) Dims(c *Call) (m, n, k int) {
	a, b := c.In[0].Shape, c.In[1].Shape
	m, k, n = a.Rows(), a.Last(), b.Last()
	if o.TransA {
		m, k = k, m
	}
	if o.TransB {
		n = b.Rows()
	}
	return m, n, k
}

func (o MatMulOp) Infer(in []*Node) []Type {
	wantFloat(o.Name(), in...)
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
		misuse(o.Name(), "inner dimensions of %s and %s differ", in[0], in[1])
	}
	if o.TransA {
		return []Type{{Shape{a.Last(), n}, in[0].DType}}
	}
	return []Type{{slices.Clone(a.With(n)), in[0].DType}}
}

// Gradient derives dx = dy·wᵀ and dw = xᵀ·dy. In the weight's gradient k runs
// over the rows, that is over the examples: one ascending chain.
func (o MatMulOp) Gradient(g *Graph, c *Call, dout []*Node) []*Node {
	x, w, dy := c.In[0], c.In[1], dout[0]
	switch {
	case o.TransA:
		panic("graph: the gradient of a gradient is not defined")
	case o.TransB:
		return []*Node{g.MatMul(dy, w), g.apply1(MatMulOp{TransA: true}, dy, x)}
	default:
		return []*Node{g.MatMulT(dy, w), g.apply1(MatMulOp{TransA: true}, x, dy)}
	}
}

func (o MatMulOp) FLOPs(c *Call) int64 {
	m, n, k := o.Dims(c)
	return 2 * int64(m) * int64(n) * int64(k)
}

// Accumulates: if the output is a parameter's gradient, the kernel starts its
// chains from the output's contents.
func (o MatMulOp) Accumulates() {}
