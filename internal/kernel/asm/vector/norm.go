package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func norms(m machine) {
	m.kernel("layerNorm", "func(y, stats, x, gamma, beta []float32, rows, cols int, eps float32)",
		"normalises each row of x.", func() { layerNorm(m) })
	m.kernel("layerNormGrad", "func(dx, dy, x, gamma, stats []float32, rows, cols int)",
		"sets dx to the gradient of layerNorm's input.", func() { layerNormGrad(m, false) })
	m.kernel("layerNormGradAdd", "func(dx, dy, x, gamma, stats, add []float32, rows, cols int)",
		"sets dx to add and the gradient of layerNorm's input.", func() { layerNormGrad(m, true) })
	m.kernel("layerNormParamGrad", "func(dgamma, dbeta, dy, x, stats []float32, rows, cols, ld int)",
		"adds the gradients of gamma and beta, rows ascending.", func() { layerNormParamGrad(m) })
}

func layerNorm(m machine) {
	y, stats, x, gamma, beta := base("y"), base("stats"), base("x"), base("gamma"), base("beta")
	n, cols := integer("rows"), integer("cols")
	stride, tail, count := bytes(cols), m.tailMask(cols), m.count(cols)
	rows(n, stride, []reg.Register{y, x}, func() {
		acc := m.accumulators(wideTree / m.lanes)
		m.lines(cols, wideTree, tail, func(b block) { b.addTo(acc[b.first:], x) })
		mean := m.mean(acc, count)

		acc = m.accumulators(wideTree / m.lanes)
		m.lines(cols, wideTree, tail, func(b block) {
			for j, acc := range acc[b.first:][:b.u] {
				v := b.load(x, j)
				VSUBPS(mean, v, v)
				b.kill(v)
				VFMADD231PS(v, v, acc)
			}
		})
		scale := m.combine(acc, addOp)
		s := scale.AsX()
		one := XMM()
		VDIVSS(count.AsX(), s, s)
		VADDSS(address("eps"), s, s)
		VSQRTSS(s, s, s)
		VMOVSS(constantBits(0x3f800000), one)
		VDIVSS(s, one, s)
		VMOVSS(mean.AsX(), Mem{Base: stats})
		VMOVSS(s, Mem{Base: stats, Disp: 4})
		ADDQ(I32(8), stats)
		VBROADCASTSS(s, scale)

		m.blocks(cols, rowBlock, tail, func(b block) {
			for j := range b.u {
				v := b.normalised(b.at(x, j), mean, scale)
				bias := b.load(beta, j)
				VFMADD231PS(b.load(gamma, j), v, bias)
				b.store(bias, y, j)
			}
		})
	})
}

// layerNormGrad: with g = dy gamma and h the normalised x,
// dx = (g - mean(g) - h mean(g h)) / deviation.
func layerNormGrad(m machine, withAdd bool) {
	dx, dy, x, gamma, stats := base("dx"), base("dy"), base("x"), base("gamma"), base("stats")
	add, pointers := operands(withAdd, dx, dy, x)
	n, cols := integer("rows"), integer("cols")
	stride, tail, count := bytes(cols), m.tailMask(cols), m.count(cols)
	rows(n, stride, pointers, func() {
		mean, scale := m.vec(), m.vec()
		VBROADCASTSS(Mem{Base: stats}, mean)
		VBROADCASTSS(Mem{Base: stats, Disp: 4}, scale)
		ADDQ(I32(8), stats)

		g, gh := m.accumulators(narrowTree/m.lanes), m.accumulators(narrowTree/m.lanes)
		m.lines(cols, narrowTree, tail, func(b block) {
			for j := range b.u {
				v := b.load(dy, j)
				VMULPS(b.load(gamma, j), v, v)
				VADDPS(v, g[b.first+j], g[b.first+j])
				h := b.normalised(b.at(x, j), mean, scale)
				b.kill(h) // it may be infinite
				VFMADD231PS(h, v, gh[b.first+j])
			}
		})
		meanG, meanGH := m.mean(g, count), m.mean(gh, count)

		m.blocks(cols, 2, tail, func(b block) {
			for j := range b.u {
				v := b.load(dy, j)
				VMULPS(b.load(gamma, j), v, v)
				VSUBPS(meanG, v, v)
				VFNMADD231PS(b.normalised(b.at(x, j), mean, scale), meanGH, v)
				if withAdd {
					VFMADD213PS(b.load(add, j), scale, v)
				} else {
					VMULPS(scale, v, v)
				}
				b.store(v, dx, j)
			}
		})
	})
}

func layerNormParamGrad(m machine) {
	dgamma, dbeta, dy, x, stats := base("dgamma"), base("dbeta"), base("dy"), base("x"), base("stats")
	n, cols, stride := integer("rows"), integer("cols"), bytes(integer("ld"))
	tail := m.tailMask(cols)
	m.rowsByFour(n, stride, []reg.Register{dy, x}, func(group rowGroup) {
		mean, scale := make([]reg.VecVirtual, group.rows), make([]reg.VecVirtual, group.rows)
		for r := range group.rows {
			mean[r], scale[r] = m.vec(), m.vec()
			VBROADCASTSS(Mem{Base: stats, Disp: 8 * r}, mean[r])
			VBROADCASTSS(Mem{Base: stats, Disp: 8*r + 4}, scale[r])
		}
		ADDQ(I32(8*group.rows), stats)
		m.blocks(cols, 1, tail, func(b block) {
			dyRow, xRow := group.at(b, dy), group.at(b, x)
			g, s := b.load(dgamma, 0), b.load(dbeta, 0)
			for r := range group.rows {
				v := b.loadFrom(dyRow(r, 0))
				VADDPS(v, s, s)
				VFMADD231PS(v, b.normalised(xRow(r, 0), mean[r], scale[r]), g)
			}
			b.store(g, dgamma, 0)
			b.store(s, dbeta, 0)
		})
	})
}

// normalised returns (x - mean) * scale.
func (b block) normalised(x Mem, mean, scale reg.VecVirtual) reg.VecVirtual {
	v := b.loadFrom(x)
	VSUBPS(mean, v, v)
	VMULPS(scale, v, v)
	return v
}

// count returns n as a float32 in lane 0.
func (m machine) count(n reg.Register) reg.VecVirtual {
	v := m.zero()
	VCVTSI2SSQ(n, v.AsX(), v.AsX())
	return v
}

// mean returns the accumulators' sum divided by count in all lanes.
func (m machine) mean(acc []reg.VecVirtual, count reg.VecVirtual) reg.VecVirtual {
	v := m.combine(acc, addOp)
	VDIVSS(count.AsX(), v.AsX(), v.AsX())
	VBROADCASTSS(v.AsX(), v)
	return v
}
