package kernel

import "unsafe"

// Each run of products along k is described by four ints.
const (
	runInts = 4

	runFrom   = 0 // offset of A's elements, as they are multiplied
	runRow    = 1 // first row in B's block
	runK      = 2 // number of products, more than 0
	runSource = 3 // offset of A's elements before they are packed
)

// runs lists the runs of a block. Offsets are relative to those of the first
// one: first, row.
type runs struct {
	table      []int
	first, row int
	k          int // total number of products
}

// add appends a run. One that continues the last one, step by step, is joined
// with it.
func (r *runs) add(source, row, k, step int) {
	if len(r.table) == 0 {
		r.first, r.row, r.k = source, row, 0
	}
	source, row = source-r.first, row-r.row
	r.k += k
	if n := len(r.table); n > 0 {
		last := r.table[n-runInts:]
		if source == last[runSource]+last[runK]*step && row == last[runRow]+last[runK] {
			last[runK] += k
			return
		}
	}
	r.table = append(r.table, source, row, k, source)
}

// pack changes the runs' offsets to those of packed lines: width side by side,
// run after run.
func (r *runs) pack(width int) {
	from := 0
	for run := r.table; len(run) > 0; run = run[runInts:] {
		run[runFrom] = from
		from += run[runK] * width
	}
}

// packRuns packs the elements of count lines that the runs cover.
func (g *gemmTable) packRuns(width, count int, r *runs, a lines, dst []float32) {
	for run := r.table; len(run) > 0; run = run[runInts:] {
		g.pack(width, count, run[runK], lines{a.x[run[runSource]:], a.line, a.step}, dst[run[runFrom]:])
	}
}

// convBuffers are the parts of a convolution's scratch.
type convBuffers struct {
	runs []int // empty, with the capacity for all runs of a block
	b, a []float32
}

// convScratch returns the floats of scratch for a product of k steps and n
// columns whose blocks have at most limit runs.
func (g *gemmBlocks) convScratch(k, n, limit int) int {
	if k == 0 {
		return 0
	}
	kc, nc := g.block(n, k)
	return g.convFloats(kc, nc, limit)
}

func (g *gemmBlocks) convFloats(kc, nc, limit int) int {
	return cacheLine - 1 + tableFloats(min(limit, kc)) + kc*nc + packGrain*g.cols + (kc+packGrain)*g.lines
}

// convBuffers divides the scratch for blocks of B of kc by nc. The blocks are
// convScratch's, or have fewer steps if there is less scratch: a smaller
// product whose steps divide better must fit in the scratch of a larger one.
func (g *gemmTable) convBuffers(k, n, limit int, scratch []float32) (buffers convBuffers, kc, nc int) {
	kc, nc = g.block(n, k)
	for kc > packGrain && g.convFloats(kc, nc, limit) > len(scratch) {
		kc -= packGrain
	}
	x := fromCacheLine(scratch)
	table := tableFloats(min(limit, kc))
	ints := unsafe.Slice((*int)(unsafe.Pointer(unsafe.SliceData(x[:table]))), min(limit, kc)*runInts)
	x = x[table:]
	b := kc*nc + packGrain*g.cols
	return convBuffers{ints[:0], x[:b], x[b:]}, kc, nc
}

// tableFloats returns the size of a table of runs in floats, in whole cache
// lines.
func tableFloats(limit int) int { return roundUp(limit*runInts*2, cacheLine) }
