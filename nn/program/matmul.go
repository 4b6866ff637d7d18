package program

import (
	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

func init() {
	register(func(o op.MatMul, c *graph.Call) traits {
		m, n, k := o.Dims(c.In[0].Shape, c.In[1].Shape)
		t := partProduct{o, [][][2]int{{{0, k}}}}.traits(c)
		t.activation, t.starts = nil, true
		if o.TransA { // k is the number of rows
			t.product.widths = []int{m, n}
		} else {
			t.fuse = fuseBias
		}
		return t
	})
	register(func(o op.BatchMatMul, c *graph.Call) traits {
		count, m, n, k := o.Dims(c.In[0].Shape, c.In[1].Shape)
		return traits{
			product: product{"attention", min(m, n, k), []int{n, k}, Dims{Count: count, M: m, N: n, K: k}},
			kernel:  func(*step, bool, int) (kernelFunc, int) { return lowerBatchMatMul(o, c) },
		}
	})
}

// epilogue is the work of a matrix product on a block of C after its values are
// final.
type epilogue struct {
	c, bias []float32
	ldc     int
	act     any // nil, ReLU or GELU
}

func (e *epilogue) block(i0, i1, j0, j1 int) {
	c := e.c[i0*e.ldc+j0:]
	switch e.act.(type) {
	case op.ReLU:
		kernel.AddBiasRelu(c, c, e.bias[j0:j1], i1-i0, j1-j0, e.ldc)
	case op.GELU:
		kernel.AddBiasGelu(c, c, e.bias[j0:j1], i1-i0, j1-j0, e.ldc)
	default:
		kernel.AddBias(c, c, e.bias[j0:j1], i1-i0, j1-j0, e.ldc)
	}
}

// shareProduct cuts C, (m, n), along its longer side.
func shareProduct(m, n, part, parts int) (i0, i1, j0, j1 int) {
	if m >= n {
		i0, i1 = share(m, part, parts, rowUnit)
		return i0, i1, 0, n
	}
	j0, j1 = share(n, part, parts, colUnit)
	return 0, m, j0, j1
}

// partProduct is a matrix product over the terms that a part has, or over all: for each block a chain over its
// ranges of them, and blocks are added by the tree. A step that adds has one block, whose chain goes on from the result.
type partProduct struct {
	of     op.MatMul
	blocks [][][2]int
}

func (o partProduct) flops(in []*graph.Node) (flops int64) {
	m, n, _ := o.of.Dims(in[0].Shape, in[1].Shape)
	for _, block := range o.blocks {
		for _, r := range block {
			flops += 2 * int64(m) * int64(n) * int64(r[1]-r[0])
		}
	}
	return flops
}

// blockRows is how many rows of a result are added up at once, block by block.
const blockRows = 64

func (o partProduct) traits(c *graph.Call) traits {
	m, n, k := o.of.Dims(c.In[0].Shape, c.In[1].Shape)
	return traits{
		product:    product{"dense", min(m, n, k), []int{n, k}, Dims{Count: 1, M: m, N: n, K: k}},
		activation: func(*storage) (is, known bool) { return false, true },
		blocks:     func(k *conversion, adds bool, _ int) (kernelFunc, int) { return k.product(o, c, adds) },
		area: func(share, shares int) area {
			i0, i1, j0, j1 := shareProduct(m, n, share, shares)
			return areaOf(i0, i1, j0, j1, n)
		},
		kernel: o.lower,
	}
}

// lower computes such a product, and what a step fuses with one of one block.
func (o partProduct) lower(s *step, accumulates bool, threads int) (kernelFunc, int) {
	m, n, k := o.of.Dims(s.call.In[0].Shape, s.call.In[1].Shape)
	ars, acs, brs, bcs := strides(o.of, m, n, k)
	var act any
	if s.act != nil {
		act = s.act.Op
	}
	fused := s.bias != nil
	rows, columns, own := 0, 0, 0
	for p := range threads {
		i0, i1, j0, j1 := shareProduct(m, n, p, threads)
		rows, columns = max(rows, min(i1-i0, blockRows)), max(columns, j1-j0)
		own = max(own, kernel.GemmScratch(i1-i0, j1-j0, k))
	}
	if len(o.blocks) > 1 {
		own = max(own, kernel.GemmScratch(rows, columns, k))
	}
	own = AlignUp(own)
	return func(w *worker, in, out [][]float32, part, parts int) {
		i0, i1, j0, j1 := shareProduct(m, n, part, parts)
		cols := j1 - j0
		if i0 == i1 || cols <= 0 {
			return
		}
		var epi func(i0, i1, j0, j1 int)
		if fused {
			w.epi = epilogue{c: out[0][i0*n+j0:], bias: in[2][j0:j1], ldc: n, act: act}
			epi = w.block
		}
		scratch := w.scratch // of a product; the rest is for sums of blocks
		if len(o.blocks) > 1 {
			scratch = scratch[:own]
		}
		chain := func(block, i, rows int, into []float32, ld int) {
			goesOn := accumulates && !w.env.Fresh
			for _, r := range o.blocks[block] {
				kernel.Gemm(rows, cols, r[1]-r[0], in[0][i*ars+r[0]*acs:], ars, acs, in[1][r[0]*brs+j0*bcs:], brs, bcs, into, ld, goesOn, scratch, epi)
				goesOn = true
			}
		}
		if len(o.blocks) == 1 {
			chain(0, i0, i1-i0, out[0][i0*n+j0:], n)
			return
		}
		for i := i0; i < i1; i += blockRows {
			tile := min(blockRows, i1-i)
			tree(0, len(o.blocks), out[0][i*n+j0:], n, tile, cols, w.scratch[own:], func(block int, into []float32, ld int) {
				chain(block, i, tile, into, ld)
			})
		}
	}, own + levels(len(o.blocks))*rows*columns
}

// product lowers such a product by blocks of C, each of which is computed in float32 over all its terms
// before it is rounded. The chains go on from one block of terms to the next.
func (k *conversion) product(o partProduct, c *graph.Call, accumulates bool) (kernelFunc, int) {
	m, n, terms := o.of.Dims(c.In[0].Shape, c.In[1].Shape)
	mb, nb, kb := min(m, productRows), min(n, productCols), min(terms, productTerms)
	own := kernel.GemmScratch(mb, nb, kb)
	depth := levels(len(o.blocks))
	return func(w *worker, in, out [][]float32, part, parts int) {
		i0, i1, j0, j1 := shareProduct(m, n, part, parts)
		x := cutFloats(w.scratch[own:], mb*kb, kb*nb, mb*nb, depth*mb*nb)
		for j := j0; j < j1; j += nb {
			cols := min(nb, j1-j)
			for i := i0; i < i1; i += mb {
				rows := min(mb, i1-i)
				chain := func(block int, into []float32, ld int) {
					adds := accumulates
					for _, r := range o.blocks[block] {
						for p := r[0]; p < r[1]; p += kb {
							depth := min(kb, r[1]-p)
							ars, acs := k.in[0].factor(x[0], in[0], i, rows, m, p, depth, terms, o.of.TransA)
							bcs, brs := k.in[1].factor(x[1], in[1], j, cols, n, p, depth, terms, !o.of.TransB)
							kernel.Gemm(rows, cols, depth, x[0], ars, acs, x[1], brs, bcs, into, ld, adds, w.scratch[:own], nil)
							adds = true
						}
					}
				}
				if k.out[0] == wide {
					tree(0, len(o.blocks), out[0][i*n+j:], n, rows, cols, x[3], chain)
					continue
				}
				tree(0, len(o.blocks), x[2], cols, rows, cols, x[3], chain)
				k.out[0].storeRows(out[0], i*n+j, x[2], rows, cols, n)
			}
		}
	}, own + mb*kb + kb*nb + (1+depth)*mb*nb
}

// strides returns the distances between rows and columns of the operands of a product (m, n) of k
// terms, as it takes them.
func strides(o op.MatMul, m, n, k int) (ars, acs, brs, bcs int) {
	ars, acs, brs, bcs = k, 1, n, 1
	if o.TransA {
		ars, acs = 1, m
	}
	if o.TransB {
		brs, bcs = 1, k
	}
	return ars, acs, brs, bcs
}

// lowerBatchMatMul: threads share the matrices.
func lowerBatchMatMul(o op.BatchMatMul, c *graph.Call) (kernelFunc, int) {
	count, m, n, k := o.Dims(c.In[0].Shape, c.In[1].Shape)
	ars, acs, brs, bcs := strides(op.MatMul(o), m, n, k)
	return func(w *worker, in, out [][]float32, part, parts int) {
		from, to := share(count, part, parts, 1)
		for i := from; i < to; i++ {
			a, b, c := in[0][i*m*k:(i+1)*m*k], in[1][i*k*n:(i+1)*k*n], out[0][i*m*n:(i+1)*m*n]
			kernel.Gemm(m, n, k, a, ars, acs, b, brs, bcs, c, n, false, w.scratch, nil)
		}
	}, kernel.GemmScratch(m, n, k)
}

// Parts of a product start at multiples of these, so that no thread has a
// narrow tile in the middle.
const rowUnit, colUnit = 14, 32

// The blocks of a product: of C (rows, cols), and the terms of its sums that are
// converted at once.
const productRows, productCols, productTerms = 64, 128, 256

// factor loads lines [line, line+count) of all, and of each the terms [p, p+depth) of
// terms, in the order in which they are stored: by terms if across, else by lines. It
// returns the distances from line to line and from term to term.
func (f form) factor(dst, x []float32, line, count, all, p, depth, terms int, across bool) (lines, steps int) {
	if across {
		f.loadRows(dst, x, p*all+line, depth, count, all)
		return 1, count
	}
	f.loadRows(dst, x, line*terms+p, count, depth, terms)
	return depth, 1
}
