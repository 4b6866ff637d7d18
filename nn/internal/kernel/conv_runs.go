package kernel

import "unsafe"

// Each run of products along k is described by four ints.
const (
	runInts = 4

	runFrom   = 0 // where A's elements begin, as they are multiplied
	runRow    = 1 // the row of B's block where B's begin
	runK      = 2 // how many there are, more than 0
	runSource = 3 // where A's elements begin before they are packed
)

// runs lists the runs of a block. Places are relative to those of the first
// one: first, row.
type runs struct {
	table      []int
	first, row int
	k          int // in all
}

// add appends a run. One that goes on where the last one ends, step by step,
// makes it longer.
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

// pack makes the runs' places those of packed lines, width side by side, run
// after run.
func (r *runs) pack(width int) {
	from := 0
	for run := r.table; len(run) > 0; run = run[runInts:] {
		run[runFrom] = from
		from += run[runK] * width
	}
}

// packRuns packs the elements that count lines have in the runs.
func (g *gemmTable) packRuns(width, count int, r *runs, a lines, dst []float32) {
	for run := r.table; len(run) > 0; run = run[runInts:] {
		g.pack(width, count, run[runK], lines{a.x[run[runSource]:], a.line, a.step}, dst[run[runFrom]:])
	}
}

// convBuffers are the parts of a convolution's scratch.
type convBuffers struct {
	runs []int // empty, with room for as many runs as there can be
	b, a []float32
}

// convScratch returns how many floats a product of k steps to n columns needs
// whose blocks have at most limit runs.
func (g *gemmTable) convScratch(k, n, limit int) int {
	if k == 0 {
		return 0
	}
	kc, nc := g.convBlock(k, n)
	return g.convFloats(kc, nc, limit)
}

func (g *gemmTable) convFloats(kc, nc, limit int) int {
	return cacheLine - 1 + tableFloats(min(limit, kc)) + kc*nc + packGrain*g.cols + (kc+packGrain)*g.lines
}

// convBuffers cuts up the scratch for blocks of B of kc by nc: as convScratch
// has them, or with fewer steps where there is less, as where a smaller product
// must do with what a larger one has, whose steps happen to divide better.
func (g *gemmTable) convBuffers(k, n, limit int, scratch []float32) (buffers convBuffers, kc, nc int) {
	kc, nc = g.convBlock(k, n)
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

// tableFloats returns the room of a table of runs, in whole cache lines.
func tableFloats(limit int) int { return roundUp(limit*runInts*2, cacheLine) }

// convBlock returns the block of B for a product of k steps to n columns.
func (g *gemmTable) convBlock(k, n int) (kc, nc int) {
	return roundUp(evenly(k, g.kc), packGrain), roundUp(evenly(n, g.nc), g.cols)
}
