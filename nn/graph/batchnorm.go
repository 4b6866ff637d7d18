package graph

import "gpipebench/nn/graph/op"

// BatchNorm normalises every column (channel) of x (..., C) over all rows, that
// is over the examples and pixels of the micro-batch, and applies gamma and
// beta (C), then max(., 0) if relu (Ioffe and Szegedy 2015, algorithm 1; GPipe,
// section 2.2: statistics of the micro-batch).
//
// With OverReplicas, statistics cover the same micro-batch of all replicas. What a
// replica computes of its own micro-batch, moments forward and sums backward, is then added up
// over the replicas in the middle of the function. Both functions differ from those of one
// replica in what they normalise by, and in nothing else. Gradients of gamma and beta remain
// those of the replica's own rows, since they are added up with all other gradients.
//
// The second result accumulates the statistics of a mini-batch's micro-batches,
// see [op.BatchNormStats].
func (g *Graph) BatchNorm(x, gamma, beta *Node, eps float32, relu bool) (y, tally *Node) {
	rows := x.Shape.Rows()
	if rows < 2 && !g.OverReplicas {
		misuse("batch-norm", "%d value per channel in %s: statistics want at least 2", rows, x)
	}
	moments := g.apply1(op.BatchNormMoments{}, x)
	var stats *Node
	if g.OverReplicas {
		own := g.apply(op.BatchNormTally{Rows: rows}, moments)
		all := g.apply1(op.BatchNormOverReplicas{Tallies: true}, own[0])
		stats, tally = g.apply1(op.BatchNormWideStats{Rows: rows, Eps: eps}, all), own[1]
	} else {
		own := g.apply(op.BatchNormStats{Rows: rows, Eps: eps}, moments)
		stats, tally = own[0], own[1]
	}
	return g.apply1(op.BatchNorm{ReLU: relu}, x, stats, gamma, beta), tally
}

// BatchNormEval returns x normalised by a given mean and variance (C).
func (g *Graph) BatchNormEval(x, mean, variance, gamma, beta *Node, eps float32, relu bool) *Node {
	return g.apply1(op.BatchNormEval{Eps: eps, ReLU: relu}, x, mean, variance, gamma, beta)
}

func init() {
	// Ops that compute statistics have no gradients: that of a batch norm takes into account
	// that its statistics depend on its input.
	define(func(op.BatchNormMoments) rules {
		return rules{name: "batch-norm-moments", gradient: ofNone, infer: func(in []*Node) []Type {
			wantFloat("batch-norm", in...)
			return chunked(in)
		}}
	})
	define(func(o op.BatchNormStats) rules {
		return rules{name: "batch-norm-stats", gradient: ofNone, infer: func(in []*Node) []Type {
			wantPositiveEps(o.Eps)
			c := in[0].Shape.Last()
			return []Type{{Shape{2, c}, F32}, tally(c)}
		}}
	})
	define(func(o op.BatchNorm) rules {
		return rules{
			name: withReLU("batch-norm", o.ReLU),
			infer: func(in []*Node) []Type {
				wantColumns("batch-norm", in[0], in[2:])
				return sameAs(in[0])
			},
			gradient: func(g *Graph, c *Call, dout []*Node) []*Node {
				x, stats, gamma, beta, dy := c.In[0], c.In[1], c.In[2], c.In[3], dout[0]
				sums := g.apply1(op.BatchNormGradSums(o), dy, x, stats, gamma, beta)
				totals := g.apply1(op.BatchNormGradTotals{}, sums)
				pg := g.apply(op.BatchNormParamGrad{}, totals)
				if g.OverReplicas { // the gradient is centred by the totals of all
					all := g.apply1(op.BatchNormOverReplicas{}, totals)
					totals = g.apply1(op.BatchNormWideTotals{}, all, stats)
				}
				return []*Node{g.apply1(op.BatchNormGrad(o), dy, x, stats, totals, gamma, beta), nil, pg[0], pg[1]}
			},
			inPlace: first,
		}
	})
	define(func(o op.BatchNormGradSums) rules {
		return rules{name: withReLU("batch-norm-grad-sums", o.ReLU), infer: chunked}
	})
	define(func(op.BatchNormGradTotals) rules {
		return rules{name: "batch-norm-grad-totals", infer: func(in []*Node) []Type {
			return []Type{{Shape{2, in[0].Shape.Last()}, F32}}
		}}
	})
	define(func(o op.BatchNormGrad) rules { return gradientOf(withReLU("batch-norm-grad", o.ReLU)) })
	define(func(op.BatchNormParamGrad) rules {
		return rules{name: "batch-norm-param-grad", accumulates: true, infer: func(in []*Node) []Type {
			t := Type{Shape{in[0].Shape.Last()}, F32}
			return []Type{t, t}
		}}
	})
	define(func(o op.BatchNormEval) rules {
		return rules{
			name: withReLU("batch-norm-eval", o.ReLU),
			infer: func(in []*Node) []Type {
				wantColumns("batch-norm", in[0], in[1:])
				wantPositiveEps(o.Eps)
				return sameAs(in[0])
			},
			inPlace: first,
		}
	})

	define(func(o op.BatchNormTally) rules {
		return rules{name: "batch-norm-tally", gradient: ofNone, infer: func(in []*Node) []Type {
			t := tally(in[0].Shape.Last())
			return []Type{t, t}
		}}
	})
	define(func(op.BatchNormOverReplicas) rules {
		return rules{name: "batch-norm-over-replicas", gradient: ofNone, inPlace: first, infer: func(in []*Node) []Type {
			t := Type{in[0].Shape, F32}
			return []Type{t, t}
		}}
	})
	define(func(o op.BatchNormWideStats) rules {
		return rules{name: "batch-norm-wide-stats", gradient: ofNone, infer: func(in []*Node) []Type {
			wantPositiveEps(o.Eps)
			return []Type{{Shape{3, in[0].Shape[1]}, F32}}
		}}
	})
	define(func(op.BatchNormWideTotals) rules {
		return rules{name: "batch-norm-wide-totals", inPlace: first, infer: func(in []*Node) []Type {
			return []Type{{in[0].Shape, F32}}
		}}
	})
}

// tally is the type of a tally of c channels.
func tally(c int) Type { return Type{Shape{3, c, 2}, F32} } // a float64 takes two floats

func chunked(in []*Node) []Type {
	x := in[0]
	chunks := (x.Shape.Rows() + op.NormChunk - 1) / op.NormChunk
	return []Type{{Shape{chunks, 2, x.Shape.Last()}, F32}}
}

func wantPositiveEps(eps float32) {
	if !(eps > 0) {
		misuse("batch-norm", "eps %v is not positive", eps)
	}
}

// wantColumns checks vectors with an element for each column of x.
func wantColumns(name string, x *Node, vectors []*Node) {
	wantFloat(name, x)
	for _, v := range vectors {
		if len(v.Shape) != 1 || v.Shape[0] != x.Shape.Last() {
			misuse(name, "%s does not fit the channels of %s", v, x)
		}
	}
}

func withReLU(name string, relu bool) string {
	if relu {
		return name + "-relu"
	}
	return name
}
