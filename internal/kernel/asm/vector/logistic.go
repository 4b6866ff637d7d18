package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// logistic emits the exponential, the logistic function, the hyperbolic tangent
// and the gradients of the latter two, which take y instead of x.
func logistic(m machine) {
	m.flat("exp", "func(dst, x []float32)", "sets dst to exp(x).", expBlock, func(dst reg.Register) func(b block) {
		x, e := base("x"), m.exponential()
		return func(b block) {
			v := b.loads(x)
			m.exp(e, v)
			b.stores(v, dst)
		}
	})

	// With e = exp(-|x|) it is 1/(1 + e), or e/(1 + e) where x is negative: no
	// exponential overflows.
	m.flat("sigmoid", "func(dst, x []float32)", "sets dst to 1 / (1 + exp(-x)).", expBlock, func(dst reg.Register) func(b block) {
		x, e, one, sign := base("x"), m.exponential(), m.constant(1), m.constantOf(0x80000000)
		return func(b block) {
			v := b.loads(x)
			y := b.vectors(func(j int) reg.VecVirtual {
				t := m.vec()
				VMOVUPS(v[j], t)
				m.bits(VORPS, VPORD, sign, t)
				return t
			})
			m.exp(e, y)
			for j, x := range v {
				numerator := m.vec()
				VMOVUPS(one, numerator)
				m.chooseWhere(x, m.zero(), lessThan, y[j], numerator)
				VADDPS(one, y[j], y[j])
				VDIVPS(y[j], numerator, y[j])
			}
			b.stores(y, dst)
		}
	})

	m.each("sigmoidGrad", "func(dst, dy, y []float32)", "sets dst to dy * y * (1 - y).", func() body {
		dy, y, one := base("dy"), base("y"), m.constant(1)
		return func(b block, j int) reg.VecVirtual {
			v, t := b.load(y, j), m.vec()
			VMOVUPS(one, t)
			VSUBPS(v, t, t)
			VMULPS(v, t, t)
			VMULPS(b.load(dy, j), t, t)
			return t
		}
	})

	// Up to tanhSmall it is x + x z P(z) with z = x², where P is the minimax
	// polynomial of degree 4 by relative error of the whole, 2^-26.8; beyond, 1 -
	// 2/(1 + exp(2|x|)) with the sign of x, which cancels little there.
	m.flat("tanh", "func(dst, x []float32)", "sets dst to tanh(x).", expBlock, func(dst reg.Register) func(b block) {
		x, e := base("x"), m.exponential()
		one, two, small := m.constant(1), m.constant(2), m.constant(tanhSmall)
		sign, magnitude := m.constantOf(0x80000000), m.constantOf(0x7fffffff)
		var poly []Op
		for _, c := range []float32{-0x1.75e1c2p-8, 0x1.522698p-6, -0x1.b83c5ap-5, 0x1.110726p-3, -0x1.555532p-2} {
			poly = append(poly, m.constant(c))
		}
		return func(b block) {
			v := b.loads(x)
			y := b.vectors(func(j int) reg.VecVirtual {
				t := m.vec()
				VMOVUPS(v[j], t)
				m.bits(VANDPS, VPANDD, magnitude, t)
				VADDPS(t, t, t)
				return t
			})
			m.exp(e, y)
			for j, x := range v {
				large, z, p := y[j], m.vec(), m.vec()
				VADDPS(one, large, large)
				VMOVUPS(two, z)
				VDIVPS(large, z, large)
				VMOVUPS(one, z)
				VSUBPS(large, z, z)
				VMOVUPS(x, large)
				m.bits(VANDPS, VPANDD, sign, large)
				m.bits(VORPS, VPORD, z, large)

				VMULPS(x, x, z)
				VMOVUPS(poly[0], p)
				for _, c := range poly[1:] {
					VFMADD213PS(c, z, p)
				}
				VMULPS(x, z, z)
				VFMADD213PS(x, z, p)

				abs, limit := z, m.vec()
				VMOVUPS(x, abs)
				m.bits(VANDPS, VPANDD, magnitude, abs)
				VMOVUPS(small, limit)
				m.chooseWhere(abs, limit, lessOrEqual, p, large)
			}
			b.stores(y, dst)
		}
	})

	m.each("tanhGrad", "func(dst, dy, y []float32)", "sets dst to dy * (1 - y * y).", func() body {
		dy, y, one := base("dy"), base("y"), m.constant(1)
		return func(b block, j int) reg.VecVirtual {
			v, t := b.load(y, j), m.vec()
			VMOVUPS(one, t)
			VFNMADD231PS(v, v, t)
			VMULPS(b.load(dy, j), t, t)
			return t
		}
	})
}

const tanhSmall = 0.625

// bits applies a bitwise operation to v, by its AVX and its AVX-512 instruction.
func (m machine) bits(narrow, wide func(ops ...Op), a Op, v reg.VecVirtual) {
	if m.wide() {
		wide(a, v, v)
		return
	}
	narrow(a, v, v)
}

// chooseWhere replaces the lanes of v by those of u where a and b compare. It may
// overwrite a.
func (m machine) chooseWhere(a, b reg.VecVirtual, predicate U8, u, v reg.VecVirtual) {
	m.choose(m.compare(predicate, a, b, a), u, v, v)
}
