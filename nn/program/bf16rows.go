package program

import (
	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
	"gpipebench/nn/internal/gradop"
)

// byRow is an op whose kernel may be called for any rows of its operands. in and out
// are the elements of a row of each operand; 0: the operand is whole for every call.
type byRow struct {
	rows    int
	in, out []int
	// run computes n rows from the given one on. An op that adds to whole outputs is
	// called for all rows by every thread, each for its part of the outputs; any other
	// op is called as part 0 of 1.
	run  func(w *worker, in, out [][]float32, first, n, part, parts int)
	adds bool
}

// cuts reports whether all operands that need a conversion are cut by rows.
func (k *conversion) cuts(r byRow) bool {
	for i, each := range r.in {
		if each == 0 && k.in[i] != wide {
			return false
		}
	}
	for i, each := range r.out {
		if each == 0 && k.out[i] != wide {
			return false
		}
	}
	return true
}

// byRows lowers an op by blocks of rows.
func (k *conversion) byRows(r byRow) (kernelFunc, int) {
	widest, each := 1, 0
	measure := func(forms []form, sizes []int) {
		for i, size := range sizes {
			if forms[i] != wide {
				widest, each = max(widest, size), each+size
			}
		}
	}
	measure(k.in, r.in)
	measure(k.out, r.out)
	most := min(r.rows, max(1, blockFloats/widest))
	return func(w *worker, in, out [][]float32, part, parts int) {
		from, to, own, of := 0, r.rows, part, parts
		if !r.adds {
			from, to = share(r.rows, part, parts, 1)
			own, of = 0, 1
		}
		for first := from; first < to; first += most {
			n := min(most, to-first)
			free := w.scratch
			for i, size := range r.in {
				w.in[i] = in[i]
				if size > 0 {
					w.in[i] = k.in[i].load(free, in[i], first*size, n*size)
				}
				if k.in[i] != wide {
					free = free[n*size:]
				}
			}
			for i, size := range r.out {
				switch {
				case size == 0:
					w.out[i] = out[i]
				case k.out[i] == wide:
					w.out[i] = out[i][first*size : (first+n)*size]
				default:
					w.out[i] = free[:n*size]
					free = free[n*size:]
				}
			}
			r.run(w, w.in[:len(in)], w.out[:len(out)], first, n, own, of)
			for i, size := range r.out {
				if k.out[i] != wide {
					k.out[i].store(out[i], first*size, w.out[i])
				}
			}
		}
	}, most * each
}

// rowsOf describes ops by rows; adds says that the outputs are accumulators.
func rowsOf(s *step, adds bool) (r byRow, ok bool) {
	c := s.call
	rows, cols := c.In[0].Shape.Rows(), c.In[0].Shape.Last()
	switch op := attributesOf(c.Op).(type) {
	case graph.AddBiasOp:
		return byRow{rows: rows, in: []int{cols, 0}, out: []int{cols}, run: func(_ *worker, in, out [][]float32, _, n, _, _ int) {
			kernel.AddBias(out[0], in[0], in[1], n, cols, cols)
		}}, true
	case graph.LayerNormOp:
		return byRow{rows: rows, in: []int{cols, 0, 0}, out: []int{cols, 2}, run: func(_ *worker, in, out [][]float32, _, n, _, _ int) {
			kernel.LayerNorm(out[0], out[1], in[0], in[1], in[2], n, cols, op.Eps)
		}}, true
	case gradop.LayerNorm:
		return byRow{rows: rows, in: []int{cols, cols, 0, 2}, out: []int{cols}, run: func(_ *worker, in, out [][]float32, _, n, _, _ int) {
			kernel.LayerNormGrad(out[0], in[0], in[1], in[2], in[3], nil, n, cols)
		}}, true
	case gradop.LayerNormParams:
		return byRow{rows: rows, in: []int{cols, cols, 2}, out: []int{0, 0}, adds: true, run: func(_ *worker, in, out [][]float32, _, n, part, parts int) {
			from, to := share(cols, part, parts, align)
			kernel.LayerNormParamGrad(out[0][from:to], out[1][from:to], in[0][from:], in[1][from:], in[2], n, to-from, cols)
		}}, adds
	case gradop.ColumnSum:
		return byRow{rows: rows, in: []int{cols}, out: []int{0}, adds: true, run: func(_ *worker, in, out [][]float32, _, n, part, parts int) {
			from, to := share(cols, part, parts, align)
			kernel.ColSum(out[0][from:to], in[0][from:], n, to-from, cols)
		}}, adds
	case gradop.ExampleSum:
		each := perExample(c)
		return byRow{rows: c.In[0].Shape[0], in: []int{each}, out: []int{0}, adds: true, run: func(_ *worker, in, out [][]float32, _, n, part, parts int) {
			from, to := share(each, part, parts, align)
			kernel.ColSum(out[0][from:to], in[0][from:], n, to-from, each)
		}}, adds
	case graph.SoftmaxOp:
		return byRow{rows: rows, in: []int{cols}, out: []int{cols}, run: func(_ *worker, in, out [][]float32, _, n, _, _ int) {
			kernel.Softmax(out[0], in[0], n, cols)
		}}, true
	case gradop.Softmax:
		return byRow{rows: rows, in: []int{cols, cols}, out: []int{cols}, run: func(_ *worker, in, out [][]float32, _, n, _, _ int) {
			kernel.SoftmaxGrad(out[0], in[0], in[1], n, cols)
		}}, true
	case graph.CrossEntropyOp:
		r = byRow{rows: rows, in: []int{cols, 1}, out: []int{1, 1, 1}, run: func(_ *worker, in, out [][]float32, _, n, _, _ int) {
			kernel.CrossEntropy(out[0], out[1], out[2], in[0], ints(in[1]), n, cols, op.Smoothing)
			if op.Ranks {
				kernel.TargetRanks(out[3], in[0], ints(in[1]), n, cols)
			}
		}}
		if op.Ranks {
			r.out = append(r.out, 1)
		}
		return r, true
	case gradop.CrossEntropy:
		return byRow{rows: rows, in: []int{cols, 1, 1}, out: []int{cols}, run: func(w *worker, in, out [][]float32, _, n, _, _ int) {
			kernel.CrossEntropyGrad(out[0], in[0], in[1], ints(in[2]), w.env.LossScale, n, cols, op.Smoothing)
		}}, true

	case graph.BatchNormOp:
		return byRow{rows: rows, in: []int{cols, 0, 0, 0}, out: []int{cols}, run: func(_ *worker, in, out [][]float32, _, n, _, _ int) {
			kernel.BatchNorm(out[0], in[0], nil, in[1], in[2], in[3], n, cols, op.ReLU)
		}}, true
	case graph.BatchNormEvalOp:
		return byRow{rows: rows, in: []int{cols, 0, 0, 0, 0}, out: []int{cols}, run: func(_ *worker, in, out [][]float32, _, n, _, _ int) {
			kernel.BatchNormEval(out[0], in[0], nil, in[1], in[2], in[3], in[4], n, cols, op.Eps, op.ReLU)
		}}, true
	case gradop.BatchNorm:
		return byRow{rows: rows, in: []int{cols, cols, 0, 0, 0, 0}, out: []int{cols}, run: func(_ *worker, in, out [][]float32, _, n, _, _ int) {
			kernel.BatchNormGrad(out[0], in[0], in[1], nil, in[2], in[3], in[4], in[5], op.ReLU, n, cols, rows)
		}}, true

	case graph.EmbedOp:
		t, dim := c.Out[0].Shape[1], c.Out[0].Shape[2]
		return byRow{rows: c.In[1].Elems(), in: []int{0, 1, 0}, out: []int{dim}, run: func(_ *worker, in, out [][]float32, first, n, _, _ int) {
			for i := 0; i < n; {
				at := (first + i) % t
				end := min(n, i+t-at)
				kernel.Embed(out[0][i*dim:end*dim], in[0], ints(in[1])[i:end], dim, op.Scale, in[2][at*dim:], t)
				i = end
			}
		}}, true
	case gradop.Embed:
		return byRow{rows: rows, in: []int{cols, 1}, out: []int{0}, adds: true, run: func(_ *worker, in, out [][]float32, _, _, part, parts int) {
			from, to := share(cols, part, parts, align)
			kernel.EmbedGrad(out[0], in[0], ints(in[1]), cols, from, to, op.Scale)
		}}, adds
	case graph.DropoutOp:
		per := perExample(c)
		return elements(c, func(w *worker, in, out [][]float32, first, _, _, _ int) {
			dropout(w, op, out[0], in[0], nil, per, first, 0)
		}), true
	case graph.DropPathOp:
		per := perExample(c)
		return elements(c, func(w *worker, in, out [][]float32, first, _, _, _ int) {
			dropPath(w, op, out[0], in[0], per, first)
		}), true

	case graph.ConcatOp:
		width := c.Out[0].Shape.Last()
		r = byRow{rows: rows, out: []int{width}, run: func(_ *worker, in, out [][]float32, _, n, _, _ int) {
			at := 0
			for i, x := range c.In {
				kernel.CopyColumns(out[0][at:], width, in[i], x.Shape.Last(), n, x.Shape.Last())
				at += x.Shape.Last()
			}
		}}
		for _, x := range c.In {
			r.in = append(r.in, x.Shape.Last())
		}
		return r, true
	case graph.SliceOp:
		width := op.To - op.From
		return byRow{rows: rows, in: []int{cols}, out: []int{width}, run: func(_ *worker, in, out [][]float32, _, n, _, _ int) {
			kernel.CopyColumns(out[0], width, in[0][op.From:], cols, n, width)
		}}, true
	case graph.PadOp:
		width := c.Out[0].Shape.Last()
		return byRow{rows: rows, in: []int{cols}, out: []int{width}, run: func(_ *worker, in, out [][]float32, _, n, _, _ int) {
			kernel.Zero(out[0])
			kernel.CopyColumns(out[0][op.Before:], width, in[0], cols, n, cols)
		}}, true

	case graph.AddOp, graph.SubOp, graph.MulOp, graph.ScaleOp, graph.ShiftOp, graph.ClipOp, graph.ReLUOp, graph.GELUOp, graph.ExpOp,
		graph.LogOp, graph.SigmoidOp, graph.TanhOp, graph.ElementwiseOp, graph.EndLossOp, graph.CopyOp, graph.ReshapeOp,
		gradop.ReLU, gradop.GELU, gradop.Clip, gradop.Log, gradop.Sigmoid, gradop.Tanh, gradop.Elementwise, gradop.LossScale:
		fn, _ := lower(s, false, 1)
		return elements(c, func(w *worker, in, out [][]float32, _, _, _, _ int) { fn(w, in, out, 0, 1) }), true
	}
	return r, false
}

// elements describes an op element by element.
func elements(c *graph.Call, run func(w *worker, in, out [][]float32, first, n, part, parts int)) byRow {
	r := byRow{rows: c.Out[0].Elems(), out: []int{1}, run: run}
	for range c.In {
		r.in = append(r.in, 1)
	}
	return r
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
func (k *conversion) attentionGrad(op gradop.Attention[graph.AttentionOp], in []*graph.Node) (kernelFunc, int) {
	hs := newHeads(op.Of, in)
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
