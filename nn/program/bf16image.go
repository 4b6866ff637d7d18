package program

import "gpipebench/internal/kernel"

// Images in bfloat16 are converted by bands: some rows of one example's output, and the
// rows of the input that their windows reach. A band is an image by itself, with
// another number of rows before it.

// bandFloats is about how many floats of a band are converted at once.
const bandFloats = 1 << 15

// reach is what the rows of outputs see of the rows of an image, along its height.
type reach struct{ size, out, window, stride, before int }

// inputs returns the rows of the image that the output rows [p0, p1) see.
func (r reach) inputs(p0, p1 int) (from, to int) {
	from = min(max(0, p0*r.stride-r.before), r.size)
	return from, max(from, min(r.size, (p1-1)*r.stride+r.window-r.before))
}

// outputs returns the output rows that see any of the image's rows [r0, r1).
func (r reach) outputs(r0, r1 int) (from, to int) {
	from = min(max(0, (r0+r.before-r.window+r.stride)/r.stride), r.out)
	return from, max(from, min(r.out, (r1-1+r.before)/r.stride+1))
}

// inputsOf and outputsOf are the same for rows that may be none.
func (r reach) inputsOf(rows Rows) (n Rows) {
	if rows.Len() > 0 {
		n.From, n.To = r.inputs(rows.From, rows.To)
	}
	return n
}

func (r reach) outputsOf(rows Rows) (n Rows) {
	if rows.Len() > 0 {
		n.From, n.To = r.outputs(rows.From, rows.To)
	}
	return n
}

// before is how many rows lie before the first of a band whose outputs begin at p0 and
// whose image begins at r0.
func (r reach) beforeBand(p0, r0 int) int { return r0 + r.before - p0*r.stride }

// bands cuts count rows so that a band has about bandFloats.
func bands(count, floats int) (rows, parts int) {
	rows = min(count, max(1, bandFloats/max(floats, 1)))
	return rows, (count + rows - 1) / rows
}

// channels cuts so many channels so that their weights have about bandFloats.
func channels(count, floats int) (each, parts int) {
	each = min(count, max(32, bandFloats/max(floats, 1)/32*32))
	return each, (count + each - 1) / each
}

func convReach(v kernel.Conv) reach { return reach{v.H, v.OH, v.KH, v.StrideH, v.Top} }

// convBand is v for the output rows [p0, p1) and the image's rows [r0, r1) of one
// example.
func convBand(v kernel.Conv, p0, p1, r0, r1 int) kernel.Conv {
	v.Top = convReach(v).beforeBand(p0, r0)
	v.N, v.H, v.OH = 1, r1-r0, p1-p0
	return v
}

// conv lowers a convolution by channels of its output, whose weights are rounded once,
// and by bands.
func (k *conversion) conv(v kernel.Conv) (kernelFunc, int) {
	taps, reach := v.KH*v.KW*v.C, convReach(v)
	each, blocks := channels(v.O, taps)
	rows, count := bands(v.OH, max(v.OW*each, v.StrideH*v.W*v.C))
	var own, image int
	for p := 0; p < v.OH; p += rows {
		r0, r1 := reach.inputs(p, min(p+rows, v.OH))
		b := convBand(v, p, min(p+rows, v.OH), r0, r1)
		image = max(image, b.H*b.W*b.C)
		b.O = each
		own = max(own, kernel.ConvForwardScratch(b, 1))
	}
	return func(w *worker, in, out [][]float32, part, parts int) {
		x := cutFloats(w.scratch, taps*each, image, rows*v.OW*each)
		from, to := share(blocks*v.N*count, part, parts, 1)
		weights := -1 // the channels that are loaded
		for i := from; i < to; i++ {
			n, p0 := i/count%v.N, i%count*rows
			p1 := min(p0+rows, v.OH)
			o := i / count / v.N * each
			r0, r1 := reach.inputs(p0, p1)
			b := convBand(v, p0, p1, r0, r1)
			b.O = min(each, v.O-o)
			if o != weights {
				k.in[1].loadRows(x[0], in[1], o, taps, b.O, v.O)
				weights = o
			}
			source := k.in[0].load(x[1], in[0], (n*v.H+r0)*v.W*v.C, b.H*v.W*v.C)
			kernel.ConvForward(b, x[2], source, x[0], 0, 1, w.scratch[taps*each+image+rows*v.OW*each:])
			k.out[0].storeRows(out[0], (n*v.OH+p0)*v.OW*v.O+o, x[2], b.OH*v.OW, b.O, v.O)
		}
	}, taps*each + image + rows*v.OW*each + own
}

// convInput lowers the gradient of a convolution's input by channels of the input and by
// bands of its rows.
func (k *conversion) convInput(v kernel.Conv) (kernelFunc, int) {
	taps, reach := v.KH*v.KW, convReach(v)
	each, blocks := channels(v.C, taps*v.O)
	rows, count := bands(v.H, max(v.W*each, v.OW*v.O/v.StrideH))
	var own, image int
	for r := 0; r < v.H; r += rows {
		p0, p1 := reach.outputs(r, min(r+rows, v.H))
		b := convBand(v, p0, p1, r, min(r+rows, v.H))
		image = max(image, b.OH*b.OW*b.O)
		b.C = each
		own = max(own, kernel.ConvGradInputScratch(b, 1))
	}
	return func(w *worker, in, out [][]float32, part, parts int) {
		x := cutFloats(w.scratch, taps*each*v.O, image, rows*v.W*each)
		from, to := share(blocks*v.N*count, part, parts, 1)
		weights := -1
		for i := from; i < to; i++ {
			n, r0 := i/count%v.N, i%count*rows
			r1 := min(r0+rows, v.H)
			c := i / count / v.N * each
			p0, p1 := reach.outputs(r0, r1)
			b := convBand(v, p0, p1, r0, r1)
			b.C = min(each, v.C-c)
			if c != weights {
				k.in[1].loadRows(x[0], in[1], c*v.O, taps, b.C*v.O, v.C*v.O)
				weights = c
			}
			dy := k.in[0].load(x[1], in[0], (n*v.OH+p0)*v.OW*v.O, b.OH*v.OW*v.O)
			kernel.ConvGradInput(b, x[2], dy, x[0], 0, 1, w.scratch[taps*each*v.O+image+rows*v.W*each:])
			k.out[0].storeRows(out[0], (n*v.H+r0)*v.W*v.C+c, x[2], b.H*v.W, b.C, v.C)
		}
	}, taps*each*v.O + image + rows*v.W*each + own
}

// convWeight lowers the gradient of a convolution's weight, to which the bands add in
// the order of their rows.
func (k *conversion) convWeight(v kernel.Conv, threads int) (kernelFunc, int) {
	reach := convReach(v)
	rows, _ := bands(v.OH, max(v.OW*v.O, v.StrideH*v.W*v.C))
	var own, image int
	for p := 0; p < v.OH; p += rows {
		r0, r1 := reach.inputs(p, min(p+rows, v.OH))
		b := convBand(v, p, min(p+rows, v.OH), r0, r1)
		image = max(image, b.H*b.W*b.C)
		own = max(own, kernel.ConvGradWeightScratch(b, threads))
	}
	return func(w *worker, in, out [][]float32, part, parts int) {
		x := cutFloats(w.scratch, image, rows*v.OW*v.O)
		for n := range v.N {
			for p0 := 0; p0 < v.OH; p0 += rows {
				p1 := min(p0+rows, v.OH)
				r0, r1 := reach.inputs(p0, p1)
				b := convBand(v, p0, p1, r0, r1)
				source := k.in[0].load(x[0], in[0], (n*v.H+r0)*v.W*v.C, b.H*v.W*v.C)
				dy := k.in[1].load(x[1], in[1], (n*v.OH+p0)*v.OW*v.O, b.OH*v.OW*v.O)
				kernel.ConvGradWeight(b, out[0], source, dy, true, part, parts, w.scratch[image+rows*v.OW*v.O:])
			}
		}
	}, image + rows*v.OW*v.O + own
}

func depthwiseReach(v kernel.Depthwise) reach {
	return reach{v.H, v.OH, (v.KH-1)*v.Dilation + 1, v.StrideH, v.Top}
}

// depthwiseBand is convBand for a depthwise convolution.
func depthwiseBand(v kernel.Depthwise, p0, p1, r0, r1 int) kernel.Depthwise {
	v.Top = depthwiseReach(v).beforeBand(p0, r0)
	v.N, v.H, v.OH = 1, r1-r0, p1-p0
	return v
}

// depthwise lowers a depthwise convolution by bands.
func (k *conversion) depthwise(v kernel.Depthwise) (kernelFunc, int) {
	weights := v.KH * v.KW * v.C
	reach := depthwiseReach(v)
	rows, count := bands(v.OH, max(v.OW, v.StrideH*v.W)*v.C)
	image := 0
	for p := 0; p < v.OH; p += rows {
		r0, r1 := reach.inputs(p, min(p+rows, v.OH))
		image = max(image, (r1-r0)*v.W*v.C)
	}
	return func(w *worker, in, out [][]float32, part, parts int) {
		x := cutFloats(w.scratch, weights, image, rows*v.OW*v.C)
		wts := k.in[1].load(x[0], in[1], 0, weights)
		from, to := share(v.N*count, part, parts, 1)
		for i := from; i < to; i++ {
			n, p0 := i/count, i%count*rows
			p1 := min(p0+rows, v.OH)
			r0, r1 := reach.inputs(p0, p1)
			b := depthwiseBand(v, p0, p1, r0, r1)
			source := k.in[0].load(x[1], in[0], (n*v.H+r0)*v.W*v.C, b.H*v.W*v.C)
			kernel.DepthwiseForward(b, x[2], source, wts, 0, b.OH)
			k.out[0].store(out[0], (n*v.OH+p0)*v.OW*v.C, x[2][:b.OH*v.OW*v.C])
		}
	}, weights + image + rows*v.OW*v.C
}

// depthwiseInput lowers the gradient of a depthwise convolution's input by bands of its
// rows.
func (k *conversion) depthwiseInput(v kernel.Depthwise) (kernelFunc, int) {
	weights := v.KH * v.KW * v.C
	reach := depthwiseReach(v)
	rows, count := bands(v.H, max(v.W, v.OW/v.StrideH)*v.C)
	image := 0
	for r := 0; r < v.H; r += rows {
		p0, p1 := reach.outputs(r, min(r+rows, v.H))
		image = max(image, (p1-p0)*v.OW*v.C)
	}
	return func(w *worker, in, out [][]float32, part, parts int) {
		x := cutFloats(w.scratch, weights, image, rows*v.W*v.C)
		wts := k.in[1].load(x[0], in[1], 0, weights)
		from, to := share(v.N*count, part, parts, 1)
		for i := from; i < to; i++ {
			n, r0 := i/count, i%count*rows
			r1 := min(r0+rows, v.H)
			p0, p1 := reach.outputs(r0, r1)
			b := depthwiseBand(v, p0, p1, r0, r1)
			dy := k.in[0].load(x[1], in[0], (n*v.OH+p0)*v.OW*v.C, b.OH*v.OW*v.C)
			kernel.DepthwiseGradInput(b, x[2], dy, wts, 0, b.H)
			k.out[0].store(out[0], (n*v.H+r0)*v.W*v.C, x[2][:b.H*v.W*v.C])
		}
	}, weights + image + rows*v.W*v.C
}

// depthwiseWeight lowers the gradient of a depthwise convolution's weight, to which the
// bands add in the order of their rows.
func (k *conversion) depthwiseWeight(v kernel.Depthwise) (kernelFunc, int) {
	reach := depthwiseReach(v)
	rows, _ := bands(v.OH, max(v.OW, v.StrideH*v.W)*v.C)
	image := 0
	for p := 0; p < v.OH; p += rows {
		r0, r1 := reach.inputs(p, min(p+rows, v.OH))
		image = max(image, (r1-r0)*v.W*v.C)
	}
	return func(w *worker, in, out [][]float32, part, parts int) {
		x := cutFloats(w.scratch, image, rows*v.OW*v.C)
		kh0, kh1, c0, c1 := shareTaps(v, part, parts)
		for n := range v.N {
			for p0 := 0; p0 < v.OH; p0 += rows {
				p1 := min(p0+rows, v.OH)
				r0, r1 := reach.inputs(p0, p1)
				b := depthwiseBand(v, p0, p1, r0, r1)
				source := k.in[0].load(x[0], in[0], (n*v.H+r0)*v.W*v.C, b.H*v.W*v.C)
				dy := k.in[1].load(x[1], in[1], (n*v.OH+p0)*v.OW*v.C, b.OH*v.OW*v.C)
				kernel.DepthwiseGradWeight(b, out[0], source, dy, true, kh0, kh1, c0, c1)
			}
		}
	}, image + rows*v.OW*v.C
}

func poolReach(p kernel.Pool) reach { return reach{p.H, p.OH, p.KH, p.StrideH, p.Top} }

// poolBand is convBand for a pool.
func poolBand(p kernel.Pool, p0, p1, r0, r1 int) kernel.Pool {
	p.Top = poolReach(p).beforeBand(p0, r0)
	p.N, p.H, p.OH = 1, r1-r0, p1-p0
	return p
}

// pool lowers a pool by bands.
func (k *conversion) pool(v kernel.Pool, run func(y, x []float32, p kernel.Pool, from, to int)) (kernelFunc, int) {
	reach := poolReach(v)
	rows, count := bands(v.OH, max(v.OW, v.StrideH*v.W)*v.C)
	image := 0
	for p := 0; p < v.OH; p += rows {
		r0, r1 := reach.inputs(p, min(p+rows, v.OH))
		image = max(image, (r1-r0)*v.W*v.C)
	}
	return func(w *worker, in, out [][]float32, part, parts int) {
		x := cutFloats(w.scratch, image, rows*v.OW*v.C)
		from, to := share(v.N*count, part, parts, 1)
		for i := from; i < to; i++ {
			n, p0 := i/count, i%count*rows
			p1 := min(p0+rows, v.OH)
			r0, r1 := reach.inputs(p0, p1)
			b := poolBand(v, p0, p1, r0, r1)
			run(x[1], k.in[0].load(x[0], in[0], (n*v.H+r0)*v.W*v.C, b.H*v.W*v.C), b, 0, b.OH)
			k.out[0].store(out[0], (n*v.OH+p0)*v.OW*v.C, x[1][:b.OH*v.OW*v.C])
		}
	}, image + rows*v.OW*v.C
}

// poolGrad lowers the gradient of a pool's input, from dy and for a maximum x and y, by
// bands of the input's rows. The windows that reach a band are computed whole, since the
// maximum may be outside of it; what they add outside is dropped.
func (k *conversion) poolGrad(v kernel.Pool, run func(dx []float32, in [][]float32, p kernel.Pool)) (kernelFunc, int) {
	reach := poolReach(v)
	rows, count := bands(v.H, max(v.W, v.OW/v.StrideH)*v.C)
	windows := func(r0 int) (r1, p0, p1, e0, e1 int) {
		r1 = min(r0+rows, v.H)
		p0, p1 = reach.outputs(r0, r1)
		e0, e1 = r0, r1
		if p0 < p1 {
			from, to := reach.inputs(p0, p1)
			e0, e1 = min(e0, from), max(e1, to)
		}
		return r1, p0, p1, e0, e1
	}
	var image, output int
	for r := 0; r < v.H; r += rows {
		_, p0, p1, e0, e1 := windows(r)
		image, output = max(image, (e1-e0)*v.W*v.C), max(output, (p1-p0)*v.OW*v.C)
	}
	return func(w *worker, in, out [][]float32, part, parts int) {
		x := cutFloats(w.scratch, image, output, image, output)
		from, to := share(v.N*count, part, parts, 1)
		for i := from; i < to; i++ {
			n, r0 := i/count, i%count*rows
			r1, p0, p1, e0, e1 := windows(r0)
			b := poolBand(v, p0, p1, e0, e1)
			w.in[0] = k.in[0].load(x[1], in[0], (n*v.OH+p0)*v.OW*v.C, b.OH*v.OW*v.C)
			if len(in) > 1 {
				w.in[1] = k.in[1].load(x[2], in[1], (n*v.H+e0)*v.W*v.C, b.H*v.W*v.C)
				w.in[2] = k.in[2].load(x[3], in[2], (n*v.OH+p0)*v.OW*v.C, b.OH*v.OW*v.C)
			}
			run(x[0], w.in[:len(in)], b)
			k.out[0].store(out[0], (n*v.H+r0)*v.W*v.C, x[0][(r0-e0)*v.W*v.C:(r1-e0)*v.W*v.C])
		}
	}, 2*image + 2*output
}
