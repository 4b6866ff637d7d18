package kernel

// Kernels that treat the columns of a matrix separately. Matrices are (rows,
// cols) with leading dimension ld, so that a caller can cut columns as well as
// rows. dst may be x.

// AddBias sets dst to x + bias. bias is (cols).
func AddBias(dst, x, bias []float32, rows, cols, ld int) {
	vector.addBias(dst, x, bias, rows, cols, ld)
}

// AddBiasRelu sets dst to Relu(x + bias).
func AddBiasRelu(dst, x, bias []float32, rows, cols, ld int) {
	vector.addBiasRelu(dst, x, bias, rows, cols, ld)
}

// AddBiasGelu sets dst to Gelu(x + bias).
func AddBiasGelu(dst, x, bias []float32, rows, cols, ld int) {
	vector.addBiasGelu(dst, x, bias, rows, cols, ld)
}

// clearColumns clears the columns [c0,c1) of x.
func clearColumns(x []float32, rows, ld, c0, c1 int) {
	if c0 == 0 && c1 == ld {
		clear(x[:rows*ld])
		return
	}
	for i := range rows {
		clear(x[i*ld+c0 : i*ld+c1])
	}
}

// ColSum adds the rows of x to acc, which is (cols): each column is one chain
// of additions over the rows in ascending order that starts from acc.
func ColSum(acc, x []float32, rows, cols, ld int) { vector.colSum(acc, x, rows, cols, ld) }

func addBiasGeneric(dst, x, bias []float32, rows, cols, ld int) {
	for i := range rows {
		addGeneric(dst[i*ld:][:cols], x[i*ld:], bias)
	}
}

func addBiasReluGeneric(dst, x, bias []float32, rows, cols, ld int) {
	for i := range rows {
		addReluGeneric(dst[i*ld:][:cols], x[i*ld:], bias)
	}
}

func addBiasGeluGeneric(dst, x, bias []float32, rows, cols, ld int) {
	for i := range rows {
		for j, b := range bias[:cols] {
			dst[i*ld+j] = gelu(x[i*ld+j] + b)
		}
	}
}

func colSumGeneric(acc, x []float32, rows, cols, ld int) {
	for i := range rows {
		addGeneric(acc[:cols], acc, x[i*ld:])
	}
}
