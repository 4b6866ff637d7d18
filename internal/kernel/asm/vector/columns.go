package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func columns(m machine) {
	addBias(m, "addBias", "sets dst to x + bias.", 4, func() func(v []reg.VecVirtual) {
		return func([]reg.VecVirtual) {}
	})
	addBias(m, "addBiasRelu", "sets dst to relu(x + bias).", 4, func() func(v []reg.VecVirtual) {
		zero := m.zero()
		return func(v []reg.VecVirtual) {
			for _, v := range v {
				VMAXPS(v, zero, v)
			}
		}
	})
	addBias(m, "addBiasGelu", "sets dst to gelu(x + bias).", expBlock, func() func(v []reg.VecVirtual) {
		g := m.geluConstants()
		return func(v []reg.VecVirtual) { m.gelu(g, v) }
	})

	m.kernel("copyColumns", "func(dst, src []float32, rows, cols, ldd, lds int)", "copies rows of cols columns.", func() {
		dst, src, n, cols := base("dst"), base("src"), integer("rows"), integer("cols")
		to, from := bytes(integer("ldd")), bytes(integer("lds"))
		tail := m.tailMask(cols)
		rows(n, to, []reg.Register{dst}, func() {
			m.blocks(cols, 4, tail, func(b block) { b.stores(b.loads(src), dst) })
			ADDQ(from, src)
		})
	})

	m.kernel("colSum", "func(acc, x []float32, rows, cols, ld int)", "adds each column of x to acc, rows ascending.", func() {
		acc, x := base("acc"), base("x")
		n, cols, stride := integer("rows"), integer("cols"), bytes(integer("ld"))
		tail := m.tailMask(cols)
		m.rowsByFour(n, stride, []reg.Register{x}, func(group rowGroup) {
			m.blocks(cols, 2, tail, func(b block) {
				row := group.at(b, x)
				sum := b.loads(acc)
				for r := range group.rows {
					for j, sum := range sum {
						VADDPS(b.loadFrom(row(r, j)), sum, sum)
					}
				}
				b.stores(sum, acc)
			})
		})
	})
}

// addBias emits a kernel over rows that adds a bias and applies what activation returns.
func addBias(m machine, name, doc string, u int, activation func() func(v []reg.VecVirtual)) {
	m.kernel(name, "func(dst, x, bias []float32, rows, cols, ld int)", doc, func() {
		dst, x, bias := base("dst"), base("x"), base("bias")
		n, cols, stride := integer("rows"), integer("cols"), bytes(integer("ld"))
		tail := m.tailMask(cols)
		activate := activation()
		rows(n, stride, []reg.Register{dst, x}, func() {
			m.blocks(cols, u, tail, func(b block) {
				v := b.loads(x)
				for j, v := range v {
					VADDPS(b.load(bias, j), v, v)
				}
				activate(v)
				b.stores(v, dst)
			})
		})
	})
}

// A rowGroup is a few rows that column reductions process together, so that an
// accumulator is loaded and stored once for all of them while memory is still
// read in long runs.
type rowGroup struct {
	rows           int
	stride, triple reg.Register // one and three rows in bytes
}

// rowsByFour emits body for groups of four rows and again for single rows.
func (m machine) rowsByFour(n, stride reg.Register, pointers []reg.Register, body func(rowGroup)) {
	triple, quadruple := GP64(), GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, triple)
	MOVQ(stride, quadruple)
	SHLQ(U8(2), quadruple)

	groups := GP64()
	MOVQ(n, groups)
	SHRQ(U8(2), groups)
	rows(groups, quadruple, pointers, func() { body(rowGroup{4, stride, triple}) })
	ANDQ(I32(3), n)
	rows(n, stride, pointers, func() { body(rowGroup{1, nil, nil}) })
}

// at returns the address of vector j of the block in row r of the group at p.
func (g rowGroup) at(b block, p reg.Register) func(r, j int) Mem {
	if g.rows == 1 {
		return func(_, j int) Mem { return b.at(p, j) }
	}
	column := GP64()
	LEAQ(b.at(p, 0), column)
	return func(r, j int) Mem {
		a := Mem{Base: column, Disp: 4 * j * b.lanes}
		switch r {
		case 1, 2:
			a.Index, a.Scale = g.stride, uint8(r)
		case 3:
			a.Index, a.Scale = g.triple, 1
		}
		return a
	}
}
