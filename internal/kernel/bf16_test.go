package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"gpipebench/internal/testkit"
)

// nearestByDefinition is the bfloat16 next to x by distance, of two neighbours at the
// same distance the one whose last bit is 0. Beyond the largest the neighbour is 2^128,
// which stands for infinity.
func nearestByDefinition(x float32) uint16 {
	bits := math.Float32bits(x)
	if x != x {
		return uint16(bits>>16) | 1<<6
	}
	if math.IsInf(float64(x), 0) {
		return uint16(bits >> 16)
	}
	value := func(b uint16) float64 { // of magnitudes
		if b == 0x7f80 {
			return math.Ldexp(1, 128)
		}
		return float64(math.Float32frombits(uint32(b) << 16))
	}
	sign, size := uint16(bits>>16)&(1<<15), math.Abs(float64(x))
	low := uint16(bits>>16) &^ (1 << 15)
	below, above := size-value(low), value(low+1)-size
	if above < below || above == below && low&1 == 1 {
		low++
	}
	return sign | low
}

// hard are float32s around those at which rounding changes.
func hard(each func(x float32)) {
	for high := range uint32(1 << 16) {
		for _, low := range []uint32{0, 1, 0x7fff, 0x8000, 0x8001, 0xffff} {
			each(math.Float32frombits(high<<16 | low))
		}
	}
}

func TestNarrowIsNearest(t *testing.T) {
	var xs []float32
	hard(func(x float32) { xs = append(xs, x) })
	r := rand.New(rand.NewPCG(1, 2))
	for range 1 << 20 {
		xs = append(xs, math.Float32frombits(r.Uint32()))
	}
	eachProfile(t, func(t *testing.T) {
		got, wide, back := make([]uint16, len(xs)), make([]float32, len(xs)), make([]float32, len(xs))
		Narrow(got, xs)
		RoundBF16(wide, xs)
		Widen(back, got)
		for i, x := range xs {
			want := nearestByDefinition(x)
			if got[i] != want {
				t.Fatalf("%x is rounded to %x, want %x", math.Float32bits(x), got[i], want)
			}
			if math.Float32bits(wide[i]) != uint32(want)<<16 || math.Float32bits(back[i]) != uint32(want)<<16 {
				t.Fatalf("%x: %x, and %x when it is widened again, want %x", math.Float32bits(x), math.Float32bits(wide[i]), math.Float32bits(back[i]), uint32(want)<<16)
			}
		}
	})
}

// Every bfloat16 is widened to the float32 with its bits above zeros, and comes back; a
// NaN comes back quiet.
func TestWidenAllPatterns(t *testing.T) {
	all := make([]uint16, 1<<16)
	for i := range all {
		all[i] = uint16(i)
	}
	eachProfile(t, func(t *testing.T) {
		x, back := make([]float32, len(all)), make([]uint16, len(all))
		Widen(x, all)
		Narrow(back, x)
		for i, b := range all {
			want := b
			if b&0x7fff > 0x7f80 {
				want |= 1 << 6
			}
			if math.Float32bits(x[i]) != uint32(b)<<16 || back[i] != want {
				t.Fatalf("%x: %x, back %x", b, math.Float32bits(x[i]), back[i])
			}
		}
	})
}

// TestConversionLengths: no length and no place changes a bit or writes beyond the end.
func TestConversionLengths(t *testing.T) {
	const most = 70
	xs := make([]float32, most+3)
	halves := make([]uint16, most+3)
	for i := range xs {
		xs[i] = float32(math.Sin(float64(i)))
		halves[i] = nearestByDefinition(xs[i])
	}
	eachProfile(t, func(t *testing.T) {
		for at := range 3 {
			for n := range most {
				got, wide, rounded := make([]uint16, n+2), make([]float32, n+2), make([]float32, n+2)
				Narrow(got[1:n+1], xs[at:])
				Widen(wide[1:n+1], halves[at:])
				RoundBF16(rounded[1:n+1], xs[at:])
				for i := range n + 2 {
					want := uint16(0)
					if i > 0 && i <= n {
						want = halves[at+i-1]
					}
					if got[i] != want || math.Float32bits(wide[i]) != uint32(want)<<16 || math.Float32bits(rounded[i]) != uint32(want)<<16 {
						t.Fatalf("length %d from %d, element %d: %x, %v, %v, want %x", n, at, i-1, got[i], wide[i], rounded[i], want)
					}
				}
			}
		}
	})
}

func TestFirstNonFiniteBF16(t *testing.T) {
	for _, b := range []uint16{0x7f80, 0xff80, 0x7fc0, 0x7f81} {
		testkit.Equal(t, FirstNonFiniteBF16([]uint16{0, 0x7f7f, b, b}), 2, "%x", b)
	}
	testkit.Equal(t, FirstNonFiniteBF16([]uint16{0, 0x7f7f, 0x8000, 1}), -1, "finite")
}
