package graph

import (
	"math"
	"slices"

	"gpipebench/nn/graph/op"
)

// Ops that sum, repeat or move the elements of each example. The first dimension
// of their inputs counts the examples, and no op crosses it: a sum over the
// examples of a micro-batch would depend on M. Only gradients of parameters are
// such sums, which micro-batches continue in order (the arithmetic contract, rule
// 2), and the loss.

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
		x = g.apply1(op.Sum{Axis: axes[from], Axes: end - from}, x)
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

// Max returns the largest elements of x along an axis, which disappears from the shape; NaN where
// one of them is NaN. The gradient goes to the first of equal maxima. The larger of two values a
// and b of any shape is the maximum of [Graph.Concat] of both along an axis that [Graph.Reshape]
// has added.
func (g *Graph) Max(x *Node, axis int) *Node {
	wantFloat("max", x)
	wantAxis("max", x, axis)
	return g.apply1(op.Max{Axis: axis}, x)
}

// Gather returns rows of each example of x (n, t, ...): those whose numbers, from 0 to t-1, are in
// index (n, k) int32, in this order: (n, k, ...). A row may be taken several times; its gradients
// are added in the order of k. Rows of a parameter are looked up by [Graph.Embed].
func (g *Graph) Gather(x, index *Node) *Node { return g.apply1(op.Gather{}, x, index) }

// axesOf checks and sorts axes; none means all but the first.
func axesOf(name string, x *Node, axes []int) []int {
	wantFloat(name, x)
	wantExamples(name, x, 1)
	if len(axes) == 0 {
		for axis := 1; axis < len(x.Shape); axis++ {
			axes = append(axes, axis)
		}
		return axes
	}
	axes = slices.Clone(axes)
	slices.Sort(axes)
	for i, axis := range axes {
		wantAxis(name, x, axis)
		if i > 0 && axes[i-1] == axis {
			misuse(name, "axis %d is there twice", axis)
		}
	}
	return axes
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
	return g.apply1(op.Repeat{Axis: axis, N: n}, x)
}

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
	if len(to)-1 > op.MaxDims {
		misuse("reshape", "shape %v, want at most %d dimensions of an example", to[1:], op.MaxDims)
	}
	var o op.Reshape
	copy(o.Dims[:], to[1:])
	return g.apply1(o, x)
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
	return g.apply1(op.Transpose{A: min(a, b), B: max(a, b)}, x)
}

// OneHot returns a row of the given number of classes for each id. It has no
// gradient.
func (g *Graph) OneHot(ids *Node, classes int) *Node {
	if ids.DType != I32 || classes < 1 {
		misuse("one-hot", "%s and %d classes, want int32 and at least 1", ids, classes)
	}
	return g.apply1(op.OneHot{Classes: classes}, ids)
}

func init() {
	define(func(o op.Sum) rules {
		return rules{
			name: "sum",
			infer: func(in []*Node) []Type {
				s := in[0].Shape
				return []Type{{slices.Concat(s[:o.Axis], s[o.Axis+o.Axes:]), in[0].DType}}
			},
			gradient: func(g *Graph, c *Call, dout []*Node) []*Node {
				x := c.In[0].Shape
				_, n, _ := o.Dims(x)
				return []*Node{g.reshape(g.apply1(op.Repeat{Axis: o.Axis, N: n}, dout[0]), x)}
			},
		}
	})
	define(func(o op.Max) rules {
		return rules{
			name: "max",
			infer: func(in []*Node) []Type {
				return []Type{{slices.Delete(slices.Clone(in[0].Shape), o.Axis, o.Axis+1), in[0].DType}}
			},
			gradient: func(g *Graph, c *Call, dout []*Node) []*Node {
				return []*Node{g.apply1(op.MaxGrad(o), dout[0], c.In[0], c.Out[0])}
			},
		}
	})
	define(func(op.MaxGrad) rules {
		return rules{name: "max-grad", infer: func(in []*Node) []Type { return sameAs(in[1]) }}
	})
	define(func(o op.Repeat) rules {
		return rules{
			name: "repeat",
			infer: func(in []*Node) []Type {
				return []Type{{slices.Insert(slices.Clone(in[0].Shape), o.Axis, o.N), in[0].DType}}
			},
			gradient: func(g *Graph, _ *Call, dout []*Node) []*Node {
				if o.Axis == 0 {
					return []*Node{g.apply1(op.ExampleSum{}, dout[0])}
				}
				return []*Node{g.apply1(op.Sum{Axis: o.Axis, Axes: 1}, dout[0])}
			},
		}
	})
	define(func(op.ExampleSum) rules {
		return rules{name: "example-sum", accumulates: true, infer: func(in []*Node) []Type {
			return []Type{{in[0].Shape[1:], in[0].DType}}
		}}
	})
	define(func(op.Gather) rules {
		return rules{
			name:  "gather",
			index: func(c *Call) Index { return Index{In: 1, What: "row", Limit: c.In[0].Shape[1]} },
			infer: func(in []*Node) []Type {
				x, index := in[0], in[1]
				wantFloat("gather", x)
				wantExamples("gather", x, 2)
				if index.DType != I32 || len(index.Shape) != 2 || index.Shape[0] != x.Shape[0] {
					misuse("gather", "index %s is not a row of int32 for each example of %s", index, x)
				}
				return []Type{{slices.Concat(index.Shape, x.Shape[2:]), x.DType}}
			},
			gradient: func(g *Graph, c *Call, dout []*Node) []*Node {
				return []*Node{g.apply1(op.GatherGrad{Rows: c.In[0].Shape[1]}, dout[0], c.In[1]), nil}
			},
		}
	})
	define(func(o op.GatherGrad) rules {
		return rules{name: "gather-grad", infer: func(in []*Node) []Type {
			dy := in[0].Shape
			return []Type{{slices.Concat(dy[:1], Shape{o.Rows}, dy[2:]), in[0].DType}}
		}}
	})
	define(func(o op.Reshape) rules {
		return rules{
			name: "reshape",
			infer: func(in []*Node) []Type {
				to := Shape{in[0].Shape[0]}
				for _, d := range o.Dims {
					if d > 0 {
						to = append(to, d)
					}
				}
				return []Type{{to, in[0].DType}}
			},
			gradient: func(g *Graph, c *Call, dout []*Node) []*Node {
				return []*Node{g.reshape(dout[0], c.In[0].Shape)}
			},
			inPlace: first,
		}
	})
	define(func(o op.Transpose) rules {
		return rules{
			name: "transpose",
			infer: func(in []*Node) []Type {
				s := slices.Clone(in[0].Shape)
				s[o.A], s[o.B] = s[o.B], s[o.A]
				return []Type{{s, in[0].DType}}
			},
			gradient: func(g *Graph, _ *Call, dout []*Node) []*Node { return []*Node{g.apply1(o, dout[0])} },
		}
	})
	define(func(o op.OneHot) rules {
		return rules{
			name:     "one-hot",
			index:    func(*Call) Index { return Index{What: "target", Least: math.MinInt32, Limit: o.Classes} },
			infer:    func(in []*Node) []Type { return []Type{{append(slices.Clone(in[0].Shape), o.Classes), F32}} },
			gradient: ofNone,
		}
	})
}

// wantExamples checks that x has a dimension of examples, and at least a number of
// dimensions.
func wantExamples(name string, x *Node, dims int) {
	if x.Role == Param || x.Role == Const {
		misuse(name, "%s has no examples: want Repeat(it, 0, examples) first", x)
	}
	if len(x.Shape) < dims {
		misuse(name, "%s has %d dimensions, want at least %d", x, len(x.Shape), dims)
	}
}

// wantAxis checks an axis of an example.
func wantAxis(name string, x *Node, axis int) {
	wantExamples(name, x, 1)
	if axis < 1 || axis >= len(x.Shape) {
		misuse(name, "axis %d of %s, want 1 to %d: axis 0 counts the examples", axis, x, len(x.Shape)-1)
	}
}
