package graph

import (
	"math"
	"slices"
)

// Ops that sum, repeat or move the elements of each example. The first dimension
// of their inputs counts the examples, and no op crosses it: a sum over the
// examples of a micro-batch would depend on M. Only gradients of parameters are
// such sums, which micro-batches continue in order (the arithmetic contract, rule
// 2), and the loss.

// SumOp is the sum over the Axes dimensions from Axis on, which disappear.
type SumOp struct {
	noProducts
	Axis, Axes int
}

// Sum returns the sums of x over the given axes, which disappear from the shape.
// Axis 0 counts the examples and cannot be among them. Without axes it is the sum
// of each example.
func (g *Graph) Sum(x *Node, axes ...int) *Node {
	axes = axesOf("sum", x, axes)
	for end := len(axes); end > 0; {
		// Neighbouring axes are summed together, the last ones first.
		from := end - 1
		for from > 0 && axes[from-1] == axes[from]-1 {
			from--
		}
		x = g.apply1(SumOp{Axis: axes[from], Axes: end - from}, x)
		end = from
	}
	return x
}

// Mean returns the means of x over the given axes, as [Graph.Sum] does the sums.
func (g *Graph) Mean(x *Node, axes ...int) *Node {
	n := 1
	for _, axis := range axesOf("mean", x, axes) {
		n *= x.Shape[axis]
	}
	return g.Scale(g.Sum(x, axes...), float32(1/float64(n)))
}

// axesOf checks and sorts axes; none means all but the first.
func axesOf(op string, x *Node, axes []int) []int {
	wantFloat(op, x)
	wantExamples(op, x, 1)
	if len(axes) == 0 {
		for axis := 1; axis < len(x.Shape); axis++ {
			axes = append(axes, axis)
		}
		return axes
	}
	axes = slices.Clone(axes)
	slices.Sort(axes)
	for i, axis := range axes {
		wantAxis(op, x, axis)
		if i > 0 && axes[i-1] == axis {
			misuse(op, "axis %d is there twice", axis)
		}
	}
	return axes
}

func (SumOp) Name() string { return "sum" }
func (o SumOp) Infer(in []*Node) []Type {
	s := in[0].Shape
	return []Type{{slices.Concat(s[:o.Axis], s[o.Axis+o.Axes:]), in[0].DType}}
}
func (o SumOp) Gradient(g *Graph, c *Call, dout []*Node) []*Node {
	x := c.In[0].Shape
	_, n, _ := o.Dims(x)
	return []*Node{g.reshape(g.apply1(RepeatOp{Axis: o.Axis, N: n}, dout[0]), x)}
}

// Dims returns the sizes before, in and after the dimensions that are summed.
func (o SumOp) Dims(x Shape) (outer, n, inner int) {
	return x[:o.Axis].Elems(), x[o.Axis : o.Axis+o.Axes].Elems(), x[o.Axis+o.Axes:].Elems()
}

// RepeatOp inserts a dimension of N copies as dimension Axis.
type RepeatOp struct {
	noProducts
	Axis, N int
}

// Repeat returns x with a new axis of n copies: from (b, d) and axis 1 it makes
// (b, n, d). It is the gradient of a sum. With axis 0 it gives each of n examples
// a copy of a parameter or a constant, whose gradient then is the sum over all
// examples of the mini-batch.
func (g *Graph) Repeat(x *Node, axis, n int) *Node {
	wantFloat("repeat", x)
	if n < 1 {
		misuse("repeat", "%d copies, want at least 1", n)
	}
	switch {
	case axis < 0 || axis > len(x.Shape):
		misuse("repeat", "axis %d of %s, want 0 to %d", axis, x, len(x.Shape))
	case axis == 0 && x.Role != Param && x.Role != Const:
		misuse("repeat", "axis 0 counts the examples: %s is neither a parameter nor a constant", x)
	case axis > 0 && x.Role == Param:
		misuse("repeat", "parameter %s has no examples: want axis 0 first", x)
	}
	return g.apply1(RepeatOp{Axis: axis, N: n}, x)
}

func (RepeatOp) Name() string { return "repeat" }
func (o RepeatOp) Infer(in []*Node) []Type {
	return []Type{{slices.Insert(slices.Clone(in[0].Shape), o.Axis, o.N), in[0].DType}}
}
func (o RepeatOp) Gradient(g *Graph, _ *Call, dout []*Node) []*Node {
	if o.Axis == 0 {
		return []*Node{g.apply1(ExampleSumOp{}, dout[0])}
	}
	return []*Node{g.apply1(SumOp{Axis: o.Axis, Axes: 1}, dout[0])}
}

// ExampleSumOp adds the examples of x (n, ...) to its output (...), in order.
type ExampleSumOp struct{ backwardOnly }

func (ExampleSumOp) Name() string            { return "example-sum" }
func (ExampleSumOp) Infer(in []*Node) []Type { return []Type{{in[0].Shape[1:], in[0].DType}} }
func (ExampleSumOp) Accumulates()            {}

// ReshapeOp gives x (n, ...) the shape (n, Dims...). Its kernel moves nothing
// where x is not needed afterwards.
type ReshapeOp struct {
	overFirst
	Dims [maxDims]int // of an example; zeros after the last
}

const maxDims = 7

// Reshape returns x with the given dimensions of an example: the elements keep
// their row-major order. One dimension may be -1: what remains.
func (g *Graph) Reshape(x *Node, dims ...int) *Node {
	wantExamples("reshape", x, 1)
	example := Shape(x.Shape[1:]).Elems()
	known, free := 1, -1
	to := append(Shape{x.Shape[0]}, dims...)
	for i, d := range dims {
		switch {
		case d == -1 && free < 0:
			free = i + 1
		case d < 1:
			misuse("reshape", "dimensions %v, want each at least 1, or one -1 for what remains", dims)
		default:
			known *= d
		}
	}
	if free > 0 && example%known == 0 {
		to[free] = example / known
		known = example
	}
	if known != example {
		misuse("reshape", "examples of %s do not fill the shape %v", x, dims)
	}
	return g.reshape(x, to)
}

// Flatten returns x with one row for each example: (n, ...) becomes (n, elements).
func (g *Graph) Flatten(x *Node) *Node { return g.Reshape(x, -1) }

// reshape returns x with the shape to, whose first dimension is x's. It is x
// itself if that has this shape.
func (g *Graph) reshape(x *Node, to Shape) *Node {
	if slices.Equal(x.Shape, to) {
		return x
	}
	if len(to)-1 > maxDims {
		misuse("reshape", "shape %v, want at most %d dimensions of an example", to[1:], maxDims)
	}
	var o ReshapeOp
	copy(o.Dims[:], to[1:])
	return g.apply1(o, x)
}

func (ReshapeOp) Name() string { return "reshape" }
func (o ReshapeOp) Infer(in []*Node) []Type {
	to := Shape{in[0].Shape[0]}
	for _, d := range o.Dims {
		if d > 0 {
			to = append(to, d)
		}
	}
	return []Type{{to, in[0].DType}}
}
func (o ReshapeOp) Gradient(g *Graph, c *Call, dout []*Node) []*Node {
	return []*Node{g.reshape(dout[0], c.In[0].Shape)}
}

// TransposeOp exchanges the dimensions A < B.
type TransposeOp struct {
	noProducts
	A, B int
}

// Transpose returns x with the axes a and b exchanged. Axis 0 counts the examples
// and stays.
func (g *Graph) Transpose(x *Node, a, b int) *Node {
	wantFloat("transpose", x)
	wantAxis("transpose", x, a)
	wantAxis("transpose", x, b)
	if a == b {
		return x
	}
	return g.apply1(TransposeOp{A: min(a, b), B: max(a, b)}, x)
}

func (TransposeOp) Name() string { return "transpose" }
func (o TransposeOp) Infer(in []*Node) []Type {
	s := slices.Clone(in[0].Shape)
	s[o.A], s[o.B] = s[o.B], s[o.A]
	return []Type{{s, in[0].DType}}
}
func (o TransposeOp) Gradient(g *Graph, _ *Call, dout []*Node) []*Node {
	return []*Node{g.apply1(o, dout[0])}
}

// OneHotOp turns ids (...) int32 into rows (..., Classes) of zeros with a one at
// the id; rows of negative ids have none.
type OneHotOp struct {
	noProducts
	Classes int
}

// OneHot returns a row of the given number of classes for each id. It has no
// gradient.
func (g *Graph) OneHot(ids *Node, classes int) *Node {
	if ids.DType != I32 || classes < 1 {
		misuse("one-hot", "%s and %d classes, want int32 and at least 1", ids, classes)
	}
	return g.apply1(OneHotOp{Classes: classes}, ids)
}

func (OneHotOp) Name() string { return "one-hot" }
func (o OneHotOp) Index(*Call) Index {
	return Index{What: "target", Least: math.MinInt32, Limit: o.Classes}
}
func (o OneHotOp) Infer(in []*Node) []Type {
	return []Type{{append(slices.Clone(in[0].Shape), o.Classes), F32}}
}
func (OneHotOp) Gradient(*Graph, *Call, []*Node) []*Node { return []*Node{nil} }

// wantExamples checks that x has a dimension of examples, and at least a number of
// dimensions.
func wantExamples(op string, x *Node, dims int) {
	if x.Role == Param || x.Role == Const {
		misuse(op, "%s has no examples: want Repeat(it, 0, examples) first", x)
	}
	if len(x.Shape) < dims {
		misuse(op, "%s has %d dimensions, want at least %d", x, len(x.Shape), dims)
	}
}

// wantAxis checks an axis of an example.
func wantAxis(op string, x *Node, axis int) {
	wantExamples(op, x, 1)
	if axis < 1 || axis >= len(x.Shape) {
		misuse(op, "axis %d of %s, want 1 to %d: axis 0 counts the examples", axis, x, len(x.Shape)-1)
	}
}
