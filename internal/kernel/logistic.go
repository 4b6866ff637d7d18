package kernel

import "math"

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
		dst[i] = float32(math.Log(float64(x[i])))
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
		sum := expShift(y, z, 1, rowMax(z))
		vector.scale(y, y, 1/sum)
	}
}

// SoftmaxGrad sets each row of dx, which is (rows, cols), to y (dy - Σ dy y),
// the gradient of Softmax where its value is y. dx may be dy.
func SoftmaxGrad(dx, dy, y []float32, rows, cols int) {
	for r := range rows {
		dx, dy, y := dx[r*cols:(r+1)*cols], dy[r*cols:(r+1)*cols], y[r*cols:(r+1)*cols]
		sum := dot(dy, y)
		vector.mul(dx, dy, y)
		vector.addScaled(dx, dx, y, -sum)
	}
}

func expGeneric(dst, x []float32) {
	for i := range dst {
		dst[i] = exp32(x[i])
	}
}

func sigmoidGeneric(dst, x []float32) {
	for i := range dst {
		dst[i] = float32(1 / (1 + math.Exp(-float64(x[i]))))
	}
}

func sigmoidGradGeneric(dst, dy, y []float32) {
	for i := range dst {
		dst[i] = dy[i] * (y[i] * (1 - y[i]))
	}
}

func tanhGeneric(dst, x []float32) {
	for i := range dst {
		dst[i] = float32(math.Tanh(float64(x[i])))
	}
}

func tanhGradGeneric(dst, dy, y []float32) {
	for i := range dst {
		dst[i] = dy[i] * fma32(-y[i], y[i], 1)
	}
}
