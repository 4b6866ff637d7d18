package kernel

// A block is the part of B that one pass over the destination multiplies:
// k-steps [k0,k1) of columns [j0,j0+nb). The first whole columns of B are read
// from in, the others from packed.
type block struct {
	k0, k1, j0, nb int
	whole          int
	in             []float32
	inStep         int // from step to step of in
	packed         []float32

	dst, src []float32
	runs     runs      // of the region that is multiplied
	aPacked  []float32 // space for a tile's lines
}

// A direction has count pixels, with their distances in source and destination.
type direction struct{ count, from, to int }

// region multiplies the runs with the lines that begin at from, in all three
// directions.
func (b *block) region(g *gemmTable, d [3]direction, from, to int, load bool) {
	best := b.order(g, &d)
	tile, x, y := d[best], d[(best+1)%3], d[(best+2)%3]
	rows := evenly(tile.count, g.rows)
	packed := b.packs(g, tile, rows)
	width := g.lines
	if g.strided {
		width = roundUp(rows, packGrain)
	}
	if packed {
		b.runs.pack(width)
	}
	k, more := b.runs.table[runK], b.runs.table[runInts:]
	for yi := range y.count {
		from, to := from+yi*y.from, to+yi*y.to
		for range x.count {
			for i := 0; i < tile.count; i += rows {
				mb := min(rows, tile.count-i)
				a := lines{b.src[from+i*tile.from:], tile.from, 1}
				if packed {
					g.packRuns(width, mb, &b.runs, a, b.aPacked)
					a = lines{b.aPacked, 1, width}
				}
				c := b.dst[to+i*tile.to:]
				if b.whole > 0 {
					g.panels(mb, b.whole, k, a.x, a.line, a.step, b.in[b.runs.row*b.inStep:], b.inStep, g.cols, c, tile.to, load, more)
				}
				if b.whole < b.nb {
					g.panels(mb, b.nb-b.whole, k, a.x, a.line, a.step, b.packed[b.runs.row*g.cols:], g.cols, g.cols*(b.k1-b.k0), c[b.whole:], tile.to, load, more)
				}
			}
			from, to = from+x.from, to+x.to
		}
	}
}

// order joins directions where one continues the other, and returns the one
// along which tiles have the least cost.
func (b *block) order(g *gemmTable, d *[3]direction) int {
	for i := range 2 {
		for j := i + 1; j < 3; j++ {
			x, y := &d[i], &d[j]
			if x.count == 1 {
				*x, *y = *y, direction{count: 1}
			} else if y.count > 1 && y.from == x.count*x.from && y.to == x.count*x.to {
				x.count *= y.count
				*y = direction{count: 1}
			}
		}
	}
	best, least := 0, 0
	for i, x := range d {
		rows := evenly(x.count, g.rows)
		tiles := (x.count + rows - 1) / rows * (d[(i+1)%3].count * d[(i+2)%3].count)
		// The time of a tile of few rows goes into reading B; packing takes as
		// long as 13 columns.
		cost := tiles * (max(rows, 6) + 1) * 64
		if b.packs(g, x, rows) {
			cost += tiles * rows * 64 * 13 / b.nb
		}
		if i == 0 || cost < least {
			best, least = i, cost
		}
	}
	return best
}

// packs reports whether to pack the lines of a tile: lines that fall on the
// same few sets of the first-level cache, if they do not all fit there or are
// read again for many columns.
func (b *block) packs(g *gemmTable, x direction, rows int) bool {
	return !g.strided || x.count > 1 && x.from%cacheWay == 0 && (b.nb > 2*g.cols || rows > 8)
}
