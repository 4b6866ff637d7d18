package graph

import "gpipebench/nn/graph/op"

// LayerNorm returns the rows of x (..., d), each normalised (Ba, Kiros, Hinton 2016), with gamma
// and beta (d) applied.
func (g *Graph) LayerNorm(x, gamma, beta *Node, eps float32) *Node {
	return g.apply1(op.LayerNorm{Eps: eps}, x, gamma, beta)
}

func init() {
	define(func(op.LayerNorm) rules {
		return rules{
			name: "layer-norm",
			infer: func(in []*Node) []Type {
				wantFloat("layer-norm", in...)
				x := in[0]
				for _, p := range in[1:] {
					if len(p.Shape) != 1 || p.Shape[0] != x.Shape.Last() {
						misuse("layer-norm", "%s does not fit the rows of %s", p, x)
					}
				}
				return []Type{{x.Shape, x.DType}, {Shape{x.Shape.Rows(), 2}, F32}}
			},
			gradient: func(g *Graph, c *Call, dout []*Node) []*Node {
				x, gamma, stats, dy := c.In[0], c.In[1], c.Out[1], dout[0]
				pg := g.apply(op.LayerNormParamGrad{}, dy, x, stats)
				return []*Node{g.apply1(op.LayerNormGrad{}, dy, x, gamma, stats), pg[0], pg[1]}
			},
			inPlace: first,
		}
	})
	define(func(op.LayerNormGrad) rules { return gradientOf("layer-norm-grad") })
	define(func(op.LayerNormParamGrad) rules {
		return rules{name: "layer-norm-param-grad", accumulates: true, infer: func(in []*Node) []Type {
			t := Type{Shape{in[0].Shape.Last()}, in[0].DType}
			return []Type{t, t}
		}}
	})
}
