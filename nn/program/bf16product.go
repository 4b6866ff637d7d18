package program

import (
	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
)

// The blocks of a product: of C (rows, cols), and the terms of its sums that are
// converted at once.
const productRows, productCols, productTerms = 64, 128, 256

// product lowers a matrix product by blocks of C, each of which is computed in float32
// over all its terms before it is rounded. The chains go on from one block of terms to
// the next.
func (k *conversion) product(op graph.MatMulOp, c *graph.Call, accumulates bool) (kernelFunc, int) {
	m, n, terms := op.Dims(c)
	mb, nb, kb := min(m, productRows), min(n, productCols), min(terms, productTerms)
	own := kernel.GemmScratch(mb, nb, kb)
	return func(w *worker, in, out [][]float32, part, parts int) {
		i0, i1, j0, j1 := shareProduct(m, n, part, parts)
		x := cutFloats(w.scratch[own:], mb*kb, kb*nb, mb*nb)
		for j := j0; j < j1; j += nb {
			cols := min(nb, j1-j)
			for i := i0; i < i1; i += mb {
				rows := min(mb, i1-i)
				block, ld := x[2], cols
				if k.out[0] == wide {
					block, ld = out[0][i*n+j:], n
				}
				for p := 0; p < terms; p += kb {
					depth := min(kb, terms-p)
					ars, acs := k.in[0].factor(x[0], in[0], i, rows, m, p, depth, terms, op.TransA)
					bcs, brs := k.in[1].factor(x[1], in[1], j, cols, n, p, depth, terms, !op.TransB)
					kernel.Gemm(rows, cols, depth, x[0], ars, acs, x[1], brs, bcs, block, ld, p > 0 || accumulates, w.scratch[:own], nil)
				}
				if k.out[0] != wide {
					k.out[0].storeRows(out[0], i*n+j, block, rows, cols, n)
				}
			}
		}
	}, own + mb*kb + kb*nb + mb*nb
}

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
