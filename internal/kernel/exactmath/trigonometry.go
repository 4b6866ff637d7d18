package exactmath

import "math"

// The reduction and the polynomials of Sin and Cos are from sin.c in the Cephes Mathematical
// Library (release 2.8, copyright 1984 to 2000 by Stephen L. Moshier; "What you see here may be
// used freely").
var (
	sine = []float64{ // sin z = z + z³ P(z²)
		1.58962301576546568060e-10, -2.50507477628578072866e-8, 2.75573136213857245213e-6,
		-1.98412698295895385996e-4, 8.33333333332211858878e-3, -1.66666666666666307295e-1,
	}
	cosine = []float64{ // cos z = 1 - z²/2 + z⁴ Q(z²)
		-1.13585365213876817300e-11, 2.08757008419747316778e-9, -2.75573141792967388112e-7,
		2.48015872888517045348e-5, -1.38888888888730564116e-3, 4.16666666666665929218e-2,
	}
)

// maxAngle is where the reduction's products stop being exact.
const maxAngle = 1 << 29

// Sin returns the sine of x radians, |x| < 2^29; it is NaN of all others.
func Sin(x float64) float64 {
	return float64(math.Copysign(1, x) * quarters(math.Abs(x), 0))
}

// Cos returns the cosine of x radians, |x| < 2^29; it is NaN of all others.
func Cos(x float64) float64 { return quarters(math.Abs(x), 1) }

// quarters returns the sine of x plus a number of quarter turns, x >= 0.
func quarters(x float64, turns uint64) float64 {
	if !(x < maxAngle) {
		return math.NaN()
	}
	eighths := uint64(float64(x * (4 / math.Pi)))
	eighths += eighths & 1 // the nearest quarter
	n := float64(eighths)
	z := x - float64(n*7.85398125648498535156e-1) // pi/4 in three parts
	z -= float64(n * 3.77489470793079817668e-8)
	z -= float64(n * 2.69515142907905952645e-15)
	turns += eighths / 2
	z2, value := float64(z*z), 0.0
	if turns&1 == 0 {
		value = z + float64(float64(z*z2)*horner(z2, sine))
	} else {
		value = 1 - float64(0.5*z2) + float64(float64(z2*z2)*horner(z2, cosine))
	}
	if turns&2 != 0 {
		return -value
	}
	return value
}
