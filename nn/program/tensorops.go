package program

import (
	"math/bits"

	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// What parts that divide operations do in place of these: see [Stage.Split].

// split is the number of summands on the left of a balanced tree's root, as package reduction has it.
func split(n int) int {
	return 1 << (bits.Len(uint(n-1)) - 1)
}

// levels is how many sums of a tree of n summands are unfinished at once, besides the one in the result.
func levels(n int) int { return bits.Len(uint(n - 1)) }

// tree adds up the summands [lo, hi) by the tree into rows of cols floats, ld apart: of computes one. Free
// has as many floats as rows for each of the levels.
func tree(lo, hi int, into []float32, ld, rows, cols int, free []float32, of func(i int, into []float32, ld int)) {
	if hi-lo == 1 {
		of(lo, into, ld)
		return
	}
	middle := lo + split(hi-lo)
	tree(lo, middle, into, ld, rows, cols, free, of)
	other, free := free[:rows*cols], free[rows*cols:]
	tree(middle, hi, other, cols, rows, cols, free, of)
	for row := range rows {
		to := into[row*ld:][:cols]
		kernel.Add(to, to, other[row*cols:][:cols])
	}
}

// partProduct is a matrix product over the part's terms: for each block a chain over its ranges of them,
// and blocks are added by the tree. A step that adds has one block, whose chain goes on from the result.
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
	ars, acs, brs, bcs := strides(o.of, m, n, k)
	return traits{
		product:    product{"dense", min(m, n, k), []int{n, k}, Dims{Count: 1, M: m, N: n, K: k}},
		activation: func(*storage) (is, known bool) { return false, true },
		blocks:     func(k *conversion, adds bool, _ int) (kernelFunc, int) { return k.product(o, c, adds) },
		area: func(share, shares int) area {
			i0, i1, j0, j1 := shareProduct(m, n, share, shares)
			return areaOf(i0, i1, j0, j1, n)
		},
		kernel: func(_ *step, accumulates bool, threads int) (kernelFunc, int) {
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
				chain := func(block, i, rows int, into []float32, ld int) {
					goesOn := accumulates
					for _, r := range o.blocks[block] {
						kernel.Gemm(rows, cols, r[1]-r[0], in[0][i*ars+r[0]*acs:], ars, acs, in[1][r[0]*brs+j0*bcs:], brs, bcs, into, ld, goesOn, w.scratch[:own], nil)
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
		},
	}
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

// roundSum rounds sums where activations are bfloat16.
type roundSum struct{}

func (roundSum) traits(c *graph.Call) traits {
	return unary(c, func(dst, x []float32) { copy(dst, x) })
}

// treeSum adds up the summands of parts by the tree, in the place of the first: its input has count of
// them, one after another.
type treeSum struct{ count int }

func (o treeSum) traits(c *graph.Call) traits {
	each := c.Out[0].Elems()
	return traits{kernel: plain(func(_ *worker, in, out [][]float32, part, parts int) {
		from, to := share(each, part, parts, align)
		var sum func(lo, hi int) []float32
		sum = func(lo, hi int) []float32 {
			place := in[0][lo*each+from : lo*each+to]
			if hi-lo > 1 {
				middle := lo + split(hi-lo)
				sum(lo, middle)
				kernel.Add(place, place, sum(middle, hi))
			}
			return place
		}
		if from < to {
			copy(out[0][from:to], sum(0, o.count))
		}
	})}
}

// partEmbed looks up the tokens from from to to-1, which its table has; the rows of others are zero.
type partEmbed struct {
	scale    float32
	from, to int
}

func (o partEmbed) traits(c *graph.Call) traits {
	time, dim := c.Out[0].Shape[1], c.Out[0].Shape[2]
	t := traits{gathers: true}
	t.rows = &byRow{rows: c.In[1].Elems(), in: []int{0, 1, 0}[:len(c.In)], out: []int{dim}, run: func(b stretch) {
		for i, id := range ints(b.in[1]) {
			row := b.out[0][i*dim : (i+1)*dim]
			if int(id) < o.from || int(id) >= o.to {
				kernel.Zero(row)
				continue
			}
			var positions []float32
			if len(b.in) > 2 {
				at := (b.first + i) % time * dim
				positions = b.in[2][at : at+dim]
			}
			kernel.Embed(row, b.in[0], []int32{id - int32(o.from)}, dim, o.scale, positions, 1)
		}
	}}
	return t
}

// partEmbedGrad adds the gradients of these tokens' rows.
type partEmbedGrad struct {
	scale    float32
	from, to int
}

func (o partEmbedGrad) traits(c *graph.Call) traits {
	rows, cols := matrix(c.In[0])
	t := traits{scatters: true}
	t.rows = &byRow{rows: rows, in: []int{cols, 1}, out: []int{0}, adds: true, run: func(b stretch) {
		from, to := shareColumns(cols, b.part, b.parts)
		for i, id := range ints(b.in[1]) {
			if int(id) >= o.from && int(id) < o.to {
				kernel.EmbedGrad(b.out[0], b.in[0][i*cols:(i+1)*cols], []int32{id - int32(o.from)}, cols, from, to, o.scale)
			}
		}
	}}
	return t
}

// selectRows takes each of some rows from the part that has its token: its inputs are the rows of all
// parts, one part's after another's, and all tokens. Part p has those from edges[p] on.
type selectRows struct {
	rows  Rows
	edges []int
}

func (o selectRows) traits(c *graph.Call) traits {
	cols := c.Out[0].Shape.Last()
	return traits{kernel: plain(func(_ *worker, in, out [][]float32, part, parts int) {
		from, to := share(o.rows.Len(), part, parts, 1)
		for i := from; i < to; i++ {
			owner, id := 0, int(ints(in[1])[o.rows.From+i])
			for id >= o.edges[owner+1] {
				owner++
			}
			at := (owner*o.rows.Len() + i) * cols
			copy(out[0][i*cols:(i+1)*cols], in[0][at:at+cols])
		}
	})}
}
