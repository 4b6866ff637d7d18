package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func dropout(m machine) {
	const rest = "first int, threshold uint32, scale float32, k0, k1, c1, c2, c3 uint32)"
	m.kernel("dropout", "func(dst, x []float32, "+rest,
		"sets dst to x * scale where the element's random word reaches threshold, else to x * 0.", func() { dropoutBody(m, false) })
	m.kernel("dropoutAdd", "func(dst, x, add []float32, "+rest,
		"is dropout with add added.", func() { dropoutBody(m, true) })
}

const (
	philoxRounds = 10
	dropoutGroup = 64 // elements of 16 counters, four words each
)

func dropoutBody(m machine, withAdd bool) {
	d := dropper{machine: m, keys: keySchedule(m), i: GP64()}
	d.mul0, d.mul1 = m.constantOf(0xD2511F53), m.constantOf(0xCD9E8D57)
	if m.wide() {
		lanes := GP32()
		MOVL(U32(0xaaaa), lanes)
		d.odd = K()
		KMOVW(lanes, d.odd)
	}
	d.dst, d.x = base("dst"), base("x")
	add, pointers := operands(withAdd, d.dst, d.x)
	d.add = add

	// Elements are counted from the start of first's group: those from low to
	// end exist, and the pointers move back to the group's start.
	low, end, counter := GP64(), length("dst"), integer("first")
	done := label("done")
	TESTQ(end, end)
	JZ(LabelRef(done))
	MOVQ(counter, low)
	ANDQ(I32(dropoutGroup-1), low)
	ADDQ(low, end)
	SHRQ(U8(6), counter)
	SHLQ(U8(4), counter)
	XORQ(d.i, d.i)
	back := bytes(low)
	for _, p := range pointers {
		SUBQ(back, p)
	}

	top, partial, next := label("group"), label("partial"), label("next")
	Label(top)
	TESTQ(low, low)
	JNZ(LabelRef(partial))
	CMPQ(end, I32(dropoutGroup))
	JL(LabelRef(partial))
	d.group(counter, nil, nil)
	JMP(LabelRef(next))
	Label(partial)
	d.group(counter, low, end)
	Label(next)
	XORQ(low, low)
	ADDQ(I32(dropoutGroup), d.i)
	ADDQ(I32(dropoutGroup/4), counter)
	SUBQ(I32(dropoutGroup), end)
	JG(LabelRef(top))
	Label(done)
}

type dropper struct {
	machine
	keys        func(round, word int) Mem
	mul0, mul1  Op
	odd         reg.OpmaskVirtual // odd lanes, AVX-512 only
	i           reg.Register
	dst, x, add reg.Register // add may be nil
}

// group processes one group of elements; with low and end only those between
// them.
func (d dropper) group(counter, low, end reg.Register) {
	var beforeLow, limit reg.VecVirtual
	if low != nil {
		count := GP64()
		LEAQ(Mem{Base: low, Disp: -1}, count)
		beforeLow = d.broadcast(count)
		MOVQ(I32(dropoutGroup), count)
		CMPQ(end, count)
		CMOVQLT(end, count)
		limit = d.broadcast(count)
	}
	for lane := 0; lane < 16; lane += d.lanes {
		words := d.philox(counter, lane)
		for w, word := range words {
			at := 16*w + lane
			b := block{machine: d.machine, i: d.i, u: 1}
			if low != nil {
				b.live = d.between(beforeLow, limit, at)
			}
			d.drop(b, word, at)
		}
	}
}

// drop writes one vector, from the group's element at.
func (d dropper) drop(b block, word reg.VecVirtual, at int) {
	factor, threshold := d.splat("scale"), d.splat("threshold")
	if d.wide() {
		keep := K()
		VPCMPUD(U8(5), threshold, word, keep) // word >= threshold
		VMOVAPS_Z(factor, keep, factor)
	} else {
		VPMAXUD(word, threshold, threshold)
		VPCMPEQD(word, threshold, threshold)
		VANDPS(threshold, factor, factor)
	}
	v := b.load(d.x, at/d.lanes)
	VMULPS(factor, v, v)
	if d.add != nil {
		VADDPS(b.load(d.add, at/d.lanes), v, v)
	}
	b.store(v, d.dst, at/d.lanes)
}

// between returns the mask of the lanes whose numbers, counted from at, are
// greater than a and less than b.
func (d dropper) between(a, b reg.VecVirtual, at int) reg.Register {
	numbers := lanesFrom0().Offset(4 * at)
	below := d.greater(b, numbers)
	v := d.vec()
	VMOVUPS(numbers, v)
	if d.wide() {
		k := K()
		VPCMPGTD(a, v, below, k)
		return k
	}
	VPCMPGTD(a, v, v)
	VPAND(below, v, v)
	return v
}

// keySchedule stores the keys of all rounds on the stack and returns their
// places.
func keySchedule(m machine) func(round, word int) Mem {
	size := 4
	if !m.wide() {
		size = 32 // without embedded broadcasts
	}
	table := AllocLocal(2 * philoxRounds * size)
	at := func(round, word int) Mem { return table.Offset((2*round + word) * size) }
	for word, weyl := range []uint32{0x9E3779B9, 0xBB67AE85} {
		key := GP32()
		Load(Param([]string{"k0", "k1"}[word]), key)
		for round := range philoxRounds {
			if m.wide() {
				MOVL(key, at(round, word))
			} else {
				x, v := XMM(), YMM()
				VMOVD(key, x)
				VPBROADCASTD(x, v)
				VMOVDQU(v, at(round, word))
			}
			ADDL(U32(weyl), key)
		}
	}
	return at
}

// philox returns the four words of the counters counter+lane and following, one
// counter per lane.
//
// VPMULUDQ multiplies the lower halves of 64-bit lanes. So even and odd lanes
// are kept separate, each word in the lower half of 64 bits below arbitrary
// bits, and joined at the end.
func (d dropper) philox(counter reg.Register, lane int) [4]reg.VecVirtual {
	var sides [2][4]reg.VecVirtual
	for odd := range sides {
		c := &sides[odd]
		c[0] = d.broadcast(counter)
		numbers := d.vec()
		// The lower half of each 64-bit lane is an even lane; for odd ones the table moves by one.
		VMOVUPS(lanesFrom0().Offset(4*(lane+odd)), numbers)
		VPADDD(numbers, c[0], c[0])
		for w, name := range []string{"c1", "c2", "c3"} {
			c[w+1] = d.splat(name)
		}
	}
	for round := range philoxRounds {
		for odd := range sides {
			c := &sides[odd]
			p0, p1, h0, h1 := d.vec(), d.vec(), d.vec(), d.vec()
			VPMULUDQ(d.mul0, c[0], p0)
			VPMULUDQ(d.mul1, c[2], p1)
			VPSHUFD(U8(0xf5), p1, h1)
			VPSHUFD(U8(0xf5), p0, h0)
			d.xor3(d.keys(round, 0), c[1], h1)
			d.xor3(d.keys(round, 1), c[3], h0)
			*c = [4]reg.VecVirtual{h1, p1, h0, p0}
		}
	}
	words := sides[0]
	for w, even := range words {
		odd := sides[1][w]
		if d.wide() {
			VMOVSLDUP(odd, d.odd, even)
			continue
		}
		VMOVSLDUP(odd, odd)
		VPBLENDD(U8(0xaa), odd, even, even)
	}
	return words
}

// xor3 sets dst to dst ^ a ^ key.
func (d dropper) xor3(key Mem, a, dst reg.VecVirtual) {
	if d.wide() {
		VPTERNLOGD_BCST(U8(0x96), key, a, dst)
		return
	}
	VPXOR(key, dst, dst)
	VPXOR(a, dst, dst)
}
