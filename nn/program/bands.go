package program

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

// banded is an op whose window slides over images, by bands: of its result's rows, and of
// its result's channels where the weights are many.
type banded struct {
	reach
	backward         bool // the result is the gradient of the images: its source is the outputs' gradient
	examples         int
	pixels, channels int // of a row of the result
	each             int // channels of the result that are computed at once
	source           int // elements of a row of the first input
	// The second input, if the op has weights, is taps rows of elements for each
	// channel of the result.
	taps, weights int
}

// band is some rows of images and the rows of outputs that belong to them.
type band struct {
	image, outputs Rows
	top            int // rows before the first of image
	channels       int // of the result
}

// band returns the rows of the result from first on, at most a number, and those of the
// source that they need.
func (v *banded) band(first, rows, channels int) (made, read Rows, b band) {
	if v.backward {
		made = Rows{first, min(first+rows, v.size)}
		read.From, read.To = v.reach.outputs(made.From, made.To)
		b = band{image: made, outputs: read}
	} else {
		made = Rows{first, min(first+rows, v.out)}
		read.From, read.To = v.reach.inputs(made.From, made.To)
		b = band{image: read, outputs: made}
	}
	b.top, b.channels = v.beforeBand(b.outputs.From, b.image.From), channels
	return made, read, b
}

// cut returns how many rows a band has, how many bands an example has, the most elements
// of the source that a band needs, and the most scratch that its kernel does.
func (v *banded) cut(scratch func(b band) int) (rows, count, most, own int) {
	all, floats := v.out, max(v.pixels*v.each, v.stride*v.source)
	if v.backward {
		all, floats = v.size, max(v.pixels*v.each, v.source/v.stride)
	}
	rows, count = bands(all, floats)
	for first := 0; first < all; first += rows {
		_, read, b := v.band(first, rows, v.each)
		most = max(most, read.Len()*v.source)
		if scratch != nil {
			own = max(own, scratch(b))
		}
	}
	return rows, count, most, own
}

// banded lowers an op by bands. Weights are rounded once for all bands of the same
// channels. Run computes a band's result y from x and the weights.
func (k *conversion) banded(v banded, scratch func(b band) int, run func(b band, y, x, weights, scratch []float32)) (kernelFunc, int) {
	rows, count, most, own := v.cut(scratch)
	height, sourceHeight := v.out, v.size
	if v.backward {
		height, sourceHeight = v.size, v.out
	}
	blocks := (v.channels + v.each - 1) / v.each
	weights, result := v.taps*v.each*v.weights, rows*v.pixels*v.each
	return func(w *worker, in, out [][]float32, part, parts int) {
		x := cutFloats(w.scratch, weights, most, result)
		from, to := share(blocks*v.examples*count, part, parts, 1)
		loaded := -1 // the channels whose weights are loaded
		for i := from; i < to; i++ {
			n, c := i/count%v.examples, i/count/v.examples*v.each
			made, read, b := v.band(i%count*rows, rows, min(v.each, v.channels-c))
			if weights > 0 && c != loaded {
				k.in[1].loadRows(x[0], in[1], c*v.weights, v.taps, b.channels*v.weights, v.channels*v.weights)
				loaded = c
			}
			source := k.in[0].load(x[1], in[0], (n*sourceHeight+read.From)*v.source, read.Len()*v.source)
			run(b, x[2], source, x[0], w.scratch[weights+most+result:])
			k.out[0].storeRows(out[0], (n*height+made.From)*v.pixels*v.channels+c, x[2], made.Len()*v.pixels, b.channels, v.channels)
		}
	}, weights + most + result + own
}

// bandedWeight lowers the gradient of a weight from x and dy, to which the bands add in
// the order of their rows.
func (k *conversion) bandedWeight(v banded, scratch func(b band) int, run func(b band, dw, x, dy, scratch []float32, part, parts int)) (kernelFunc, int) {
	rows, _, most, own := v.cut(scratch)
	width := v.pixels * v.channels
	return func(w *worker, in, out [][]float32, part, parts int) {
		x := cutFloats(w.scratch, most, rows*width)
		for n := range v.examples {
			for first := 0; first < v.out; first += rows {
				made, read, b := v.band(first, rows, v.channels)
				source := k.in[0].load(x[0], in[0], (n*v.size+read.From)*v.source, read.Len()*v.source)
				dy := k.in[1].load(x[1], in[1], (n*v.out+made.From)*width, made.Len()*width)
				run(b, out[0], source, dy, w.scratch[most+rows*width:], part, parts)
			}
		}
	}, most + rows*width + own
}

// bands cuts count rows so that a band has about bandFloats.
func bands(count, floats int) (rows, parts int) {
	rows = min(count, max(1, bandFloats/max(floats, 1)))
	return rows, (count + rows - 1) / rows
}

// channels cuts count channels so that the weights of a part have about bandFloats.
func channels(count, floats int) (each, parts int) {
	each = min(count, max(32, bandFloats/max(floats, 1)/32*32))
	return each, (count + each - 1) / each
}
