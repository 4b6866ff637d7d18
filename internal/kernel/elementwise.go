package kernel

// Element-wise kernels, over len(dst) elements. dst may be any of the inputs.

// Add sets dst to a + b.
func Add(dst, a, b []float32) { vector.add(dst, a, b) }

// Mul sets dst to a * b.
func Mul(dst, a, b []float32) { vector.mul(dst, a, b) }

// Scale sets dst to a * s.
func Scale(dst, a []float32, s float32) { vector.scale(dst, a, s) }

// Sub sets dst to a - b.
func Sub(dst, a, b []float32) { vector.addScaled(dst, a, b, -1) }

// Shift sets dst to a + s.
func Shift(dst, a []float32, s float32) {
	for i := range dst {
		dst[i] = a[i] + s
	}
}

// Zero sets dst to +0.
func Zero(dst []float32) { clear(dst) }

// Relu sets dst to x where x is not negative and to 0 elsewhere. NaN and -0 are
// preserved.
func Relu(dst, x []float32) { vector.relu(dst, x) }

// AddRelu sets dst to Relu(a + b).
func AddRelu(dst, a, b []float32) { vector.addRelu(dst, a, b) }

// ReluGrad sets dst to dy where y > 0 and to 0 elsewhere. y may be Relu's
// output or its input.
func ReluGrad(dst, dy, y []float32) { vector.reluGrad(dst, dy, y) }

// Gelu sets dst to the Gaussian error linear unit of x in its tanh form, x(1 +
// tanh u)/2 with u = √(2/π)(x + 0.044715x³) (Hendrycks and Gimpel: Gaussian
// Error Linear Units, arXiv 1606.08415, section 2). It is computed as x / (1 +
// exp(-2u)), which does not cancel for negative x. The formula is undefined at
// -Inf and gives NaN.
func Gelu(dst, x []float32) { vector.gelu(dst, x) }

// GeluGrad sets dst to dy times the derivative of Gelu at x.
func GeluGrad(dst, dy, x []float32) { vector.geluGrad(dst, dy, x) }

// Clip sets dst to x limited to [-limit, limit]. NaN stays NaN.
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

func addReluGeneric(dst, a, b []float32) {
	for i := range dst {
		dst[i] = relu(a[i] + b[i])
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

func geluGeneric(dst, x []float32) {
	for i := range dst {
		dst[i] = gelu(x[i])
	}
}

// -2u is x (linear + cubic x²), and its derivative linear + 3 cubic x².
const (
	geluLinear = -1.5957691216057308 // -2√(2/π)
	geluCubic  = geluLinear * 0.044715
)

func gelu(x float32) float32 { return x / (1 + expMinus2u(x)) }

func expMinus2u(x float32) float32 { return exp32(x * fma32(geluCubic, x*x, geluLinear)) }

// geluGradGeneric uses x(1 + tanh u)/2 = x s(2u) with the logistic function s,
// whose derivative is s(1-s). Beyond ±12 s is 0 or 1.
func geluGradGeneric(dst, dy, x []float32) {
	for i := range dst {
		x := min(max(x[i], -12), 12)
		s := 1 / (1 + expMinus2u(x))
		slope := x * fma32(3*geluCubic, x*x, geluLinear) // of -2u, times x
		dst[i] = dy[i] * fma32(-slope, s*(1-s), s)
	}
}

func clipGeneric(dst, x []float32, limit float32) {
	for i := range dst {
		dst[i] = min(max(x[i], -limit), limit)
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
