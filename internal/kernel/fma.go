package kernel

import "math"

// fma32 returns x*y + z rounded once, as the instructions of the processors do.
//
// The product is exact in float64, so that the compiler may fuse it with the
// sum. The sum is rounded to float64 and then to float32, which differs from
// rounding once only where roundsTwice says so.
func fma32(x, y, z float32) float32 {
	product := float64(x) * float64(y)
	sum := product + float64(z) // exact product
	if roundsTwice(sum) {
		sum = roundToOdd(product, float64(z), sum)
	}
	return float32(sum)
}

// roundsTwice reports whether a sum that is rounded to float64 may round to
// another float32 than the exact sum: it is half way between two float32s, so
// that its lower 29 bits are a one and zeros, or it is less than the smallest
// normal float32, 2^-126, where float32s are further apart. A sum that is zero
// is exact.
func roundsTwice(sum float64) bool {
	bits := math.Float64bits(sum)
	return bits<<35 == 1<<63 || bits<<1-1 < smallestNormal<<1-1
}

const smallestNormal = (1023 - 126) << 52 // the bits of 2^-126 as a float64

// roundToOdd returns x + y, whose nearest float64 is sum, rounded to odd: where
// it is not exact, to the one of the two float64s around it whose last bit is
// 1. This rounds to the same float32 as the exact sum (Boldo and Melquiond:
// Emulation of a FMA and Correctly Rounded Sums, IEEE Transactions on Computers
// 57, 2008). A sum that is infinite or NaN is returned as it is.
func roundToOdd(x, y, sum float64) float64 {
	z := sum - x                      // exact product x
	lost := (x - (sum - z)) + (y - z) // exactly (Knuth's TwoSum)
	bits := math.Float64bits(sum)
	if bits&1 == 0 && (lost > 0 || lost < 0) {
		if (lost > 0) == (sum > 0) {
			bits++
		} else {
			bits--
		}
	}
	return math.Float64frombits(bits)
}

// fmaEach sets each dst[j] to fma32(x[j], y[j], dst[j]), without calling it.
func fmaEach(dst, x, y []float32) {
	x, y = x[:len(dst)], y[:len(dst)]
	for j, z := range dst {
		product := float64(x[j]) * float64(y[j])
		sum := product + float64(z) // exact product
		if roundsTwice(sum) {
			sum = roundToOdd(product, float64(z), sum)
		}
		dst[j] = float32(sum)
	}
}

// fmaRow adds the products of k steps to four neighbours: c[j] becomes the chain of
// fma32 over a[p*aStep] and b[p*bStep+j], p ascending. Four sums are tested at
// once, since hardly one is rounded twice.
func fmaRow(k int, a []float32, aStep int, b []float32, bStep int, c *[4]float32) {
	c0, c1, c2, c3 := float64(c[0]), float64(c[1]), float64(c[2]), float64(c[3])
	for p := range k {
		x, y := float64(a[p*aStep]), (*[4]float32)(b[p*bStep:])
		y0, y1, y2, y3 := float64(y[0]), float64(y[1]), float64(y[2]), float64(y[3])
		s0, s1, s2, s3 := x*y0+c0, x*y1+c1, x*y2+c2, x*y3+c3 // exact products
		if roundsTwice(s0) || roundsTwice(s1) || roundsTwice(s2) || roundsTwice(s3) {
			s0, s1 = roundToOdd(x*y0, c0, s0), roundToOdd(x*y1, c1, s1)
			s2, s3 = roundToOdd(x*y2, c2, s2), roundToOdd(x*y3, c3, s3)
		}
		c0, c1, c2, c3 = float64(float32(s0)), float64(float32(s1)), float64(float32(s2)), float64(float32(s3))
	}
	*c = [4]float32{float32(c0), float32(c1), float32(c2), float32(c3)}
}
