package kernel

// Depthwise convolutions of images (N, H, W, C): each channel with its own
// kernel.

// Depthwise describes a convolution of x (N, H, W, C), channel by channel, with
// w (KH, KW, C) to y (N, OH, OW, C). At tap (kh,kw) output pixel (oh,ow) reads
// input pixel (oh*StrideH+kh*Dilation-Top, ow*StrideW+kw*Dilation-Left). A tap
// outside the image is left out, as if the image were zero there. Top and Left
// may be negative, which crops.
type Depthwise struct {
	N, H, W, C       int
	KH, KW           int
	StrideH, StrideW int
	Dilation         int
	Top, Left        int
	OH, OW           int
}

// DepthwiseForward sets the output rows [from, to), of N*OH. Every element is
// one chain of fused multiply-adds, from zero, over (kh, kw) ascending.
func DepthwiseForward(d Depthwise, y, x, w []float32, from, to int) {
	down := forwardReach(d.OH, d.StrideH, d.Top, d.KH, d.H, d.Dilation)
	along := forwardReach(d.OW, d.StrideW, d.Left, d.KW, d.W, d.Dilation)
	s := depthwiseSweep{down: down, along: along, c: d.C, kw: d.KW, step: 1}
	for row := from; row < to; row++ {
		n, oh := row/d.OH, row%d.OH
		s.row(y[row*d.OW*d.C:], x[n*d.H*d.W*d.C:], w, oh)
	}
}

// DepthwiseGradInput sets the rows [from, to), of N*H, of dx from dy and w.
// Every element is one chain of fused multiply-adds, from zero, over (kh, kw)
// descending. Elements that no output reads are zero.
func DepthwiseGradInput(d Depthwise, dx, dy, w []float32, from, to int) {
	for j := range min(d.StrideW, d.W) {
		along := gradReach(d.W, d.StrideW, d.Left, d.KW, d.OW, d.Dilation, j)
		for i := range min(d.StrideH, d.H) {
			down := gradReach(d.H, d.StrideH, d.Top, d.KH, d.OH, d.Dilation, i)
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
func DepthwiseGradWeight(d Depthwise, dw, x, dy []float32, accumulate bool, kh0, kh1, c0, c1 int) {
	if c0 == c1 {
		return
	}
	down := forwardReach(d.OH, d.StrideH, d.Top, d.KH, d.H, d.Dilation)
	along := forwardReach(d.OW, d.StrideW, d.Left, d.KW, d.W, d.Dilation)
	if !accumulate {
		for tap := kh0 * d.KW; tap < kh1*d.KW; tap++ {
			clear(dw[tap*d.C+c0 : tap*d.C+c1])
		}
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
				end-q, c1-c0, d.C, d.StrideW*d.C, t1-t0, u1-u0, d.Dilation*d.C, (d.Dilation*d.W-(u1-u0)*d.Dilation)*d.C, d.C, (d.KW-(u1-u0))*d.C)
			q = end
		}
	}
}

// A reach is what count positions along one axis read of size pixels. At
// position p, the j-th of the taps reads pixel p*stride + first + j*ahead, if
// there is such a pixel; in the kernel it is tap number tap + j*next.
type reach struct {
	count, stride, first, ahead, size int
	taps, tap, next                   int
}

// forwardReach has an output's positions.
func forwardReach(count, stride, before, kernel, size, dilation int) reach {
	return reach{count: count, stride: stride, first: -before, ahead: dilation, size: size, taps: kernel, next: 1}
}

// gradReach has the input pixels phase, phase+stride, ... Pixel i meets
// output (i+before-t*dilation)/stride at the taps t that leave no remainder:
// the last of these first, so that outputs ascend.
func gradReach(size, stride, before, kernel, out, dilation, phase int) (x reach) {
	x = reach{count: (size - phase + stride - 1) / stride, stride: 1, size: out}
	for t := kernel - 1; t >= 0; t-- {
		at := phase + before - t*dilation
		switch {
		case at%stride != 0:
		case x.taps == 0:
			x.taps, x.tap, x.first = 1, t, at/stride
		default:
			if x.taps == 1 {
				x.next, x.ahead = t-x.tap, at/stride-x.first
			}
			x.taps++
		}
	}
	return x
}

// source returns the pixel that tap j reads at position p.
func (x reach) source(p, j int) int { return p*x.stride + x.first + j*x.ahead }

// inside returns the taps [from, to) of position p that are inside the image.
func (x reach) inside(p int) (from, to int) {
	for from < x.taps && x.source(p, from) < 0 {
		from++
	}
	to = x.taps
	for to > from && x.source(p, to-1) >= x.size {
		to--
	}
	return from, to
}

// run returns inside of position p, and the end of the positions after it for
// which it is the same; they are only looked for where all taps are inside.
func (x reach) run(p int) (from, to, end int) {
	from, to = x.inside(p)
	if x.taps == 0 || to-from < x.taps {
		return from, to, p + 1
	}
	left := x.size - 1 - x.source(p, x.taps-1)
	return from, to, min(x.count, p+left/x.stride+1)
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
