package kernel

// Gemm computes C = A·B, or C += A·B if accumulate. A is (m,k) with element
// (i,p) at a[i*ars+p*acs]; B is (k,n) with element (p,j) at b[p*brs+j*bcs]; C
// is (m,n), row-major, with element (i,j) at c[i*ldc+j]. One of A's strides
// and one of B's is 1.
//
// scratch has at least GemmScratch(m,n,k) elements. If epilogue is not nil, it
// is called once for each of the blocks [i0,i1)x[j0,j1) that tile C, when the
// block's values are final and still in cache.
func Gemm(m, n, k int, a []float32, ars, acs int, b []float32, brs, bcs int, c []float32, ldc int, accumulate bool, scratch []float32, epilogue func(i0, i1, j0, j1 int)) {
	gemm.run(m, n, k, lines{a, ars, acs}, lines{b, bcs, brs}, nil, c, ldc, accumulate, scratch, epilogue)
}

// packedFloats returns the length of a B (k,n) that is packed ahead, for several products of few
// rows. It is the same on every processor.
func packedFloats(n, k int) int {
	return cacheLine - 1 + roundUp(n, planned.cols)*roundUp(k, packGrain)
}

// packAhead packs B (k,n), whose rows are a stride apart, into dst, and returns it for multiply.
func packAhead(n, k int, b []float32, stride int, dst []float32) []float32 {
	dst = fromCacheLine(dst)
	kc, nc := gemm.block(n, k)
	at := 0
	for j0 := 0; j0 < n; j0 += nc {
		for p0 := 0; p0 < k; p0 += kc {
			nb, kb := min(nc, n-j0), min(kc, k-p0)
			gemm.packBlock(nb, kb, lines{b, 1, stride}.from(j0, p0), dst[at:])
			at += roundUp(nb, gemm.cols) * roundUp(kb, packGrain)
		}
	}
	return dst
}

// multiply is Gemm with rows of A a stride apart and a B that packAhead has returned.
func multiply(m, n, k int, a []float32, ars int, packed, c []float32, ldc int, accumulate bool, scratch []float32) {
	gemm.run(m, n, k, lines{a, ars, 1}, lines{}, packed, c, ldc, accumulate, scratch, nil)
}

// GemmScratch returns the floats of scratch that Gemm needs. It is monotone in
// m, n and k: the scratch for a product suffices for its parts. Like that of convolutions
// it is the same on every processor, enough for the profile that needs most.
func GemmScratch(m, n, k int) int { return planned.scratch(m, n, k) }

// A gemmTable is one implementation of Gemm.
//
// A block of B, kc by at most nc, is packed and stays in the second-level cache
// while all of A passes by, a few rows at a time, kc elements of each, which
// stay in the first-level cache while the block's panels pass by. This is the
// loop order of Goto and van de Geijn (Anatomy of High-Performance Matrix
// Multiplication, ACM TOMS 34, 2008) with the roles of A and B exchanged and
// the smallest possible block of A: so C is traversed by rows, the epilogue's
// blocks have long rows, and the scratch is small.
//
// The blocks after the first along k start from C, which keeps every element
// one chain.
type gemmTable struct {
	gemmBlocks
	strided bool
	far     bool // lines that are far apart are read quickly, too: see readA and readB

	// panels computes rows x n elements of C from k > 0 products each. Element
	// (i,p) of A is a[i*aLine+p*aStep], (p,j) of B is
	// b[j/cols*bPanel+p*bStep+j%cols], and B has whole vectors: its last panel
	// is padded. The chains start from C if load, else from zero. Unless
	// strided, A and B are packed.
	//
	// The chains continue with the runs in more, of runInts ints each: k
	// products, where A starts at a[from] and p at row.
	panels func(rows, n, k int, a []float32, aLine, aStep int, b []float32, bStep, bPanel int, c []float32, ldc int, load bool, more []int)

	// packRows and packColumns pack count <= width lines into one panel, for
	// lines that are side by side and for lines that are a stride apart: they
	// set dst[p*width+i] to src[p*stride+i] or to src[i*stride+p] for p < k and
	// i < count, and to zero for count <= i < width. They may overwrite the
	// panel as if k were a multiple of 8.
	packRows, packColumns func(width, count, k int, src []float32, stride int, dst []float32)
}

// gemmBlocks are the sizes that an implementation cuts a product into.
type gemmBlocks struct {
	rows, cols int // the largest tile of C; cols is the width of B's packed panels
	lines      int // the width of A's panels, which contain as many tiles as fit
	kc, nc     int // the largest block of B
}

// planned are AVX-512's blocks, the largest, which every profile's scratch and shares of a product
// among threads are sized for: so a plan of a device's memory does not depend on the processor. A
// block of B takes half a megabyte, which leaves space in the second-level cache of a server's core.
var planned = gemmBlocks{rows: 14, cols: 32, lines: 16, kc: 256, nc: 512}

const (
	packGrain = 8    // see packColumns
	cacheLine = 16   // floats in a cache line
	cacheWay  = 1024 // floats of a first-level cache that fall on different sets
	epilogues = 4096 // least number of elements of C per epilogue, if C has as many
)

func (g *gemmBlocks) scratch(m, n, k int) int {
	if m == 0 || n == 0 || k == 0 {
		return 0
	}
	kc, nc := roundUp(min(k, g.kc), packGrain), roundUp(min(n, g.nc), g.cols)
	return cacheLine - 1 + kc*(nc+g.lines)
}

// block returns the sizes of the blocks that B (k,n) is cut into.
func (g *gemmBlocks) block(n, k int) (kc, nc int) {
	return roundUp(evenly(k, g.kc), packGrain), roundUp(evenly(n, g.nc), g.cols)
}

// run is Gemm; packed is B if it is packed already, else nil.
func (g *gemmTable) run(m, n, k int, a, b lines, packed, c []float32, ldc int, accumulate bool, scratch []float32, epilogue func(i0, i1, j0, j1 int)) {
	if m == 0 || n == 0 {
		return
	}
	if k == 0 {
		if !accumulate {
			clearColumns(c, m, ldc, 0, n)
		}
		if epilogue != nil {
			epilogue(0, m, 0, n)
		}
		return
	}
	a, b = a.normal(m), b.normal(n)
	readA, readB := g.readA(n, a), packed == nil && g.readB(m, b)
	rows := evenly(m, g.rows)
	kc, nc := g.block(n, k)
	bPacked := fromCacheLine(scratch)
	aPacked := bPacked[kc*nc:]
	for j0 := 0; j0 < n; j0 += nc {
		nb := min(nc, n-j0)
		whole := 0 // columns of B that are not packed
		if readB {
			whole = nb / g.cols * g.cols
		}
		for p0 := 0; p0 < k; p0 += kc {
			kb := min(kc, k-p0)
			load, last := accumulate || p0 > 0, p0+kb == k
			if packed == nil {
				g.packBlock(nb-whole, kb, b.from(j0+whole, p0), bPacked)
			} else {
				bPacked, packed = packed, packed[roundUp(nb, g.cols)*roundUp(kb, packGrain):]
			}
			final := 0
			for i := 0; i < m; i += rows {
				ab := a.from(i, p0)
				if !readA {
					place := i / rows % (g.lines / g.rows)
					if place == 0 {
						g.pack(g.lines, min(g.lines/g.rows*rows, m-i), kb, ab, aPacked)
					}
					ab = lines{aPacked[place*rows:], 1, g.lines}
				}
				mb, row := min(rows, m-i), c[i*ldc+j0:]
				if whole > 0 {
					bb := b.from(j0, p0)
					g.panels(mb, whole, kb, ab.x, ab.line, ab.step, bb.x, bb.step, g.cols, row, ldc, load, nil)
				}
				if whole < nb {
					g.panels(mb, nb-whole, kb, ab.x, ab.line, ab.step, bPacked, g.cols, g.cols*kb, row[whole:], ldc, load, nil)
				}
				if end := i + mb; epilogue != nil && last && ((end-final)*nb >= epilogues || end == m) {
					epilogue(final, end, j0, j0+nb)
					final = end
				}
			}
		}
	}
}

// evenly returns the size of the largest part when n is cut evenly into the
// fewest parts of at most limit.
func evenly(n, limit int) int {
	parts := (n + limit - 1) / limit
	return (n + parts - 1) / parts
}

func roundUp(n, multiple int) int { return (n + multiple - 1) / multiple * multiple }
