package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// exponential has the constants of exp.
//
// exp(x) = 2^n e^r with n = round(x/ln 2) and r = x - n ln 2, where ln 2 is in
// two parts (Cody and Waite, Software Manual for the Elementary Functions,
// 1980, chapter 6). With fused multiply-adds the first subtraction is exact. On
// |r| <= ln(2)/2, e^r = 1 + r + r²q(r), where q is the minimax polynomial of
// degree 4 by relative error, 2^-28.2, with its coefficients rounded to float32
// one after another.
type exponential struct {
	lowest, highest reg.VecVirtual
	magic           reg.VecVirtual // 1.5*2^23: adding it leaves round(x) in the low bits
	log2e, hi, lo   Op
	poly            []Op // highest power first, down to 1 + r
	magicBits, one  Op   // AVX2 only
}

func (m machine) exponential() exponential {
	e := exponential{
		// exp is 0 below and +Inf above, also after rounding to denormals.
		lowest:  m.register(-104),
		highest: m.register(89),
		magic:   m.register(0x1.8p23),
		log2e:   m.constant(0x1.715476p0),
		hi:      m.constant(0x1.62e430p-1),
		lo:      m.constant(-0x1.05c610p-29),
	}
	one := m.constant(1)
	for _, c := range []float32{0x1.6ac6b2p-10, 0x1.123de0p-7, 0x1.555858p-5, 0x1.55548cp-3, 0x1.fffffcp-2} {
		e.poly = append(e.poly, m.constant(c))
	}
	e.poly = append(e.poly, one, one)
	if !m.wide() {
		e.magicBits, e.one = m.constant(0x1.8p23), one
	}
	return e
}

// exp replaces each x by its exponential, with an error of about 1 ulp; NaN
// stays NaN.
func (m machine) exp(e exponential, x []reg.VecVirtual) {
	t, n, p := make([]reg.VecVirtual, len(x)), make([]reg.VecVirtual, len(x)), make([]reg.VecVirtual, len(x))
	for j, x := range x {
		// If one operand is NaN, MAX and MIN return the second (here x).
		VMAXPS(x, e.lowest, x)
		VMINPS(x, e.highest, x)
		t[j] = m.vec()
		VMOVAPS(e.magic, t[j])
		VFMADD231PS(e.log2e, x, t[j])
	}
	for j, x := range x {
		n[j] = m.vec()
		VSUBPS(e.magic, t[j], n[j])
		VFNMADD231PS(e.hi, n[j], x)
		VFNMADD231PS(e.lo, n[j], x)
	}
	for j, x := range x {
		p[j] = m.vec()
		VMOVUPS(e.poly[0], p[j])
		VFMADD213PS(e.poly[1], x, p[j])
	}
	for _, c := range e.poly[2:] {
		for j, x := range x {
			VFMADD213PS(c, x, p[j])
		}
	}
	for j, x := range x {
		if m.wide() {
			VSCALEFPS(n[j], p[j], x)
			continue
		}
		// Without SCALEF, multiply by 2^(n/2) and 2^(n-n/2): n is from -150 to
		// 128, and only the second product may round.
		a, b := n[j], t[j]
		VPSUBD(e.magicBits, b, b)
		VPSRAD(U8(1), b, a)
		VPSUBD(a, b, b)
		VPSLLD(U8(23), a, a)
		VPSLLD(U8(23), b, b)
		VPADDD(e.one, a, a)
		VPADDD(e.one, b, b)
		VMULPS(a, p[j], x)
		VMULPS(b, x, x)
	}
}
