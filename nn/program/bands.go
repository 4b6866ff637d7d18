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
