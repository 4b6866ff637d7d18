package kernel

import "math"

// Reductions of one row, and of a whole tensor for norms and checks. A sum is a
// fixed tree of 64 lanes, of exponentials 32: see Row reductions in the
// package's comment.

// SumSquares returns the sum of x², accumulated in float64.
func SumSquares(x []float32) float64 { return vector.sumSquares(x) }

// FirstNonFinite returns the index of the first NaN or infinity in x, or -1.
func FirstNonFinite(x []float32) int {
	start := vector.nonFinite(x)
	if start < 0 {
		return -1
	}
	return start + nonFiniteGeneric(x[start:])
}

// rowMax returns the largest element of x. It ignores NaNs; the maximum of no
// element is -Inf. Adding 0 makes a zero positive, whichever lane it is from.
func rowMax(x []float32) float32 { return vector.rowMax(x) + 0 }

// rowSum returns the sum of x.
func rowSum(x []float32) float32 { return vector.rowSum(x) }

// dot returns the inner product of a and b over len(a).
func dot(a, b []float32) float32 { return vector.dot(a, b) }

// expShift sets dst to exp(x*scale - shift), over len(dst), and returns the sum
// of dst. The argument is one fused multiply-subtract. dst may be x.
func expShift(dst, x []float32, scale, shift float32) float32 {
	return vector.expShift(dst, x, scale, shift)
}

// expSum returns the result of expShift without writing anything.
func expSum(x []float32, scale, shift float32) float32 { return vector.expSum(x, scale, shift) }

func rowMaxGeneric(x []float32) float32 {
	largest := float32(math.Inf(-1))
	for _, v := range x {
		if v > largest {
			largest = v
		}
	}
	return largest
}

func rowSumGeneric(x []float32) float32 {
	var sum float64
	for _, v := range x {
		sum += float64(v)
	}
	return float32(sum)
}

func dotGeneric(a, b []float32) float32 {
	var sum float64
	for i, v := range a {
		sum += float64(v) * float64(b[i])
	}
	return float32(sum)
}

func expShiftGeneric(dst, x []float32, scale, shift float32) float32 {
	var sum float64
	for i := range dst {
		dst[i] = exp32(fma32(x[i], scale, -shift))
		sum += float64(dst[i])
	}
	return float32(sum)
}

func expSumGeneric(x []float32, scale, shift float32) float32 {
	var sum float64
	for _, v := range x {
		sum += float64(exp32(fma32(v, scale, -shift)))
	}
	return float32(sum)
}

func sumSquaresGeneric(x []float32) float64 {
	var sum float64
	for _, v := range x {
		sum += float64(float64(v) * float64(v))
	}
	return sum
}

func nonFiniteGeneric(x []float32) int {
	const exponent = 0x7f800000 // all ones in NaNs and infinities
	for i, v := range x {
		if math.Float32bits(v)&exponent == exponent {
			return i
		}
	}
	return -1
}

func exp32(x float32) float32 { return float32(math.Exp(float64(x))) }
