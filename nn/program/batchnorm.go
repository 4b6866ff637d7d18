package program

import (
	"unsafe"

	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
	"gpipebench/nn/internal/gradop"
)

// The kernels of batch norm. Statistics are computed by chunks of rows, which
// the threads share; if there are fewer chunks than threads, they share the
// columns.

// The graph and the kernels must agree on the number of rows per chunk.
var _ [graph.NormChunk - kernel.NormChunk]struct{}
var _ [kernel.NormChunk - graph.NormChunk]struct{}

// shareChunks divides (chunks, 2, cols) among threads by chunks or by columns.
func shareChunks(rows, cols, part, parts int) (chunk0, chunk1, col0, col1 int) {
	chunks := kernel.NormChunks(rows)
	if chunks >= parts {
		chunk0, chunk1 = share(chunks, part, parts, 1)
		return chunk0, chunk1, 0, cols
	}
	col0, col1 = share(cols, part, parts, align)
	return 0, chunks, col0, col1
}

func lowerBatchNormMoments(c *graph.Call) kernelFunc {
	rows, cols := matrix(c.In[0])
	return func(_ *worker, in, out [][]float32, part, parts int) {
		chunk0, chunk1, col0, col1 := shareChunks(rows, cols, part, parts)
		kernel.BatchNormMoments(out[0], in[0], rows, cols, chunk0, chunk1, col0, col1)
	}
}

func lowerBatchNormStats(op graph.BatchNormStatsOp, c *graph.Call) kernelFunc {
	cols := c.In[0].Shape.Last()
	return func(w *worker, in, out [][]float32, part, parts int) {
		col0, col1 := share(cols, part, parts, align)
		var tally []float64
		if !w.env.Again {
			tally = doubles(out[1])
		}
		kernel.BatchNormStats(out[0], in[0], tally, op.Rows, cols, op.Eps, col0, col1)
	}
}

// doubles views pairs of floats, aligned to a cache line, as float64.
func doubles(x []float32) []float64 {
	return unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(x))), len(x)/2)
}

func lowerBatchNorm(op graph.BatchNormOp, s *step) kernelFunc {
	rows, cols := matrix(s.call.In[0])
	relu := op.ReLU || s.act != nil
	return func(_ *worker, in, out [][]float32, part, parts int) {
		from, to := share(rows, part, parts, 1)
		add := s.addend(in, from*cols, to*cols)
		kernel.BatchNorm(out[0][from*cols:to*cols], in[0][from*cols:to*cols], add, in[1], in[2], in[3], to-from, cols, relu)
	}
}

func lowerBatchNormEval(op graph.BatchNormEvalOp, s *step) kernelFunc {
	rows, cols := matrix(s.call.In[0])
	relu := op.ReLU || s.act != nil
	return func(_ *worker, in, out [][]float32, part, parts int) {
		from, to := share(rows, part, parts, 1)
		add := s.addend(in, from*cols, to*cols)
		kernel.BatchNormEval(out[0][from*cols:to*cols], in[0][from*cols:to*cols], add, in[1], in[2], in[3], in[4], to-from, cols, op.Eps, relu)
	}
}

func lowerBatchNormGradSums(op gradop.BatchNormSums, c *graph.Call) kernelFunc {
	rows, cols := matrix(c.In[0])
	return func(_ *worker, in, out [][]float32, part, parts int) {
		chunk0, chunk1, col0, col1 := shareChunks(rows, cols, part, parts)
		kernel.BatchNormGradSums(out[0], in[0], in[1], in[2], in[3], in[4], op.ReLU, rows, cols, chunk0, chunk1, col0, col1)
	}
}

func lowerBatchNormGradTotals(c *graph.Call) kernelFunc {
	sums := c.In[0].Shape
	rows, cols := sums[0]*kernel.NormChunk, sums.Last() // an upper bound: only the number of chunks matters
	return func(_ *worker, in, out [][]float32, part, parts int) {
		col0, col1 := share(cols, part, parts, align)
		kernel.BatchNormGradTotals(out[0], in[0], rows, cols, col0, col1)
	}
}

func lowerBatchNormGrad(op gradop.BatchNorm, s *step) kernelFunc {
	rows, cols := matrix(s.call.In[0])
	all := max(rows, s.total)
	return func(_ *worker, in, out [][]float32, part, parts int) {
		from, to := share(rows, part, parts, 1)
		add := s.addend(in, from*cols, to*cols)
		kernel.BatchNormGrad(out[0][from*cols:to*cols], in[0][from*cols:to*cols], in[1][from*cols:to*cols], add, in[2], in[3], in[4], in[5], op.ReLU, to-from, cols, all)
	}
}

func lowerBatchNormParamGrad(c *graph.Call) kernelFunc {
	cols := c.In[0].Shape.Last()
	return func(_ *worker, in, out [][]float32, part, _ int) {
		if part == 0 {
			kernel.Add(out[0], out[0], in[0][cols:])
			kernel.Add(out[1], out[1], in[0][:cols])
		}
	}
}
