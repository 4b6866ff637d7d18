package main

// Functions over the elements of slices. The formulas are as in the amd64 generator, whose comments
// derive them; each operation rounds where it rounds there.

// simple emits a function of one or two slices.
func simple(name string, op func(x []reg) reg) {
	flat(name, 4, func() func(b block) reg {
		p := each(order[1:], base)
		return func(b block) reg { return op(each(p, b.load)) }
	})
}

func elements() {
	simple("add", func(x []reg) reg { return fadd(x[0], x[1]) })
	simple("mul", func(x []reg) reg { return fmul(x[0], x[1]) })
	simple("addRelu", func(x []reg) reg { return relu(fadd(x[0], x[1])) })
	simple("relu", func(x []reg) reg { return relu(x[0]) })
	simple("reluGrad", func(x []reg) reg {
		return and(x[0], positive(x[1]))
	})
	flat("scale", 4, func() func(b block) reg {
		a, s := base("a"), splat("s")
		return func(b block) reg { return fmul(b.load(a), s) }
	})
	flat("addScaled", 4, func() func(b block) reg {
		a, other, s := base("a"), base("b"), splat("s")
		return func(b block) reg {
			v := b.load(a)
			fmla(v, b.load(other), s)
			return v
		}
	})
	flat("clip", 4, func() func(b block) reg {
		x, upper := base("x"), splat("limit")
		lower := fsub(zero(), upper)
		return func(b block) reg { // by selection: FMAX orders zeros
			v := b.load(x)
			bit(v, lower, fcmgt(lower, v))
			bit(v, upper, fcmgt(v, upper))
			return v
		}
	})
	flat("clipGrad", 4, func() func(b block) reg {
		dy, x, limit := base("dy"), base("x"), splat("limit")
		return func(b block) reg { return and(b.load(dy), fcmge(limit, fabs(b.load(x)))) }
	})
	function("attentionGradRow", "func(ds, p []float32, d, scale float32)", "is attentionTable.gradRow.", eachVector(4, func() func(b block) reg {
		ds, p, d, scale := base("ds"), base("p"), splat("d"), splat("scale")
		return func(b block) reg { return fmul(fmul(fsub(b.load(ds), d), b.load(p)), scale) }
	}))
	exponentials()
	optimizers()
	bfloat16()
}

// relu keeps NaN and -0.
func relu(x reg) reg { return bic(x, negative(x)) }

// exponential has the constants of exp.
type exponential struct {
	log2e, hi, lo, one, magic, lowest, highest lane
	poly                                       []lane
}

func newExponential() exponential {
	a := constant(0x1.715476p0, 0x1.62e430p-1, -0x1.05c610p-29, 1)
	b := constant(0x1.6ac6b2p-10, 0x1.123de0p-7, 0x1.555858p-5, 0x1.55548cp-3)
	c := constant(0x1.fffffcp-2, 0x1.8p23, -104, 89)
	return exponential{a[0], a[1], a[2], a[3], c[1], c[2], c[3], append(b, c[0], a[3], a[3])}
}

// of returns exp(x), scaled by 2^(n/2) and 2^(n-n/2).
func (e exponential) of(x reg) reg {
	x = fmin(fmax(x, dup(e.lowest)), dup(e.highest))
	magic := dup(e.magic)
	t := copyOf(magic)
	fmlaLane(t, x, e.log2e)
	n := fsub(t, magic)
	fmlsLane(x, n, e.hi)
	fmlsLane(x, n, e.lo)
	p := polynomial(x, e.poly)
	whole := subInts(t, magic)
	half := sshr(whole, 1)
	one := dup(e.one)
	p = fmul(p, addInts(shl(half, 23), one))
	return fmul(p, addInts(shl(subInts(whole, half), 23), one))
}

// polynomial has its coefficients from the highest power down.
func polynomial(x reg, coefficients []lane) reg {
	p := dup(coefficients[0])
	for _, c := range coefficients[1:] {
		next := dup(c)
		fmla(next, p, x)
		p = next
	}
	return p
}

func exponentials() {
	const u = 2
	flat("exp", u, func() func(b block) reg {
		x, e := base("x"), newExponential()
		return func(b block) reg { return e.of(b.load(x)) }
	})
	flat("softmaxGrad", u, func() func(b block) reg {
		x, e := base("x"), newExponential()
		lse, offset, scale := splat("lse"), splat("offset"), splat("scale")
		return func(b block) reg { return fmul(fsub(e.of(fsub(b.load(x), lse)), offset), scale) }
	})
	flat("sigmoid", u, func() func(b block) reg {
		x, e, sign := base("x"), newExponential(), bits(1<<31)
		return func(b block) reg {
			v, one := b.load(x), dup(e.one)
			y := e.of(orr(v, sign))
			numerator := negative(v)
			bsl(numerator, y, one)
			return fdiv(numerator, fadd(y, one))
		}
	})
	flat("sigmoidGrad", 4, func() func(b block) reg {
		dy, y, one := base("dy"), base("y"), all(1)
		return func(b block) reg {
			v := b.load(y)
			return fmul(fmul(fsub(one, v), v), b.load(dy))
		}
	})
	flat("tanh", u, func() func(b block) reg {
		x, e := base("x"), newExponential()
		sign, small := bits(1<<31), all(0.625)
		poly := constant(-0x1.75e1c2p-8, 0x1.522698p-6, -0x1.b83c5ap-5, 0x1.110726p-3)
		poly = append(poly, constant(-0x1.555532p-2, 2)...)
		two := poly[5]
		poly = poly[:5]
		return func(b block) reg {
			v, one := b.load(x), dup(e.one)
			size := fabs(v)
			large := fsub(one, fdiv(dup(two), fadd(e.of(fadd(size, size)), one)))
			large = orr(large, and(v, sign))
			z := fmul(v, v)
			y := multiplyAdd(fmul(v, z), polynomial(z, poly), v)
			choice := fcmge(small, size)
			bsl(choice, y, large)
			return choice
		}
	})
	flat("tanhGrad", 4, func() func(b block) reg {
		dy, y, one := base("dy"), base("y"), all(1)
		return func(b block) reg {
			v, t := b.load(y), copyOf(one)
			fmls(t, v, v)
			return fmul(t, b.load(dy))
		}
	})
	flat("gelu", u, func() func(b block) reg {
		x, g := base("x"), newGelu()
		return func(b block) reg { return g.of(b.load(x)) }
	})
	flat("geluGrad", u, func() func(b block) reg {
		dy, x, g := base("dy"), base("x"), newGelu()
		bound := constant(-12, 12, 3*geluCubic)
		return func(b block) reg {
			v := fmin(fmax(b.load(x), dup(bound[0])), dup(bound[1]))
			one := dup(g.one)
			s := fdiv(one, fadd(g.exponential.of(g.minus2u(v)), one))
			d := dup(g.linear)
			fmlaLane(d, fmul(v, v), bound[2])
			d = fmul(d, v)
			fmls(s, d, fmul(fsub(one, s), s))
			return fmul(s, b.load(dy))
		}
	})
}

const (
	geluLinear = -1.5957691216057308 // -2√(2/π)
	geluCubic  = geluLinear * 0.044715
)

type gelu struct {
	exponential
	linear, cubic lane
}

func newGelu() gelu {
	c := constant(geluLinear, geluCubic)
	return gelu{newExponential(), c[0], c[1]}
}

func (g gelu) minus2u(x reg) reg {
	t := dup(g.linear)
	fmlaLane(t, fmul(x, x), g.cubic)
	return fmul(t, x)
}

func (g gelu) of(x reg) reg { return fdiv(x, fadd(g.exponential.of(g.minus2u(x)), dup(g.one))) }

func optimizers() {
	// Each works on the gradient s*g + l2*w.
	gradient := func(g, w, s, l2 reg) reg {
		g = fmul(g, s)
		fmla(g, w, l2)
		return g
	}
	flat("sgd", 4, func() func(b block) reg {
		wp, gp, lr, s, l2 := base("w"), base("g"), splat("lr"), splat("s"), splat("l2")
		return func(b block) reg {
			w := b.load(wp)
			fmls(w, gradient(b.load(gp), w, s, l2), lr)
			return w
		}
	})
	for _, nesterov := range []bool{false, true} {
		name := "momentum"
		if nesterov {
			name = "nesterov"
		}
		flat(name, 4, func() func(b block) reg {
			wp, vp, gp, lr, mu, s, l2 := base("w"), base("v"), base("g"), splat("lr"), splat("mu"), splat("s"), splat("l2")
			return func(b block) reg {
				w := b.load(wp)
				g := gradient(b.load(gp), w, s, l2)
				v := multiplyAdd(b.load(vp), mu, g)
				b.store(v, vp)
				if nesterov {
					v = multiplyAdd(v, mu, g)
				}
				fmls(w, v, lr)
				return w
			}
		})
	}
	flat("adam", 1, func() func(b block) reg {
		wp, mp, vp, gp := base("w"), base("m"), base("v"), base("g")
		beta1, rest1, beta2, rest2 := splat("beta1"), splat("rest1"), splat("beta2"), splat("rest2")
		eps, step, root, shrink, s, l2 := splat("eps"), splat("step"), splat("root"), splat("shrink"), splat("s"), splat("l2")
		return func(b block) reg {
			w := b.load(wp)
			g := gradient(b.load(gp), w, s, l2)
			m := fmul(b.load(mp), beta1)
			fmla(m, g, rest1)
			b.store(m, mp)
			v := fmul(b.load(vp), beta2)
			fmla(v, fmul(g, g), rest2)
			b.store(v, vp)
			fmls(w, w, shrink)
			fmls(w, fdiv(m, multiplyAdd(fsqrt(v), root, eps)), step)
			return w
		}
	})
	flat("rmsprop", 1, func() func(b block) reg {
		wp, sp, mp, gp := base("w"), base("ms"), base("mom"), base("g")
		decay, rest, mu, eps := splat("decay"), splat("rest"), splat("mu"), splat("eps")
		lr, s, l2 := splat("lr"), splat("s"), splat("l2")
		return func(b block) reg {
			w := b.load(wp)
			g := gradient(b.load(gp), w, s, l2)
			square := fmul(b.load(sp), decay)
			fmla(square, fmul(g, g), rest)
			b.store(square, sp)
			m := multiplyAdd(b.load(mp), mu, fdiv(fmul(g, lr), fsqrt(fadd(square, eps))))
			b.store(m, mp)
			return fsub(w, m)
		}
	})
	flat("average", 4, func() func(b block) reg {
		ap, wp, rest := base("avg"), base("w"), splat("rest")
		return func(b block) reg {
			avg := b.load(ap)
			fmla(avg, fsub(b.load(wp), avg), rest)
			return avg
		}
	})
}

// bfloat16 emits the conversions. Those with 16 bits in memory leave out the last length mod 4 elements.
func bfloat16() {
	function("widenFours", "func(dst []float32, src []uint16)",
		"sets dst to the bfloat16s of src, but for the last length mod 4.", func() {
			dst, src, n := base("dst"), base("src"), length("dst")
			fours(n, func() {
				str(widen(ldrHalf(src)), dst, 0)
				advance(src, 8)
				advance(dst, 16)
			})
		})
	function("narrowFours", "func(dst []uint16, src []float32)",
		"sets dst to src rounded to bfloat16, but for the last length mod 4.", func() {
			dst, src, n, c := base("dst"), base("src"), length("dst"), newRounding()
			fours(n, func() {
				v := c.nearest(ldr(src, 0))
				strHalf(uzp2Half(v, v), dst)
				advance(src, 16)
				advance(dst, 8)
			})
		})
	flat("roundBF16", 4, func() func(b block) reg {
		src, c, upper := base("src"), newRounding(), bits(0xffff0000)
		return func(b block) reg { return and(c.nearest(b.load(src)), upper) }
	})
}

// fours emits a loop over whole vectors. It overwrites n.
func fours(n reg, body func()) {
	do("LSR $2, R%d, R%d", n, n)
	skipIfZero(n, func() { repeat(n, body) })
}

type rounding struct{ half, one, quiet reg }

func newRounding() rounding { return rounding{bits(0x7fff), bits(1), bits(1 << 22)} }

// nearest returns v rounded, in its upper halves. NaNs, which are not equal to themselves, get the
// quiet bit instead.
func (c rounding) nearest(v reg) reg {
	r := addInts(addInts(v, c.half), and(ushr(v, 16), c.one))
	bif(r, orr(v, c.quiet), fcmeq(v, v))
	return r
}
