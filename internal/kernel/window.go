package kernel

// A Window moves over images x (N, H, W, C), to outputs y of OH by OW pixels: a convolution's,
// (N, OH, OW, O), or a depthwise convolution's or a pool's, (N, OH, OW, C). At tap (kh,kw), kh < KH
// and kw < KW, output pixel (oh,ow) reads input pixel (oh*StrideH+kh*Dilation-Top,
// ow*StrideW+kw*Dilation-Left). A tap outside the image is left out. Top and Left may be negative,
// which crops. Only depthwise convolutions have a Dilation; it is 1 elsewhere, as it is if 0.
type Window struct {
	N, H, W, C       int
	KH, KW           int
	StrideH, StrideW int
	Dilation         int
	Top, Left        int
	OH, OW, O        int
}

// A reach is what count positions along one axis read of size pixels. At
// position p, the j-th of the taps reads pixel p*stride + first + j*ahead, if
// there is such a pixel; in the kernel it is tap number tap + j*next.
type reach struct {
	count, stride, first, ahead, size int
	taps, tap, next                   int
}

// forward has the positions of the outputs.
func (v *Window) forward() (down, along reach) {
	dilation := max(1, v.Dilation)
	return reach{count: v.OH, stride: v.StrideH, first: -v.Top, ahead: dilation, size: v.H, taps: v.KH, next: 1},
		reach{count: v.OW, stride: v.StrideW, first: -v.Left, ahead: dilation, size: v.W, taps: v.KW, next: 1}
}

// phase has the positions of the input pixels (i+p*StrideH, j+q*StrideW), which read outputs.
func (v *Window) phase(i, j int) (down, along reach) {
	dilation := max(1, v.Dilation)
	return gradReach(v.H, v.StrideH, v.Top, v.KH, v.OH, dilation, i), gradReach(v.W, v.StrideW, v.Left, v.KW, v.OW, dilation, j)
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

// positions returns the positions [from, to) whose tap j is inside the image.
func (x reach) positions(j int) (from, to int) {
	first := x.source(0, j)
	from = max(0, (-first+x.stride-1)/x.stride)
	if last := x.size - 1 - first; last >= 0 {
		to = min(last/x.stride+1, x.count)
	}
	return from, max(from, to)
}
