package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A block is the unit that a kernel's body processes: u vectors, the first of
// which is vector number first from element i.
type block struct {
	machine
	i     reg.Register
	u     int
	live  reg.Register // the lanes to touch: nil for all, else u is 1
	first int          // 0 but for the parts of lines
}

// tailMask returns the mask of the last n mod lanes lanes: a vector of sign
// bits for AVX2, a mask register for AVX-512.
func (m machine) tailMask(n reg.Register) reg.Register {
	rest := GP64()
	MOVQ(n, rest)
	ANDQ(I32(m.lanes-1), rest)
	return m.greater(m.broadcast(rest), lanesFrom0())
}

// broadcast returns n in all int32 lanes.
func (m machine) broadcast(n reg.Register) reg.VecVirtual {
	x, v := XMM(), m.vec()
	VMOVD(n.(reg.GPVirtual).As32(), x)
	VPBROADCASTD(x, v)
	return v
}

// greater compares int32 lanes.
func (m machine) greater(a reg.Register, b Op) reg.Register {
	if m.wide() {
		k := K()
		VPCMPGTD(b, a, k)
		return k
	}
	v := m.vec()
	VPCMPGTD(b, a, v)
	return v
}

// compare returns the mask of the lanes in which a and b compare: for AVX2 in a register.
func (m machine) compare(predicate U8, a, b, in reg.VecVirtual) reg.Register {
	if m.wide() {
		k := K()
		VCMPPS(predicate, b, a, k)
		return k
	}
	VCMPPS(predicate, b, a, in)
	return in
}

// choose sets dst to yes in the lanes of a mask, and elsewhere to no.
func (m machine) choose(mask reg.Register, yes, no, dst reg.VecVirtual) {
	if m.wide() {
		VBLENDMPS(yes, no, mask, dst)
		return
	}
	VBLENDVPS(mask, yes, no, dst)
}

// masked emits code for all lanes, or, where only some are live, for a mask register or for AVX2's
// vector of masks.
func (m machine) masked(live reg.Register, all, register, vector func()) {
	switch {
	case live == nil:
		all()
	case m.wide():
		register()
	default:
		vector()
	}
}

// blocks calls body for code that covers elements 0..n: blocks of u vectors,
// single vectors, and the rest under the mask tail.
func (m machine) blocks(n reg.Register, u int, tail reg.Register, body func(b block)) {
	m.blocksOf(n, []int{u}, tail, body)
}

// blocksOf is blocks with blocks of several sizes, which descend.
func (m machine) blocksOf(n reg.Register, sizes []int, tail reg.Register, body func(b block)) {
	var whole []block
	for _, u := range sizes {
		if u > 1 {
			whole = append(whole, block{machine: m, u: u})
		}
	}
	whole = append(whole, block{machine: m, u: 1})
	loops(n, whole, body, func(i, _ reg.Register) { body(block{machine: m, i: i, u: 1, live: tail}) })
}

// loops emits a loop over elements 0..n for each size of block, which descend,
// and rest for what is left over: fewer elements than the last size, from i.
func loops(n reg.Register, sizes []block, body func(b block), rest func(i, left reg.Register)) {
	i, left := GP64(), GP64()
	XORQ(i, i)
	MOVQ(n, left)
	for _, b := range sizes {
		b.i = i
		top, done := label("loop"), label("done")
		size := I32(b.u * b.lanes)
		SUBQ(size, left)
		JL(LabelRef(done))
		Label(top)
		body(b)
		ADDQ(size, i)
		SUBQ(size, left)
		JGE(LabelRef(top))
		Label(done)
		ADDQ(size, left)
	}
	done := label("done")
	JZ(LabelRef(done)) // flags of the loop's last ADDQ
	rest(i, left)
	Label(done)
}

// rows emits a loop that runs body once for each of n rows and then advances
// the pointers by stride bytes.
func rows(n, stride reg.Register, pointers []reg.Register, body func()) {
	top, done := label("row"), label("rows")
	TESTQ(n, n)
	JZ(LabelRef(done))
	Label(top)
	body()
	for _, p := range pointers {
		ADDQ(stride, p)
	}
	DECQ(n)
	JNZ(LabelRef(top))
	Label(done)
}

// bytes returns 4n, the size of n float32s.
func bytes(n reg.Register) reg.Register {
	r := GP64()
	MOVQ(n, r)
	SHLQ(U8(2), r)
	return r
}

// vectors returns u registers made by f.
func (b block) vectors(f func(j int) reg.VecVirtual) []reg.VecVirtual {
	v := make([]reg.VecVirtual, b.u)
	for j := range v {
		v[j] = f(j)
	}
	return v
}

// at addresses vector j of the block in the row or slice at p.
func (b block) at(p reg.Register, j int) Mem {
	return Mem{Base: p, Index: b.i, Scale: 4, Disp: 4 * (b.first + j) * b.lanes}
}

// load returns vector j, zero in dead lanes.
func (b block) load(p reg.Register, j int) reg.VecVirtual { return b.loadFrom(b.at(p, j)) }

func (b block) loadFrom(at Mem) reg.VecVirtual {
	v := b.vec()
	b.masked(b.live, func() { VMOVUPS(at, v) }, func() { VMOVUPS_Z(at, b.live, v) }, func() { VMASKMOVPS(at, b.live, v) })
	return v
}

// loads returns all vectors of the block.
func (b block) loads(p reg.Register) []reg.VecVirtual {
	return b.vectors(func(j int) reg.VecVirtual { return b.load(p, j) })
}

// store writes vector j's live lanes.
func (b block) store(v reg.VecVirtual, p reg.Register, j int) { b.storeTo(b.at(p, j), v) }

func (b block) storeTo(at Mem, v reg.VecVirtual) {
	b.masked(b.live, func() { VMOVUPS(v, at) }, func() { VMOVUPS(v, b.live, at) }, func() { VMASKMOVPS(v, b.live, at) })
}

// stores writes all vectors of the block.
func (b block) stores(v []reg.VecVirtual, p reg.Register) {
	for j, v := range v {
		b.store(v, p, j)
	}
}

// addTo adds all vectors of the block to as many accumulators.
func (b block) addTo(acc []reg.VecVirtual, p reg.Register) {
	for j, acc := range acc[:b.u] {
		VADDPS(b.load(p, j), acc, acc)
	}
}

// kill zeroes v's dead lanes.
func (b block) kill(v reg.VecVirtual) {
	b.masked(b.live, func() {}, func() { VMOVAPS_Z(v, b.live, v) }, func() { VANDPS(b.live, v, v) })
}

// fill replaces v's dead lanes with those of x.
func (b block) fill(v, x reg.VecVirtual) {
	if b.live != nil {
		b.choose(b.live, v, x, v)
	}
}
