package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/reg"
)

func softmax(m machine) {
	m.kernel("expShift", "func(dst, x []float32, scale, shift float32) float32",
		"sets dst to exp(x*scale - shift) and returns its sum.", func() { expShift(m, true) })
	m.kernel("expSum", "func(x []float32, scale, shift float32) float32",
		"returns the sum of exp(x*scale - shift).", func() { expShift(m, false) })

	m.flat("softmaxGrad", "func(dst, x []float32, lse, offset, scale float32)",
		"sets dst to scale * (exp(x - lse) - offset).", expBlock, func(dst reg.Register) func(b block) {
			x, e := base("x"), m.exponential()
			lse, offset, scale := m.splat("lse"), m.splat("offset"), m.splat("scale")
			return func(b block) {
				v := b.loads(x)
				for _, v := range v {
					VSUBPS(lse, v, v)
				}
				b.exp(e, v)
				for _, v := range v {
					VSUBPS(offset, v, v)
					VMULPS(scale, v, v)
				}
				b.stores(v, dst)
			}
		})
}

// expBlock vectors fit into AVX2's 16 registers.
const expBlock = 2

func expShift(m machine, store bool) {
	var dst reg.Register
	if store {
		dst = base("dst")
	}
	x, n := base("x"), length("x")
	scale, shift := m.splat("scale"), m.splat("shift")
	e := m.exponential()
	acc := m.accumulators(narrowTree / m.lanes)
	m.lines(n, narrowTree, nil, func(b block) {
		v := b.loads(x)
		for _, v := range v {
			VFMSUB213PS(shift, scale, v)
		}
		b.exp(e, v)
		if store {
			b.stores(v, dst)
		}
		for j, v := range v {
			b.kill(v)
			VADDPS(v, acc[b.first+j], acc[b.first+j])
		}
	})
	m.returnScalar(m.combine(acc, addOp))
}
