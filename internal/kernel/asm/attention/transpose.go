package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const transposeSignature = "func(rows, cols int, src *float32, stride int, dst *float32, ld int)"

// A transposition processes square blocks of a register's width, along the rows
// first: if rows are pages apart, each page is visited once. Rows and columns
// beyond the edge are never touched: registers of missing rows are zero, and
// masks exclude missing columns.
type transposition struct {
	rows, cols, src, stride, dst, ld Register // strides in bytes
}

func newTransposition() transposition {
	t := transposition{
		Load(Param("rows"), GP64()), GP64(),
		Load(Param("src"), GP64()), Load(Param("stride"), GP64()),
		Load(Param("dst"), GP64()), Load(Param("ld"), GP64()),
	}
	SHLQ(Imm(2), t.stride)
	SHLQ(Imm(2), t.ld)
	return t
}

// blocks emits the loops over the blocks. A row of a block is loaded into each
// x.
func (t transposition) blocks(x []VecPhysical, mask func(), load func(m Mem, r int), shuffle func(), store func(c int, m Mem)) {
	width := len(x)
	from, to, row, step := GP64(), GP64(), GP64(), GP64()
	Label("rows")
	Load(Param("cols"), t.cols)
	MOVQ(t.src, from)
	MOVQ(t.dst, to)
	Label("columns")
	mask()
	for _, x := range x {
		VXORPS(x.AsX(), x.AsX(), x.AsX())
	}
	MOVQ(from, row)
	for r := range width {
		load(Mem{Base: row}, r)
		if r+1 < width {
			CMPQ(t.rows, Imm(uint64(r+1)))
			JE(LabelRef("loaded"))
			ADDQ(t.stride, row)
		}
	}
	Label("loaded")
	shuffle()
	MOVQ(to, row)
	for c := range width {
		store(c, Mem{Base: row})
		if c+1 < width {
			CMPQ(t.cols, Imm(uint64(c+1)))
			JE(LabelRef("stored"))
			ADDQ(t.ld, row)
		}
	}
	Label("stored")
	ADDQ(Imm(uint64(4*width)), from)
	IMUL3Q(Imm(uint64(width)), t.ld, step)
	ADDQ(step, to)
	SUBQ(Imm(uint64(width)), t.cols)
	JG(LabelRef("columns"))
	IMUL3Q(Imm(uint64(width)), t.stride, step)
	ADDQ(step, t.src)
	ADDQ(Imm(uint64(4*width)), t.dst)
	SUBQ(Imm(uint64(width)), t.rows)
	JG(LabelRef("rows"))
	VZEROUPPER()
	RET()
}

func transposeAVX512() {
	TEXT("attentionTransposeAVX512", NOSPLIT, transposeSignature)
	Doc("attentionTransposeAVX512 is attentionTable.transpose.")
	Pragma("noescape")
	x, y := zmm[:16], zmm[16:]
	t := newTransposition()
	t.blocks(x,
		func() { laneMasks(t.cols, K1) },
		func(m Mem, r int) { VMOVUPS_Z(m, K1, x[r]) },
		func() {
			fours(x, y)
			// In lane l, x[4g+c] now has column 4l+c of rows 4g to 4g+3: the
			// rest is a transposition of lanes over g.
			for c := range 4 {
				VSHUFF32X4(Imm(0x88), x[4+c], x[c], y[c])
				VSHUFF32X4(Imm(0x88), x[12+c], x[8+c], y[4+c])
				VSHUFF32X4(Imm(0xdd), x[4+c], x[c], y[8+c])
				VSHUFF32X4(Imm(0xdd), x[12+c], x[8+c], y[12+c])
			}
			for c := range 4 {
				VSHUFF32X4(Imm(0x88), y[4+c], y[c], x[c])
				VSHUFF32X4(Imm(0x88), y[12+c], y[8+c], x[4+c])
				VSHUFF32X4(Imm(0xdd), y[4+c], y[c], x[8+c])
				VSHUFF32X4(Imm(0xdd), y[12+c], y[8+c], x[12+c])
			}
		},
		func(c int, m Mem) { VMOVUPS(x[c], m) })
}

func transposeAVX2() {
	TEXT("attentionTransposeAVX2", NOSPLIT, transposeSignature)
	Doc("attentionTransposeAVX2 is attentionTable.transpose.")
	Pragma("noescape")
	x, y := ymm[:8], ymm[8:]
	mask := y[7] // while loading
	t := newTransposition()
	t.blocks(x,
		func() { laneMask(t.cols, mask) },
		func(m Mem, r int) { VMASKMOVPS(m, mask, x[r]) },
		func() {
			fours(x, y)
			for c := range 4 {
				VPERM2F128(Imm(0x20), x[4+c], x[c], y[c])
				VPERM2F128(Imm(0x31), x[4+c], x[c], y[4+c])
			}
		},
		func(c int, m Mem) { VMOVUPS(y[c], m) })
}

// fours transposes the 4x4 blocks of each four rows of x, lane by lane, using
// y.
func fours(x, y []VecPhysical) {
	for r := 0; r < len(x); r += 2 {
		VUNPCKLPS(x[r+1], x[r], y[r])
		VUNPCKHPS(x[r+1], x[r], y[r+1])
	}
	for g := 0; g < len(x); g += 4 {
		VUNPCKLPD(y[g+2], y[g], x[g])
		VUNPCKHPD(y[g+2], y[g], x[g+1])
		VUNPCKLPD(y[g+3], y[g+1], x[g+2])
		VUNPCKHPD(y[g+3], y[g+1], x[g+3])
	}
}
