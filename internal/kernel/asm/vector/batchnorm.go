package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func batchNorms(m machine) {
	m.kernel("columnMoments", "func(mean, squares, x []float32, rows, cols, ld int)",
		"sets the mean and the sum of squared deviations of each column, rows ascending.", func() { columnMoments(m) })
	for _, eval := range []bool{false, true} {
		for _, add := range []bool{false, true} {
			for _, relu := range []bool{false, true} {
				batchNorm(m, eval, add, relu)
			}
		}
	}
	for _, relu := range []bool{false, true} {
		batchNormGradSums(m, relu)
		for _, add := range []bool{false, true} {
			batchNormGrad(m, relu, add)
		}
	}
}

// when returns s if the condition holds.
func when(condition bool, s string) string {
	if condition {
		return s
	}
	return ""
}

// operands returns what is added, if anything, and the pointers with it.
func operands(withAdd bool, pointers ...reg.Register) (add reg.Register, all []reg.Register) {
	if withAdd {
		add = base("add")
		pointers = append(pointers, add)
	}
	return add, pointers
}

func columnMoments(m machine) {
	mean, squares, x := base("mean"), base("squares"), base("x")
	n, cols, ld := integer("rows"), integer("cols"), integer("ld")
	count := m.count(n)
	VBROADCASTSS(count.AsX(), count)
	m.blocks(cols, 4, m.tailMask(cols), func(b block) {
		sum := m.accumulators(b.u)
		b.below(n, ld, func(b block) { b.addTo(sum, x) })
		for _, v := range sum {
			VDIVPS(count, v, v)
		}
		b.stores(sum, mean)
		square := m.accumulators(b.u)
		b.below(n, ld, func(b block) {
			for j := range b.u {
				v := b.load(x, j)
				VSUBPS(sum[j], v, v)
				VFMADD231PS(v, v, square[j])
			}
		})
		b.stores(square, squares)
	})
}

// batchNorm emits a forward pass. In evaluation the variance is given and the
// scale computed here, once for every panel; therefore the panels are larger.
func batchNorm(m machine, eval, withAdd, relu bool) {
	name := "batchNorm" + when(eval, "Eval") + when(withAdd, "Add") + when(relu, "Relu")
	deviation, eps, least := "scale", "", 4
	if eval {
		deviation, eps, least = "variance", ", eps float32", 16
	}
	signature := "func(y, x, " + when(withAdd, "add, ") + "mean, " + deviation + ", gamma, beta []float32, rows, cols int" + eps + ")"
	m.kernel(name, signature, "normalises each column of x.", func() {
		y, x := base("y"), base("x")
		add, pointers := operands(withAdd, y, x)
		zero := m.zero()
		u := m.lanes / 4 // vectors whose parameters there are registers for
		m.panels(pointers, u, least, func(b block) func(b block) {
			mean, scale := b.parameter("mean"), b.parameter(deviation)
			if eval {
				shift, one := m.splat("eps"), m.register(1)
				for _, v := range scale {
					VADDPS(shift, v, v)
					VSQRTPS(v, v)
					VDIVPS(v, one, v)
				}
			}
			gamma, beta := b.parameter("gamma"), b.parameter("beta")
			return func(b block) {
				for j := range b.u {
					v := b.normalised(b.at(x, j), mean[j], scale[j])
					VFMADD213PS(beta[j], gamma[j], v)
					if withAdd {
						VADDPS(b.load(add, j), v, v)
					}
					if relu {
						VMAXPS(v, zero, v)
					}
					b.store(v, y, j)
				}
			}
		})
	})
}

// loadWherePositive returns vector j in the lanes where z > 0, which must be
// live, and 0 elsewhere. It overwrites z.
func (b block) loadWherePositive(z reg.VecVirtual, p reg.Register, j int) reg.VecVirtual {
	b.live = b.compare(greaterThan, z, b.zero(), z)
	return b.load(p, j)
}

// gradient returns dz: vector j of dy, or 0 in the lanes that relu does not let
// through.
func (b block) gradient(dy reg.Register, h reg.VecVirtual, gamma []reg.VecVirtual, beta []Op, relu bool, j int) reg.VecVirtual {
	if !relu {
		return b.load(dy, j)
	}
	z := b.vec()
	VMOVAPS(h, z)
	VFMADD213PS(beta[j], gamma[j], z) // 0 in dead lanes
	return b.loadWherePositive(z, dy, j)
}

func batchNormGradSums(m machine, relu bool) {
	name := "batchNorm" + when(relu, "Relu") + "GradSums"
	signature := "func(sum, sumX, dy, x, mean, scale" + when(relu, ", gamma, beta") + " []float32, rows, cols, ld int)"
	m.kernel(name, signature, "sets each column's sums of dz and of dz times the normalised x, rows ascending.", func() {
		dy, x := base("dy"), base("x")
		n, cols, ld := integer("rows"), integer("cols"), integer("ld")
		m.blocks(cols, m.lanes/4, m.tailMask(cols), func(b block) {
			mean, scale := b.parameter("mean"), b.parameter("scale")
			var gamma []reg.VecVirtual
			var beta []Op
			if relu {
				gamma, beta = b.parameter("gamma"), b.operands("beta")
			}
			sum, sumX := m.accumulators(b.u), m.accumulators(b.u)
			b.below(n, ld, func(b block) {
				for j := range b.u {
					h := b.normalised(b.at(x, j), mean[j], scale[j])
					dz := b.gradient(dy, h, gamma, beta, relu, j)
					VADDPS(dz, sum[j], sum[j])
					VFMADD231PS(dz, h, sumX[j])
				}
			})
			b.stores(sum, base("sum"))
			b.stores(sumX, base("sumX"))
		})
	})
}

func batchNormGrad(m machine, relu, withAdd bool) {
	name := "batchNorm" + when(relu, "Relu") + "Grad" + when(withAdd, "Add")
	signature := "func(dx, dy, x, " + when(withAdd, "add, ") + "mean, scale, total, totalX, gamma" + when(relu, ", beta") +
		" []float32, rows, cols int, share float32)"
	m.kernel(name, signature, "sets dx to the gradient of batchNorm's input.", func() {
		dx, dy, x := base("dx"), base("dy"), base("x")
		add, pointers := operands(withAdd, dx, dy, x)
		u := m.lanes / 8
		m.panels(pointers, u, 4, func(b block) func(b block) {
			mean, scale, gamma := b.parameter("mean"), b.parameter("scale"), b.parameter("gamma")
			meanZ, meanZX := b.parameter("total"), b.parameter("totalX")
			share := m.splat("share")
			factor := b.vectors(func(j int) reg.VecVirtual {
				v := m.vec()
				VMULPS(scale[j], gamma[j], v)
				VMULPS(share, meanZ[j], meanZ[j])
				VMULPS(share, meanZX[j], meanZX[j])
				return v
			})
			var beta []Op
			if relu {
				beta = b.operands("beta")
			}
			return func(b block) {
				for j := range b.u {
					h := b.normalised(b.at(x, j), mean[j], scale[j])
					d := b.gradient(dy, h, gamma, beta, relu, j)
					VSUBPS(meanZ[j], d, d)
					VFNMADD231PS(meanZX[j], h, d)
					if withAdd {
						VFMADD213PS(b.load(add, j), factor[j], d)
					} else {
						VMULPS(factor[j], d, d)
					}
					b.store(d, dx, j)
				}
			}
		})
	})
}
