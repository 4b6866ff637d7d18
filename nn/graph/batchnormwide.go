package graph

// Batch norm over replicas ([Graph.OverReplicas]; Huang et al. 2019, section 2.2). What a replica computes of its own
// micro-batch, moments forward and sums backward, is added up over the replicas in the
// middle of the function. Both functions then differ from those of one replica in what
// they normalise by, and in nothing else. Gradients of gamma and beta remain those of
// the replica's own rows, since they are added up with all other gradients.

// wideStats returns what BatchNormStatsOp would, for the rows of all replicas. The
// tally is that of this replica alone.
func (g *Graph) wideStats(moments *Node, rows int, eps float32) (stats, tally *Node) {
	own := g.Apply(BatchNormTallyOp{Rows: rows}, moments)
	all := g.Apply(BatchNormOverReplicasOp{Tallies: true}, own[0])[0]
	return g.apply1(BatchNormWideStatsOp{Rows: rows, Eps: eps}, all), own[1]
}

// wideTotals returns the totals (2, C) by which a gradient is centred, from those of
// this replica.
func (g *Graph) wideTotals(totals, stats *Node) *Node {
	all := g.Apply(BatchNormOverReplicasOp{}, totals)[0]
	return g.apply1(BatchNormWideTotalsOp{}, all, stats)
}

// BatchNormTallyOp combines moments (chunks, 2, C) of Rows rows to a tally: count, mean
// and sum of squared deviations of every channel in float64, (3, C, 2). Its second
// output accumulates the tallies of the mini-batch's micro-batches, as the second of
// BatchNormStatsOp does.
type BatchNormTallyOp struct {
	statistics
	Rows int
}

func (BatchNormTallyOp) Name() string { return "batch-norm-tally" }
func (BatchNormTallyOp) Infer(in []*Node) []Type {
	t := Type{Shape{3, in[0].Shape.Last(), 2}, F32} // a float64 takes two floats
	return []Type{t, t}
}

// BatchNormOverReplicasOp adds up a value over the replicas: tallies, or else numbers.
// All of them wait for each other here. Its second output is room for the value of
// another replica.
type BatchNormOverReplicasOp struct {
	statistics
	Tallies bool
}

func (BatchNormOverReplicasOp) Name() string { return "batch-norm-over-replicas" }
func (BatchNormOverReplicasOp) Infer(in []*Node) []Type {
	t := Type{in[0].Shape, F32}
	return []Type{t, t}
}

func (BatchNormOverReplicasOp) InPlace() []int { return []int{0} }

// BatchNormWideStatsOp returns the statistics by which Rows rows of this replica are
// normalised, (3, C), from the tally of all replicas: mean, 1/sqrt(variance + Eps), and
// this replica's share of all rows. A step keeps them from a micro-batch's forward
// function to its backward: a recomputation reads them.
type BatchNormWideStatsOp struct {
	statistics
	Rows int
	Eps  float32
}

func (BatchNormWideStatsOp) Name() string { return "batch-norm-wide-stats" }
func (o BatchNormWideStatsOp) Infer(in []*Node) []Type {
	wantPositiveEps(o.Eps)
	return []Type{{Shape{3, in[0].Shape[1]}, F32}}
}

// BatchNormWideTotalsOp returns the totals (2, C) of all replicas times this replica's
// share of all rows, from the former and BatchNormWideStatsOp's result.
type BatchNormWideTotalsOp struct{ backwardOnly }

func (BatchNormWideTotalsOp) Name() string { return "batch-norm-wide-totals" }
func (BatchNormWideTotalsOp) Infer(in []*Node) []Type {
	return []Type{{in[0].Shape, F32}}
}
func (BatchNormWideTotalsOp) InPlace() []int { return []int{0} }
