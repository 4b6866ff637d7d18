package main

import "maps"

// Functions that treat the columns of a matrix separately: a vector's lanes are columns, or channels of
// an image.

func columns() {
	for _, activation := range []string{"", "Relu", "Gelu"} {
		kernel("addBias"+activation, func() {
			dst, x, bias, n, cols, stride := base("dst"), base("x"), base("bias"), integer("rows"), integer("cols"), floats("ld")
			activate, u := func(v reg) reg { return v }, 4
			switch activation {
			case "Relu":
				activate = relu
			case "Gelu":
				activate, u = newGelu().of, 2
			}
			rows(n, []stream{{dst, stride}, {x, stride}}, func() {
				blocks(cols, []int{u, 1}, func(b block) {
					for _, v := range b.vectors() {
						v.store(activate(fadd(v.load(x), v.load(bias))), dst)
					}
				})
			})
		})
	}
	kernel("copyColumns", func() {
		dst, src, n, cols := base("dst"), base("src"), integer("rows"), integer("cols")
		rows(n, []stream{{dst, floats("ldd")}, {src, floats("lds")}}, func() {
			blocks(cols, []int{4, 1}, func(b block) { b.stores(b.loads(src), dst) })
		})
	})
	kernel("colSum", func() {
		acc, x := base("acc"), base("x")
		panels([]stream{{x, floats("ld")}}, []int{8, 1}, 4, func(b block) (func(b block), func()) {
			sum := b.loads(acc)
			return func(b block) { b.addTo(sum, x) }, func() { b.stores(sum, acc) }
		})
	})
	batchNorms()
	pools()
	depthwise()
}

// addTo adds the block's vectors behind p to acc.
func (b block) addTo(acc []reg, p reg) {
	for j, v := range b.vectors() {
		accumulate(acc[j], v.load(p))
	}
}

// when returns s if the condition holds.
func when(condition bool, s string) string {
	if condition {
		return s
	}
	return ""
}

func batchNorms() {
	kernel("columnMoments", func() {
		mean, squares, x, n, cols := base("mean"), base("squares"), base("x"), integer("rows"), integer("cols")
		count, column := splatCount(n), []stream{{x, floats("ld")}}
		blocks(cols, []int{4, 1}, func(b block) {
			sum, square := zeros(b.u), zeros(b.u)
			b.below(n, column, func(b block) { b.addTo(sum, x) })
			means := each(sum, func(v reg) reg { return fdiv(v, count) })
			b.stores(means, mean)
			b.below(n, column, func(b block) {
				for j, v := range b.vectors() {
					d := fsub(v.load(x), means[j])
					fmla(square[j], d, d)
				}
			})
			b.stores(square, squares)
		})
	})
	for _, withAdd := range []bool{false, true} {
		for _, withRelu := range []bool{false, true} {
			batchNorm(false, withAdd, withRelu)
			batchNorm(true, withAdd, withRelu)
			batchNormGrad(withAdd, withRelu)
		}
	}
	for _, withRelu := range []bool{false, true} {
		batchNormGradSums(withRelu)
	}
}

// A stream's stride is the length of a row.
func rowStreams(names ...string) []stream {
	stride := floats("cols")
	return each(names, func(name string) stream { return stream{base(name), stride} })
}

// batchNorm emits a forward pass. In evaluation the variance is given and the scale computed once for
// every panel; therefore the panels are larger.
func batchNorm(eval, withAdd, withRelu bool) {
	deviation, least := "scale", 4
	if eval {
		deviation, least = "variance", 16
	}
	kernel("batchNorm"+when(eval, "Eval")+when(withAdd, "Add")+when(withRelu, "Relu"), func() {
		names := []string{"y", "x", "add"}
		if !withAdd {
			names = names[:2]
		}
		s := rowStreams(names...)
		panels(s, []int{4, 1}, least, func(b block) (func(b block), func()) {
			mean, scale, gamma, beta := b.parameter("mean"), b.parameter(deviation), b.parameter("gamma"), b.parameter("beta")
			if eval {
				shift, one := splat("eps"), all(1)
				scale = each(scale, func(v reg) reg { return fdiv(one, fsqrt(fadd(v, shift))) })
			}
			return func(b block) {
				for j, v := range b.vectors() {
					y := multiplyAdd(v.normalised(s[1].p, mean[j], scale[j]), gamma[j], beta[j])
					if withAdd {
						y = fadd(y, v.load(s[2].p))
					}
					if withRelu {
						y = relu(y)
					}
					v.store(y, s[0].p)
				}
			}, nil
		})
	})
}

// gradient returns dz: dy, or with relu 0 where the output, of the normalised x h, is not positive.
func (b block) gradient(dy, h reg, gamma, beta []reg, withRelu bool) reg {
	dz := b.load(dy)
	if withRelu {
		dz = and(dz, positive(multiplyAdd(h, gamma[b.j], beta[b.j])))
	}
	return dz
}

func batchNormGradSums(withRelu bool) {
	kernel("batchNorm"+when(withRelu, "Relu")+"GradSums", func() {
		dy, x, n, cols, stride := base("dy"), base("x"), integer("rows"), integer("cols"), floats("ld")
		blocks(cols, []int{4, 1}, func(b block) {
			mean, scale := b.parameter("mean"), b.parameter("scale")
			var gamma, beta []reg
			if withRelu {
				gamma, beta = b.parameter("gamma"), b.parameter("beta")
			}
			sum, sumX := zeros(b.u), zeros(b.u)
			b.below(n, []stream{{dy, stride}, {x, stride}}, func(b block) {
				for j, v := range b.vectors() {
					h := v.normalised(x, mean[j], scale[j])
					dz := v.gradient(dy, h, gamma, beta, withRelu)
					accumulate(sum[j], dz)
					fmla(sumX[j], dz, h)
				}
			})
			b.stores(sum, base("sum"))
			b.stores(sumX, base("sumX"))
		})
	})
}

func batchNormGrad(withAdd, withRelu bool) {
	kernel("batchNorm"+when(withRelu, "Relu")+"Grad"+when(withAdd, "Add"), func() {
		names := []string{"dx", "dy", "x", "add"}
		if !withAdd {
			names = names[:3]
		}
		s := rowStreams(names...)
		panels(s, []int{2, 1}, 4, func(b block) (func(b block), func()) {
			share := splat("share")
			shared := func(v reg) reg { return fmul(v, share) }
			mean, scale, gamma := b.parameter("mean"), b.parameter("scale"), b.parameter("gamma")
			meanZ, meanZX := each(b.parameter("total"), shared), each(b.parameter("totalX"), shared)
			factor := make([]reg, b.u)
			for j := range factor {
				factor[j] = fmul(gamma[j], scale[j])
			}
			var beta []reg
			if withRelu {
				beta = b.parameter("beta")
			}
			return func(b block) {
				for j, v := range b.vectors() {
					h := v.normalised(s[2].p, mean[j], scale[j])
					d := fsub(v.gradient(s[1].p, h, gamma, beta, withRelu), meanZ[j])
					fmls(d, h, meanZX[j])
					if withAdd {
						d = multiplyAdd(d, factor[j], v.load(s[3].p))
					} else {
						d = fmul(d, factor[j])
					}
					v.store(d, s[0].p)
				}
			}, nil
		})
	})
}

// windows emits body for every block of channels of every output of a pool. From one output to the
// next, the outputs advance by ld and the inputs by step elements.
func windows(ld reg, inputs, outputs []reg, body func(b block)) {
	pixels, cols, step := integer("pixels"), integer("cols"), floats("step")
	repeat(pixels, func() {
		blocks(cols, []int{4, 1}, body)
		for _, p := range outputs {
			add(ld, p)
		}
		for _, p := range inputs {
			add(step, p)
		}
	})
}

// window emits body for every pixel of the window of a block, whose neighbours are ld bytes apart.
func (b block) window(ld reg, inputs []reg, body func(b block)) {
	row := floats("row")
	down := each(inputs, func(p reg) stream { return stream{p, row} })
	along := each(inputs, func(p reg) stream { return stream{p, ld} })
	b.below(integer("kh"), down, func(b block) { b.below(integer("kw"), along, body) })
}

func pools() {
	kernel("maxPool", func() {
		y, x, ld, lowest := base("y"), base("x"), floats("cols"), bits(0xff800000)
		windows(ld, []reg{x}, []reg{y}, func(b block) {
			acc := each(b.vectors(), func(block) reg { return copyOf(lowest) })
			b.window(ld, []reg{x}, func(b block) {
				for j, v := range b.vectors() {
					x := v.load(x)
					bit(acc[j], x, fcmgt(x, acc[j]))
					bif(acc[j], x, fcmeq(x, x)) // NaN
				}
			})
			b.stores(acc, y)
		})
	})
	kernel("maxPoolGrad", func() {
		dx, dy, x, y, ld := base("dx"), base("dy"), base("x"), base("y"), floats("ld")
		windows(ld, []reg{x, dx}, []reg{y, dy}, func(b block) {
			highest, gradient := b.loads(y), b.loads(dy)
			todo := each(gradient, func(reg) reg { return bits(0xffffffff) })
			b.window(ld, []reg{x, dx}, func(b block) {
				for j, v := range b.vectors() {
					x, d := v.load(x), v.load(dx)
					differs := orr(fcmgt(x, highest[j]), fcmgt(highest[j], x)) // not if one is NaN
					accumulate(d, and(gradient[j], bic(todo[j], differs)))
					andTo(todo[j], differs)
					v.store(d, dx)
				}
			})
		})
	})
	kernel("avgPool", func() {
		y, x, ld, share := base("y"), base("x"), floats("cols"), splat("share")
		windows(ld, []reg{x}, []reg{y}, func(b block) {
			acc := zeros(b.u)
			b.window(ld, []reg{x}, func(b block) { b.addTo(acc, x) })
			b.stores(each(acc, func(v reg) reg { return fmul(v, share) }), y)
		})
	})
	kernel("avgPoolGrad", func() {
		dx, dy, ld, share := base("dx"), base("dy"), floats("ld"), splat("share")
		windows(ld, []reg{dx}, []reg{dy}, func(b block) {
			gradient := each(b.loads(dy), func(v reg) reg { return fmul(v, share) })
			b.window(ld, []reg{dx}, func(b block) {
				for j, v := range b.vectors() {
					v.store(fadd(v.load(dx), gradient[j]), dx)
				}
			})
		})
	})
}

// andTo clears the bits of d that a does not have.
func andTo(d, a reg) { word(0x4e201c00, "and v%d.16b, v%d.16b, v%d.16b", d, d, a) }

// depthwise emits the depthwise convolutions. A window has kh rows of kw taps: tap elements lie between
// taps, and skip between the end of a row of taps and the next one; wtap and wskip are the same of w.
func depthwise() {
	// Four outputs side by side share the loads of the kernel.
	kernel("depthwise", func() {
		y, x, w := base("y"), base("x"), sum(base("w"), floats("first"))
		left, from := integer("pixels"), floats("from")
		row := func(tap, skip string) reg { // from a row of taps to the next, in bytes
			return scaled(sum(product(integer("kw"), integer(tap)), integer(skip)), 2)
		}
		down := []stream{{x, row("tap", "skip")}, {w, row("wtap", "wskip")}}
		along := []stream{{x, floats("tap")}, {w, floats("wtap")}}
		groups(left, []int{4, 1}, func(n int) {
			blocks(integer("cols"), []int{4, 1}, func(b block) {
				acc := each(make([][]reg, n), func([]reg) []reg { return zeros(b.u) })
				b.below(integer("kh"), down, func(b block) {
					b.below(integer("kw"), along, func(b block) {
						weights := b.loads(w)
						b.apart(n, x, from, func(o int, b block) { b.multiplyAdd(acc[o], x, weights) })
					})
				})
				b.apart(n, y, floats("to"), func(o int, b block) { b.stores(acc[o], y) })
			})
			for range n {
				add(floats("to"), y)
				add(from, x)
			}
		})
	})
	// Three taps share the loads of dy.
	kernel("depthwiseGrad", func() {
		dw, x, dy, kh := base("dw"), base("x"), base("dy"), integer("kh")
		tap, wtap := floats("tap"), floats("wtap")
		along := []stream{{x, floats("from")}, {dy, floats("to")}}
		repeat(kh, func() {
			groups(integer("kw"), []int{3, 1}, func(n int) {
				blocks(integer("cols"), []int{4, 1}, func(b block) {
					acc := make([][]reg, n)
					b.apart(n, dw, wtap, func(t int, b block) { acc[t] = b.loads(dw) })
					b.below(integer("pixels"), along, func(b block) {
						gradient := b.loads(dy)
						b.apart(n, x, tap, func(t int, b block) { b.multiplyAdd(acc[t], x, gradient) })
					})
					b.apart(n, dw, wtap, func(t int, b block) { b.stores(acc[t], dw) })
				})
				for range n {
					add(tap, x)
					add(wtap, dw)
				}
			})
			add(floats("skip"), x)
			add(floats("wskip"), dw)
		})
	})
}

// groups emits body for n of left things at a time, for the sizes n in turn, which descend to 1.
func groups(left reg, sizes []int, body func(n int)) {
	for _, n := range sizes {
		while(left, n, func() { body(n) })
	}
}

// apart emits f for n places of the block behind p, a distance in bytes apart.
func (b block) apart(n int, p, distance reg, f func(o int, b block)) {
	at := b.at(p)
	for o := range n {
		if o > 0 {
			at = sum(at, distance)
		}
		there := b
		there.places = maps.Clone(b.places)
		there.places[p] = at
		f(o, there)
	}
}

// multiplyAdd adds the products of the block's vectors behind p and of v to acc.
func (b block) multiplyAdd(acc []reg, p reg, v []reg) {
	for j, x := range b.vectors() {
		fmla(acc[j], x.load(p), v[j])
	}
}
