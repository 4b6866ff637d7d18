package kernel

import "unsafe"

// lines is an operand in Gemm's view: the rows of A or the columns of B, each
// with the elements to be multiplied in turn.
type lines struct {
	x    []float32
	line int // distance from line to line
	step int // distance from one element of a line to the next
}

// normal returns o with strides such that its lines are side by side or
// contiguous, which the given strides of a single line may not show.
func (o lines) normal(count int) lines {
	if count == 1 {
		o.line = 1
	}
	return o
}

// from returns o without its first lines and without their first p elements.
func (o lines) from(line, p int) lines {
	o.x = o.x[line*o.line+p*o.step:]
	return o
}

func (g *gemmTable) pack(width, count, k int, o lines, dst []float32) {
	if o.line == 1 {
		g.packRows(width, count, k, o.x, o.step, dst)
	} else {
		g.packColumns(width, count, k, o.x, o.line, dst)
	}
}

// packBlock packs count lines of B into panels, k elements of each.
func (g *gemmTable) packBlock(count, k int, o lines, dst []float32) {
	for j := 0; j < count; j += g.cols {
		g.pack(g.cols, min(g.cols, count-j), k, o.from(j, 0), dst[j*k:])
	}
}

// readA reports whether to multiply A in place. For few columns of B packing
// costs more than it can save. Otherwise A must have a layout such that the
// rows of a tile stay in the first-level cache from panel to panel, or are read
// quickly from the next.
func (g *gemmTable) readA(n int, a lines) bool {
	switch {
	case !g.strided:
		return false
	case n <= 2*g.cols || g.far:
		return true
	case a.line == 1:
		// Each step is in another cache line. A tile should use most of it.
		return a.step < cacheWay && 2*g.rows > cacheLine
	}
	return a.line%cacheWay != 0
}

// readB reports whether to multiply B in place, up to its last panel. That pays
// if only few rows of A share the cost of packing; but with more than one tile
// the panels should not fall on the same few sets of the caches. How much these
// matter depends on the processor.
func (g *gemmTable) readB(m int, b lines) bool {
	switch {
	case !g.strided || b.line != 1:
		return false
	case m <= g.rows:
		return true
	case g.far:
		return m <= 1024 || b.step%cacheWay != 0
	}
	return m <= 128 && b.step < cacheWay
}

// fromCacheLine returns x from the start of a cache line, so that no packed
// vector crosses two.
func fromCacheLine(x []float32) []float32 {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(x))) / 4
	return x[-at%cacheLine:]
}
