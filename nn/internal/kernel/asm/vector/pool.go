package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Pools walk outputs side by side whose windows have kh by kw pixels, and for
// each block of channels of an output the pixels of its window by rows.

func pools(m machine) {
	const u = 4
	m.kernel("maxPool", "func(y, x []float32, pixels, cols, step, kh, kw, row int)", "sets y to the windows' maxima.", func() {
		y, x, cols := base("y"), base("x"), integer("cols")
		lowest, table := m.registerOf(0xff800000), m.nanTable()
		m.windows(cols, u, []reg.Register{x}, []reg.Register{y}, func(b block) {
			acc := b.vectors(func(int) reg.VecVirtual {
				v := m.vec()
				VMOVAPS(lowest, v)
				return v
			})
			b.window(cols, func(b block) {
				for j, acc := range acc {
					v := b.load(x, j)
					m.maxOrNaN(v, acc, table)
				}
			})
			b.stores(acc, y)
		})
	})

	m.kernel("maxPoolGrad", "func(dx, dy, x, y []float32, pixels, cols, ld, step, kh, kw, row int)",
		"adds dy to dx at each window's first maximum.", func() {
			dx, dy, x, y, ld := base("dx"), base("dy"), base("x"), base("y"), integer("ld")
			m.windows(ld, u, []reg.Register{x, dx}, []reg.Register{y, dy}, func(b block) {
				highest, gradient := b.loads(y), b.loads(dy)
				todo := make([]reg.Register, b.u)
				for j := range todo {
					todo[j] = m.allLanes()
				}
				b.window(ld, func(b block) {
					for j, todo := range todo {
						d := b.load(dx, j)
						first := m.firstEqual(b.load(x, j), highest[j], todo)
						if m.wide() {
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
			acc := m.accumulators(b.u)
			b.window(cols, func(b block) {
				for j, acc := range acc {
					VADDPS(b.load(x, j), acc, acc)
				}
			})
			for _, acc := range acc {
				VMULPS(share, acc, acc)
			}
			b.stores(acc, y)
		})
	})

	m.kernel("avgPoolGrad", "func(dx, dy []float32, pixels, cols, ld, step, kh, kw, row int, share float32)", "adds dy times share to dx at each window's pixels.", func() {
		dx, dy, ld, share := base("dx"), base("dy"), integer("ld"), m.splat("share")
		m.windows(ld, u, []reg.Register{dx}, []reg.Register{dy}, func(b block) {
			gradient := b.loads(dy)
			for _, v := range gradient {
				VMULPS(share, v, v)
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

// windows emits body for every block of channels of every output. The inputs'
// pointers move on by step and the outputs' by ld elements from one output to
// the next.
func (m machine) windows(ld reg.Register, u int, inputs, outputs []reg.Register, body func(b block)) {
	pixels, cols := integer("pixels"), integer("cols")
	tail := m.tailMask(cols)
	repeat(pixels, func() {
		m.blocks(cols, u, tail, body)
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

// Predicates of VCMPPS, true if an operand is NaN.
const (
	unordered        = U8(0x03)
	equalOrUnordered = U8(0x08)
)

// nanTable returns what maxOrNaN needs: for AVX-512 the responses of VFIXUPIMM,
// to take a NaN and to leave the destination alone for everything else.
func (m machine) nanTable() reg.VecVirtual {
	if m.wide() {
		return m.registerOf(0x22)
	}
	return nil
}

// maxOrNaN sets acc to the larger of v and acc, acc if they are equal, and to v
// if that is NaN. A NaN in acc stays.
func (m machine) maxOrNaN(v, acc, table reg.VecVirtual) {
	if m.wide() {
		VMAXPS(acc, v, acc) // the second operand, acc, if one is NaN
		VFIXUPIMMPS(U8(0), table, v, acc)
		return
	}
	nan := m.vec()
	VCMPPS(unordered, v, v, nan)
	VMAXPS(acc, v, acc)
	VBLENDVPS(nan, v, acc, acc)
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

// firstEqual returns the lanes of todo where x is y or y is NaN, and takes them
// out of todo. It may use x up.
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
