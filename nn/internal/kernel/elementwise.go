package kernel

// Kernels on each element by itself, over len(dst) elements. dst may be any of
// the inputs.

// Add sets dst to a + b.
func Add(dst, a, b []float32) { vector.add(dst, a, b) }

// Mul sets dst to a * b.
func Mul(dst, a, b []float32) { vector.mul(dst, a, b) }

// Scale sets dst to a * s.
func Scale(dst, a []float32, s float32) { vector.scale(dst, a, s) }

// AddScaled sets dst to a + s*b, one fused multiply-add.
func AddScaled(dst, a, b []float32, s float32) { vector.addScaled(dst, a, b, s) }

// Zero sets dst to +0.
func Zero(dst []float32) { clear(dst) }

// Relu sets dst to x where x is not negative and to 0 elsewhere. NaN and -0
// stay what they are.
func Relu(dst, x []float32) { vector.relu(dst, x) }

// ReluGrad sets dst to dy where y > 0 and to 0 elsewhere. y may be Relu's
// output or its input.
func ReluGrad(dst, dy, y []float32) { vector.reluGrad(dst, dy, y) }

// Clip sets dst to x cut to [-limit, limit]. NaN stays NaN.
func Clip(dst, x []float32, limit float32) { vector.clip(dst, x, limit) }

// ClipGrad sets dst to dy where |x| <= limit and to 0 elsewhere, also where x
// is NaN.
func ClipGrad(dst, dy, x []float32, limit float32) { vector.clipGrad(dst, dy, x, limit) }

func addGeneric(dst, a, b []float32) {
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

func mulGeneric(dst, a, b []float32) {
	for i := range dst {
		dst[i] = a[i] * b[i]
	}
}

func scaleGeneric(dst, a []float32, s float32) {
	for i := range dst {
		dst[i] = a[i] * s
	}
}

func addScaledGeneric(dst, a, b []float32, s float32) {
	for i := range dst {
		dst[i] = fma32(s, b[i], a[i])
	}
}

func reluGeneric(dst, x []float32) {
	for i := range dst {
		dst[i] = relu(x[i])
	}
}

func relu(x float32) float32 {
	if x < 0 {
		return 0
	}
	return x
}

func reluGradGeneric(dst, dy, y []float32) {
	for i := range dst {
		if y[i] > 0 {
			dst[i] = dy[i]
		} else {
			dst[i] = 0
		}
	}
}

func clipGeneric(dst, x []float32, limit float32) {
	for i := range dst {
		dst[i] = min(max(x[i], -limit), limit) // the built-ins keep NaN
	}
}

func clipGradGeneric(dst, dy, x []float32, limit float32) {
	for i := range dst {
		if -limit <= x[i] && x[i] <= limit {
			dst[i] = dy[i]
		} else {
			dst[i] = 0
		}
	}
}
