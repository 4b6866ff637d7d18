package program

import (
	"unsafe"

	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// The kernels of batch norm. Statistics are computed by chunks of rows, which
// the threads share; if there are fewer chunks than threads, they share the
// columns.

// The graph and the kernels must agree on the number of rows per chunk.
var _ [op.NormChunk - kernel.NormChunk]struct{}
var _ [kernel.NormChunk - op.NormChunk]struct{}

func init() {
	register(func(_ op.BatchNormMoments, c *graph.Call) traits {
		rows, cols := matrix(c.In[0])
		return traits{
			columns: true,
			rule:    rule{Division: Chunked, needs: sameRows, over: c.In[0]},
			kernel: plain(func(_ *worker, in, out [][]float32, part, parts int) {
				chunk0, chunk1, col0, col1 := shareChunks(rows, cols, part, parts)
				kernel.BatchNormMoments(out[0], in[0], rows, cols, chunk0, chunk1, col0, col1)
			}),
			blocks: func(k *conversion, _ bool, _ int) (kernelFunc, int) {
				return k.chunks(c.In[0], nil, func(out []float32, in [][]float32, rows, cols int) {
					kernel.BatchNormMoments(out, in[0], rows, cols, 0, 1, 0, cols)
				})
			},
		}
	})
	register(func(o op.BatchNormStats, c *graph.Call) traits {
		cols := c.In[0].Shape.Last()
		return traits{kernel: overColumns(cols, func(w *worker, in, out [][]float32, from, to int) {
			kernel.BatchNormStats(out[0], in[0], w.tally(out[1]), o.Rows, cols, o.Eps, from, to)
		})}
	})
	register(func(o op.BatchNorm, c *graph.Call) traits {
		return normalised(c, o.ReLU, func(b stretch, cols int, relu bool) {
			kernel.BatchNorm(b.out[0], b.in[0], b.addend(), b.in[1], b.in[2], b.in[3], b.n, cols, relu)
		})
	})
	register(func(o op.BatchNormEval, c *graph.Call) traits {
		return normalised(c, o.ReLU, func(b stretch, cols int, relu bool) {
			kernel.BatchNormEval(b.out[0], b.in[0], b.addend(), b.in[1], b.in[2], b.in[3], b.in[4], b.n, cols, o.Eps, relu)
		})
	})
	register(func(o op.BatchNormGradSums, c *graph.Call) traits {
		rows, cols := matrix(c.In[0])
		return traits{
			columns: true,
			rule:    rule{Division: Chunked, needs: sameRows, over: c.In[0]},
			kernel: plain(func(_ *worker, in, out [][]float32, part, parts int) {
				chunk0, chunk1, col0, col1 := shareChunks(rows, cols, part, parts)
				kernel.BatchNormGradSums(out[0], in[0], in[1], in[2], in[3], in[4], o.ReLU, rows, cols, chunk0, chunk1, col0, col1)
			}),
			blocks: func(k *conversion, _ bool, _ int) (kernelFunc, int) {
				return k.chunks(c.In[0], c.In[2:], func(out []float32, in [][]float32, rows, cols int) {
					kernel.BatchNormGradSums(out, in[0], in[1], in[2], in[3], in[4], o.ReLU, rows, cols, 0, 1, 0, cols)
				})
			},
		}
	})
	register(func(_ op.BatchNormGradTotals, c *graph.Call) traits {
		sums := c.In[0].Shape
		rows, cols := sums[0]*kernel.NormChunk, sums.Last() // an upper bound: only the number of chunks matters
		return traits{columns: true, kernel: overColumns(cols, func(_ *worker, in, out [][]float32, from, to int) {
			kernel.BatchNormGradTotals(out[0], in[0], rows, cols, from, to)
		})}
	})
	register(func(o op.BatchNormGrad, c *graph.Call) traits {
		rows, cols := matrix(c.In[0])
		t := traits{elementwise: true, columns: true, rule: ownRows(c), fuse: fuseAdd}
		t.rows = &byRow{rows: rows, in: []int{cols, cols, 0, 0, 0, 0}, out: []int{cols}, run: func(b stretch) {
			all := max(rows, b.step.total)
			kernel.BatchNormGrad(b.out[0], b.in[0], b.in[1], b.addend(), b.in[2], b.in[3], b.in[4], b.in[5], o.ReLU, b.n, cols, all)
		}}
		return t
	})
	register(func(_ op.BatchNormParamGrad, c *graph.Call) traits {
		cols := c.In[0].Shape.Last()
		return traits{kernel: func(_ *step, accumulates bool, _ int) (kernelFunc, int) {
			return fromZero(!accumulates, func(_ *worker, in, out [][]float32, part, _ int) {
				if part == 0 {
					kernel.Add(out[0], out[0], in[0][cols:])
					kernel.Add(out[1], out[1], in[0][:cols])
				}
			}), 0
		}}
	})
}

// normalised is a batch norm of rows, given what all rows share.
func normalised(c *graph.Call, relu bool, run func(b stretch, cols int, relu bool)) traits {
	rows, cols := matrix(c.In[0])
	t := traits{elementwise: true, columns: true, rule: ownRows(c)}
	t.rows = &byRow{rows: rows, in: make([]int, len(c.In)), out: []int{cols}, run: func(b stretch) { run(b, cols, relu || b.step.act != nil) }}
	t.rows.in[0] = cols
	if !relu {
		t.fuse = fuseAddAndReLU
	}
	return t
}

// tally is where a forward function adds a micro-batch's statistics, nil if it has run before.
func (w *worker) tally(out []float32) []float64 {
	if w.env.Again {
		return nil
	}
	return doubles(out)
}

// overColumns is a kernel that threads share by columns.
func overColumns(cols int, f func(w *worker, in, out [][]float32, from, to int)) func(*step, bool, int) (kernelFunc, int) {
	return plain(func(w *worker, in, out [][]float32, part, parts int) {
		from, to := share(cols, part, parts, align)
		f(w, in, out, from, to)
	})
}

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

// doubles views pairs of floats, aligned to a cache line, as float64.
func doubles(x []float32) []float64 {
	return unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(x))), len(x)/2)
}

// chunkColumns is the number of columns of a chunk of rows that are converted at once.
const chunkColumns = blockFloats / kernel.NormChunk

// chunks lowers an op that reduces chunks of x's rows to two rows each, column by
// column. Its inputs are like x, or, from the given ones on, have rows of x's columns.
func (k *conversion) chunks(x *graph.Node, perColumn []*graph.Node, run func(out []float32, in [][]float32, rows, cols int)) (kernelFunc, int) {
	rows, cols := matrix(x)
	most := min(cols, chunkColumns)
	like := len(k.in) - len(perColumn) // inputs of x's shape
	scratch := 2 * most
	for range like {
		scratch += min(rows, kernel.NormChunk) * most
	}
	for _, n := range perColumn {
		scratch += n.Elems() / cols * most
	}
	blocks := (cols + most - 1) / most
	return func(w *worker, in, out [][]float32, part, parts int) {
		from, to := share(kernel.NormChunks(rows)*blocks, part, parts, 1)
		for i := from; i < to; i++ {
			chunk, col := i/blocks, i%blocks*most
			first := chunk * kernel.NormChunk
			n, width := min(kernel.NormChunk, rows-first), min(most, cols-col)
			free := w.scratch[2*most:]
			for j := range like {
				w.in[j] = free[:n*width]
				k.in[j].loadRows(w.in[j], in[j], first*cols+col, n, width, cols)
				free = free[n*width:]
			}
			for j, v := range perColumn {
				each := v.Elems() / cols
				w.in[like+j] = free[:each*width]
				k.in[like+j].loadRows(w.in[like+j], in[like+j], col, each, width, cols)
				free = free[each*width:]
			}
			results := w.scratch[:2*width]
			run(results, w.in[:len(in)], n, width)
			wide.storeRows(out[0], 2*chunk*cols+col, results, 2, width, cols)
		}
	}, scratch
}
