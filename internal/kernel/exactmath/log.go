package exactmath

import "math"

// The methods of Log and Log1p, and their coefficients, are from FreeBSD's msun (e_log.c,
// s_log1p.c), which came with this notice:
//
//	Copyright (C) 1993 by Sun Microsystems, Inc. All rights reserved.
//	Developed at SunPro, a Sun Microsystems, Inc. business.
//	Permission to use, copy, modify, and distribute this software is freely granted,
//	provided that this notice is preserved.
//
// With 1 + f in [sqrt(1/2), sqrt(2)] and s = f/(2 + f),
//
//	log(1 + f) = f - (f²/2 - s (f²/2 + R)), where R is a polynomial of degree 14 in s.
const (
	ln2High = 6.93147180369123816490e-01 // its last 32 bits are 0: whole multiples are exact
	ln2Low  = 1.90821492927058770002e-10

	log1 = 6.666666666666735130e-01 // of s²
	log2 = 3.999999999940941908e-01 // of s⁴, and so on
	log3 = 2.857142874366239149e-01
	log4 = 2.222219843214978396e-01
	log5 = 1.818357216161805012e-01
	log6 = 1.531383769920937332e-01
	log7 = 1.479819860511658591e-01
)

// The terms of R: all, and apart those of odd and of even index, from the last to the first.
var (
	logAll  = []float64{log7, log6, log5, log4, log3, log2, log1}
	logOdd  = []float64{log7, log5, log3, log1}
	logEven = []float64{log6, log4, log2}
)

const mantissa = 1<<52 - 1

// Log returns the natural logarithm of x: -Inf of zeros, NaN of less. As on amd64, a subnormal x
// counts as if its mantissa had the leading 1 of normal numbers.
func Log(x float64) float64 {
	switch {
	case x == 0:
		return math.Inf(-1)
	case x < 0:
		return math.NaN()
	case !(x <= math.MaxFloat64): // infinite, or NaN
		return x
	}
	bits := math.Float64bits(x)
	k := float64(int(bits>>52) - 1022)
	f := math.Float64frombits(bits&mantissa | 1022<<52) // [1/2, 1)
	if f <= math.Sqrt2/2 {
		f *= 2
		k--
	}
	f--
	s := f / (2 + f)
	s2 := float64(s * s)
	s4 := float64(s2 * s2)
	r := float64(s2*horner(s4, logOdd)) + float64(s4*horner(s4, logEven))
	half := float64(float64(0.5*f) * f)
	return float64(k*ln2High) - ((half - (float64(s*(half+r)) + float64(k*ln2Low))) - f)
}

// Log2 returns the binary logarithm of x, exact of powers of two. The special cases are Log's.
func Log2(x float64) float64 {
	fraction, exponent := math.Frexp(x)
	if fraction == 0.5 {
		return float64(exponent - 1)
	}
	return float64(Log(fraction)*(1/math.Ln2)) + float64(exponent)
}

// Log1p returns log(1 + x), accurate for small x as well: -Inf of -1, NaN of less.
func Log1p(x float64) float64 {
	size := math.Abs(x)
	switch {
	case x == -1:
		return math.Inf(-1)
	case x < -1:
		return math.NaN()
	case !(x <= math.MaxFloat64): // infinite, or NaN
		return x
	case size < 0x1p-54:
		return x
	case size < 0x1p-29:
		return x - float64(float64(x*x)*0.5)
	}
	// 1 + x = 2^k (1 + f); lost is what the rounding of 1 + x to u lost, divided by u.
	k, f, lost, tiny := 0, x, 0.0, false
	if x <= math.Sqrt2/2-1 || x >= math.Sqrt2-1 {
		u := x
		if size < 1<<53 {
			u = 1 + x
		}
		bits := math.Float64bits(u)
		k = int(bits>>52) - 1023
		bits &= mantissa
		if bits < 0x0006a09e667f3bcd { // of sqrt(2)
			f = math.Float64frombits(bits|1023<<52) - 1
			tiny = bits == 0
		} else {
			k++
			f = math.Float64frombits(bits|1022<<52) - 1
			tiny = 1<<52-bits < 4
		}
		switch {
		case size >= 1<<53 || k == 0:
		case u >= 2:
			lost = (1 - (u - x)) / u
		default:
			lost = (x - (u - 1)) / u
		}
	}
	high, low := float64(float64(k)*ln2High), float64(float64(k)*ln2Low)+lost
	half := float64(float64(0.5*f) * f)
	if tiny { // |f| < 2^-20
		return high - ((float64(half*(1-float64(0.66666666666666666*f))) - low) - f)
	}
	s := f / (2 + f)
	z := float64(s * s)
	return high - ((half - (float64(s*(half+float64(z*horner(z, logAll)))) + low)) - f)
}
