package main

// Reductions of rows. Element i goes to lane i mod 64 (or 32) of the accumulators, in whole blocks of as
// many lanes; what is left goes to the lanes 0 to 15 by sixteens, and the last ones to the first lanes
// of those, while sums in the others of the 16 add +0. Then the lanes are halved until one is left.

const (
	lanes64 = 16 // in registers
	lanes32 = 8
)

// reduce emits body(b, j) for every vector of the elements 0..n, where j, less than registers, is the
// number of the accumulator to which it goes. Accumulators that are sums are given.
func reduce(n reg, registers int, body func(b block, j int), sums ...[]reg) {
	i, left := gp(), move(n)
	do("MOVD $0, R%d", i)
	vector := func(partial *reg) block { return block{i, 1, 0, partial, map[reg]reg{}} }
	for _, u := range []int{registers, 4} {
		blocksOf(u, i, left, func() {
			b := block{i, u, 0, nil, map[reg]reg{}}
			for j, v := range b.vectors() {
				body(v, j)
			}
		})
	}
	// Fewer than 16 are left: whole vectors, then one of fewer than 4 elements, then +0.
	end := label("end")
	rest := []string{label("rest"), label("rest"), label("rest"), label("rest")}
	unused := []string{end, label("unused"), label("unused"), label("unused"), end}
	for j := range 3 {
		do("SUBS $4, R%d, R%d", left, left)
		jump("BLT", rest[j])
		body(vector(nil), j)
		advance(i, 16)
	}
	do("SUB $4, R%d, R%d", left, left)
	jump("B", rest[3])
	for j, rest := range rest {
		place(rest)
		advance(left, 4)
		do("CBZ R%d, "+unused[j], left)
		body(vector(&left), j)
		jump("B", unused[j+1])
	}
	for j := 1; j < 4; j++ {
		place(unused[j])
		for _, acc := range sums {
			accumulate(acc[j], zero())
		}
	}
	place(end)
}

// combine returns the accumulators and their lanes combined by op, in lane 0 of all.
func combine(acc []reg, op func(a, b reg) reg) reg {
	for n := len(acc) / 2; n > 0; n /= 2 {
		for j := range n {
			acc[j] = op(acc[j], acc[j+n])
		}
	}
	v := op(acc[0], upperHalf(acc[0]))
	return op(v, dup(lane{v, 1}))
}

// splatSum returns the sum in all lanes.
func splatSum(acc []reg) reg { return dup(lane{combine(acc, fadd), 0}) }

// larger returns a where it is larger, else b.
func larger(a, b reg) reg {
	v := copyOf(b)
	bit(v, a, fcmgt(a, b))
	return v
}

func reductions() {
	kernel("rowMax", func() {
		x, n, lowest := base("x"), length("x"), bits(0xff800000)
		acc := make([]reg, lanes64)
		for j := range acc {
			acc[j] = copyOf(lowest)
		}
		reduce(n, lanes64, func(b block, j int) {
			v := b.load(x)
			if b.partial != nil {
				bif(v, lowest, b.mask())
			}
			bit(acc[j], v, fcmgt(v, acc[j]))
		})
		returnFloat(combine(acc, larger))
	})
	kernel("rowSum", func() {
		x, n, acc := base("x"), length("x"), zeros(lanes64)
		reduce(n, lanes64, func(b block, j int) { accumulate(acc[j], b.load(x)) }, acc)
		returnFloat(combine(acc, fadd))
	})
	kernel("dot", func() {
		a, other, n, acc := base("a"), base("b"), length("a"), zeros(lanes64)
		reduce(n, lanes64, func(b block, j int) { fmla(acc[j], b.load(a), b.load(other)) }, acc)
		returnFloat(combine(acc, fadd))
	})
	for _, store := range []bool{true, false} {
		name := "expSum"
		if store {
			name = "expShift"
		}
		kernel(name, func() {
			x, n, scale, shift, e := base("x"), length(order[0]), splat("scale"), fneg(splat("shift")), newExponential()
			var dst reg
			if store {
				dst = base("dst")
			}
			acc := zeros(lanes32)
			reduce(n, lanes32, func(b block, j int) {
				v := e.of(multiplyAdd(b.load(x), scale, shift))
				if store {
					b.store(v, dst)
				}
				accumulate(acc[j], b.kill(v))
			}, acc)
			returnFloat(combine(acc, fadd))
		})
	}
	sumSquares()
	nonFinite()
	layerNorms()
}

// accumulate adds v to acc.
func accumulate(acc, v reg) { word(0x4e20d400, "fadd v%d.4s, v%d.4s, v%d.4s", acc, acc, v) }

// sumSquares adds half of the 64 lanes, since two float64s fit in a register.
func sumSquares() {
	function("squares", "func(lanes *[32]float64, x *float32, blocks int)",
		"adds to the lanes the squares of 32 floats of each block of 64, blocks > 0.", func() {
			lanes, x, n := pointer("lanes"), pointer("x"), integer("blocks")
			acc := make([]reg, 16)
			for j := range acc {
				acc[j] = ldr(lanes, 16*j)
			}
			repeat(n, func() {
				for j := range 8 {
					v := ldr(x, 16*j)
					low, high := lowDoubles(v), highDoubles(v)
					fmlaDoubles(acc[2*j], low, low)
					fmlaDoubles(acc[2*j+1], high, high)
				}
				advance(x, 256)
			})
			for j, v := range acc {
				str(v, lanes, 16*j)
			}
		})
}

// nonFinite compares the largest bits of four vectors, without their signs, with those of infinity.
func nonFinite() {
	kernel("nonFinite", func() {
		x, n, magnitude, infinity := base("x"), length("x"), bits(0x7fffffff), bits(0x7f800000)
		at, found := gp(), gp()
		blocks(n, []int{4, 1}, func(b block) {
			v := b.loads(x)
			most := and(v[0], magnitude)
			for _, w := range v[1:] {
				most = umax(most, and(w, magnitude))
			}
			reached := umaxAcross(cmhs(most, infinity))
			do("MOVD R%d, R%d", b.i, at)
			fmovTo(found, reached)
			do("CBNZ R%d, found", found)
		})
		do("MOVD $-4, R%d", at)
		place("found")
		do("ASR $2, R%d, R%d", at, at)
		returnInteger(at)
	})
}

func layerNorms() {
	kernel("layerNorm", func() {
		y, stats, x, gamma, beta := base("y"), base("stats"), base("x"), base("gamma"), base("beta")
		n, cols, eps := integer("rows"), integer("cols"), splat("eps")
		stride, count := scaled(cols, 2), splatCount(cols)
		rows(n, []stream{{y, stride}, {x, stride}}, func() {
			acc := zeros(lanes64)
			reduce(cols, lanes64, func(b block, j int) { accumulate(acc[j], b.load(x)) }, acc)
			mean := fdiv(splatSum(acc), count)
			acc = zeros(lanes64)
			reduce(cols, lanes64, func(b block, j int) {
				v := b.kill(fsub(b.load(x), mean))
				fmla(acc[j], v, v)
			}, acc)
			scale := fdiv(all(1), fsqrt(fadd(fdiv(splatSum(acc), count), eps)))
			strLane(mean, stats, 0)
			strLane(scale, stats, 4)
			advance(stats, 8)
			blocks(cols, []int{4, 1}, func(b block) {
				for _, v := range b.vectors() {
					v.store(multiplyAdd(v.normalised(x, mean, scale), v.load(gamma), v.load(beta)), y)
				}
			})
		})
	})
	for _, withAdd := range []bool{false, true} {
		kernel("layerNormGrad"+when(withAdd, "Add"), func() {
			dx, dy, x, gamma, stats := base("dx"), base("dy"), base("x"), base("gamma"), base("stats")
			n, cols := integer("rows"), integer("cols")
			stride, count := scaled(cols, 2), splatCount(cols)
			streams := []stream{{dx, stride}, {dy, stride}, {x, stride}}
			var plus reg
			if withAdd {
				plus = base("add")
				streams = append(streams, stream{plus, stride})
			}
			rows(n, streams, func() {
				mean, scale := statsOf(stats)
				advance(stats, 8)
				g, gh := zeros(lanes32), zeros(lanes32)
				reduce(cols, lanes32, func(b block, j int) {
					v := fmul(b.load(dy), b.load(gamma))
					accumulate(g[j], v)
					fmla(gh[j], v, b.kill(b.normalised(x, mean, scale)))
				}, g, gh)
				meanG, meanGH := fdiv(splatSum(g), count), fdiv(splatSum(gh), count)
				blocks(cols, []int{4, 1}, func(b block) {
					for _, v := range b.vectors() {
						d := fsub(fmul(v.load(dy), v.load(gamma)), meanG)
						fmls(d, v.normalised(x, mean, scale), meanGH)
						if withAdd {
							d = multiplyAdd(d, scale, v.load(plus))
						} else {
							d = fmul(d, scale)
						}
						v.store(d, dx)
					}
				})
			})
		})
	}
	kernel("layerNormParamGrad", func() {
		dgamma, dbeta, dy, x, stats := base("dgamma"), base("dbeta"), base("dy"), base("x"), base("stats")
		stride, eight := floats("ld"), gp()
		do("MOVD $8, R%d", eight)
		panels([]stream{{dy, stride}, {x, stride}, {stats, eight}}, []int{4, 1}, 4, func(b block) (func(b block), func()) {
			b.places[stats] = stats
			g, s := b.loads(dgamma), b.loads(dbeta)
			return func(b block) {
					mean, scale := statsOf(b.places[stats])
					for j, v := range b.vectors() {
						d := v.load(dy)
						accumulate(s[j], d)
						fmla(g[j], d, v.normalised(x, mean, scale))
					}
				}, func() {
					b.stores(g, dgamma)
					b.stores(s, dbeta)
				}
		})
	})
}

// statsOf returns a row's mean and scale in all lanes.
func statsOf(stats reg) (mean, scale reg) {
	next := move(stats)
	advance(next, 4)
	return splatFrom(stats), splatFrom(next)
}

// normalised returns (x - mean) * scale.
func (b block) normalised(x, mean, scale reg) reg { return fmul(fsub(b.load(x), mean), scale) }
