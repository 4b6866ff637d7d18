package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A lane tree is how a row is reduced: vector k of a full block goes to
// accumulator k, all later vectors go to accumulator 0, and the accumulators
// and then their lanes are combined pairwise. It depends on the row's length only.

// accumulators returns n vectors of zeros.
func (m machine) accumulators(n int) []reg.VecVirtual {
	acc := make([]reg.VecVirtual, n)
	for j := range acc {
		acc[j] = m.zero()
	}
	return acc
}

// combine folds the accumulators and their lanes by op; the result lies in
// lane 0 of acc[0].
func (m machine) combine(acc []reg.VecVirtual, op func(a, b, dst Op)) reg.VecVirtual {
	for n := len(acc); n > 1; n /= 2 {
		for j := range n / 2 {
			op(acc[j+n/2], acc[j], acc[j])
		}
	}
	v := acc[0]
	if m.wide() {
		upper := YMM()
		VEXTRACTF64X4(U8(1), v, upper)
		op(upper, v.AsY(), v.AsY())
	}
	x := XMM()
	VEXTRACTF128(U8(1), v.AsY(), x)
	op(x, v.AsX(), v.AsX())
	VMOVHLPS(v.AsX(), v.AsX(), x)
	op(x, v.AsX(), v.AsX())
	VMOVSHDUP(v.AsX(), x)
	op(x, v.AsX(), v.AsX())
	return v
}

func addOp(a, b, dst Op) { VADDPS(a, b, dst) }
func maxOp(a, b, dst Op) { VMAXPS(a, b, dst) }

const rowBlock = 4

func rowReductions(m machine) {
	m.kernel("rowMax", "func(x []float32) float32", "returns the largest element, NaNs left out, or -Inf.", func() {
		x, n := base("x"), length("x")
		lowest := m.registerOf(0xff800000)
		acc := make([]reg.VecVirtual, rowBlock)
		for j := range acc {
			acc[j] = m.vec()
			VMOVAPS(lowest, acc[j])
		}
		m.blocks(n, rowBlock, m.tailMask(n), func(b block) {
			for j := range b.u {
				v := b.load(x, j)
				b.fill(v, lowest)
				VMAXPS(acc[j], v, acc[j]) // acc if v is NaN
			}
		})
		m.returnScalar(m.combine(acc, maxOp))
	})

	m.kernel("rowSum", "func(x []float32) float32", "returns the sum.", func() {
		x, n := base("x"), length("x")
		acc := m.accumulators(rowBlock)
		m.blocks(n, rowBlock, m.tailMask(n), func(b block) {
			for j := range b.u {
				VADDPS(b.load(x, j), acc[j], acc[j])
			}
		})
		m.returnScalar(m.combine(acc, addOp))
	})

	m.kernel("dot", "func(a, b []float32) float32", "returns the inner product over len(a).", func() {
		a, other, n := base("a"), base("b"), length("a")
		acc := m.accumulators(rowBlock)
		m.blocks(n, rowBlock, m.tailMask(n), func(b block) {
			for j := range b.u {
				VFMADD231PS(b.load(a, j), b.load(other, j), acc[j])
			}
		})
		m.returnScalar(m.combine(acc, addOp))
	})

	m.kernel("expShift", "func(dst, x []float32, scale, shift float32) float32",
		"sets dst to exp(x*scale - shift) and returns its sum.", func() { expShift(m, true) })
	m.kernel("expSum", "func(x []float32, scale, shift float32) float32",
		"returns the sum of exp(x*scale - shift).", func() { expShift(m, false) })
}

func expShift(m machine, store bool) {
	var dst reg.Register
	if store {
		dst = base("dst")
	}
	x, n := base("x"), length("x")
	scale, shift := m.splat("scale"), m.splat("shift")
	e := m.exponential()
	u := 4
	if !m.wide() {
		u = 2 // with 16 registers
	}
	acc := m.accumulators(u)
	m.blocks(n, u, m.tailMask(n), func(b block) {
		v := b.loads(x)
		for _, v := range v {
			VFMSUB213PS(shift, scale, v)
		}
		b.exp(e, v)
		for j, v := range v {
			if store {
				b.store(v, dst, j)
			}
			b.kill(v)
			VADDPS(v, acc[j], acc[j])
		}
	})
	m.returnScalar(m.combine(acc, addOp))
}
