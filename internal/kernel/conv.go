package kernel

// ConvForward computes the convolution y of x with w (KH, KW, C, O). Every element is one chain of fused
// multiply-adds, from zero, over (kh, kw, c) ascending.
//
// Like its gradients, it computes the part-th of parts parts of the output. No
// bit depends on the number of parts.
func ConvForward(c Window, y, x, w []float32, part, parts int, scratch []float32) {
	if c.pointwise() {
		gemm.part(c.N*c.H*c.W, c.O, c.C, lines{x, c.C, 1}, lines{w, 1, c.O}, y, false, part, parts, scratch)
		return
	}
	s := c.sweep()
	s.run(y, x, w, part, parts, scratch)
}

// ConvGradInput computes dx from dy and w. Every element is one chain of fused
// multiply-adds, from zero, over (kh, kw) descending and o ascending. Elements
// that no output reads are zero.
func ConvGradInput(c Window, dx, dy, w []float32, part, parts int, scratch []float32) {
	if c.pointwise() {
		gemm.part(c.N*c.H*c.W, c.C, c.O, lines{dy, c.O, 1}, lines{w, c.O, 1}, dx, false, part, parts, scratch)
		return
	}
	for i := range min(c.StrideH, c.H) {
		for j := range min(c.StrideW, c.W) {
			s := c.phaseSweep(i, j)
			s.run(dx, dy, w, part, parts, scratch)
		}
	}
}

// ConvGradWeight computes dw from x and dy, or adds to it if accumulate. Every
// element is one chain of fused multiply-adds over (n, oh, ow) ascending, from
// zero or from dw, so examples may be fed in any number of calls.
func ConvGradWeight(c Window, dw, x, dy []float32, accumulate bool, part, parts int, scratch []float32) {
	if c.pointwise() {
		gemm.part(c.C, c.O, c.N*c.H*c.W, lines{x, 1, c.C}, lines{dy, 1, c.O}, dw, accumulate, part, parts, scratch)
		return
	}
	gemm.convGradWeight(&c, dw, x, dy, accumulate, part, parts, scratch)
}

// ConvGradWeightPart returns the rows (KH, KW, C) and columns O of dw that one of parts calls of
// ConvGradWeight computes, whatever the sizes of images.
func ConvGradWeightPart(c Window, part, parts int) (i0, i1, j0, j1 int) {
	if c.pointwise() {
		return cutProduct(c.C, c.O, part, parts)
	}
	return cutGradWeight(&c, part, parts)
}

// ConvForwardScratch returns the floats of scratch that each of parts threads
// needs for ConvForward.
func ConvForwardScratch(c Window, parts int) int {
	if c.pointwise() {
		return partScratch(c.N*c.H*c.W, c.O, c.C, parts)
	}
	s := c.sweep()
	return s.scratch(parts)
}

// ConvGradInputScratch is ConvForwardScratch for ConvGradInput.
func ConvGradInputScratch(c Window, parts int) int {
	if c.pointwise() {
		return partScratch(c.N*c.H*c.W, c.C, c.O, parts)
	}
	floats := 0
	for i := range min(c.StrideH, c.H) {
		for j := range min(c.StrideW, c.W) {
			s := c.phaseSweep(i, j)
			floats = max(floats, s.scratch(parts))
		}
	}
	return floats
}

// ConvGradWeightScratch is ConvForwardScratch for ConvGradWeight.
func ConvGradWeightScratch(c Window, parts int) int {
	if c.pointwise() {
		return partScratch(c.C, c.O, c.N*c.H*c.W, parts)
	}
	return planned.convScratch(c.N*c.OH*c.OW, c.O, c.N*c.OH)
}

// pointwise reports whether each pixel is multiplied separately: the
// convolution is then a product of the matrices in place.
func (c *Window) pointwise() bool {
	return c.KH == 1 && c.KW == 1 && c.StrideH == 1 && c.StrideW == 1 &&
		c.Top == 0 && c.Left == 0 && c.OH == c.H && c.OW == c.W
}

// part computes a part of C = A·B or C += A·B, which is cut along its longer
// side.
func (g *gemmTable) part(m, n, k int, a, b lines, c []float32, accumulate bool, part, parts int, scratch []float32) {
	i0, i1, j0, j1 := cutProduct(m, n, part, parts)
	if i0 < i1 && j0 < j1 {
		g.run(i1-i0, j1-j0, k, a.from(i0, 0), b.from(j0, 0), nil, c[i0*n+j0:], n, accumulate, scratch, nil)
	}
}

func partScratch(m, n, k, parts int) int {
	floats := 0
	for part := range parts {
		i0, i1, j0, j1 := cutProduct(m, n, part, parts)
		floats = max(floats, planned.scratch(i1-i0, j1-j0, k))
	}
	return floats
}

// cutProduct returns the rows and columns of a part of C. Columns are cut at multiples
// of a vector.
func cutProduct(m, n, part, parts int) (i0, i1, j0, j1 int) {
	if m >= n {
		i0, i1 = share(m, 1, part, parts)
		return i0, i1, 0, n
	}
	j0, j1 = share(n, planned.cols/2, part, parts)
	return 0, m, j0, j1
}

// share returns the part-th of parts even parts of n, in whole units except for
// the last.
func share(n, unit, part, parts int) (from, to int) {
	units := (n + unit - 1) / unit
	return min(n, units*part/parts*unit), min(n, units*(part+1)/parts*unit)
}
