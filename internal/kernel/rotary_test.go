package kernel

import (
	"math"
	"slices"
	"testing"
)

// A rotation multiplies complex numbers, whatever rows are rotated at once, in place and with
// heads beside each other; back again, it gives the input.
func TestRotary(t *testing.T) {
	const rows, heads, headDim, period = 7, 3, 6, 4
	const cols, half = heads * headDim, headDim / 2
	x, table := make([]float32, rows*cols), make([]float32, period*headDim)
	for i := range x {
		x[i] = float32(i%13) - 6
	}
	for p := range period {
		for j := range half {
			sine, cosine := math.Sincos(float64(p) / float64(j+1))
			table[p*headDim+j], table[p*headDim+half+j] = float32(cosine), float32(sine)
		}
	}
	y := make([]float32, len(x))
	Rotary(y, x, table, rows, cols, headDim, 2, period, 1)
	for r := range rows {
		for h := range heads {
			for j := range half {
				at, angle := r*cols+h*headDim+j, float64((r+2)%period)/float64(j+1)
				want := complex(float64(x[at]), float64(x[at+half])) * complex(math.Cos(angle), math.Sin(angle))
				if !closeTo(y[at], real(want), 4, 8) || !closeTo(y[at+half], imag(want), 4, 8) {
					t.Errorf("row %d, head %d, pair %d is %v, %v, want %v", r, h, j, y[at], y[at+half], want)
				}
			}
		}
	}

	byParts := slices.Clone(x)
	Rotary(byParts, byParts, table, 3, cols, headDim, 2, period, 1)
	Rotary(byParts[3*cols:], byParts[3*cols:], table, rows-3, cols, headDim, 5, period, 1)
	sameBits(t, "in place, by parts", [][]float32{byParts}, [][]float32{y})

	Rotary(y, y, table, rows, cols, headDim, 2, period, -1)
	for i := range x {
		if !closeTo(y[i], float64(x[i]), 8, 8) {
			t.Errorf("element %d comes back as %v, was %v", i, y[i], x[i])
		}
	}
}
