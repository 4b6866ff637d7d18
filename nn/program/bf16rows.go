package program

import (
	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
)

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

// globalAvgPool is the mean of the pixels of x (n, h, w, c).
func (k *conversion) globalAvgPool(x graph.Shape) (kernelFunc, int) {
	n, pixels, c := x[0], x[1]*x[2], x[3]
	most := min(pixels, max(1, blockFloats/c))
	return func(w *worker, in, out [][]float32, part, parts int) {
		from, to := share(n, part, parts, 1)
		sum, block := w.scratch[:c], w.scratch[c:]
		for i := from; i < to; i++ {
			kernel.Zero(sum)
			for p := 0; p < pixels; p += most {
				m := min(most, pixels-p)
				kernel.ColSum(sum, k.in[0].load(block, in[0], (i*pixels+p)*c, m*c), m, c, c)
			}
			kernel.Scale(sum, sum, 1/float32(pixels))
			k.out[0].store(out[0], i*c, sum)
		}
	}, (1 + most) * c
}

// globalAvgPoolGrad sets every pixel of dx (n, h, w, c).
func (k *conversion) globalAvgPoolGrad(dx graph.Shape) (kernelFunc, int) {
	n, pixels, c := dx[0], dx[1]*dx[2], dx[3]
	return func(w *worker, in, out [][]float32, part, parts int) {
		from, to := share(n, part, parts, 1)
		pixel := w.scratch[:c]
		for i := from; i < to; i++ {
			kernel.Scale(pixel, k.in[0].load(pixel, in[0], i*c, c), 1/float32(pixels))
			for p := range pixels {
				k.out[0].store(out[0], (i*pixels+p)*c, pixel)
			}
		}
	}, c
}

// attention lowers an attention head by head, with rows of its own.
func (k *conversion) attention(op graph.AttentionOp, in []*graph.Node) (kernelFunc, int) {
	hs := newHeads(op, in)
	s, compact, own := hs.shape, hs.compact(), hs.shape.Scratch()
	q, kv := s.Queries*hs.dim, s.Keys*hs.dim
	return func(w *worker, in, out [][]float32, part, parts int) {
		from, to := share(hs.batch*hs.count, part, parts, 1)
		buffers := cutFloats(w.scratch[own:], q, kv, kv, q)
		for i := from; i < to; i++ {
			b, h := i/hs.count, i%hs.count
			hs.load(k.in, in, b, h, buffers[:3])
			shape := compact
			shape.Valid = hs.valid(in, b)
			kernel.Attention(shape, buffers[3], out[1][i*s.Queries:(i+1)*s.Queries], buffers[0], buffers[1], buffers[2], w.scratch[:own])
			k.out[0].storeRows(out[0], b*s.Queries*s.OStride+h*hs.dim, buffers[3], s.Queries, hs.dim, s.OStride)
		}
	}, own + 2*q + 2*kv
}

// attentionGrad is attention for the gradient: the inputs do, o, lse precede those of
// the attention.
func (k *conversion) attentionGrad(op graph.AttentionOp, in []*graph.Node) (kernelFunc, int) {
	hs := newHeads(op, in)
	s, compact, own := hs.shape, hs.compact(), hs.shape.GradScratch()
	q, kv := s.Queries*hs.dim, s.Keys*hs.dim
	return func(w *worker, in, out [][]float32, part, parts int) {
		from, to := share(hs.batch*hs.count, part, parts, 1)
		x := cutFloats(w.scratch[own:], q, kv, kv, q, kv, kv, q, q)
		for i := from; i < to; i++ {
			b, h := i/hs.count, i%hs.count
			hs.load(k.in[3:], in[3:], b, h, x[:3])
			rows := b*s.Queries*s.OStride + h*hs.dim
			k.in[0].loadRows(x[6], in[0], rows, s.Queries, hs.dim, s.OStride)
			k.in[1].loadRows(x[7], in[1], rows, s.Queries, hs.dim, s.OStride)
			shape := compact
			shape.Valid = hs.valid(in[3:], b)
			kernel.AttentionGrad(shape, x[3], x[4], x[5], x[6], x[0], x[1], x[2], x[7], in[2][i*s.Queries:(i+1)*s.Queries], w.scratch[:own])
			other, qAt, kAt, vAt := hs.places(b, h)
			k.out[0].storeRows(out[0], qAt, x[3], s.Queries, hs.dim, s.QStride)
			k.out[other].storeRows(out[other], kAt, x[4], s.Keys, hs.dim, s.KStride)
			k.out[other].storeRows(out[other], vAt, x[5], s.Keys, hs.dim, s.VStride)
		}
	}, own + 4*q + 4*kv
}

// compact is the shape of a head whose rows are side by side.
func (hs *heads) compact() kernel.AttentionShape {
	s := hs.shape
	s.QStride, s.KStride, s.VStride, s.OStride = hs.dim, hs.dim, hs.dim, hs.dim
	return s
}

// load sets x to q, k and v of head h of example b.
func (hs *heads) load(forms []form, in [][]float32, b, h int, x [][]float32) {
	s := &hs.shape
	kv, q, k, v := hs.places(b, h)
	forms[0].loadRows(x[0], in[0], q, s.Queries, hs.dim, s.QStride)
	forms[kv].loadRows(x[1], in[kv], k, s.Keys, hs.dim, s.KStride)
	forms[kv].loadRows(x[2], in[kv], v, s.Keys, hs.dim, s.VStride)
}

// cutFloats cuts pieces off memory.
func cutFloats(x []float32, sizes ...int) (pieces [maxOperands][]float32) {
	for i, n := range sizes {
		pieces[i], x = x[:n:n], x[n:]
	}
	return pieces
}
