package kernel

// Pools over images (N, H, W, C), channel by channel. Every window has at least one pixel inside the
// image.

// MaxPool sets the output rows [from, to), of N*OH, to the windows' maxima. A
// NaN in a window is its maximum.
func MaxPool(y, x []float32, p Window, from, to int) {
	for row := from; row < to; row++ {
		p.eachRun(row, func(out, in, pixels, kh, kw int) {
			vector.maxPool(y[out:], x[in:], pixels, p.C, p.StrideW*p.C, kh, kw, p.W*p.C)
		})
	}
}

// MaxPoolGrad sets dx to the gradient of MaxPool's x, for the images [n0, n1)
// and the channels [c0, c1). A window's gradient goes to the first of its
// pixels, by rows, that equals its maximum (if that is NaN, to its first
// pixel). The gradients of one pixel are added in ascending order of outputs,
// starting from +0.
func MaxPoolGrad(dx, dy, x, y []float32, p Window, n0, n1, c0, c1 int) {
	p.eachGradRun(dx, n0, n1, c0, c1, func(out, in, pixels, kh, kw int) {
		vector.maxPoolGrad(dx[in:], dy[out:], x[in:], y[out:], pixels, c1-c0, p.C, p.StrideW*p.C, kh, kw, p.W*p.C)
	})
}

// AvgPool sets the output rows [from, to), of N*OH, to the windows' means over
// the pixels inside the image: their sum, by rows, times the float32 nearest to
// 1/count.
func AvgPool(y, x []float32, p Window, from, to int) {
	for row := from; row < to; row++ {
		p.eachRun(row, func(out, in, pixels, kh, kw int) {
			vector.avgPool(y[out:], x[in:], pixels, p.C, p.StrideW*p.C, kh, kw, p.W*p.C, 1/float32(kh*kw))
		})
	}
}

// AvgPoolGrad sets dx to the gradient of AvgPool's x, for the images [n0, n1)
// and the channels [c0, c1): the products of dy and 1/count are added in
// ascending order of outputs, starting from +0.
func AvgPoolGrad(dx, dy []float32, p Window, n0, n1, c0, c1 int) {
	p.eachGradRun(dx, n0, n1, c0, c1, func(out, in, pixels, kh, kw int) {
		vector.avgPoolGrad(dx[in:], dy[out:], pixels, c1-c0, p.C, p.StrideW*p.C, kh, kw, p.W*p.C, 1/float32(kh*kw))
	})
}

// eachRun calls f for pixels of a row of outputs that are side by side, from offset out, whose windows
// have kh by kw pixels inside the image; the first window begins at offset in.
func (v *Window) eachRun(row int, f func(out, in, pixels, kh, kw int)) {
	down, along := v.forward()
	n, oh := row/v.OH, row%v.OH
	h0, h1 := down.inside(oh)
	for ow := 0; ow < v.OW; {
		w0, w1, end := along.run(ow)
		f((row*v.OW+ow)*v.C, ((n*v.H+down.source(oh, h0))*v.W+along.source(ow, w0))*v.C, end-ow, h1-h0, w1-w0)
		ow = end
	}
}

// eachGradRun clears the channels [c0, c1) of the images [n0, n1) of dx, and calls f for the runs of
// each, from channel c0 on.
func (v *Window) eachGradRun(dx []float32, n0, n1, c0, c1 int, f func(out, in, pixels, kh, kw int)) {
	for n := n0; n < n1; n++ {
		clearColumns(dx[n*v.H*v.W*v.C:], v.H*v.W, v.C, c0, c1)
		for oh := range v.OH {
			v.eachRun(n*v.OH+oh, func(out, in, pixels, kh, kw int) { f(out+c0, in+c0, pixels, kh, kw) })
		}
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
