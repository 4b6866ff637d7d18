package kernel

import "math"

// bfloat16 is the upper half of a float32: 8 bits of exponent, 7 of fraction.
// Values are stored as uint16 and computed in float32. Widening is exact;
// rounding is to the nearest, ties to even, with subnormals kept, an overflow to
// infinity, and a NaN that stays one (quiet, with its sign). These are integer
// operations, so the bits are the same on every profile, unlike those of
// AVX512_BF16, whose conversion takes subnormals for zeros and whose products
// round in another order than Gemm's chains.

// Widen sets dst to the bfloat16s of src, over len(dst).
func Widen(dst []float32, src []uint16) { vector.widen(dst, src) }

// Narrow sets dst to src rounded to bfloat16, over len(dst).
func Narrow(dst []uint16, src []float32) { vector.narrow(dst, src) }

// RoundBF16 sets dst to src rounded to bfloat16, over len(dst). dst may be src.
func RoundBF16(dst, src []float32) { vector.roundBF16(dst, src) }

// FirstNonFiniteBF16 returns the index of the first NaN or infinity in x, or -1.
func FirstNonFiniteBF16(x []uint16) int {
	const exponent = 0x7f80 // all ones in NaNs and infinities
	for i, v := range x {
		if v&exponent == exponent {
			return i
		}
	}
	return -1
}

func widenGeneric(dst []float32, src []uint16) {
	for i, v := range src[:len(dst)] {
		dst[i] = math.Float32frombits(uint32(v) << 16)
	}
}

func narrowGeneric(dst []uint16, src []float32) {
	for i, v := range src[:len(dst)] {
		dst[i] = uint16(nearestBF16(v) >> 16)
	}
}

func roundBF16Generic(dst, src []float32) {
	for i, v := range src[:len(dst)] {
		dst[i] = math.Float32frombits(nearestBF16(v))
	}
}

// nearestBF16 returns the bits of x rounded, as those of a float32.
func nearestBF16(x float32) uint32 {
	b := math.Float32bits(x)
	if b&^(1<<31) > 0x7f800000 {
		return b&0xffff0000 | 1<<22
	}
	return (b + 0x7fff + b>>16&1) & 0xffff0000
}
