package exchange

import (
	"math"
	"slices"

	"gpipebench/experiments/densify/accumulate"
	"gpipebench/gpipe/reduction"
	"gpipebench/internal/kernel"
	"gpipebench/nn/philox"
)

// gradient is a rank's, as rows: those of the softmax, of the source's tokens and of the
// target's. Indices are whole numbers in the bits of values, as only values travel; those
// of the softmax count from 0.
type gradient struct {
	of     accumulate.Table
	values []float32 // Rows() of Dim each
	index  []float32 // one a row
}

// draw makes a rank's gradient: uniform values from -1 to 1, none of which is -0, so that
// nothing must be added to a row that no token reads; and tokens of which small ones are
// frequent.
func (g gradient) draw(seed uint64, rank int) {
	values := philox.NewStream(philox.KeyOf(seed, "densify/values"), uint64(rank))
	values.Fill(g.values, 1, func(s *philox.Stream) float32 { return float32(int32(s.Uint32())) * 0x1p-31 })
	tokens := philox.NewStream(philox.KeyOf(seed, "densify/tokens"), uint64(rank))
	for i := range g.index {
		token := i
		if i >= g.of.Vocab {
			u := tokens.Float64()
			token = min(int(u*u*u*float64(g.of.Vocab)), g.of.Vocab-1)
		}
		g.index[i] = math.Float32frombits(uint32(token))
	}
}

// row is that of the table or of a token, counted through all of them.
func (g gradient) row(i int) []float32 {
	return g.values[i*g.of.Dim : (i+1)*g.of.Dim : (i+1)*g.of.Dim]
}

// token is the row of the table that a row is of.
func (g gradient) token(i int) int { return int(math.Float32bits(g.index[i])) }

// table are the rows of the softmax.
func (g gradient) table() []float32 { return g.values[:g.of.Vocab*g.of.Dim] }

// none is where no row of a token has been seen.
const none = -1

// densify adds the rows of tokens to the table's, where they lie: those of one token are
// first added up, in their order, in the first of them. scratch has an element for each
// row of the table on either side; it makes the same arrays serve all ranks.
func (g gradient) densify(scratch *[2][]int32) {
	from := g.of.Vocab
	for side, count := range [2]int{g.of.Source, g.of.Target} {
		first := slices.Grow(scratch[side][:0], g.of.Vocab)[:g.of.Vocab]
		scratch[side] = first
		for i := range first {
			first[i] = none
		}
		for i := from; i < from+count; i++ {
			token := g.token(i)
			if first[token] == none {
				first[token] = int32(i)
				continue
			}
			sum := g.row(int(first[token]))
			kernel.Add(sum, sum, g.row(i))
		}
		from += count
	}
	for token := range g.of.Vocab {
		source, target, sum := scratch[0][token], scratch[1][token], g.row(token)
		switch {
		case source != none && target != none:
			both := g.row(int(source))
			kernel.Add(both, both, g.row(int(target)))
			kernel.Add(sum, both, sum)
		case source != none:
			kernel.Add(sum, g.row(int(source)), sum)
		case target != none:
			kernel.Add(sum, g.row(int(target)), sum)
		}
	}
}

// sumParts is how many elements are added up over all ranks before the next ones: the
// parts of a few ranks stay in a core's cache.
const sumParts = reduction.BlockFloats

// addUp makes the first of several tables the tree's sum of them all.
func addUp(tables [][]float32) {
	parts := make([][]float32, len(tables))
	for from := 0; from < len(tables[0]); from += sumParts {
		to := min(from+sumParts, len(tables[0]))
		for i, t := range tables {
			parts[i] = t[from:to]
		}
		addTree(parts)
	}
}

func addTree(parts [][]float32) {
	if len(parts) == 1 {
		return
	}
	p := reduction.Split(len(parts))
	addTree(parts[:p])
	addTree(parts[p:])
	kernel.Add(parts[0], parts[0], parts[p])
}
