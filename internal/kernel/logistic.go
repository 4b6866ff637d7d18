package kernel

import (
	"math"

	"gpipebench/internal/kernel/exactmath"
)

// Exponentials and what is made of them, over len(dst) elements. dst may be any
// of the inputs. Errors are a few units in the last place.

// Exp sets dst to exp(x).
func Exp(dst, x []float32) { vector.exp(dst, x) }

// Sigmoid sets dst to the logistic function of x, 1/(1 + exp(-x)).
func Sigmoid(dst, x []float32) { vector.sigmoid(dst, x) }

// SigmoidGrad sets dst to dy times the derivative of Sigmoid where its value is
// y.
func SigmoidGrad(dst, dy, y []float32) { vector.sigmoidGrad(dst, dy, y) }

// Tanh sets dst to tanh(x).
func Tanh(dst, x []float32) { vector.tanh(dst, x) }

// TanhGrad sets dst to dy times the derivative of Tanh where its value is y.
func TanhGrad(dst, dy, y []float32) { vector.tanhGrad(dst, dy, y) }

// Log sets dst to the natural logarithm of x.
func Log(dst, x []float32) {
	for i := range dst {
		dst[i] = float32(exactmath.Log(float64(x[i])))
	}
}

// LogGrad sets dst to dy / x.
func LogGrad(dst, dy, x []float32) {
	for i := range dst {
		dst[i] = dy[i] / x[i]
	}
}

// Softmax sets each row of dst, which is (rows, cols), to exp(x) / Σ exp(x). dst
// may be x.
func Softmax(dst, x []float32, rows, cols int) {
	for r := range rows {
		z, y := x[r*cols:(r+1)*cols], dst[r*cols:(r+1)*cols]
		sum := vector.expShift(y, z, 1, RowMax(z))
		vector.scale(y, y, 1/sum)
	}
}

// SoftmaxGrad sets each row of dx, which is (rows, cols), to y (dy - Σ dy y),
// the gradient of Softmax where its value is y. dx may be dy.
func SoftmaxGrad(dx, dy, y []float32, rows, cols int) {
	for r := range rows {
		dx, dy, y := dx[r*cols:(r+1)*cols], dy[r*cols:(r+1)*cols], y[r*cols:(r+1)*cols]
		sum := vector.dot(dy, y)
		vector.mul(dx, dy, y)
		vector.addScaled(dx, dx, y, -sum)
	}
}

// exp32 returns exp(x) = 2^n e^r with n = round(x/ln 2) and r = x - n ln 2. On |r|
// <= ln(2)/2, e^r is a polynomial; asm/vector/exp.go has its source.
func exp32(x float32) float32 {
	if x != x {
		return x
	}
	const (
		magic   = 0x1.8p23 // adding it leaves the nearest integer in the low bits
		log2e   = 0x1.715476p0
		ln2High = 0x1.62e430p-1
		ln2Low  = -0x1.05c610p-29
	)
	x = min(max(x, -104), 89) // beyond, it rounds to 0 and +Inf
	n := fma32(x, log2e, magic) - magic
	r := fma32(-n, ln2Low, fma32(-n, ln2High, x))
	p := fma32(0x1.6ac6b2p-10, r, 0x1.123de0p-7)
	for _, c := range [...]float32{0x1.555858p-5, 0x1.55548cp-3, 0x1.fffffcp-2, 1, 1} {
		p = fma32(p, r, c)
	}
	return float32(float64(p) * powerOf2(int(n)))
}

// powerOf2 returns 2^n, which is a normal number.
func powerOf2(n int) float64 { return math.Float64frombits(uint64(1023+n) << 52) }

func expGeneric(dst, x []float32) {
	for i := range dst {
		dst[i] = exp32(x[i])
	}
}

// sigmoidGeneric computes 1/(1 + e) with e = exp(-|x|), or e/(1 + e) where x is
// negative: no exponential overflows.
func sigmoidGeneric(dst, x []float32) {
	for i := range dst {
		e := exp32(-abs32(x[i]))
		if x[i] < 0 {
			dst[i] = e / (1 + e)
		} else {
			dst[i] = 1 / (1 + e)
		}
	}
}

func abs32(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

func sigmoidGradGeneric(dst, dy, y []float32) {
	for i := range dst {
		dst[i] = dy[i] * (y[i] * (1 - y[i]))
	}
}

// tanhGeneric uses a polynomial up to 0.625, where 1 - 2/(1 + exp(2|x|)) cancels;
// asm/vector/logistic.go has its source.
func tanhGeneric(dst, x []float32) {
	for i := range dst {
		x := x[i]
		if abs32(x) <= 0.625 {
			z, p := float32(x*x), float32(-0x1.75e1c2p-8)
			for _, c := range [...]float32{0x1.522698p-6, -0x1.b83c5ap-5, 0x1.110726p-3, -0x1.555532p-2} {
				p = fma32(p, z, c)
			}
			dst[i] = fma32(float32(x*z), p, x)
			continue
		}
		dst[i] = 1 - 2/(1+exp32(abs32(x)+abs32(x)))
		if x < 0 {
			dst[i] = -dst[i]
		}
	}
}

func tanhGradGeneric(dst, dy, y []float32) {
	for i := range dst {
		dst[i] = dy[i] * fma32(-y[i], y[i], 1)
	}
}
