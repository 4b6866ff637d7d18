package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/reg"
)

func optimizers(m machine) {
	// Each works on the gradient s*g + l2*w.
	gradient := func(b block, g, w, s, l2 reg.VecVirtual) {
		VMULPS(s, g, g)
		VFMADD231PS(l2, w, g)
	}

	m.kernel("sgd", "func(w, g []float32, lr, s, l2 float32)", "takes a step down the gradient.", func() {
		wp, gp, n := base("w"), base("g"), length("w")
		lr, s, l2 := m.splat("lr"), m.splat("s"), m.splat("l2")
		m.blocks(n, 4, m.tailMask(n), func(b block) {
			for j := range b.u {
				w, g := b.load(wp, j), b.load(gp, j)
				gradient(b, g, w, s, l2)
				VFNMADD231PS(lr, g, w)
				b.store(w, wp, j)
			}
		})
	})

	for _, nesterov := range []bool{false, true} {
		name, doc := "momentum", "takes a step along the running sum of gradients."
		if nesterov {
			name, doc = "nesterov", "is momentum with a look ahead."
		}
		m.kernel(name, "func(w, v, g []float32, lr, mu, s, l2 float32)", doc, func() {
			wp, vp, gp, n := base("w"), base("v"), base("g"), length("w")
			lr, mu, s, l2 := m.splat("lr"), m.splat("mu"), m.splat("s"), m.splat("l2")
			m.blocks(n, 2, m.tailMask(n), func(b block) {
				for j := range b.u {
					w, v, g := b.load(wp, j), b.load(vp, j), b.load(gp, j)
					gradient(b, g, w, s, l2)
					VFMADD213PS(g, mu, v)
					b.store(v, vp, j)
					if nesterov {
						VFMADD213PS(g, mu, v)
					}
					VFNMADD231PS(lr, v, w)
					b.store(w, wp, j)
				}
			})
		})
	}

	m.kernel("adam", "func(w, m, v, g []float32, beta1, rest1, beta2, rest2, eps, step, root, shrink, s, l2 float32)",
		"moves both means and takes a step.", func() {
			wp, mp, vp, gp, n := base("w"), base("m"), base("v"), base("g"), length("w")
			beta1, rest1, beta2, rest2 := m.splat("beta1"), m.splat("rest1"), m.splat("beta2"), m.splat("rest2")
			eps, step, root, shrink := m.splat("eps"), m.splat("step"), m.splat("root"), m.splat("shrink")
			s, l2 := m.splat("s"), m.splat("l2")
			m.blocks(n, 1, m.tailMask(n), func(b block) {
				w, g := b.load(wp, 0), b.load(gp, 0)
				gradient(b, g, w, s, l2)
				mean := b.load(mp, 0)
				VMULPS(beta1, mean, mean)
				VFMADD231PS(rest1, g, mean)
				b.store(mean, mp, 0)
				VMULPS(g, g, g)
				v := b.load(vp, 0)
				VMULPS(beta2, v, v)
				VFMADD231PS(rest2, g, v)
				b.store(v, vp, 0)
				VFNMADD231PS(shrink, w, w)
				VSQRTPS(v, v)
				VFMADD213PS(eps, root, v)
				VDIVPS(v, mean, mean)
				VFNMADD231PS(step, mean, w)
				b.store(w, wp, 0)
			})
		})

	m.kernel("rmsprop", "func(w, ms, mom, g []float32, decay, rest, mu, eps, lr, s, l2 float32)",
		"moves the mean of squares and the momentum, and takes a step.", func() {
			wp, sp, mp, gp, n := base("w"), base("ms"), base("mom"), base("g"), length("w")
			decay, rest, mu, eps := m.splat("decay"), m.splat("rest"), m.splat("mu"), m.splat("eps")
			lr, s, l2 := m.splat("lr"), m.splat("s"), m.splat("l2")
			m.blocks(n, 1, m.tailMask(n), func(b block) {
				w, g := b.load(wp, 0), b.load(gp, 0)
				gradient(b, g, w, s, l2)
				square := b.load(sp, 0)
				VMULPS(decay, square, square)
				root := b.vec()
				VMULPS(g, g, root)
				VFMADD231PS(rest, root, square)
				b.store(square, sp, 0)
				VADDPS(eps, square, root)
				VSQRTPS(root, root)
				VMULPS(lr, g, g)
				VDIVPS(root, g, g)
				momentum := b.load(mp, 0)
				VFMADD213PS(g, mu, momentum)
				b.store(momentum, mp, 0)
				VSUBPS(momentum, w, w)
				b.store(w, wp, 0)
			})
		})

	m.kernel("average", "func(avg, w []float32, rest float32)", "moves an average towards w.", func() {
		ap, wp, n := base("avg"), base("w"), length("avg")
		rest := m.splat("rest")
		m.blocks(n, 4, m.tailMask(n), func(b block) {
			for j := range b.u {
				avg, w := b.load(ap, j), b.load(wp, j)
				VSUBPS(avg, w, w)
				VFMADD231PS(rest, w, avg)
				b.store(avg, ap, j)
			}
		})
	})
}
