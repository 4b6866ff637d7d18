package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// flat emits a kernel over the elements of dst.
func (m machine) flat(name, signature, doc string, u int, body func(dst reg.Register) func(b block)) {
	m.kernel(name, signature, doc, func() {
		dst, n := base("dst"), length("dst")
		m.blocks(n, u, m.tailMask(n), body(dst))
	})
}

func elementwise(m machine) {
	type binary func(a, b, dst Op)
	for _, k := range []struct {
		name, doc string
		op        binary
	}{
		{"add", "sets dst to a + b.", func(a, b, dst Op) { VADDPS(b, a, dst) }},
		{"mul", "sets dst to a * b.", func(a, b, dst Op) { VMULPS(b, a, dst) }},
	} {
		m.flat(k.name, "func(dst, a, b []float32)", k.doc, 4, func(dst reg.Register) func(b block) {
			a, other := base("a"), base("b")
			return func(b block) {
				for j := range b.u {
					v := b.load(a, j)
					k.op(v, b.load(other, j), v)
					b.store(v, dst, j)
				}
			}
		})
	}

	m.flat("addRelu", "func(dst, a, b []float32)", "sets dst to max(a + b, 0).", 4, func(dst reg.Register) func(b block) {
		a, other, zero := base("a"), base("b"), m.zero()
		return func(b block) {
			for j := range b.u {
				v := b.load(a, j)
				VADDPS(b.load(other, j), v, v)
				VMAXPS(v, zero, v)
				b.store(v, dst, j)
			}
		}
	})

	m.flat("scale", "func(dst, a []float32, s float32)", "sets dst to a * s.", 4, func(dst reg.Register) func(b block) {
		a, s := base("a"), m.splat("s")
		return func(b block) {
			for j := range b.u {
				v := b.load(a, j)
				VMULPS(s, v, v)
				b.store(v, dst, j)
			}
		}
	})

	m.flat("addScaled", "func(dst, a, b []float32, s float32)", "sets dst to a + s*b.", 4, func(dst reg.Register) func(b block) {
		a, other, s := base("a"), base("b"), m.splat("s")
		return func(b block) {
			for j := range b.u {
				v := b.load(a, j)
				VFMADD231PS(s, b.load(other, j), v)
				b.store(v, dst, j)
			}
		}
	})

	m.flat("relu", "func(dst, x []float32)", "sets dst to max(x, 0).", 4, func(dst reg.Register) func(b block) {
		x, zero := base("x"), m.zero()
		return func(b block) {
			for j := range b.u {
				v := b.load(x, j)
				VMAXPS(v, zero, v)
				b.store(v, dst, j)
			}
		}
	})

	m.flat("reluGrad", "func(dst, dy, y []float32)", "sets dst to dy where y > 0, else to 0.", 4, func(dst reg.Register) func(b block) {
		dy, y, zero := base("dy"), base("y"), m.zero()
		return func(b block) {
			for j := range b.u {
				v := b.load(dy, j)
				m.keepWhere(b.load(y, j), zero, greaterThan, v)
				b.store(v, dst, j)
			}
		}
	})

	m.flat("clip", "func(dst, x []float32, limit float32)", "sets dst to x cut to [-limit, limit].", 4, func(dst reg.Register) func(b block) {
		x, upper := base("x"), m.splat("limit")
		lower := m.vec()
		VSUBPS(upper, m.zero(), lower)
		return func(b block) {
			for j := range b.u {
				v := b.load(x, j)
				VMAXPS(v, lower, v) // the second operand, v, if it is NaN
				VMINPS(v, upper, v)
				b.store(v, dst, j)
			}
		}
	})

	m.flat("clipGrad", "func(dst, dy, x []float32, limit float32)", "sets dst to dy where |x| <= limit, else to 0.", 4, func(dst reg.Register) func(b block) {
		dy, x, limit := base("dy"), base("x"), m.splat("limit")
		magnitude := m.registerOf(0x7fffffff)
		return func(b block) {
			for j := range b.u {
				v, abs := b.load(dy, j), b.load(x, j)
				m.and(magnitude, abs, abs)
				m.keepWhere(abs, limit, lessOrEqual, v)
				b.store(v, dst, j)
			}
		}
	})
}

// gelu emits the kernels of the Gaussian error linear unit. With
// 2u = 2√(2/π)(x + 0.044715x³) and the logistic function s(2u), it is
// x(1 + tanh u)/2 = x s(2u).
func gelu(m machine) {
	m.flat("gelu", "func(dst, x []float32)", "sets dst to gelu(x).", geluBlock, func(dst reg.Register) func(b block) {
		x, g := base("x"), m.geluConstants()
		return func(b block) {
			v := b.loads(x)
			m.gelu(g, v)
			b.stores(v, dst)
		}
	})

	// s + x s (1-s) d(2u)/dx, with x limited to where s is exactly 0 or 1, so
	// that no infinite factor meets a zero.
	m.flat("geluGrad", "func(dst, dy, x []float32)", "sets dst to dy * gelu'(x).", geluBlock, func(dst reg.Register) func(b block) {
		dy, x, g := base("dy"), base("x"), m.geluConstants()
		lower, upper := m.constant(-12), m.constant(12)
		one, slope := m.constant(1), m.constant(3*geluCubic)
		return func(b block) {
			v := b.loads(x)
			y := b.vectors(func(j int) reg.VecVirtual {
				bound := m.vec()
				VMOVUPS(lower, bound)
				VMAXPS(v[j], bound, v[j]) // the second operand, v, if it is NaN
				VMOVUPS(upper, bound)
				VMINPS(v[j], bound, v[j])
				return m.minus2u(g, v[j])
			})
			m.exp(g.exponential, y)
			for j, x := range v {
				s, t := y[j], m.vec()
				VADDPS(one, s, s)
				VMOVUPS(one, t)
				VDIVPS(s, t, s)
				// d(2u)/dx = -(linear + 3 cubic x²)
				d := m.vec()
				VMULPS(x, x, d)
				VMOVUPS(slope, t)
				VFMADD213PS(g.linear, t, d)
				VMULPS(x, d, d)
				// dy (s - d s (1-s))
				VMOVUPS(one, t)
				VSUBPS(s, t, t)
				VMULPS(s, t, t)
				VFNMADD231PS(d, t, s)
				VMULPS(b.load(dy, j), s, s)
			}
			b.stores(y, dst)
		}
	})
}

const (
	geluBlock  = 2
	geluLinear = -1.5957691216057308 // -2√(2/π)
	geluCubic  = geluLinear * 0.044715
)

type geluConstants struct {
	exponential
	linear, cubic Op
}

func (m machine) geluConstants() geluConstants {
	return geluConstants{m.exponential(), m.constant(geluLinear), m.constant(geluCubic)}
}

// minus2u returns -2u.
func (m machine) minus2u(g geluConstants, x reg.VecVirtual) reg.VecVirtual {
	t, c := m.vec(), m.vec()
	VMULPS(x, x, t)
	VMOVUPS(g.cubic, c)
	VFMADD213PS(g.linear, c, t)
	VMULPS(x, t, t)
	return t
}

// gelu replaces each x by x / (1 + exp(-2u)).
func (m machine) gelu(g geluConstants, x []reg.VecVirtual) {
	y := make([]reg.VecVirtual, len(x))
	for j, x := range x {
		y[j] = m.minus2u(g, x)
	}
	m.exp(g.exponential, y)
	for j, x := range x {
		VADDPS(g.poly[len(g.poly)-1], y[j], y[j]) // 1
		VDIVPS(y[j], x, x)
	}
}

// Predicates of VCMPPS, false if an operand is NaN.
const (
	lessThan    = U8(0x11)
	lessOrEqual = U8(0x12)
	greaterThan = U8(0x1e)
)

// keepWhere zeroes the lanes of v in which a and b do not compare. It may overwrite a.
func (m machine) keepWhere(a, b reg.VecVirtual, predicate U8, v reg.VecVirtual) {
	block{machine: m, live: m.compare(predicate, a, b, a)}.kill(v)
}

// and works on bits.
func (m machine) and(a, b, dst reg.VecVirtual) {
	if m.wide() {
		VPANDD(a, b, dst)
		return
	}
	VPAND(a, b, dst)
}
