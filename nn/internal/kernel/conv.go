package kernel

// Conv describes a convolution of x (N, H, W, C) with w (KH, KW, C, O) to
// y (N, OH, OW, O). Output pixel (oh,ow) meets input pixel
// (oh*StrideH+kh-Top, ow*StrideW+kw-Left) at tap (kh,kw). Where that is outside
// the image, the tap is left out, as if the image were zero there. Top and Left
// may be negative, which crops.
type Conv struct {
	N, H, W, C       int
	KH, KW           int
	StrideH, StrideW int
	Top, Left        int
	OH, OW, O        int
}

// ConvForward computes y from x and w. Every element is one chain of fused
// multiply-adds, from zero, over (kh, kw, c) ascending.
//
// Like its gradients, it computes the part-th of parts parts of the output,
// and no bit depends on how many there are.
func ConvForward(c Conv, y, x, w []float32, part, parts int, scratch []float32) {
	rows := c.N * c.OH
	for r := rows * part / parts; r < rows*(part+1)/parts; r++ {
		n, oh := r/c.OH, r%c.OH
		clear(y[r*c.OW*c.O:][:c.OW*c.O])
		for kh := range c.KH {
			ih := oh*c.StrideH + kh - c.Top
			if ih < 0 || ih >= c.H {
				continue
			}
			for kw := range c.KW {
				ow, end := c.columns(kw)
				if ow == end {
					continue
				}
				Gemm(end-ow, c.O, c.C,
					x[((n*c.H+ih)*c.W+ow*c.StrideW+kw-c.Left)*c.C:], c.StrideW*c.C, 1,
					w[(kh*c.KW+kw)*c.C*c.O:], c.O, 1,
					y[(r*c.OW+ow)*c.O:], c.O, true, scratch, nil)
			}
		}
	}
}

// ConvGradInput computes dx from dy and w. Every element is one chain of fused
// multiply-adds, from zero, over (kh, kw) descending and o ascending. What no
// output looks at is zero.
func ConvGradInput(c Conv, dx, dy, w []float32, part, parts int, scratch []float32) {
	rows := c.N * c.H
	for r := rows * part / parts; r < rows*(part+1)/parts; r++ {
		n, ih := r/c.H, r%c.H
		clear(dx[r*c.W*c.C:][:c.W*c.C])
		for kh := c.KH - 1; kh >= 0; kh-- {
			oh := (ih + c.Top - kh) / c.StrideH
			if ih+c.Top < kh || oh*c.StrideH != ih+c.Top-kh || oh >= c.OH {
				continue
			}
			for kw := c.KW - 1; kw >= 0; kw-- {
				ow, end := c.columns(kw)
				if ow == end {
					continue
				}
				Gemm(end-ow, c.C, c.O,
					dy[((n*c.OH+oh)*c.OW+ow)*c.O:], c.O, 1,
					w[(kh*c.KW+kw)*c.C*c.O:], 1, c.O,
					dx[(r*c.W+ow*c.StrideW+kw-c.Left)*c.C:], c.StrideW*c.C, true, scratch, nil)
			}
		}
	}
}

// ConvGradWeight computes dw from x and dy, or adds to it if accumulate. Every
// element is one chain of fused multiply-adds over (n, oh, ow) ascending, from
// zero or from dw, so examples may be fed in any number of calls.
func ConvGradWeight(c Conv, dw, x, dy []float32, accumulate bool, part, parts int, scratch []float32) {
	j0, j1 := c.O*part/parts, c.O*(part+1)/parts
	if j0 == j1 {
		return
	}
	for kh := range c.KH {
		for kw := range c.KW {
			to := dw[(kh*c.KW+kw)*c.C*c.O:][:c.C*c.O]
			if !accumulate {
				for i := range c.C {
					clear(to[i*c.O+j0 : i*c.O+j1])
				}
			}
			ow, end := c.columns(kw)
			if ow == end {
				continue
			}
			for n := range c.N {
				for oh := range c.OH {
					ih := oh*c.StrideH + kh - c.Top
					if ih < 0 || ih >= c.H {
						continue
					}
					Gemm(c.C, j1-j0, end-ow,
						x[((n*c.H+ih)*c.W+ow*c.StrideW+kw-c.Left)*c.C:], 1, c.StrideW*c.C,
						dy[((n*c.OH+oh)*c.OW+ow)*c.O+j0:], c.O, 1,
						to[j0:], c.O, true, scratch, nil)
				}
			}
		}
	}
}

// ConvForwardScratch returns how many floats of scratch each of parts threads
// needs for ConvForward.
func ConvForwardScratch(c Conv, parts int) int { return GemmScratch(c.OW, c.O, c.C) }

// ConvGradInputScratch is ConvForwardScratch for ConvGradInput.
func ConvGradInputScratch(c Conv, parts int) int { return GemmScratch(c.OW, c.C, c.O) }

// ConvGradWeightScratch is ConvForwardScratch for ConvGradWeight.
func ConvGradWeightScratch(c Conv, parts int) int { return GemmScratch(c.C, c.O, c.OW) }

// columns returns the outputs [from, to) of a row that tap column kw has in the
// image.
func (c Conv) columns(kw int) (from, to int) {
	first := kw - c.Left // input column of output column 0
	if first < 0 {
		from = (-first + c.StrideW - 1) / c.StrideW
	}
	if last := c.W - 1 - first; last >= 0 {
		to = min(last/c.StrideW+1, c.OW)
	}
	return from, max(from, to)
}
