package graph

import "gpipebench/nn/graph/op"

// LSTM scans z (b, t, 4h), the projections of all steps' inputs with their bias, with the
// recurrent weight w (h, 4h), and returns h (b, t, h). Lengths (b) int32 may be nil. The formulas
// are with [op.LSTM].
func (g *Graph) LSTM(z, w, lengths *Node, reverse bool) *Node {
	return g.lstm(op.LSTM{Reverse: reverse}, []*Node{z, w}, lengths)
}

// LSTMInside is [Graph.LSTM] that projects the inputs x (b, t, d) within its loop, by wx
// (d, 4h) and bias (4h).
func (g *Graph) LSTMInside(x, wx, bias, w, lengths *Node, reverse bool) *Node {
	return g.lstm(op.LSTM{Reverse: reverse, Inside: true}, []*Node{x, wx, bias, w}, lengths)
}

func (g *Graph) lstm(o op.LSTM, in []*Node, lengths *Node) *Node {
	if lengths != nil {
		o.Padded = true
		in = append(in, lengths)
	}
	return g.apply(o, in...)[1]
}

func init() {
	define(func(o op.LSTM) rules {
		r := rules{
			name:     lstmName(o),
			infer:    func(in []*Node) []Type { return scanned(o, in) },
			gradient: func(g *Graph, c *Call, dout []*Node) []*Node { return scanGradients(o, g, c, dout[1]) },
			// Every step of every example, padding included.
			flops: func(c *Call) int64 { return scanFLOPs(o.Dims(c.In[0].Shape, c.In[o.Weight()].Shape)) },
		}
		if !o.Inside { // the gates may overwrite the projections
			r.inPlace = first
		}
		return r
	})
	define(func(o op.LSTMGrad) rules {
		return rules{
			name: lstmName(o.Of) + "-grad",
			infer: func(in []*Node) []Type {
				gates := in[1]
				dz := sameAs(gates)
				if o.Of.Inside {
					return append(dz, Type{gates.Shape.With(in[3].Shape[0]), gates.DType})
				}
				return dz
			},
			flops: func(c *Call) int64 {
				dy, width := c.In[0].Shape, 0
				if o.Of.Inside {
					width = c.In[3].Shape[0]
				}
				return scanFLOPs(dy[0], dy[1], width, dy[2])
			},
		}
	})
	define(func(o op.LSTMWeightGrad) rules {
		return rules{
			name: lstmName(o.Of) + "-weight-grad",
			infer: func(in []*Node) []Type {
				d, h, dt := in[0].Shape[2], in[1].Shape[2], in[0].DType
				return []Type{{Shape{d, 4 * h}, dt}, {Shape{4 * h}, dt}, {Shape{h, 4 * h}, dt}}
			},
			flops: func(c *Call) int64 {
				x, h := c.In[0].Shape, c.In[1].Shape
				return scanFLOPs(x[0], x[1], x[2], h[2])
			},
			accumulates: true,
		}
	})
	define(func(op.Previous) rules { return rules{name: "previous", infer: sameAsFirst} })
}

func lstmName(o op.LSTM) string {
	if o.Inside {
		return "lstm-inside"
	}
	return "lstm"
}

func scanned(o op.LSTM, in []*Node) []Type {
	name := lstmName(o)
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
		wantLengths(name, in[want-1], x)
	}
	return []Type{{x.Shape.With(4 * hidden), x.DType}, {x.Shape.With(hidden), x.DType}, {x.Shape.With(hidden), F32}}
}

// scanGradients returns the gradients of a scan's inputs from dh.
func scanGradients(o op.LSTM, g *Graph, c *Call, dh *Node) []*Node {
	grads := make([]*Node, len(c.In))
	gates, y, cells := c.Out[0], c.Out[1], c.Out[2]
	in := []*Node{dh, gates, cells}
	if o.Inside {
		in = append(in, c.In[1])
	}
	in = append(in, c.In[o.Weight():]...)
	d := g.apply(op.LSTMGrad{Of: o}, in...)
	if o.Inside {
		w := g.apply(op.LSTMWeightGrad{Of: o}, c.In[0], y, d[0])
		grads[0], grads[1], grads[2], grads[3] = d[1], w[0], w[1], w[2]
		return grads
	}
	grads[0] = d[0]
	grads[1] = g.apply1(op.MatMul{TransA: true}, g.apply1(op.Previous{Reverse: o.Reverse}, y), d[0])
	return grads
}

func scanFLOPs(examples, time, width, hidden int) int64 {
	return 2 * int64(examples) * int64(time) * int64(width+hidden) * int64(4*hidden)
}
