package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Depthwise convolutions: neighbours in a vector are channels. Distances are in
// elements; depthwise.go of package kernel says between what.

// depthwiseVectors is the number of vectors of channels in a block.
const depthwiseVectors = 2

func depthwise(m machine) {
	// Four outputs side by side share the loads of the kernel, and have enough
	// chains to hide the latency of an addition.
	const pixels = 4
	m.kernel("depthwise", "func(y, x, w []float32, pixels, cols, to, from, kh, kw, tap, skip, first, wtap, wskip int)",
		"sets y to the windows' sums of x times w.", func() {
			x, y, left := base("x"), base("y"), integer("pixels")
			from, tap, wtap := integer("from"), integer("tap"), integer("wtap")
			from3 := thrice(from)
			tail := m.tailMask(integer("cols"))
			groups(left, []int{pixels, 1}, func(n int) {
				m.blocks(integer("cols"), depthwiseVectors, tail, func(b block) {
					acc := make([][]reg.VecVirtual, n)
					for o := range acc {
						acc[o] = b.accumulators(b.u)
					}
					at, kernel, first := GP64(), base("w"), integer("first")
					LEAQ(Mem{Base: x, Index: b.i, Scale: 4}, at)
					ADDQ(b.i, first)
					LEAQ(Mem{Base: kernel, Index: first, Scale: 4}, kernel)
					repeat(integer("kh"), func() {
						repeat(integer("kw"), func() {
							weights := b.loadsAt(Mem{Base: kernel})
							for o := range acc {
								b.multiplyAdd(acc[o], weights, apart(at, from, from3, o))
							}
							LEAQ(Mem{Base: at, Index: tap, Scale: 4}, at)
							LEAQ(Mem{Base: kernel, Index: wtap, Scale: 4}, kernel)
						})
						advance(at, integer("skip"), 1)
						advance(kernel, integer("wskip"), 1)
					})
					to, out := integer("to"), GP64()
					LEAQ(Mem{Base: y, Index: b.i, Scale: 4}, out)
					to3 := thrice(to)
					for o := range acc {
						for j, v := range acc[o] {
							b.storeTo(apart(out, to, to3, o).Offset(4*j*b.lanes), v)
						}
					}
				})
				advance(x, from, n)
				advance(y, integer("to"), n)
			})
		})

	// Up to three taps share the loads of dy. With vectors enough there are chains enough to
	// hide the latency of an addition.
	vectors := []int{depthwiseVectors}
	if m.lanes == 16 { // and as many registers
		vectors = []int{2 * depthwiseVectors, depthwiseVectors}
	}
	m.kernel("depthwiseGrad", "func(dw, x, dy []float32, pixels, cols, to, from, kh, kw, tap, skip, wtap, wskip int)",
		"adds to rows of taps of dw the sums of x times dy.", func() {
			dw, x := base("dw"), base("x")
			tap, wtap, to, from := integer("tap"), integer("wtap"), integer("to"), integer("from")
			tail := m.tailMask(integer("cols"))
			repeat(integer("kh"), func() {
				groups(integer("kw"), []int{3, 2, 1}, func(n int) {
					m.blocksOf(integer("cols"), vectors, tail, func(b block) {
						at, gradient, sums := GP64(), base("dy"), GP64()
						LEAQ(Mem{Base: dw, Index: b.i, Scale: 4}, sums)
						LEAQ(Mem{Base: x, Index: b.i, Scale: 4}, at)
						LEAQ(Mem{Base: gradient, Index: b.i, Scale: 4}, gradient)
						acc := make([][]reg.VecVirtual, n)
						for t := range acc {
							acc[t] = b.loadsAt(apart(sums, wtap, nil, t))
						}
						repeat(integer("pixels"), func() {
							dy := b.loadsAt(Mem{Base: gradient})
							for t := range acc {
								b.multiplyAdd(acc[t], dy, apart(at, tap, nil, t))
							}
							LEAQ(Mem{Base: at, Index: from, Scale: 4}, at)
							LEAQ(Mem{Base: gradient, Index: to, Scale: 4}, gradient)
						})
						for t := range acc {
							for j, v := range acc[t] {
								b.storeTo(apart(sums, wtap, nil, t).Offset(4*j*b.lanes), v)
							}
						}
					})
					advance(x, tap, n)
					advance(dw, wtap, n)
				})
				advance(x, integer("skip"), 1)
				advance(dw, integer("wskip"), 1)
			})
		})
}

// groups emits loops for left > 0 things, of which each takes one of the sizes at
// a time. They descend to 1. It overwrites left.
func groups(left reg.Register, sizes []int, body func(n int)) {
	for _, n := range sizes {
		top, done := label("group"), label("groups")
		SUBQ(I32(n), left)
		JL(LabelRef(done))
		Label(top)
		body(n)
		SUBQ(I32(n), left)
		JGE(LabelRef(top))
		Label(done)
		ADDQ(I32(n), left)
	}
}

// thrice returns 3n.
func thrice(n reg.Register) reg.Register {
	r := GP64()
	LEAQ(Mem{Base: n, Index: n, Scale: 2}, r)
	return r
}

// apart addresses the o-th, up to the fourth, of places that lie distance
// elements apart; distance3 is three times as much.
func apart(p, distance, distance3 reg.Register, o int) Mem {
	switch o {
	case 0:
		return Mem{Base: p}
	case 3:
		return Mem{Base: p, Index: distance3, Scale: 4}
	}
	return Mem{Base: p, Index: distance, Scale: uint8(4 * o)}
}

// advance moves a pointer by n times distance elements.
func advance(p, distance reg.Register, n int) {
	for range n {
		LEAQ(Mem{Base: p, Index: distance, Scale: 4}, p)
	}
}

// loadsAt returns all vectors of the block at a place.
func (b block) loadsAt(at Mem) []reg.VecVirtual {
	return b.vectors(func(j int) reg.VecVirtual { return b.loadFrom(at.Offset(4 * j * b.lanes)) })
}

// multiplyAdd adds the products of v and of the vectors at a place to acc.
func (b block) multiplyAdd(acc, v []reg.VecVirtual, at Mem) {
	for j := range acc {
		place := at.Offset(4 * j * b.lanes)
		if b.live == nil {
			VFMADD231PS(place, v[j], acc[j])
		} else {
			VFMADD231PS(b.loadFrom(place), v[j], acc[j])
		}
	}
}
