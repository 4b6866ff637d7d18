package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const mulSignature = "func(n, k int, a *float32, ars, acs int, b *float32, brs int, c *float32, ldc int, accumulate bool)"

// A product is the state of a kernel that computes a panel of a few rows of
// C = A B or C += A B without packing: elements of A are broadcast from their
// places, and rows of B are loaded as they are.
type product struct {
	rows          int
	n             Register // remaining columns
	bTop, c       Register // row 0 of B and of C, from the first remaining column
	acs, brs, ldc Register // in bytes
	a, b          Register // row 0, column p of A and row p of B, in the loop over k
	x             [8]Mem   // column p of A, row by row
	left          Register // remaining steps of k
	row           Register // of C
}

func newProduct(rows int) *product {
	p := &product{
		rows: rows,
		n:    Load(Param("n"), GP64()),
		bTop: Load(Param("b"), GP64()), c: Load(Param("c"), GP64()),
		acs: Load(Param("acs"), GP64()), brs: Load(Param("brs"), GP64()), ldc: Load(Param("ldc"), GP64()),
		a: GP64(), b: GP64(), left: GP64(), row: GP64(),
	}
	for _, stride := range []Register{p.acs, p.brs, p.ldc} {
		SHLQ(Imm(2), stride)
	}
	// Row 6, for example, is a + 2*(3*ars): five registers reach eight rows.
	ars := Load(Param("ars"), GP64())
	SHLQ(Imm(2), ars)
	odd := map[int]Register{1: ars}
	for _, times := range []int{3, 5, 7} {
		if times >= rows {
			continue
		}
		r := GP64()
		switch times {
		case 3:
			LEAQ(Mem{Base: ars, Index: ars, Scale: 2}, r)
		case 5:
			LEAQ(Mem{Base: ars, Index: ars, Scale: 4}, r)
		case 7:
			LEAQ(Mem{Base: odd[3], Index: ars, Scale: 4}, r)
		}
		odd[times] = r
	}
	p.x[0] = Mem{Base: p.a}
	for r := 1; r < rows; r++ {
		times, scale := r, 1
		for times%2 == 0 {
			times, scale = times/2, scale*2
		}
		p.x[r] = Mem{Base: p.a, Index: odd[times], Scale: uint8(scale)}
	}
	return p
}

// A strip is a number of columns of C that a pass over k computes: its
// registers of accumulators, loads of rows of B and accesses to rows of C.
type strip struct {
	name  string
	regs  int
	acc   func(r, j int) VecPhysical
	b     func(j int) VecPhysical
	x     VecPhysical // the broadcast element of A
	load  func(m Mem, j int, to VecPhysical)
	store func(from VecPhysical, m Mem, j int)
	bytes int // of a register
}

// pass emits one pass over k: accumulators start from C or from zero, add the
// products in ascending order, and are stored to C.
func (p *product) pass(s strip) {
	Commentf("%s", s.name)
	accumulate := Load(Param("accumulate"), GP8())
	TESTB(accumulate, accumulate)
	JNE(LabelRef(s.name + "_from_c"))
	for r := range p.rows {
		for j := range s.regs {
			VXORPS(s.acc(r, j).AsX(), s.acc(r, j).AsX(), s.acc(r, j).AsX())
		}
	}
	JMP(LabelRef(s.name + "_started"))
	Label(s.name + "_from_c")
	p.eachC(s, func(r, j int, m Mem) { s.load(m, j, s.acc(r, j)) })
	Label(s.name + "_started")

	Load(Param("a"), p.a)
	Load(Param("k"), p.left)
	MOVQ(p.bTop, p.b)
	Label(s.name + "_k")
	for j := range s.regs {
		s.load(Mem{Base: p.b, Disp: j * s.bytes}, j, s.b(j))
	}
	ADDQ(p.brs, p.b)
	for r := range p.rows {
		VBROADCASTSS(p.x[r], s.x)
		for j := range s.regs {
			VFMADD231PS(s.b(j), s.x, s.acc(r, j))
		}
	}
	ADDQ(p.acs, p.a)
	DECQ(p.left)
	JNE(LabelRef(s.name + "_k"))
	p.eachC(s, func(r, j int, m Mem) { s.store(s.acc(r, j), m, j) })
}

// eachC loops over the accumulators' places in C.
func (p *product) eachC(s strip, f func(r, j int, m Mem)) {
	MOVQ(p.c, p.row)
	for r := range p.rows {
		for j := range s.regs {
			f(r, j, Mem{Base: p.row, Disp: j * s.bytes})
		}
		if r+1 < p.rows {
			ADDQ(p.ldc, p.row)
		}
	}
}

// skip advances to the next columns. The flags belong to the remaining
// columns.
func (p *product) skip(columns int) {
	ADDQ(U32(4*columns), p.bTop)
	ADDQ(U32(4*columns), p.c)
	SUBQ(U32(columns), p.n)
}

// mulAVX512 processes 32 columns at a time, or 16 if no more are left. With
// eight rows that is ten loads for sixteen multiply-adds, which suits two loads
// and two multiply-adds per cycle, in more chains than their latency of four.
func mulAVX512(rows int) {
	TEXT(fmt.Sprintf("attentionMul%dAVX512", rows), NOSPLIT, mulSignature)
	Doc(fmt.Sprintf("attentionMul%dAVX512 is attentionTable.mul for m = %d.", rows, rows))
	Pragma("noescape")
	p := newProduct(rows)
	masks := []OpmaskPhysical{K1, K2}
	s := strip{
		acc:   func(r, j int) VecPhysical { return zmm[2*r+j] },
		b:     func(j int) VecPhysical { return zmm[16+j] },
		x:     Z18,
		load:  func(m Mem, j int, to VecPhysical) { VMOVUPS_Z(m, masks[j], to) },
		store: func(from VecPhysical, m Mem, j int) { VMOVUPS(from, masks[j], m) },
		bytes: 64,
	}

	Label("columns")
	laneMasks(p.n, masks...)
	CMPQ(p.n, Imm(16))
	JLE(LabelRef("narrow"))

	s.name, s.regs = "wide", 2
	p.pass(s)
	p.skip(32)
	JG(LabelRef("columns"))
	VZEROUPPER()
	RET()

	Label("narrow")
	s.name, s.regs = "narrow", 1
	p.pass(s)
	VZEROUPPER()
	RET()
}

// mulAVX2 processes 16 columns at a time and the rest in eights, with masks.
func mulAVX2(rows int) {
	TEXT(fmt.Sprintf("attentionMul%dAVX2", rows), NOSPLIT, mulSignature)
	Doc(fmt.Sprintf("attentionMul%dAVX2 is attentionTable.mul for m = %d.", rows, rows))
	Pragma("noescape")
	p := newProduct(rows)
	mask := Y11
	s := strip{
		acc:   func(r, j int) VecPhysical { return ymm[2*r+j] },
		b:     func(j int) VecPhysical { return ymm[8+j] },
		x:     Y10,
		bytes: 32,
	}

	CMPQ(p.n, Imm(16))
	JL(LabelRef("rest"))
	Label("columns")
	s.name, s.regs = "wide", 2
	s.load = func(m Mem, _ int, to VecPhysical) { VMOVUPS(m, to) }
	s.store = func(from VecPhysical, m Mem, _ int) { VMOVUPS(from, m) }
	p.pass(s)
	p.skip(16)
	CMPQ(p.n, Imm(16))
	JGE(LabelRef("columns"))
	Label("rest")
	TESTQ(p.n, p.n)
	JE(LabelRef("done"))

	Label("eights")
	laneMask(p.n, mask)
	s.name, s.regs = "narrow", 1
	s.load = func(m Mem, _ int, to VecPhysical) { VMASKMOVPS(m, mask, to) }
	s.store = func(from VecPhysical, m Mem, _ int) { VMASKMOVPS(from, mask, m) }
	p.pass(s)
	p.skip(8)
	JG(LabelRef("eights"))
	Label("done")
	VZEROUPPER()
	RET()
}
