package op

// LayerNorm normalises each row of x (..., d) and applies gamma and beta (d)
// (Ba, Kiros, Hinton 2016). Outputs: y, and stats (rows, 2) = mean and
// 1/sqrt(variance + Eps), which the backward needs.
type LayerNorm struct{ Eps float32 }

// LayerNormGrad returns dx from dy, x, gamma, stats.
type LayerNormGrad struct{}

// LayerNormParamGrad adds to dgamma and dbeta (d) from dy, x, stats.
type LayerNormParamGrad struct{}

// RMSNorm divides each row of x (..., d) by its root mean square and applies gamma (d) (Zhang and
// Sennrich 2019). Outputs: y, and scale (rows) = 1/sqrt(mean of the squares + Eps), which the
// backward needs.
type RMSNorm struct{ Eps float32 }

// RMSNormGrad returns dx from dy, x, gamma, scale.
type RMSNormGrad struct{}

// RMSNormParamGrad adds to dgamma (d) from dy, x, scale.
type RMSNormParamGrad struct{}

// NormChunk is the number of rows whose moments a batch norm computes together.
// Chunks are combined in ascending order, so the bits depend only on the rows,
// and threads can share the chunks.
const NormChunk = 128

// BatchNormMoments returns the mean and the sum of squared deviations of
// every chunk of x (rows, C): (chunks, 2, C).
type BatchNormMoments struct{}

// BatchNormStats combines moments (chunks, 2, C) of Rows rows (Chan, Golub
// and LeVeque 1979, in float64): stats (2, C) = mean and 1/sqrt(variance +
// Eps). The variance is divided by the number of rows.
//
// Its second output accumulates the statistics of the mini-batch's
// micro-batches: count, mean and sum of squared deviations of every channel in
// float64. Like an accumulator of gradients it lives for one step. A
// recomputation adds nothing.
type BatchNormStats struct {
	Rows int
	Eps  float32
}

// BatchNorm is y = (x - mean) / sqrt(variance + eps) * gamma + beta, then
// max(., 0) if ReLU, from x, stats, gamma, beta. Stats are x's.
type BatchNorm struct{ ReLU bool }

// BatchNormGradSums returns every chunk's sums of dz and of dz times the
// normalised x, (chunks, 2, C), from dy, x, stats, gamma, beta. Without ReLU dz
// is dy; with ReLU it is dy where the output, computed from x, was positive,
// else 0.
type BatchNormGradSums struct{ ReLU bool }

// BatchNormGradTotals adds the chunks' sums: (2, C).
type BatchNormGradTotals struct{}

// BatchNormGrad returns dx from dy, x, stats, totals, gamma, beta (Ioffe and
// Szegedy 2015, section 3).
type BatchNormGrad struct{ ReLU bool }

// BatchNormParamGrad adds a micro-batch's totals to dgamma and dbeta (C).
type BatchNormParamGrad struct{}

// BatchNormEval is the batch norm of an evaluation, with moving averages
// instead of statistics; from x, mean, variance, gamma, beta.
type BatchNormEval struct {
	Eps  float32
	ReLU bool
}

// BatchNormTally combines moments (chunks, 2, C) of Rows rows to a tally: count, mean
// and sum of squared deviations of every channel in float64, (3, C, 2). Its second
// output accumulates the tallies of the mini-batch's micro-batches, as the second of
// [BatchNormStats] does.
type BatchNormTally struct{ Rows int }

// BatchNormOverReplicas adds up a value over the replicas: tallies, or else numbers.
// All of them wait for each other here. Its second output is room for the value of
// another replica.
type BatchNormOverReplicas struct{ Tallies bool }

// BatchNormWideStats returns the statistics by which Rows rows of this replica are
// normalised, (3, C), from the tally of all replicas: mean, 1/sqrt(variance + Eps), and
// this replica's share of all rows. A step keeps them from a micro-batch's forward
// function to its backward: a recomputation reads them.
type BatchNormWideStats struct {
	Rows int
	Eps  float32
}

// BatchNormWideTotals returns the totals (2, C) of all replicas times this replica's
// share of all rows, from the former and the result of [BatchNormWideStats].
type BatchNormWideTotals struct{}
