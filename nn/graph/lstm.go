package graph

// LSTMOp is a layer of long short-term memory as one scan over time (Hochreiter and
// Schmidhuber 1997, with the forget gate of Gers et al. 2000), from a state of zeros:
//
//	z_t = x_t·Wx + b + h_{t-1}·W          i, f, g, o side by side, in this order
//	c_t = σ(f) c_{t-1} + σ(i) tanh(g)
//	h_t = σ(o) tanh(c_t)
//
// Inputs:
//
//	hoisted: x·Wx + b (b, t, 4h) of all steps, W (h, 4h)
//	Inside:  x (b, t, d), Wx (d, 4h), b (4h), W (h, 4h)
//
// and, if Padded, lengths (b) int32: at and beyond a length everything is zero. A
// Reverse scan starts at the last step, or at that of the length. Outputs: the activated
// gates (b, t, 4h), h (b, t, h) and c (b, t, h).
//
// Both forms have the same bits but for the gradients of the parameters. Hoisted, these
// are products after the loop, over the rows of all examples and steps in this order.
// Inside, the loop adds up the products of each step, over the examples of a
// micro-batch: then bits depend on the micro-batches, and the op is outside the
// arithmetic contract. It is there to be compared with (Kumar et al. 2019, section 3,
// GNMT).
type LSTMOp struct{ Reverse, Padded, Inside bool }

// LSTM scans z (b, t, 4h), the projections of all steps' inputs with their bias, with the
// recurrent weight w (h, 4h), and returns h (b, t, h). Lengths (b) int32 may be nil.
func (g *Graph) LSTM(z, w, lengths *Node, reverse bool) *Node {
	return g.lstm(LSTMOp{Reverse: reverse}, []*Node{z, w}, lengths)
}

// LSTMInside is [Graph.LSTM] that projects the inputs x (b, t, d) within its loop, by wx
// (d, 4h) and bias (4h).
func (g *Graph) LSTMInside(x, wx, bias, w, lengths *Node, reverse bool) *Node {
	return g.lstm(LSTMOp{Reverse: reverse, Inside: true}, []*Node{x, wx, bias, w}, lengths)
}

func (g *Graph) lstm(op LSTMOp, in []*Node, lengths *Node) *Node {
	if lengths != nil {
		op.Padded = true
		in = append(in, lengths)
	}
	return g.Apply(op, in...)[1]
}

func (o LSTMOp) Name() string {
	if o.Inside {
		return "lstm-inside"
	}
	return "lstm"
}

func (o LSTMOp) String() string {
	if o.Reverse {
		return "reverse"
	}
	return ""
}

// Weight is the index of W among the inputs.
func (o LSTMOp) Weight() int {
	if o.Inside {
		return 3
	}
	return 1
}

// Dims returns the sizes of a call with the inputs in: the width of x is 0 if its
// projection is hoisted.
func (o LSTMOp) Dims(in []*Node) (examples, time, width, hidden int) {
	x := in[0].Shape
	if o.Inside {
		width = x[2]
	}
	return x[0], x[1], width, in[o.Weight()].Shape[0]
}

func (o LSTMOp) Infer(in []*Node) []Type {
	name := o.Name()
	want := o.Weight() + 1
	if o.Padded {
		want++
	}
	if len(in) != want {
		misuse(name, "%d inputs where %d are needed", len(in), want)
	}
	x, w := in[0], in[o.Weight()]
	wantFloat(name, in[:o.Weight()+1]...)
	if len(x.Shape) != 3 || len(w.Shape) != 2 || w.Shape[1] != 4*w.Shape[0] {
		misuse(name, "input %s and weight %s, want (examples, steps, width) and (h, 4h)", x, w)
	}
	hidden := w.Shape[0]
	if o.Inside {
		wx, bias := in[1], in[2]
		if len(wx.Shape) != 2 || wx.Shape[0] != x.Shape[2] || wx.Shape[1] != 4*hidden || len(bias.Shape) != 1 || bias.Shape[0] != 4*hidden {
			misuse(name, "weight %s and bias %s of the input %s, want (width, 4h) and (4h) with h = %d", wx, bias, x, hidden)
		}
	} else if x.Shape[2] != 4*hidden {
		misuse(name, "projections %s, want 4h columns with h = %d", x, hidden)
	}
	if o.Padded {
		if n := in[want-1]; n.DType != I32 || len(n.Shape) != 1 || n.Shape[0] != x.Shape[0] {
			misuse(name, "lengths %s are not one int32 per example of %s", n, x)
		}
	}
	return []Type{{x.Shape.With(4 * hidden), x.DType}, {x.Shape.With(hidden), x.DType}, {x.Shape.With(hidden), F32}}
}

// InPlace: the gates may overwrite the projections.
func (o LSTMOp) InPlace() []int {
	if o.Inside {
		return nil
	}
	return []int{0}
}

func (o LSTMOp) Gradient(g *Graph, c *Call, dout []*Node) []*Node {
	grads := make([]*Node, len(c.In))
	gates, y, cells := c.Out[0], c.Out[1], c.Out[2]
	in := []*Node{dout[1], gates, cells}
	if o.Inside {
		in = append(in, c.In[1])
	}
	in = append(in, c.In[o.Weight():]...)
	d := g.Apply(LSTMGradOp{Of: o}, in...)
	if o.Inside {
		w := g.Apply(LSTMWeightGradOp{Of: o}, c.In[0], y, d[0])
		grads[0], grads[1], grads[2], grads[3] = d[1], w[0], w[1], w[2]
		return grads
	}
	grads[0] = d[0]
	grads[1] = g.apply1(MatMulOp{TransA: true}, g.apply1(PreviousOp{Reverse: o.Reverse}, y), d[0])
	return grads
}

// FLOPs counts every step of every example, padding included.
func (o LSTMOp) FLOPs(c *Call) int64 { return o.flops(o.Dims(c.In)) }

func (LSTMOp) flops(examples, time, width, hidden int) int64 {
	return 2 * int64(examples) * int64(time) * int64(width+hidden) * int64(4*hidden)
}

// LSTMGradOp takes dh, the gates, c, Wx if inside, W and the lengths if padded. It
// returns dz (b, t, 4h) and, if inside, dx (b, t, d).
type LSTMGradOp struct {
	noGradient
	Of LSTMOp
}

func (o LSTMGradOp) Name() string   { return o.Of.Name() + "-grad" }
func (o LSTMGradOp) String() string { return o.Of.String() }
func (o LSTMGradOp) Infer(in []*Node) []Type {
	dz := []Type{{in[1].Shape, in[1].DType}}
	if o.Of.Inside {
		return append(dz, Type{in[1].Shape.With(in[3].Shape[0]), in[1].DType})
	}
	return dz
}
func (o LSTMGradOp) FLOPs(c *Call) int64 {
	dy, width := c.In[0].Shape, 0
	if o.Of.Inside {
		width = c.In[3].Shape[0]
	}
	return o.Of.flops(dy[0], dy[1], width, dy[2])
}

// LSTMWeightGradOp adds to dWx, db and dW, step by step from the last one of the scan:
// inputs x, h and dz.
type LSTMWeightGradOp struct {
	noGradient
	Of LSTMOp
}

func (o LSTMWeightGradOp) Name() string   { return o.Of.Name() + "-weight-grad" }
func (o LSTMWeightGradOp) String() string { return o.Of.String() }
func (o LSTMWeightGradOp) Infer(in []*Node) []Type {
	d, h, dt := in[0].Shape[2], in[1].Shape[2], in[0].DType
	return []Type{{Shape{d, 4 * h}, dt}, {Shape{4 * h}, dt}, {Shape{h, 4 * h}, dt}}
}
func (o LSTMWeightGradOp) FLOPs(c *Call) int64 {
	x, h := c.In[0].Shape, c.In[1].Shape
	return o.Of.flops(x[0], x[1], x[2], h[2])
}
func (LSTMWeightGradOp) Accumulates() {}

// PreviousOp is y_t = x_{t-1} of x (b, t, d), or x_{t+1} if Reverse, zero where there is
// none: the states that a scan has read.
type PreviousOp struct {
	backwardOnly
	Reverse bool
}

func (PreviousOp) Name() string            { return "previous" }
func (PreviousOp) Infer(in []*Node) []Type { return sameAs(in[0]) }
