package program

import (
	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

func init() {
	register(func(o op.MatMul, c *graph.Call) traits {
		m, n, k := o.Dims(c.In[0].Shape, c.In[1].Shape)
		t := traits{
			product: product{"dense", min(m, n, k), []int{n, k}, Dims{Count: 1, M: m, N: n, K: k}},
			kernel: func(s *step, accumulates bool, threads int) (kernelFunc, int) {
				return lowerMatMul(s, o, accumulates, threads)
			},
			blocks: func(of *conversion, adds bool, _ int) (kernelFunc, int) {
				return of.product(partProduct{o, [][][2]int{{{0, k}}}}, c, adds)
			},
		}
		t.starts = true
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

func lowerMatMul(s *step, o op.MatMul, accumulate bool, threads int) (kernelFunc, int) {
	m, n, k := o.Dims(s.call.In[0].Shape, s.call.In[1].Shape)
	ars, acs, brs, bcs := strides(o, m, n, k)
	var act any
	if s.act != nil {
		act = s.act.Op
	}
	fused := s.bias != nil
	scratch := 0
	for p := range threads {
		i0, i1, j0, j1 := shareProduct(m, n, p, threads)
		scratch = max(scratch, kernel.GemmScratch(i1-i0, j1-j0, k))
	}
	return func(w *worker, in, out [][]float32, p, parts int) {
		i0, i1, j0, j1 := shareProduct(m, n, p, parts)
		if i0 == i1 || j0 == j1 {
			return
		}
		accumulate := accumulate && !w.env.Fresh
		c := out[0][i0*n+j0:]
		var block func(i0, i1, j0, j1 int)
		if fused {
			w.epi = epilogue{c: c, bias: in[2][j0:j1], ldc: n, act: act}
			block = w.block
		}
		kernel.Gemm(i1-i0, j1-j0, k, in[0][i0*ars:], ars, acs, in[1][j0*bcs:], brs, bcs, c, n, accumulate, w.scratch, block)
	}, scratch
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
