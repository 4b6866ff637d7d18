// Package exactmath has the elementary functions of which weights, tokens, pixels and printed
// losses are made. Each gives the same bits on every processor.
//
// Those of Go's math do not: Exp and Log are assembly on some processors, and its Go code is
// rounded otherwise where the compiler fuses x*y + z (arm64, riscv64, ppc64le, s390x, loong64,
// GOAMD64=v3). Here every product is converted to its own type, which the language says prevents
// fusing, and what shall be fused is math.FMA, which is exact everywhere.
//
// The results are, bit for bit, what Go 1.26's math gives on amd64 with FMA. They are within
// about one unit in the last place, not correctly rounded. Other functions of math that are
// exact by definition (Sqrt, FMA, Floor, Round, RoundToEven, Modf, Frexp, Ldexp) are the same
// everywhere already. A NaN has any payload.
package exactmath

import "math"

// horner is c[0]*x^(n-1) + ... + c[n-1].
func horner(x float64, c []float64) float64 {
	p := c[0]
	for _, c := range c[1:] {
		p = float64(p*x) + c
	}
	return p
}

// Exp returns e^x: +Inf from x = 709.43 on, which is 1023.5 ln 2, and 0 below -745.14.
//
// The method is Shibata's (Efficient evaluation methods of elementary functions suitable for SIMD
// computation, ISC 2010): x = n ln 2 + 16 r, a Taylor series for y = e^r - 1, and
// e^2r - 1 = y (y + 2) four times.
func Exp(x float64) float64 {
	const (
		ln2High = 0.69314718055966295651160180568695068359375
		ln2Low  = 0.28235290563031577122588448175013436025525412068e-12
	)
	n := math.RoundToEven(float64(x * math.Log2E))
	switch {
	case n > 1023:
		return math.Inf(1)
	case n < -1075:
		return 0
	case math.IsNaN(x):
		return x
	}
	r := math.FMA(-n, ln2Low, math.FMA(-n, ln2High, x)) / 16
	y := 1. / 40320
	for _, c := range [...]float64{1. / 5040, 1. / 720, 1. / 120, 1. / 24, 1. / 6, 1. / 2, 1} {
		y = math.FMA(y, r, c)
	}
	y = float64(y * r)
	for range 3 {
		y = float64(y * (y + 2))
	}
	return math.Ldexp(math.FMA(y+2, y, 1), int(n))
}

// Pow returns x^y. The special cases are math.Pow's.
//
// The whole part of y is squarings and products of x, and the fraction Exp and Log.
func Pow(x, y float64) float64 {
	whole, fraction := math.Modf(math.Abs(y))
	switch {
	case !(x > 0 && x <= math.MaxFloat64), !(whole < 1<<63), whole == 0 && fraction == 0.5:
		return math.Pow(x, y) // needs no rounding, or that of a root or of whole powers alone
	}
	power, exponent := 1.0, 0 // of 2
	if fraction > 0.5 {
		fraction--
		whole++
	}
	if fraction != 0 {
		power = Exp(float64(fraction * Log(x)))
	}
	square, twos := math.Frexp(x)
	for bits := int64(whole); bits != 0; bits >>= 1 {
		if twos < -1<<12 || 1<<12 < twos { // beyond what any power can bring back
			exponent += twos
			break
		}
		if bits&1 == 1 {
			power *= square
			exponent += twos
		}
		square = float64(square * square)
		twos *= 2
		if square < 0.5 {
			square += square
			twos--
		}
	}
	if y < 0 {
		return math.Ldexp(1/power, -exponent)
	}
	return math.Ldexp(power, exponent)
}
