package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A lane tree is the order in which a row is summed, the same for all machines.
// A line is 16 elements. Elements of whole blocks go round the tree's lanes,
// later lines go to the first 16 lanes, the last of them filled with zeros, and
// the upper half of the lanes is added to the lower until one is left.
const (
	line       = 16
	wideTree   = 4 * line
	narrowTree = 2 * line // where registers are few
)

// lines calls body for code that sums elements 0..n of a row in a tree of width
// lanes: vector j of a block belongs to accumulator b.first+j. AVX2 has two
// vectors for a line, and processes two at a time. tail is m.tailMask(n), or nil
// to have it made here; AVX2 has other masks.
func (m machine) lines(n reg.Register, width int, tail reg.Register, body func(b block)) {
	if m.wide() {
		if tail == nil {
			tail = m.tailMask(n)
		}
		m.blocks(n, width/line, tail, body)
		return
	}
	const pair = 2
	parts := func(b block) {
		for first := 0; first < b.u; first += pair {
			body(block{machine: m, i: b.i, u: pair, first: first})
		}
	}
	loops(n, []block{{machine: m, u: width / m.lanes}, {machine: m, u: pair}}, parts, func(i, left reg.Register) {
		for first := range pair {
			live := m.greater(m.broadcast(left), lanesFrom0().Offset(4*first*m.lanes))
			body(block{machine: m, i: i, u: 1, live: live, first: first})
		}
	})
}

// accumulators returns n vectors of zeros.
func (m machine) accumulators(n int) []reg.VecVirtual {
	acc := make([]reg.VecVirtual, n)
	for j := range acc {
		acc[j] = m.zero()
	}
	return acc
}

// combine reduces the accumulators and their lanes by op; the result is in lane
// 0 of acc[0].
func (m machine) combine(acc []reg.VecVirtual, op func(a, b, dst Op)) reg.VecVirtual {
	for n := len(acc); n > 1; n /= 2 {
		for j := range n / 2 {
			op(acc[j+n/2], acc[j], acc[j])
		}
	}
	v := acc[0]
	if m.wide() {
		op(m.upperHalf(v), v.AsY(), v.AsY())
	}
	x := XMM()
	VEXTRACTF128(U8(1), v.AsY(), x)
	op(x, v.AsX(), v.AsX())
	VMOVHLPS(v.AsX(), v.AsX(), x)
	op(x, v.AsX(), v.AsX())
	VMOVSHDUP(v.AsX(), x)
	op(x, v.AsX(), v.AsX())
	return v
}

func addOp(a, b, dst Op) { VADDPS(a, b, dst) }
func maxOp(a, b, dst Op) { VMAXPS(a, b, dst) }

const rowBlock = 4

func rowReductions(m machine) {
	m.kernel("rowMax", "func(x []float32) float32", "returns the largest element, NaNs left out, or -Inf.", func() {
		x, n := base("x"), length("x")
		lowest := m.registerOf(0xff800000)
		acc := make([]reg.VecVirtual, rowBlock)
		for j := range acc {
			acc[j] = m.vec()
			VMOVAPS(lowest, acc[j])
		}
		m.blocks(n, rowBlock, m.tailMask(n), func(b block) {
			for j := range b.u {
				v := b.load(x, j)
				b.fill(v, lowest)
				VMAXPS(acc[j], v, acc[j]) // acc if v is NaN
			}
		})
		m.returnScalar(m.combine(acc, maxOp))
	})

	m.kernel("rowSum", "func(x []float32) float32", "returns the sum.", func() {
		x, n := base("x"), length("x")
		acc := m.accumulators(wideTree / m.lanes)
		m.lines(n, wideTree, nil, func(b block) { b.addTo(acc[b.first:], x) })
		m.returnScalar(m.combine(acc, addOp))
	})

	m.kernel("dot", "func(a, b []float32) float32", "returns the inner product over len(a).", func() {
		a, other, n := base("a"), base("b"), length("a")
		acc := m.accumulators(wideTree / m.lanes)
		m.lines(n, wideTree, nil, func(b block) {
			for j, acc := range acc[b.first:][:b.u] {
				VFMADD231PS(b.load(a, j), b.load(other, j), acc)
			}
		})
		m.returnScalar(m.combine(acc, addOp))
	})

	m.kernel("sumSquares", "func(x []float32) float64", "returns the sum of squares.", func() { sumSquares(m) })
	m.kernel("nonFinite", "func(x []float32) int", "returns the start of the first block with a NaN or an infinity, or -1.",
		func() { nonFinite(m) })
}

func sumSquares(m machine) {
	x, n := base("x"), length("x")
	acc := m.doubleAccumulators()
	m.lines(n, wideTree, nil, func(b block) {
		for j := range b.u {
			v, lower, upper := b.load(x, j), m.vec(), m.vec()
			VCVTPS2PD(m.half(v), lower)
			VCVTPS2PD(m.upperHalf(v), upper)
			m.addSquare(lower, acc[2*(b.first+j)])
			m.addSquare(upper, acc[2*(b.first+j)+1])
		}
	})
	for n := len(acc); n > 1; n /= 2 {
		for j := range n / 2 {
			VADDPD(acc[j+n/2], acc[j], acc[j])
		}
	}
	v, x1 := acc[0].(reg.VecVirtual), XMM()
	if m.wide() {
		VADDPD(m.upperHalf(v), v.AsY(), v.AsY())
	}
	VEXTRACTF128(U8(1), v.AsY(), x1)
	VADDPD(x1, v.AsX(), v.AsX())
	VUNPCKHPD(v.AsX(), v.AsX(), x1)
	VADDSD(x1, v.AsX(), v.AsX())
	VMOVSD(v.AsX(), place(ReturnIndex(0)))
}

// doubleAccumulators returns zeros for a wide tree of float64s: two vectors for
// each of float32s. That is all that AVX2 has, so its last line is in memory.
func (m machine) doubleAccumulators() []Op {
	acc := make([]Op, 2*wideTree/m.lanes)
	for j := range acc {
		if j >= 12 {
			acc[j] = AllocLocal(4 * m.lanes)
			VMOVUPD(acc[0], acc[j])
			continue
		}
		acc[j] = m.zero()
	}
	return acc
}

// addSquare adds v*v to an accumulator.
func (m machine) addSquare(v reg.VecVirtual, acc Op) {
	if !IsMem(acc) {
		VFMADD231PD(v, v, acc)
		return
	}
	sum := m.vec()
	VMOVUPD(acc, sum)
	VFMADD231PD(v, v, sum)
	VMOVUPD(sum, acc)
}

// nonFinite compares the largest bits of a block, without their signs, with
// those of the largest finite number.
func nonFinite(m machine) {
	x, n := base("x"), length("x")
	magnitude, largest := m.registerOf(0x7fffffff), m.registerOf(0x7f7fffff)
	found := GP64()
	m.blocks(n, rowBlock, m.tailMask(n), func(b block) {
		MOVQ(b.i, found)
		v := b.loads(x)
		for _, v := range v {
			m.and(magnitude, v, v)
		}
		for _, w := range v[1:] {
			VPMAXSD(w, v[0], v[0])
		}
		if k := m.greater(v[0], largest); m.wide() {
			KORTESTW(k, k)
		} else {
			VPTEST(k, k)
		}
		JNZ(LabelRef("end"))
	})
	MOVQ(I32(-1), found)
	Label("end")
	Store(found, ReturnIndex(0))
}
