package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A panel is the unit in which kernels with parameters for each column traverse
// a matrix: some rows at a time, all vectors of a column one below the other,
// so that parameters are loaded (and derived values computed) once for those
// rows, which are few enough to be near each other in memory.

// repeat emits a loop that runs body n > 0 times. It overwrites n.
func repeat(n reg.Register, body func()) {
	top := label("repeat")
	Label(top)
	body()
	DECQ(n)
	JNZ(LabelRef(top))
}

// below emits body for n > 0 rows of the block b of columns: its argument is
// the block in the row, ld elements after the row before. n is a register or
// memory.
func (b block) below(n Op, ld Op, body func(b block)) {
	at, count := GP64(), GP64()
	MOVQ(b.i, at)
	MOVQ(n, count)
	repeat(count, func() {
		b.i = at
		body(b)
		ADDQ(ld, at)
	})
}

// panelElements is the approximate size of a panel; least is its least number
// of rows.
const panelElements = 1024

// panels emits code for a (rows, cols) matrix: prepare for every block of u
// vectors of columns of every panel, and the function that it returns for every
// row of the panel. The pointers advance after each panel.
func (m machine) panels(pointers []reg.Register, u, least int, prepare func(b block) func(b block)) {
	left, cols := integer("rows"), integer("cols")
	tail := m.tailMask(cols)
	high := GP64()
	MOVQ(U32(panelElements), reg.RAX)
	XORL(reg.EDX, reg.EDX)
	DIVQ(cols)
	ADDQ(I32(least), reg.RAX)
	MOVQ(reg.RAX, high)

	top, done := label("panel"), label("panels")
	Label(top)
	CMPQ(left, high)
	CMOVQLT(left, high)
	TESTQ(high, high)
	JLE(LabelRef(done))
	m.blocks(cols, u, tail, func(b block) { b.below(high, cols, prepare(b)) })
	SUBQ(high, left)
	step := GP64()
	MOVQ(high, step)
	IMULQ(cols, step)
	for _, p := range pointers {
		LEAQ(Mem{Base: p, Index: step, Scale: 4}, p)
	}
	JMP(LabelRef(top))
	Label(done)
}

// parameter loads the block's vectors of a slice of one value for each column.
func (b block) parameter(name string) []reg.VecVirtual { return b.loads(base(name)) }

// operands returns the same vectors, for AVX2 in memory where it can have them,
// since it has few registers.
func (b block) operands(name string) []Op {
	p := base(name)
	v := make([]Op, b.u)
	for j := range v {
		if b.wide() || b.live != nil {
			v[j] = b.load(p, j)
		} else {
			v[j] = b.at(p, j)
		}
	}
	return v
}
