package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Pools loop over outputs side by side whose windows have kh by kw pixels, and
// for each block of channels of an output over the pixels of its window by
// rows.

func pools(m machine) {
	const u = 4
	m.kernel("maxPool", "func(y, x []float32, pixels, cols, step, kh, kw, row int)", "sets y to the windows' maxima.", func() {
		y, x, cols := base("y"), base("x"), integer("cols")
		constants := m.maxConstants()
		m.windows(cols, u, []reg.Register{x}, []reg.Register{y}, func(b block) {
			acc := b.maxima(constants)
			b.window(cols, func(b block) {
				for j := range b.u {
					acc.take(b.load(x, j), j)
				}
			})
			b.stores(acc.result(), y)
		})
	})

	m.kernel("maxPoolGrad", "func(dx, dy, x, y []float32, pixels, cols, ld, step, kh, kw, row int)",
		"adds dy to dx at each window's first maximum.", func() {
			dx, dy, x, y, ld := base("dx"), base("dy"), base("x"), base("y"), integer("ld")
			m.windows(ld, u, []reg.Register{x, dx}, []reg.Register{y, dy}, func(b block) {
				highest, gradient := b.loads(y), b.loads(dy)
				todo := make([]reg.Register, b.u)
				for j := range todo {
					todo[j] = b.allLanes()
				}
				b.window(ld, func(b block) {
					for j, todo := range todo {
						d := b.load(dx, j)
						first := b.firstEqual(b.load(x, j), highest[j], todo)
						if b.wide() {
							VADDPS(gradient[j], d, first, d)
						} else {
							VANDPS(gradient[j], first, first)
							VADDPS(first, d, d)
						}
						b.store(d, dx, j)
					}
				})
			})
		})

	m.kernel("avgPool", "func(y, x []float32, pixels, cols, step, kh, kw, row int, share float32)", "sets y to the windows' sums times share.", func() {
		y, x, cols, share := base("y"), base("x"), integer("cols"), m.splat("share")
		m.windows(cols, u, []reg.Register{x}, []reg.Register{y}, func(b block) {
			acc := b.accumulators(b.u)
			b.window(cols, func(b block) { b.addTo(acc, x) })
			for _, acc := range acc {
				VMULPS(b.fit(share), acc, acc)
			}
			b.stores(acc, y)
		})
	})

	m.kernel("avgPoolGrad", "func(dx, dy []float32, pixels, cols, ld, step, kh, kw, row int, share float32)", "adds dy times share to dx at each window's pixels.", func() {
		dx, dy, ld, share := base("dx"), base("dy"), integer("ld"), m.splat("share")
		m.windows(ld, u, []reg.Register{dx}, []reg.Register{dy}, func(b block) {
			gradient := b.loads(dy)
			for _, v := range gradient {
				VMULPS(b.fit(share), v, v)
			}
			b.window(ld, func(b block) {
				for j, gradient := range gradient {
					d := b.load(dx, j)
					VADDPS(gradient, d, d)
					b.store(d, dx, j)
				}
			})
		})
	})
}

// windows emits body for every block of channels of every output. From one
// output to the next, the inputs' pointers advance by step and the outputs' by
// ld elements.
func (m machine) windows(ld reg.Register, u int, inputs, outputs []reg.Register, body func(b block)) {
	pixels, cols := integer("pixels"), integer("cols")
	tail := m.lastMask(cols)
	repeat(pixels, func() {
		m.channels(cols, u, tail, body)
		for _, p := range outputs {
			LEAQ(Mem{Base: p, Index: ld, Scale: 4}, p)
		}
		step := integer("step")
		for _, p := range inputs {
			LEAQ(Mem{Base: p, Index: step, Scale: 4}, p)
		}
	})
}

// window emits body for every pixel of the window of a block of channels.
func (b block) window(ld reg.Register, body func(b block)) {
	b.below(address("kh"), address("row"), func(b block) {
		b.below(address("kw"), ld, body)
	})
}

// channels is blocks with a vector of 8 lanes before the masked one, whatever
// the machine: the result of a masked store is slow to load again, which
// gradients do at once for the next window, and 8 channels are common.
func (m machine) channels(n reg.Register, u int, tail reg.Register, body func(b block)) {
	if !m.wide() {
		m.blocks(n, u, tail, body)
		return
	}
	loops(n, []block{{machine: m, u: u}, {machine: m, u: 1}, {machine: avx2, u: 1}}, body,
		func(i, _ reg.Register) { body(block{machine: m, i: i, u: 1, live: tail}) })
}

// lastMask returns the mask of the last n mod 8 lanes.
func (m machine) lastMask(n reg.Register) reg.Register {
	rest := GP64()
	MOVQ(n, rest)
	ANDQ(I32(avx2.lanes-1), rest)
	return m.tailMask(rest)
}

// fit returns a vector of the kernel's machine in the block's size.
func (b block) fit(v reg.VecVirtual) Op {
	if b.wide() {
		return v
	}
	return v.AsY()
}

// Predicates of VCMPPS, true if an operand is NaN.
const (
	unordered        = U8(0x03)
	equalOrUnordered = U8(0x08)
)

type maxConstants struct {
	lowest reg.VecVirtual
	fixNaN reg.VecVirtual // for AVX-512: VFIXUPIMM's responses, to take a NaN and leave the rest alone
}

func (m machine) maxConstants() maxConstants {
	c := maxConstants{lowest: m.registerOf(0xff800000)}
	if m.wide() {
		c.fixNaN = m.registerOf(0x22)
	}
	return c
}

// maxima are running maxima: acc, and for AVX2 nan, which is 0 or, after a NaN,
// a NaN of all ones.
type maxima struct {
	block
	constants maxConstants
	acc, nan  []reg.VecVirtual
}

func (b block) maxima(c maxConstants) maxima {
	acc := b.vectors(func(int) reg.VecVirtual {
		v := b.vec()
		VMOVAPS(b.fit(c.lowest), v)
		return v
	})
	if b.wide() {
		return maxima{b, c, acc, nil}
	}
	return maxima{b, c, acc, b.accumulators(b.u)}
}

// take sets accumulator j to the larger of it and v, to itself if they are
// equal.
func (x maxima) take(v reg.VecVirtual, j int) {
	acc := x.acc[j]
	if x.wide() {
		VMAXPS(acc, v, acc) // the second operand, acc, if one is NaN
		VFIXUPIMMPS(U8(0), x.constants.fixNaN, v, acc)
		return
	}
	VCMPPS(unordered, x.nan[j], v, x.nan[j])
	VMAXPS(acc, v, acc)
}

func (x maxima) result() []reg.VecVirtual {
	for j, nan := range x.nan {
		VORPS(nan, x.acc[j], x.acc[j])
	}
	return x.acc
}

// allLanes returns a mask of all lanes.
func (m machine) allLanes() reg.Register {
	if m.wide() {
		ones, k := GP32(), K()
		MOVL(U32(0xffffffff), ones)
		KMOVW(ones, k)
		return k
	}
	return m.registerOf(0xffffffff)
}

// firstEqual returns the lanes of todo where x is y or y is NaN, and removes
// them from todo. It may overwrite x.
func (m machine) firstEqual(x, y reg.VecVirtual, todo reg.Register) reg.Register {
	if m.wide() {
		k := K()
		VCMPPS(equalOrUnordered, y, x, todo, k)
		KXORW(k, todo, todo)
		return k
	}
	VCMPPS(equalOrUnordered, y, x, x)
	VANDPS(todo, x, x)
	VANDNPS(todo, x, todo)
	return x
}
