package graph

// noProducts is embedded by ops without matrix products.
type noProducts struct{}

func (noProducts) FLOPs(*Call) int64 { return 0 }

// noGradient is embedded by ops that occur only in backward functions.
type noGradient struct{}

func (noGradient) Gradient(*Graph, *Call, []*Node) []*Node {
	panic("graph: the gradient of a gradient is not defined")
}

func sameAs(n *Node) []Type { return []Type{{n.Shape, n.DType}} }

// AddOp is z = a + b.
type AddOp struct{ noProducts }

// Add returns a + b, of equal shapes.
func (g *Graph) Add(a, b *Node) *Node { return g.apply1(AddOp{}, a, b) }

func (AddOp) Name() string { return "add" }
func (AddOp) Infer(in []*Node) []Type {
	wantFloat("add", in...)
	wantSameShape("add", in[0], in[1])
	return sameAs(in[0])
}
func (AddOp) Gradient(_ *Graph, _ *Call, dout []*Node) []*Node { return []*Node{dout[0], dout[0]} }
func (AddOp) InPlace() []int                                   { return []int{0, 1} }

// SubOp is z = a - b.
type SubOp struct{ noProducts }

// Sub returns a - b, of equal shapes.
func (g *Graph) Sub(a, b *Node) *Node { return g.apply1(SubOp{}, a, b) }

func (SubOp) Name() string { return "sub" }
func (SubOp) Infer(in []*Node) []Type {
	wantFloat("sub", in...)
	wantSameShape("sub", in[0], in[1])
	return sameAs(in[0])
}
func (SubOp) Gradient(g *Graph, _ *Call, dout []*Node) []*Node {
	return []*Node{dout[0], g.Scale(dout[0], -1)}
}
func (SubOp) InPlace() []int { return []int{0, 1} }

// MulOp is z = a * b, element by element.
type MulOp struct{ noProducts }

// Mul returns the element-wise product of equal shapes.
func (g *Graph) Mul(a, b *Node) *Node { return g.apply1(MulOp{}, a, b) }

func (MulOp) Name() string { return "mul" }
func (MulOp) Infer(in []*Node) []Type {
	wantFloat("mul", in...)
	wantSameShape("mul", in[0], in[1])
	return sameAs(in[0])
}
func (MulOp) Gradient(g *Graph, c *Call, dout []*Node) []*Node {
	return []*Node{g.Mul(dout[0], c.In[1]), g.Mul(dout[0], c.In[0])}
}
func (MulOp) InPlace() []int { return []int{0, 1} }

// ScaleOp is z = S * x.
type ScaleOp struct {
	noProducts
	S float32
}

// Scale returns s * x.
func (g *Graph) Scale(x *Node, s float32) *Node { return g.apply1(ScaleOp{S: s}, x) }

func (ScaleOp) Name() string            { return "scale" }
func (ScaleOp) Infer(in []*Node) []Type { wantFloat("scale", in...); return sameAs(in[0]) }
func (o ScaleOp) Gradient(g *Graph, _ *Call, dout []*Node) []*Node {
	return []*Node{g.Scale(dout[0], o.S)}
}
func (ScaleOp) InPlace() []int { return []int{0} }

// ShiftOp is z = x + S.
type ShiftOp struct {
	noProducts
	S float32
}

// Shift returns x + s.
func (g *Graph) Shift(x *Node, s float32) *Node { return g.apply1(ShiftOp{S: s}, x) }

func (ShiftOp) Name() string            { return "shift" }
func (ShiftOp) Infer(in []*Node) []Type { wantFloat("shift", in...); return sameAs(in[0]) }
func (ShiftOp) Gradient(_ *Graph, _ *Call, dout []*Node) []*Node {
	return []*Node{dout[0]}
}
func (ShiftOp) InPlace() []int { return []int{0} }

// ReLUOp is y = max(x, 0). Its gradient needs only y.
type ReLUOp struct{ noProducts }

// ReLU returns max(x, 0).
func (g *Graph) ReLU(x *Node) *Node { return g.apply1(ReLUOp{}, x) }

func (ReLUOp) Name() string            { return "relu" }
func (ReLUOp) Infer(in []*Node) []Type { wantFloat("relu", in...); return sameAs(in[0]) }
func (ReLUOp) Gradient(g *Graph, c *Call, dout []*Node) []*Node {
	return []*Node{g.apply1(ReLUGradOp{}, dout[0], c.Out[0])}
}
func (ReLUOp) InPlace() []int { return []int{0} }

// ReLUGradOp is dx = dy where y > 0, else 0; inputs dy, y.
type ReLUGradOp struct {
	noProducts
	noGradient
}

func (ReLUGradOp) Name() string            { return "relu-grad" }
func (ReLUGradOp) Infer(in []*Node) []Type { return sameAs(in[0]) }
func (ReLUGradOp) InPlace() []int          { return []int{0, 1} }

// GELUOp is the tanh form of Hendrycks and Gimpel (2016).
type GELUOp struct{ noProducts }

// GELU returns 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
func (g *Graph) GELU(x *Node) *Node { return g.apply1(GELUOp{}, x) }

func (GELUOp) Name() string            { return "gelu" }
func (GELUOp) Infer(in []*Node) []Type { wantFloat("gelu", in...); return sameAs(in[0]) }
func (GELUOp) Gradient(g *Graph, c *Call, dout []*Node) []*Node {
	return []*Node{g.apply1(GELUGradOp{}, dout[0], c.In[0])}
}
func (GELUOp) InPlace() []int { return []int{0} }

// GELUGradOp takes dy, x.
type GELUGradOp struct {
	noProducts
	noGradient
}

func (GELUGradOp) Name() string            { return "gelu-grad" }
func (GELUGradOp) Infer(in []*Node) []Type { return sameAs(in[0]) }
func (GELUGradOp) InPlace() []int          { return []int{0, 1} }

// ClipOp limits x to [-Limit, Limit]; the gradient passes where |x| <= Limit.
// GPipe clips logits whose magnitude exceeds a value (section 5).
type ClipOp struct {
	noProducts
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
func (ClipOp) InPlace() []int { return []int{0} }

// ClipGradOp takes dy, x.
type ClipGradOp struct {
	noProducts
	noGradient
	Limit float32
}

func (ClipGradOp) Name() string            { return "clip-grad" }
func (ClipGradOp) Infer(in []*Node) []Type { return sameAs(in[0]) }
func (ClipGradOp) InPlace() []int          { return []int{0, 1} }

// DropoutOp zeroes elements with probability Rate and scales the others by
// 1/(1-Rate). The mask is a function of only (seed, step, Path, example,
// element), so the backward function and every recomputation draw it again
// instead of storing it.
type DropoutOp struct {
	noProducts
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
func (DropoutOp) InPlace() []int { return []int{0} }

// AddBiasOp adds a vector to every row: x (..., n), bias (n).
type AddBiasOp struct{ noProducts }

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
func (AddBiasOp) InPlace() []int { return []int{0} }

// ColumnSumOp adds the rows of x (..., n) to its output (n), in order.
type ColumnSumOp struct {
	noProducts
	noGradient
}

func (ColumnSumOp) Name() string { return "column-sum" }
func (ColumnSumOp) Infer(in []*Node) []Type {
	return []Type{{Shape{in[0].Shape.Last()}, in[0].DType}}
}
func (ColumnSumOp) Accumulates() {}
