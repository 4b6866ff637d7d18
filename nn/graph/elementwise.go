package graph

import "slices"

// noProducts is embedded by ops without matrix products.
type noProducts struct{}

func (noProducts) FLOPs(*Call) int64 { return 0 }

// noGradient is embedded by ops that occur only in backward functions.
type noGradient struct{}

func (noGradient) Gradient(*Graph, *Call, []*Node) []*Node {
	panic("graph: the gradient of a gradient is not defined")
}

// backwardOnly is embedded by ops of backward functions without matrix products.
type backwardOnly struct {
	noProducts
	noGradient
}

// overFirst is embedded by ops without matrix products whose result may overwrite their
// first input.
type overFirst struct{ noProducts }

func (overFirst) InPlace() []int { return []int{0} }

// overBoth is the same for either of two inputs.
type overBoth struct{ noProducts }

func (overBoth) InPlace() []int { return []int{0, 1} }

// pointwiseGrad is embedded by gradients that take dy and perhaps more values, the first
// of its shape, and may overwrite either of these two.
type pointwiseGrad struct{ backwardOnly }

func (pointwiseGrad) Infer(in []*Node) []Type { return sameAs(in[0]) }
func (pointwiseGrad) InPlace() []int          { return []int{0, 1} }

func sameAs(n *Node) []Type { return []Type{{n.Shape, n.DType}} }

// alike is the type of floating-point inputs that have all the same one.
func alike(op string, in []*Node) []Type {
	wantFloat(op, in...)
	for _, n := range in[1:] {
		if !slices.Equal(n.Shape, in[0].Shape) || n.DType != in[0].DType {
			misuse(op, "inputs %s and %s differ", in[0], n)
		}
	}
	return sameAs(in[0])
}

// AddOp is z = a + b.
type AddOp struct{ overBoth }

// Add returns a + b, of equal shapes.
func (g *Graph) Add(a, b *Node) *Node { return g.apply1(AddOp{}, a, b) }

func (AddOp) Name() string                                     { return "add" }
func (AddOp) Infer(in []*Node) []Type                          { return alike("add", in) }
func (AddOp) Gradient(_ *Graph, _ *Call, dout []*Node) []*Node { return []*Node{dout[0], dout[0]} }

// SubOp is z = a - b.
type SubOp struct{ overBoth }

// Sub returns a - b, of equal shapes.
func (g *Graph) Sub(a, b *Node) *Node { return g.apply1(SubOp{}, a, b) }

func (SubOp) Name() string            { return "sub" }
func (SubOp) Infer(in []*Node) []Type { return alike("sub", in) }
func (SubOp) Gradient(g *Graph, _ *Call, dout []*Node) []*Node {
	return []*Node{dout[0], g.Scale(dout[0], -1)}
}

// MulOp is z = a * b, element by element.
type MulOp struct{ overBoth }

// Mul returns the element-wise product of equal shapes.
func (g *Graph) Mul(a, b *Node) *Node { return g.apply1(MulOp{}, a, b) }

func (MulOp) Name() string            { return "mul" }
func (MulOp) Infer(in []*Node) []Type { return alike("mul", in) }
func (MulOp) Gradient(g *Graph, c *Call, dout []*Node) []*Node {
	return []*Node{g.Mul(dout[0], c.In[1]), g.Mul(dout[0], c.In[0])}
}

// ScaleOp is z = S * x.
type ScaleOp struct {
	overFirst
	S float32
}

// Scale returns s * x.
func (g *Graph) Scale(x *Node, s float32) *Node { return g.apply1(ScaleOp{S: s}, x) }

func (ScaleOp) Name() string            { return "scale" }
func (ScaleOp) Infer(in []*Node) []Type { return alike("scale", in) }
func (o ScaleOp) Gradient(g *Graph, _ *Call, dout []*Node) []*Node {
	return []*Node{g.Scale(dout[0], o.S)}
}

// ShiftOp is z = x + S.
type ShiftOp struct {
	overFirst
	S float32
}

// Shift returns x + s.
func (g *Graph) Shift(x *Node, s float32) *Node { return g.apply1(ShiftOp{S: s}, x) }

func (ShiftOp) Name() string            { return "shift" }
func (ShiftOp) Infer(in []*Node) []Type { return alike("shift", in) }
func (ShiftOp) Gradient(_ *Graph, _ *Call, dout []*Node) []*Node {
	return []*Node{dout[0]}
}

// ReLUOp is y = max(x, 0). Its gradient needs only y.
type ReLUOp struct{ overFirst }

// ReLU returns max(x, 0).
func (g *Graph) ReLU(x *Node) *Node { return g.apply1(ReLUOp{}, x) }

func (ReLUOp) Name() string            { return "relu" }
func (ReLUOp) Infer(in []*Node) []Type { return alike("relu", in) }
func (ReLUOp) Gradient(g *Graph, c *Call, dout []*Node) []*Node {
	return []*Node{g.apply1(ReLUGradOp{}, dout[0], c.Out[0])}
}

// ReLUGradOp is dx = dy where y > 0, else 0; inputs dy, y.
type ReLUGradOp struct{ pointwiseGrad }

func (ReLUGradOp) Name() string { return "relu-grad" }

// GELUOp is the tanh form of Hendrycks and Gimpel (2016).
type GELUOp struct{ overFirst }

// GELU returns 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
func (g *Graph) GELU(x *Node) *Node { return g.apply1(GELUOp{}, x) }

func (GELUOp) Name() string            { return "gelu" }
func (GELUOp) Infer(in []*Node) []Type { return alike("gelu", in) }
func (GELUOp) Gradient(g *Graph, c *Call, dout []*Node) []*Node {
	return []*Node{g.apply1(GELUGradOp{}, dout[0], c.In[0])}
}

// GELUGradOp takes dy, x.
type GELUGradOp struct{ pointwiseGrad }

func (GELUGradOp) Name() string { return "gelu-grad" }

// ClipOp limits x to [-Limit, Limit]; the gradient passes where |x| <= Limit.
// GPipe clips logits whose magnitude exceeds a value (section 5).
type ClipOp struct {
	overFirst
	Limit float32
}

// Clip limits x to [-limit, limit].
func (g *Graph) Clip(x *Node, limit float32) *Node { return g.apply1(ClipOp{Limit: limit}, x) }

func (ClipOp) Name() string { return "clip" }
func (o ClipOp) Infer(in []*Node) []Type {
	wantFloat("clip", in...)
	if !(o.Limit > 0) {
		misuse("clip", "limit %v is not positive", o.Limit)
	}
	return sameAs(in[0])
}
func (o ClipOp) Gradient(g *Graph, c *Call, dout []*Node) []*Node {
	return []*Node{g.apply1(ClipGradOp{Limit: o.Limit}, dout[0], c.In[0])}
}

// ClipGradOp takes dy, x.
type ClipGradOp struct {
	pointwiseGrad
	Limit float32
}

func (ClipGradOp) Name() string { return "clip-grad" }

// DropoutOp zeroes elements with probability Rate and scales the others by
// 1/(1-Rate). The mask is a function of only (seed, step, Path, example,
// element), so the backward function and every recomputation draw it again
// instead of storing it.
type DropoutOp struct {
	overFirst
	Rate float32
	Path string
}

// Dropout drops elements of x, whose first dimension counts the examples.
func (g *Graph) Dropout(x *Node, rate float32, path string) *Node {
	return g.apply1(DropoutOp{Rate: rate, Path: path}, x)
}

func (DropoutOp) Name() string { return "dropout" }
func (o DropoutOp) Infer(in []*Node) []Type {
	wantFloat("dropout", in...)
	if !(o.Rate > 0 && o.Rate < 1) {
		misuse("dropout", "rate %v is not between 0 and 1", o.Rate)
	}
	return sameAs(in[0])
}
func (o DropoutOp) Gradient(g *Graph, _ *Call, dout []*Node) []*Node {
	return []*Node{g.apply1(o, dout[0])}
}

// AddBiasOp adds a vector to every row: x (..., n), bias (n).
type AddBiasOp struct{ overFirst }

// AddBias returns x + bias.
func (g *Graph) AddBias(x, bias *Node) *Node { return g.apply1(AddBiasOp{}, x, bias) }

func (AddBiasOp) Name() string { return "bias" }
func (AddBiasOp) Infer(in []*Node) []Type {
	wantFloat("bias", in...)
	if len(in[1].Shape) != 1 || in[1].Shape[0] != in[0].Shape.Last() {
		misuse("bias", "bias %s does not fit the rows of %s", in[1], in[0])
	}
	return sameAs(in[0])
}
func (AddBiasOp) Gradient(g *Graph, _ *Call, dout []*Node) []*Node {
	return []*Node{dout[0], g.apply1(ColumnSumOp{}, dout[0])}
}

// ColumnSumOp adds the rows of x (..., n) to its output (n), in order.
type ColumnSumOp struct{ backwardOnly }

func (ColumnSumOp) Name() string { return "column-sum" }
func (ColumnSumOp) Infer(in []*Node) []Type {
	return []Type{{Shape{in[0].Shape.Last()}, in[0].DType}}
}
func (ColumnSumOp) Accumulates() {}
