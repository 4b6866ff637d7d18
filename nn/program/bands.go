package program

import "gpipebench/internal/kernel"

// Images in bfloat16 are converted by bands: some rows of one example's output, and the
// rows of the input that their windows reach. A band is an image by itself, with
// another number of rows before it.

// bandFloats is about how many floats of a band are converted at once.
const bandFloats = 1 << 15

// reach is what the rows of outputs see of the rows of an image, along its height.
type reach struct{ size, out, window, stride, before int }

func reachOf(v kernel.Window) reach {
	return reach{v.H, v.OH, (v.KH-1)*v.Dilation + 1, v.StrideH, v.Top}
}

// inputs returns the rows of the image that the given rows of outputs see.
func (r reach) inputs(rows Rows) (n Rows) {
	if rows.Len() > 0 {
		n.From = min(max(0, rows.From*r.stride-r.before), r.size)
		n.To = max(n.From, min(r.size, (rows.To-1)*r.stride+r.window-r.before))
	}
	return n
}

// outputs returns the rows of outputs that see any of the given rows of the image.
func (r reach) outputs(rows Rows) (n Rows) {
	if rows.Len() > 0 {
		n.From = min(max(0, (rows.From+r.before-r.window+r.stride)/r.stride), r.out)
		n.To = max(n.From, min(r.out, (rows.To-1+r.before)/r.stride+1))
	}
	return n
}

// whole returns rows of the image with all that the windows over any of them see.
func (r reach) whole(rows Rows) Rows {
	if seen := r.inputs(r.outputs(rows)); seen.Len() > 0 {
		rows.From, rows.To = min(rows.From, seen.From), max(rows.To, seen.To)
	}
	return rows
}

// beforeBand is how many rows lie before the first of a band of an image for these outputs.
func (r reach) beforeBand(image, outputs Rows) int {
	return image.From + r.before - outputs.From*r.stride
}

// bandOf is a window over some rows of one image, for some rows of its outputs.
func bandOf(v kernel.Window, image, outputs Rows) kernel.Window {
	v.Top = reachOf(v).beforeBand(image, outputs)
	v.N, v.H, v.OH = 1, image.Len(), outputs.Len()
	return v
}

// banded is an op whose window slides over images, by bands: of its result's rows, and of
// its result's channels where the weights are many.
type banded struct {
	kernel.Window
	backward                 bool // the result is the gradient of the images: its source is the outputs' gradient
	height, pixels, channels int  // of the result of an example
	each                     int  // channels of the result that are computed at once
	sourceHeight, source     int  // of the first input of an example, and the elements of one of its rows
	// The second input, if the op has weights, is taps rows of elements for each
	// channel of the result.
	taps, weights int
}

// bandsOf are the bands of a window's outputs, or with backward of the gradient of its images.
func bandsOf(v kernel.Window, backward bool, taps, weights int) banded {
	if backward {
		return banded{v, true, v.H, v.W, v.C, v.C, v.OH, v.OW * v.O, taps, weights}
	}
	return banded{v, false, v.OH, v.OW, v.O, v.O, v.H, v.W * v.C, taps, weights}
}

// cutChannels cuts the result's channels so that the weights of a part have about bandFloats.
func (v *banded) cutChannels(floats int) {
	v.each = min(v.channels, max(32, bandFloats/max(floats, 1)/32*32))
}

// band returns the rows of the result from first on, at most a number, those of the
// source that they need, and the window over them for some of the result's channels.
func (v *banded) band(first, rows, channels int) (made, read Rows, w kernel.Window) {
	made = Rows{first, min(first+rows, v.height)}
	if v.backward {
		read = reachOf(v.Window).outputs(made)
		w = bandOf(v.Window, made, read)
		w.C = channels
	} else {
		read = reachOf(v.Window).inputs(made)
		w = bandOf(v.Window, read, made)
		w.O = channels
	}
	return made, read, w
}

// cut returns how many rows a band has, how many bands an example has, the most elements
// of the source that a band needs, and the most scratch that its kernel does.
func (v *banded) cut(scratch func(w kernel.Window) int) (rows, count, most, own int) {
	floats := max(v.pixels*v.each, v.StrideH*v.source)
	if v.backward {
		floats = max(v.pixels*v.each, v.source/v.StrideH)
	}
	rows, count = bands(v.height, floats)
	for first := 0; first < v.height; first += rows {
		_, read, w := v.band(first, rows, v.each)
		most = max(most, read.Len()*v.source)
		if scratch != nil {
			own = max(own, scratch(w))
		}
	}
	return rows, count, most, own
}

// banded lowers an op by bands. Weights are rounded once for all bands of the same
// channels. Run computes a band's result y from x and the weights.
func (k *conversion) banded(v banded, scratch func(w kernel.Window) int, run func(v kernel.Window, y, x, weights, scratch []float32)) (kernelFunc, int) {
	rows, count, most, own := v.cut(scratch)
	blocks := (v.channels + v.each - 1) / v.each
	weights, result := v.taps*v.each*v.weights, rows*v.pixels*v.each
	return func(w *worker, in, out [][]float32, part, parts int) {
		x := cutFloats(w.scratch, weights, most, result)
		from, to := share(blocks*v.N*count, part, parts, 1)
		loaded := -1 // the channels whose weights are loaded
		for i := from; i < to; i++ {
			n, c := i/count%v.N, i/count/v.N*v.each
			channels := min(v.each, v.channels-c)
			made, read, band := v.band(i%count*rows, rows, channels)
			if weights > 0 && c != loaded {
				k.in[1].loadRows(x[0], in[1], c*v.weights, v.taps, channels*v.weights, v.channels*v.weights)
				loaded = c
			}
			source := k.in[0].load(x[1], in[0], (n*v.sourceHeight+read.From)*v.source, read.Len()*v.source)
			run(band, x[2], source, x[0], w.scratch[weights+most+result:])
			k.out[0].storeRows(out[0], (n*v.height+made.From)*v.pixels*v.channels+c, x[2], made.Len()*v.pixels, channels, v.channels)
		}
	}, weights + most + result + own
}

// bandedWeight lowers the gradient of a weight from x and dy, to which the bands add in
// the order of their rows.
func (k *conversion) bandedWeight(of kernel.Window, scratch func(w kernel.Window) int, run func(v kernel.Window, dw, x, dy, scratch []float32, part, parts int)) (kernelFunc, int) {
	v := bandsOf(of, false, 0, 0)
	rows, _, most, own := v.cut(scratch)
	width := v.pixels * v.channels
	return func(w *worker, in, out [][]float32, part, parts int) {
		x := cutFloats(w.scratch, most, rows*width)
		for n := range v.N {
			for first := 0; first < v.height; first += rows {
				made, read, band := v.band(first, rows, v.channels)
				source := k.in[0].load(x[0], in[0], (n*v.sourceHeight+read.From)*v.source, read.Len()*v.source)
				dy := k.in[1].load(x[1], in[1], (n*v.height+made.From)*width, made.Len()*width)
				run(band, out[0], source, dy, w.scratch[most+rows*width:], part, parts)
			}
		}
	}, most + rows*width + own
}

// bands cuts count rows so that a band has about bandFloats.
func bands(count, floats int) (rows, parts int) {
	rows = min(count, max(1, bandFloats/max(floats, 1)))
	return rows, (count + rows - 1) / rows
}
