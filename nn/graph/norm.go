package graph

import "gpipebench/nn/graph/op"

// LayerNorm returns the rows of x (..., d), each normalised (Ba, Kiros, Hinton 2016), with gamma
// and beta (d) applied.
func (g *Graph) LayerNorm(x, gamma, beta *Node, eps float32) *Node {
	return g.apply1(op.LayerNorm{Eps: eps}, x, gamma, beta)
}

// RMSNorm returns the rows of x (..., d), each divided by its root mean square (Zhang and Sennrich
// 2019), with gamma (d) applied.
func (g *Graph) RMSNorm(x, gamma *Node, eps float32) *Node {
	return g.apply1(op.RMSNorm{Eps: eps}, x, gamma)
}

func init() {
	define(func(op.LayerNorm) rules {
		return rules{
			name: "layer-norm",
			infer: func(in []*Node) []Type {
				x := in[0]
				wantRows("layer-norm", x, in[1:]...)
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
	define(func(op.RMSNorm) rules {
		return rules{
			name: "rms-norm",
			infer: func(in []*Node) []Type {
				x := in[0]
				wantRows("rms-norm", x, in[1])
				return []Type{{x.Shape, x.DType}, {Shape{x.Shape.Rows()}, F32}}
			},
			gradient: func(g *Graph, c *Call, dout []*Node) []*Node {
				x, gamma, scale, dy := c.In[0], c.In[1], c.Out[1], dout[0]
				dgamma := g.apply1(op.RMSNormParamGrad{}, dy, x, scale)
				return []*Node{g.apply1(op.RMSNormGrad{}, dy, x, gamma, scale), dgamma}
			},
		}
	})
	define(func(op.RMSNormGrad) rules { return rules{name: "rms-norm-grad", infer: sameAsFirst, inPlace: first} })
	define(func(op.RMSNormParamGrad) rules {
		return rules{name: "rms-norm-param-grad", accumulates: true, infer: func(in []*Node) []Type {
			return []Type{{Shape{in[0].Shape.Last()}, in[0].DType}}
		}}
	})
}

// wantRows checks a norm's input and its parameters, one for each element of a row.
func wantRows(name string, x *Node, params ...*Node) {
	wantFloat(name, x)
	wantFloat(name, params...)
	for _, p := range params {
		if len(p.Shape) != 1 || p.Shape[0] != x.Shape.Last() {
			misuse(name, "%s does not fit the rows of %s", p, x)
		}
	}
}
