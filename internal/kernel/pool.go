package kernel

// Pools over images (N, H, W, C), channel by channel.

// A Pool has N images of H by W pixels of C channels, (N, H, W, C), and windows
// of KH by KW pixels: output pixel (oh, ow) of (N, OH, OW, C) covers the pixels
// (oh*StrideH + kh - Top, ow*StrideW + kw - Left), kh < KH and kw < KW. Those
// outside the image are left out; every window has at least one inside.
type Pool struct{ N, H, W, C, KH, KW, StrideH, StrideW, Top, Left, OH, OW int }

// MaxPool sets the output rows [from, to), of N*OH, to the windows' maxima. A
// NaN in a window is its maximum.
func MaxPool(y, x []float32, p Pool, from, to int) {
	for row := from; row < to; row++ {
		n, oh := row/p.OH, row%p.OH
		v := p.rows(oh)
		for r, ok := p.firstRun(); ok; r, ok = p.nextRun(r) {
			vector.maxPool(y[p.output(n, oh, r.ow):], x[p.input(n, v.ih, r.iw):],
				r.n, p.C, p.StrideW*p.C, v.kh, r.kw, p.W*p.C)
		}
	}
}

// MaxPoolGrad sets dx to the gradient of MaxPool's x, for the images [n0, n1)
// and the channels [c0, c1). A window's gradient goes to the first of its
// pixels, by rows, that equals its maximum (if that is NaN, to its first
// pixel). The gradients of one pixel are added in ascending order of outputs,
// starting from +0.
func MaxPoolGrad(dx, dy, x, y []float32, p Pool, n0, n1, c0, c1 int) {
	for n := n0; n < n1; n++ {
		p.clearImage(dx, n, c0, c1)
		for oh := range p.OH {
			v := p.rows(oh)
			for r, ok := p.firstRun(); ok; r, ok = p.nextRun(r) {
				out, in := p.output(n, oh, r.ow)+c0, p.input(n, v.ih, r.iw)+c0
				vector.maxPoolGrad(dx[in:], dy[out:], x[in:], y[out:],
					r.n, c1-c0, p.C, p.StrideW*p.C, v.kh, r.kw, p.W*p.C)
			}
		}
	}
}

// AvgPool sets the output rows [from, to), of N*OH, to the windows' means over
// the pixels inside the image: their sum, by rows, times the float32 nearest to
// 1/count.
func AvgPool(y, x []float32, p Pool, from, to int) {
	for row := from; row < to; row++ {
		n, oh := row/p.OH, row%p.OH
		v := p.rows(oh)
		for r, ok := p.firstRun(); ok; r, ok = p.nextRun(r) {
			vector.avgPool(y[p.output(n, oh, r.ow):], x[p.input(n, v.ih, r.iw):],
				r.n, p.C, p.StrideW*p.C, v.kh, r.kw, p.W*p.C, 1/float32(v.kh*r.kw))
		}
	}
}

// AvgPoolGrad sets dx to the gradient of AvgPool's x, for the images [n0, n1)
// and the channels [c0, c1): the products of dy and 1/count are added in
// ascending order of outputs, starting from +0.
func AvgPoolGrad(dx, dy []float32, p Pool, n0, n1, c0, c1 int) {
	for n := n0; n < n1; n++ {
		p.clearImage(dx, n, c0, c1)
		for oh := range p.OH {
			v := p.rows(oh)
			for r, ok := p.firstRun(); ok; r, ok = p.nextRun(r) {
				vector.avgPoolGrad(dx[p.input(n, v.ih, r.iw)+c0:], dy[p.output(n, oh, r.ow)+c0:],
					r.n, c1-c0, p.C, p.StrideW*p.C, v.kh, r.kw, p.W*p.C, 1/float32(v.kh*r.kw))
			}
		}
	}
}

// input returns the offset of pixel (ih, iw) of image n.
func (p *Pool) input(n, ih, iw int) int { return ((n*p.H+ih)*p.W + iw) * p.C }

// output returns the offset of output pixel (oh, ow) of image n.
func (p *Pool) output(n, oh, ow int) int { return ((n*p.OH+oh)*p.OW + ow) * p.C }

// inside returns the part of a window, which starts at begin, that is inside an
// image of the given length, along one axis.
func inside(begin, window, length int) (first, count int) {
	first = max(begin, 0)
	return first, min(begin+window, length) - first
}

// rowRange is the range of image rows that a row of outputs covers.
type rowRange struct{ ih, kh int }

func (p *Pool) rows(oh int) rowRange {
	ih, kh := inside(oh*p.StrideH-p.Top, p.KH, p.H)
	return rowRange{ih, kh}
}

// A poolRun is n outputs side by side, from ow, whose windows have the same
// number kw of columns inside the image; the first window begins at column iw.
type poolRun struct{ ow, n, iw, kw int }

func (p *Pool) firstRun() (poolRun, bool) { return p.runFrom(0) }

func (p *Pool) nextRun(r poolRun) (poolRun, bool) { return p.runFrom(r.ow + r.n) }

func (p *Pool) runFrom(ow int) (poolRun, bool) {
	if ow == p.OW {
		return poolRun{}, false
	}
	begin := ow*p.StrideW - p.Left
	iw, kw := inside(begin, p.KW, p.W)
	r := poolRun{ow, 1, iw, kw}
	if kw == p.KW { // all windows that are whole
		r.n = min(p.OW-ow, (p.W-p.KW-begin)/p.StrideW+1)
	}
	return r, true
}

// clearImage zeroes the channels [c0, c1) of image n.
func (p *Pool) clearImage(dx []float32, n, c0, c1 int) {
	at := p.input(n, 0, 0)
	if c0 == 0 && c1 == p.C {
		clear(dx[at : at+p.H*p.W*p.C])
		return
	}
	for pixel := range p.H * p.W {
		clear(dx[at+pixel*p.C+c0 : at+pixel*p.C+c1])
	}
}

// GlobalAvgPool sets y, (n, c), to the mean pixel of each image of x, (n,
// pixels, c): the sum in ascending order times the float32 nearest to 1/pixels.
// Images are independent, so that a caller may cut n.
func GlobalAvgPool(y, x []float32, n, pixels, c int) {
	y = y[:n*c]
	clear(y)
	for i := range n {
		ColSum(y[i*c:(i+1)*c], x[i*pixels*c:], pixels, c, c)
	}
	Scale(y, y, 1/float32(pixels))
}

// GlobalAvgPoolGrad sets dx, (n, pixels, c), to the gradient of
// GlobalAvgPool's x.
func GlobalAvgPoolGrad(dx, dy []float32, n, pixels, c int) {
	for i := range n {
		image := dx[i*pixels*c : (i+1)*pixels*c]
		first := image[:c]
		Scale(first, dy[i*c:], 1/float32(pixels))
		for at := c; at < len(image); at += c {
			copy(image[at:at+c], first)
		}
	}
}

// Below, a window has kh by kw pixels. Neighbouring pixels, and neighbouring
// outputs, are ld elements apart (cols in kernels without ld) and rows of pixels
// row elements; from one output to the next the window moves by step elements.

func maxPoolGeneric(y, x []float32, pixels, cols, step, kh, kw, row int) {
	for o := range pixels {
		y, x := y[o*cols:(o+1)*cols], x[o*step:]
		copy(y, x)
		for h := range kh {
			for w := range kw {
				at := h*row + w*cols
				for j, v := range x[at : at+cols] {
					if v > y[j] || v != v {
						y[j] = v
					}
				}
			}
		}
	}
}

func maxPoolGradGeneric(dx, dy, x, y []float32, pixels, cols, ld, step, kh, kw, row int) {
	for o := range pixels {
		dx, x := dx[o*step:], x[o*step:]
		for j, y := range y[o*ld : o*ld+cols] {
			at := firstMaximum(x[j:], y, ld, kh, kw, row) + j
			dx[at] += dy[o*ld+j]
		}
	}
}

// firstMaximum returns the offset of the first y in the window at x[0].
func firstMaximum(x []float32, y float32, ld, kh, kw, row int) int {
	for h := range kh {
		for w := range kw {
			if x[h*row+w*ld] == y {
				return h*row + w*ld
			}
		}
	}
	return 0 // NaN
}

func avgPoolGeneric(y, x []float32, pixels, cols, step, kh, kw, row int, share float32) {
	for o := range pixels {
		y, x := y[o*cols:(o+1)*cols], x[o*step:]
		clear(y)
		for h := range kh {
			for w := range kw {
				at := h*row + w*cols
				for j, v := range x[at : at+cols] {
					y[j] += v
				}
			}
		}
		for j := range y {
			y[j] *= share
		}
	}
}

func avgPoolGradGeneric(dx, dy []float32, pixels, cols, ld, step, kh, kw, row int, share float32) {
	for o := range pixels {
		dx := dx[o*step:]
		for j, d := range dy[o*ld : o*ld+cols] {
			d = float32(d * share)
			for h := range kh {
				for w := range kw {
					dx[h*row+w*ld+j] += d
				}
			}
		}
	}
}
