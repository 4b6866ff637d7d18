package kernel

// A vectorTable is one implementation of the vector kernels. The exported
// functions state what each entry does; entries that take a row do one row.
type vectorTable struct {
	profile string

	add, mul  func(dst, a, b []float32)
	scale     func(dst, a []float32, s float32)
	addScaled func(dst, a, b []float32, s float32)
	relu      func(dst, x []float32)
	reluGrad  func(dst, dy, y []float32)
	clip      func(dst, x []float32, limit float32)
	clipGrad  func(dst, dy, x []float32, limit float32)

	rowMax, rowSum func(x []float32) float32
	dot            func(a, b []float32) float32
	expShift       func(dst, x []float32, scale, shift float32) float32
	expSum         func(x []float32, scale, shift float32) float32
}

// vector is the table in use, the fastest that the processor has.
var vector = *vectorTables()[0]

// fma32 rounds a*b + c to float64 and then to float32. The product is exact, so
// that only a sum half way between two float32s can differ from a true fused
// multiply-add.
func fma32(a, b, c float32) float32 {
	return float32(float64(float64(a)*float64(b)) + float64(c))
}

var genericVector = vectorTable{
	profile:   "generic",
	add:       addGeneric,
	mul:       mulGeneric,
	scale:     scaleGeneric,
	addScaled: addScaledGeneric,
	relu:      reluGeneric,
	reluGrad:  reluGradGeneric,
	clip:      clipGeneric,
	clipGrad:  clipGradGeneric,
	rowMax:    rowMaxGeneric,
	rowSum:    rowSumGeneric,
	dot:       dotGeneric,
	expShift:  expShiftGeneric,
	expSum:    expSumGeneric,
}
