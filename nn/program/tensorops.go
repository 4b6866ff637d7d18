package program

import (
	"math/bits"

	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
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
	return traits{gathers: true, rows: &byRow{rows: c.In[1].Elems(), in: []int{0, 1, 0}[:len(c.In)], out: []int{dim}, run: func(b stretch) {
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
	}}}
}

// partEmbedGrad adds the gradients of these tokens' rows.
type partEmbedGrad struct {
	scale    float32
	from, to int
}

func (o partEmbedGrad) traits(c *graph.Call) traits {
	rows, cols := matrix(c.In[0])
	return traits{scatters: true, rows: &byRow{rows: rows, in: []int{cols, 1}, out: []int{0}, adds: true, run: func(b stretch) {
		from, to := shareColumns(cols, b.part, b.parts)
		for i, id := range ints(b.in[1]) {
			if int(id) >= o.from && int(id) < o.to {
				kernel.EmbedGrad(b.out[0], b.in[0][i*cols:(i+1)*cols], []int32{id - int32(o.from)}, cols, from, to, o.scale)
			}
		}
	}}}
}

// selectRows takes each of some rows from the part that has its token: its inputs are the rows of all
// parts, one part's after another's, and all tokens, whose table is divided in the given way.
type selectRows struct {
	rows  Rows
	at    slicing
	parts int
}

func (o selectRows) traits(c *graph.Call) traits {
	cols := c.Out[0].Shape.Last()
	return traits{kernel: plain(func(_ *worker, in, out [][]float32, part, parts int) {
		from, to := share(o.rows.Len(), part, parts, 1)
		for i := from; i < to; i++ {
			owner := o.at.owner(int(ints(in[1])[o.rows.From+i]), o.parts)
			at := (owner*o.rows.Len() + i) * cols
			copy(out[0][i*cols:(i+1)*cols], in[0][at:at+cols])
		}
	})}
}
