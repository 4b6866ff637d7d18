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

// A body emits the code for vector j of a block and returns the result.
type body func(b block, j int) reg.VecVirtual

// each is flat, vector by vector, with what prepare returns.
func (m machine) each(name, signature, doc string, prepare func() body) {
	m.flat(name, signature, doc, 4, func(dst reg.Register) func(b block) {
		result := prepare()
		return func(b block) {
			for j := range b.u {
				b.store(result(b, j), dst, j)
			}
		}
	})
}

func elementwise(m machine) {
	for _, of := range []struct {
		name, sign string
		op         func(ops ...Op)
	}{{"add", "+", VADDPS}, {"mul", "*", VMULPS}} {
		m.each(of.name, "func(dst, a, b []float32)", "sets dst to a "+of.sign+" b.", func() body {
			a, other := base("a"), base("b")
			return func(b block, j int) reg.VecVirtual {
				v := b.load(a, j)
				of.op(b.load(other, j), v, v)
				return v
			}
		})
	}

	m.each("addRelu", "func(dst, a, b []float32)", "sets dst to max(a + b, 0).", func() body {
		a, other, zero := base("a"), base("b"), m.zero()
		return func(b block, j int) reg.VecVirtual {
			v := b.load(a, j)
			VADDPS(b.load(other, j), v, v)
			VMAXPS(v, zero, v)
			return v
		}
	})

	m.each("scale", "func(dst, a []float32, s float32)", "sets dst to a * s.", func() body {
		a, s := base("a"), m.splat("s")
		return func(b block, j int) reg.VecVirtual {
			v := b.load(a, j)
			VMULPS(s, v, v)
			return v
		}
	})

	m.each("addScaled", "func(dst, a, b []float32, s float32)", "sets dst to a + s*b.", func() body {
		a, other, s := base("a"), base("b"), m.splat("s")
		return func(b block, j int) reg.VecVirtual {
			v := b.load(a, j)
			VFMADD231PS(s, b.load(other, j), v)
			return v
		}
	})

	m.each("relu", "func(dst, x []float32)", "sets dst to x, or 0 where it is negative.", func() body {
		x, zero := base("x"), m.zero()
		return func(b block, j int) reg.VecVirtual {
			v := b.load(x, j)
			VMAXPS(v, zero, v)
			return v
		}
	})

	m.each("reluGrad", "func(dst, dy, y []float32)", "sets dst to dy where y > 0, else to 0.", func() body {
		dy, y, zero := base("dy"), base("y"), m.zero()
		return func(b block, j int) reg.VecVirtual {
			v := b.load(dy, j)
			m.keepWhere(b.load(y, j), zero, greaterThan, v)
			return v
		}
	})

	m.each("clip", "func(dst, x []float32, limit float32)", "sets dst to x cut to [-limit, limit].", func() body {
		x, upper := base("x"), m.splat("limit")
		lower := m.vec()
		VSUBPS(upper, m.zero(), lower)
		return func(b block, j int) reg.VecVirtual {
			v := b.load(x, j)
			VMAXPS(v, lower, v) // the second operand, v, if it is NaN
			VMINPS(v, upper, v)
			return v
		}
	})

	m.each("clipGrad", "func(dst, dy, x []float32, limit float32)", "sets dst to dy where |x| <= limit, else to 0.", func() body {
		dy, x, limit := base("dy"), base("x"), m.splat("limit")
		magnitude := m.registerOf(0x7fffffff)
		return func(b block, j int) reg.VecVirtual {
			v, abs := b.load(dy, j), b.load(x, j)
			m.and(magnitude, abs, abs)
			m.keepWhere(abs, limit, lessOrEqual, v)
			return v
		}
	})
}

// gelu emits the kernels of the Gaussian error linear unit. With
// 2u = 2√(2/π)(x + 0.044715x³) and the logistic function s(2u), it is
// x(1 + tanh u)/2 = x s(2u).
func gelu(m machine) {
	m.flat("gelu", "func(dst, x []float32)", "sets dst to gelu(x).", expBlock, func(dst reg.Register) func(b block) {
		x, g := base("x"), m.geluConstants()
		return func(b block) {
			v := b.loads(x)
			m.gelu(g, v)
			b.stores(v, dst)
		}
	})

	// s + x s (1-s) d(2u)/dx, with x limited to where s is exactly 0 or 1, so
	// that no infinite factor meets a zero.
	m.flat("geluGrad", "func(dst, dy, x []float32)", "sets dst to dy * gelu'(x).", expBlock, func(dst reg.Register) func(b block) {
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
