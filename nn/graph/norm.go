package graph

// LayerNormOp normalises each row of x (..., d) and applies gamma and beta (d)
// (Ba, Kiros, Hinton 2016). Outputs: y, and stats (rows, 2) = mean and
// 1/sqrt(variance + Eps), which the backward needs.
type LayerNormOp struct {
	overFirst
	Eps float32
}

// LayerNorm returns the normalised rows of x.
func (g *Graph) LayerNorm(x, gamma, beta *Node, eps float32) *Node {
	return g.Apply(LayerNormOp{Eps: eps}, x, gamma, beta)[0]
}

func (LayerNormOp) Name() string { return "layer-norm" }
func (LayerNormOp) Infer(in []*Node) []Type {
	wantFloat("layer-norm", in...)
	x := in[0]
	for _, p := range in[1:] {
		if len(p.Shape) != 1 || p.Shape[0] != x.Shape.Last() {
			misuse("layer-norm", "%s does not fit the rows of %s", p, x)
		}
	}
	return []Type{{x.Shape, x.DType}, {Shape{x.Shape.Rows(), 2}, F32}}
}
func (LayerNormOp) Gradient(g *Graph, c *Call, dout []*Node) []*Node {
	x, gamma, stats, dy := c.In[0], c.In[1], c.Out[1], dout[0]
	pg := g.Apply(LayerNormParamGradOp{}, dy, x, stats)
	return []*Node{g.apply1(LayerNormGradOp{}, dy, x, gamma, stats), pg[0], pg[1]}
}

// LayerNormGradOp returns dx from dy, x, gamma, stats.
type LayerNormGradOp struct{ pointwiseGrad }

func (LayerNormGradOp) Name() string { return "layer-norm-grad" }

// LayerNormParamGradOp adds to dgamma and dbeta (d) from dy, x, stats.
type LayerNormParamGradOp struct{ backwardOnly }

func (LayerNormParamGradOp) Name() string { return "layer-norm-param-grad" }
func (LayerNormParamGradOp) Infer(in []*Node) []Type {
	t := Type{Shape{in[0].Shape.Last()}, in[0].DType}
	return []Type{t, t}
}
func (LayerNormParamGradOp) Accumulates() {}
