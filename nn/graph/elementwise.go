package graph

import "gpipebench/nn/graph/op"

// Add returns a + b, of equal shapes.
func (g *Graph) Add(a, b *Node) *Node { return g.apply1(op.Add{}, a, b) }

// Sub returns a - b, of equal shapes.
func (g *Graph) Sub(a, b *Node) *Node { return g.apply1(op.Sub{}, a, b) }

// Mul returns the element-wise product of equal shapes.
func (g *Graph) Mul(a, b *Node) *Node { return g.apply1(op.Mul{}, a, b) }

// Div returns the element-wise quotient a / b of equal shapes.
func (g *Graph) Div(a, b *Node) *Node { return g.apply1(op.Div{}, a, b) }

// Scale returns s * x.
func (g *Graph) Scale(x *Node, s float32) *Node { return g.apply1(op.Scale{S: s}, x) }

// Shift returns x + s.
func (g *Graph) Shift(x *Node, s float32) *Node { return g.apply1(op.Shift{S: s}, x) }

// Sqrt returns the square root of x, NaN below 0. Its gradient at 0 is infinite.
func (g *Graph) Sqrt(x *Node) *Node { return g.apply1(op.Sqrt{}, x) }

// Exp returns exp(x).
func (g *Graph) Exp(x *Node) *Node { return g.apply1(op.Exp{}, x) }

// Log returns the natural logarithm of x, -Inf at 0 and NaN below.
func (g *Graph) Log(x *Node) *Node { return g.apply1(op.Log{}, x) }

// Sigmoid returns the logistic function, 1/(1 + exp(-x)).
func (g *Graph) Sigmoid(x *Node) *Node { return g.apply1(op.Sigmoid{}, x) }

// Tanh returns the hyperbolic tangent of x.
func (g *Graph) Tanh(x *Node) *Node { return g.apply1(op.Tanh{}, x) }

// ReLU returns max(x, 0).
func (g *Graph) ReLU(x *Node) *Node { return g.apply1(op.ReLU{}, x) }

// GELU returns 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
func (g *Graph) GELU(x *Node) *Node { return g.apply1(op.GELU{}, x) }

// SwiGLU returns x σ(x) u with the logistic function σ, of equal shapes.
func (g *Graph) SwiGLU(x, u *Node) *Node { return g.apply1(op.SwiGLU{}, x, u) }

// Clip limits x to [-limit, limit].
func (g *Graph) Clip(x *Node, limit float32) *Node { return g.apply1(op.Clip{Limit: limit}, x) }

// Dropout drops elements of x, whose first dimension counts the examples.
func (g *Graph) Dropout(x *Node, rate float32, path string) *Node {
	return g.apply1(op.Dropout{Rate: rate, Path: path}, x)
}

// DropPath drops examples of x, whose first dimension counts them, with a rate
// that rises from 0 over a number of steps (0: it does not).
func (g *Graph) DropPath(x *Node, rate float32, over int, path string) *Node {
	return g.apply1(op.DropPath{Rate: rate, Path: path, Over: over}, x)
}

// AddBias returns x + bias, a vector that is added to every row: x (..., n), bias (n).
func (g *Graph) AddBias(x, bias *Node) *Node { return g.apply1(op.AddBias{}, x, bias) }

// Copy returns a copy of x, of any dtype.
func (g *Graph) Copy(x *Node) *Node { return g.apply1(op.Copy{}, x) }

func init() {
	define(func(op.Add) rules {
		return binary("add", func(_ *Graph, _ *Call, dout []*Node) []*Node { return []*Node{dout[0], dout[0]} })
	})
	define(func(op.Sub) rules {
		return binary("sub", func(g *Graph, _ *Call, dout []*Node) []*Node { return []*Node{dout[0], g.Scale(dout[0], -1)} })
	})
	define(func(op.Mul) rules {
		return binary("mul", func(g *Graph, c *Call, dout []*Node) []*Node {
			return []*Node{g.Mul(dout[0], c.In[1]), g.Mul(dout[0], c.In[0])}
		})
	})
	define(func(op.Div) rules {
		return binary("div", func(g *Graph, c *Call, dout []*Node) []*Node {
			da := g.Div(dout[0], c.In[1])
			return []*Node{da, g.Scale(g.Mul(da, c.Out[0]), -1)}
		})
	})
	define(func(o op.Scale) rules {
		return unary("scale", func(g *Graph, _ *Call, dout []*Node) []*Node { return []*Node{g.Scale(dout[0], o.S)} })
	})
	define(func(op.Shift) rules {
		return unary("shift", func(_ *Graph, _ *Call, dout []*Node) []*Node { return []*Node{dout[0]} })
	})
	define(func(op.Sqrt) rules {
		return unary("sqrt", func(g *Graph, c *Call, dout []*Node) []*Node {
			return []*Node{g.Scale(g.Div(dout[0], c.Out[0]), 0.5)}
		})
	})
	define(func(op.Exp) rules {
		return unary("exp", func(g *Graph, c *Call, dout []*Node) []*Node { return []*Node{g.Mul(dout[0], c.Out[0])} })
	})
	define(func(op.Copy) rules {
		return rules{name: "copy", infer: sameAsFirst, gradient: func(_ *Graph, _ *Call, dout []*Node) []*Node {
			return []*Node{dout[0]}
		}}
	})

	define(func(op.Log) rules { return unary("log", ofInput(op.LogGrad{})) })
	define(func(op.LogGrad) rules { return gradientOf("log-grad") })
	define(func(op.Sigmoid) rules { return unary("sigmoid", ofOutput(op.SigmoidGrad{})) })
	define(func(op.SigmoidGrad) rules { return gradientOf("sigmoid-grad") })
	define(func(op.Tanh) rules { return unary("tanh", ofOutput(op.TanhGrad{})) })
	define(func(op.TanhGrad) rules { return gradientOf("tanh-grad") })
	define(func(op.ReLU) rules { return unary("relu", ofOutput(op.ReLUGrad{})) })
	define(func(op.ReLUGrad) rules { return gradientOf("relu-grad") })
	define(func(op.GELU) rules { return unary("gelu", ofInput(op.GELUGrad{})) })
	define(func(op.GELUGrad) rules { return gradientOf("gelu-grad") })
	define(func(op.SwiGLU) rules {
		return rules{name: "swiglu", infer: alike("swiglu"), gradient: func(g *Graph, c *Call, dout []*Node) []*Node {
			return g.apply(op.SwiGLUGrad{}, dout[0], c.In[0], c.In[1])
		}}
	})
	define(func(op.SwiGLUGrad) rules {
		return rules{name: "swiglu-grad", infer: func(in []*Node) []Type { return typesOf(in[1:]) }}
	})
	define(func(o op.Clip) rules {
		r := unary("clip", ofInput(op.ClipGrad(o)))
		r.infer = func(in []*Node) []Type {
			if !(o.Limit > 0) {
				misuse("clip", "limit %v is not positive", o.Limit)
			}
			return alike("clip")(in)
		}
		return r
	})
	define(func(op.ClipGrad) rules { return gradientOf("clip-grad") })

	again := func(o any) gradient { // the same mask
		return func(g *Graph, _ *Call, dout []*Node) []*Node { return []*Node{g.apply1(o, dout[0])} }
	}
	wantRate := func(name string, rate float32) {
		if !(rate > 0 && rate < 1) {
			misuse(name, "rate %v is not between 0 and 1", rate)
		}
	}
	define(func(o op.Dropout) rules {
		r := unary("dropout", again(o))
		r.infer = func(in []*Node) []Type {
			wantRate("dropout", o.Rate)
			return alike("dropout")(in)
		}
		return r
	})
	define(func(o op.DropPath) rules {
		r := unary("drop-path", again(o))
		r.infer = func(in []*Node) []Type {
			wantRate("drop-path", o.Rate)
			if o.Over < 0 {
				misuse("drop-path", "a rise over %d steps, want 0 or more", o.Over)
			}
			return alike("drop-path")(in)
		}
		return r
	})

	define(func(op.AddBias) rules {
		return rules{
			name: "bias",
			infer: func(in []*Node) []Type {
				wantFloat("bias", in...)
				if len(in[1].Shape) != 1 || in[1].Shape[0] != in[0].Shape.Last() {
					misuse("bias", "bias %s does not fit the rows of %s", in[1], in[0])
				}
				return sameAs(in[0])
			},
			gradient: func(g *Graph, _ *Call, dout []*Node) []*Node {
				return []*Node{dout[0], g.apply1(op.ColumnSum{}, dout[0])}
			},
			inPlace: first,
		}
	})
	define(func(op.ColumnSum) rules {
		return rules{
			name:        "column-sum",
			infer:       func(in []*Node) []Type { return []Type{{Shape{in[0].Shape.Last()}, in[0].DType}} },
			accumulates: true,
		}
	})
}
