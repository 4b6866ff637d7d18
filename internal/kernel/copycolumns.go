package kernel

// CopyColumns copies rows of cols columns from src, whose rows are lds apart, to
// dst, whose rows are ldd apart: a part of a concatenation, or a slice, along
// the channels.
func CopyColumns(dst []float32, ldd int, src []float32, lds, rows, cols int) {
	if ldd == cols && lds == cols {
		copy(dst[:rows*cols], src)
		return
	}
	vector.copyColumns(dst, src, rows, cols, ldd, lds)
}

func copyColumnsGeneric(dst, src []float32, rows, cols, ldd, lds int) {
	for i := range rows {
		copy(dst[i*ldd:i*ldd+cols], src[i*lds:])
	}
}
