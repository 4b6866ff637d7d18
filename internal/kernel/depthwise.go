package kernel

// Depthwise convolutions of x (N, H, W, C) with w (KH, KW, C) to y (N, OH, OW, C): each channel with
// its own kernel.

// DepthwiseForward sets the output rows [from, to), of N*OH. Every element is
// one chain of fused multiply-adds, from zero, over (kh, kw) ascending.
func DepthwiseForward(d Window, y, x, w []float32, from, to int) {
	down, along := d.forward()
	s := depthwiseSweep{down: down, along: along, c: d.C, kw: d.KW, step: 1}
	for row := from; row < to; row++ {
		n, oh := row/d.OH, row%d.OH
		s.row(y[row*d.OW*d.C:], x[n*d.H*d.W*d.C:], w, oh)
	}
}

// DepthwiseGradInput sets the rows [from, to), of N*H, of dx from dy and w.
// Every element is one chain of fused multiply-adds, from zero, over (kh, kw)
// descending. Elements that no output reads are zero.
func DepthwiseGradInput(d Window, dx, dy, w []float32, from, to int) {
	for j := range min(d.StrideW, d.W) {
		for i := range min(d.StrideH, d.H) {
			down, along := d.phase(i, j)
			s := depthwiseSweep{down: down, along: along, c: d.C, kw: d.KW, step: d.StrideW}
			for row := from; row < to; row++ {
				if n, ih := row/d.H, row%d.H; ih%d.StrideH == i {
					s.row(dx[(row*d.W+j)*d.C:], dy[n*d.OH*d.OW*d.C:], w, ih/d.StrideH)
				}
			}
		}
	}
}

// DepthwiseGradWeight computes the rows [kh0, kh1) and the channels [c0, c1) of
// dw from x and dy, or adds to them if accumulate. Every element is one chain of
// fused multiply-adds over (n, oh, ow) ascending, from zero or from dw, so
// examples may be fed in any number of calls.
func DepthwiseGradWeight(d Window, dw, x, dy []float32, accumulate bool, kh0, kh1, c0, c1 int) {
	if c0 == c1 {
		return
	}
	down, along := d.forward()
	if !accumulate {
		clearColumns(dw[kh0*d.KW*d.C:], (kh1-kh0)*d.KW, d.C, c0, c1)
	}
	// The taps of the kernel read the same pixels, and all vectors of channels the
	// same lines of the cache: pixels that fit there are taken at once.
	most := max(8, (1<<13)/d.C)
	for row := range d.N * d.OH {
		n, oh := row/d.OH, row%d.OH
		t0, t1 := down.inside(oh)
		if t0, t1 = max(t0, kh0), min(t1, kh1); t0 >= t1 {
			continue
		}
		image := (n*d.H + down.source(oh, t0)) * d.W
		for q := 0; q < along.count; {
			u0, u1, end := along.run(q)
			if u0 == u1 {
				q = end
				continue
			}
			end = min(end, q+most)
			vector.depthwiseGrad(dw[(t0*d.KW+u0)*d.C+c0:], x[(image+along.source(q, u0))*d.C+c0:], dy[(row*d.OW+q)*d.C+c0:],
				end-q, c1-c0, d.C, d.StrideW*d.C, t1-t0, u1-u0, along.ahead*d.C, along.ahead*(d.W-(u1-u0))*d.C, d.C, (d.KW-(u1-u0))*d.C)
			q = end
		}
	}
}

// depthwiseSweep moves the kernels over the images of a source: the forward, or
// one phase of the gradient of its input (pixels of dx that are a stride apart
// meet the same taps, and successive pixels of dy).
type depthwiseSweep struct {
	down, along reach
	c, kw       int
	step        int // pixels of the destination from one position to the next
}

// row computes the positions of a row: row p of an image src, from dst[0] on.
func (s *depthwiseSweep) row(dst, src, w []float32, p int) {
	t0, t1 := s.down.inside(p)
	for q := 0; q < s.along.count; {
		u0, u1, end := s.along.run(q)
		if t0 == t1 || u0 == u1 {
			for ; q < end; q++ {
				clear(dst[q*s.step*s.c:][:s.c])
			}
			continue
		}
		tap, wtap := s.along.ahead*s.c, s.along.next*s.c
		skip := s.down.ahead*s.along.size*s.c - (u1-u0)*tap
		wskip := s.down.next*s.kw*s.c - (u1-u0)*wtap
		first := (s.down.tap+t0*s.down.next)*s.kw + s.along.tap + u0*s.along.next
		from := s.down.source(p, t0)*s.along.size + s.along.source(q, u0)
		vector.depthwise(dst[q*s.step*s.c:], src[from*s.c:], w,
			end-q, s.c, s.step*s.c, s.along.stride*s.c, t1-t0, u1-u0, tap, skip, first*s.c, wtap, wskip)
		q = end
	}
}

// Below, there are outputs of cols channels, to elements apart, and their
// windows in x, from elements apart. A window has kh rows of kw taps: tap
// elements lie between taps, and skip between the end of a row of taps and the
// next one; wtap and wskip are the same of the kernel, which begins at first.

func depthwiseGeneric(y, x, w []float32, pixels, cols, to, from, kh, kw, tap, skip, first, wtap, wskip int) {
	for o := range pixels {
		y := y[o*to : o*to+cols]
		clear(y)
		at, wat := o*from, first
		for range kh {
			for range kw {
				fmaEach(y, x[at:at+cols], w[wat:wat+cols])
				at, wat = at+tap, wat+wtap
			}
			at, wat = at+skip, wat+wskip
		}
	}
}

// depthwiseGradGeneric adds to kh rows of kw taps of dw.
func depthwiseGradGeneric(dw, x, dy []float32, pixels, cols, to, from, kh, kw, tap, skip, wtap, wskip int) {
	at, wat := 0, 0
	for range kh {
		for range kw {
			dw := dw[wat : wat+cols]
			for o := range pixels {
				fmaEach(dw, x[at+o*from:][:cols], dy[o*to:][:cols])
			}
			at, wat = at+tap, wat+wtap
		}
		at, wat = at+skip, wat+wskip
	}
}
