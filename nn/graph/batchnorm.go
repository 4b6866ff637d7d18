package graph

// NormChunk is the number of rows whose moments a batch norm computes together.
// Chunks are combined in ascending order, so the bits depend only on the rows,
// and threads can share the chunks.
const NormChunk = 128

// BatchNorm normalises every column (channel) of x (..., C) over all rows, that
// is over the examples and pixels of the micro-batch, and applies gamma and
// beta (C), then max(., 0) if relu (Ioffe and Szegedy 2015, algorithm 1; GPipe,
// section 2.2: statistics of the micro-batch).
//
// With OverReplicas, statistics are those of the same micro-batch of all replicas.
//
// The second result accumulates the statistics of a mini-batch's micro-batches,
// see BatchNormStatsOp.
func (g *Graph) BatchNorm(x, gamma, beta *Node, eps float32, relu bool) (y, tally *Node) {
	rows := x.Shape.Rows()
	if rows < 2 && !g.OverReplicas {
		misuse("batch-norm", "%d value per channel in %s: statistics want at least 2", rows, x)
	}
	moments := g.apply1(BatchNormMomentsOp{}, x)
	var stats *Node
	if g.OverReplicas {
		stats, tally = g.wideStats(moments, rows, eps)
	} else {
		own := g.Apply(BatchNormStatsOp{Rows: rows, Eps: eps}, moments)
		stats, tally = own[0], own[1]
	}
	return g.apply1(BatchNormOp{ReLU: relu}, x, stats, gamma, beta), tally
}

// BatchNormMomentsOp returns the mean and the sum of squared deviations of
// every chunk of x (rows, C): (chunks, 2, C).
type BatchNormMomentsOp struct{ statistics }

func (BatchNormMomentsOp) Name() string { return "batch-norm-moments" }
func (BatchNormMomentsOp) Infer(in []*Node) []Type {
	wantFloat("batch-norm", in...)
	return chunked(in[0])
}

// BatchNormStatsOp combines moments (chunks, 2, C) of Rows rows (Chan, Golub
// and LeVeque 1979, in float64): stats (2, C) = mean and 1/sqrt(variance +
// Eps). The variance is divided by the number of rows.
//
// Its second output accumulates the statistics of the mini-batch's
// micro-batches: count, mean and sum of squared deviations of every channel in
// float64. Like an accumulator of gradients it lives for one step. A
// recomputation adds nothing.
type BatchNormStatsOp struct {
	statistics
	Rows int
	Eps  float32
}

func (BatchNormStatsOp) Name() string { return "batch-norm-stats" }
func (o BatchNormStatsOp) Infer(in []*Node) []Type {
	wantPositiveEps(o.Eps)
	c := in[0].Shape.Last()
	return []Type{{Shape{2, c}, F32}, {Shape{3, c, 2}, F32}} // a float64 takes two floats
}

// statistics is embedded by ops that compute statistics. They have no gradients:
// BatchNormOp's takes into account that its statistics depend on its input.
type statistics struct{ noProducts }

func (statistics) Gradient(*Graph, *Call, []*Node) []*Node { return []*Node{nil} }

// BatchNormOp is y = (x - mean) / sqrt(variance + eps) * gamma + beta, then
// max(., 0) if ReLU, from x, stats, gamma, beta. Stats are those of x.
type BatchNormOp struct {
	overFirst
	ReLU bool
}

func (o BatchNormOp) Name() string { return withReLU("batch-norm", o.ReLU) }
func (BatchNormOp) Infer(in []*Node) []Type {
	wantColumns("batch-norm", in[0], in[2:])
	return sameAs(in[0])
}
func (o BatchNormOp) Gradient(g *Graph, c *Call, dout []*Node) []*Node {
	x, stats, gamma, beta, dy := c.In[0], c.In[1], c.In[2], c.In[3], dout[0]
	sums := g.apply1(BatchNormGradSumsOp{ReLU: o.ReLU}, dy, x, stats, gamma, beta)
	totals := g.apply1(BatchNormGradTotalsOp{}, sums)
	pg := g.Apply(BatchNormParamGradOp{}, totals)
	if g.OverReplicas {
		totals = g.wideTotals(totals, stats)
	}
	return []*Node{g.apply1(BatchNormGradOp{ReLU: o.ReLU}, dy, x, stats, totals, gamma, beta), nil, pg[0], pg[1]}
}

// BatchNormGradSumsOp returns every chunk's sums of dz and of dz times the
// normalised x, (chunks, 2, C), from dy, x, stats, gamma, beta. Without ReLU dz
// is dy; with ReLU it is dy where the output, computed from x, was positive,
// else 0.
type BatchNormGradSumsOp struct {
	backwardOnly
	ReLU bool
}

func (o BatchNormGradSumsOp) Name() string          { return withReLU("batch-norm-grad-sums", o.ReLU) }
func (BatchNormGradSumsOp) Infer(in []*Node) []Type { return chunked(in[0]) }

// BatchNormGradTotalsOp adds the chunks' sums: (2, C).
type BatchNormGradTotalsOp struct{ backwardOnly }

func (BatchNormGradTotalsOp) Name() string { return "batch-norm-grad-totals" }
func (BatchNormGradTotalsOp) Infer(in []*Node) []Type {
	return []Type{{Shape{2, in[0].Shape.Last()}, F32}}
}

// BatchNormGradOp returns dx from dy, x, stats, totals, gamma, beta (Ioffe and
// Szegedy 2015, section 3).
type BatchNormGradOp struct {
	pointwiseGrad
	ReLU bool
}

func (o BatchNormGradOp) Name() string { return withReLU("batch-norm-grad", o.ReLU) }

// BatchNormParamGradOp adds a micro-batch's totals to dgamma and dbeta (C).
type BatchNormParamGradOp struct{ backwardOnly }

func (BatchNormParamGradOp) Name() string { return "batch-norm-param-grad" }
func (BatchNormParamGradOp) Infer(in []*Node) []Type {
	t := Type{Shape{in[0].Shape.Last()}, F32}
	return []Type{t, t}
}
func (BatchNormParamGradOp) Accumulates() {}

// BatchNormEvalOp is the batch norm of an evaluation, with moving averages
// instead of statistics; from x, mean, variance, gamma, beta.
type BatchNormEvalOp struct {
	backwardOnly
	Eps  float32
	ReLU bool
}

// BatchNormEval returns x normalised by a given mean and variance (C).
func (g *Graph) BatchNormEval(x, mean, variance, gamma, beta *Node, eps float32, relu bool) *Node {
	return g.apply1(BatchNormEvalOp{Eps: eps, ReLU: relu}, x, mean, variance, gamma, beta)
}

func (o BatchNormEvalOp) Name() string { return withReLU("batch-norm-eval", o.ReLU) }
func (o BatchNormEvalOp) Infer(in []*Node) []Type {
	wantColumns("batch-norm", in[0], in[1:])
	wantPositiveEps(o.Eps)
	return sameAs(in[0])
}
func (BatchNormEvalOp) InPlace() []int { return []int{0} }

func chunked(x *Node) []Type {
	chunks := (x.Shape.Rows() + NormChunk - 1) / NormChunk
	return []Type{{Shape{chunks, 2, x.Shape.Last()}, F32}}
}

func wantPositiveEps(eps float32) {
	if !(eps > 0) {
		misuse("batch-norm", "eps %v is not positive", eps)
	}
}

func wantColumns(op string, x *Node, vectors []*Node) {
	wantFloat(op, x)
	for _, v := range vectors {
		if len(v.Shape) != 1 || v.Shape[0] != x.Shape.Last() {
			misuse(op, "%s does not fit the channels of %s", v, x)
		}
	}
}

func withReLU(name string, relu bool) string {
	if relu {
		return name + "-relu"
	}
	return name
}
