package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/gotypes"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// An operation has the values that stay the same over the tiles of one call.
type operation struct {
	machine
	b, c              Register // move from panel to panel
	aLine             multiples
	aStep, bStep, ldc Register // in bytes, as aLine
	a, k, bPanel      Op       // in memory: there are not enough registers
	n, cStart, load   Op

	more, cursor, end Op // in memory: the runs, the next one and their end
}

// panels writes the kernel that multiplies one panel of A, at most m.rows
// high, by a row of panels of B, each two vectors wide.
func panels(m machine) {
	TEXT("gemmPanels"+m.name, NOSPLIT, "func(rows, n, k int, a []float32, aLine, aStep int, b []float32, bStep, bPanel int, c []float32, ldc int, load bool, more []int)")
	Doc("gemmPanels"+m.name+" computes rows by n elements of C from k > 0 products each, in tiles.",
		"Element (i,p) of A is a[i*aLine+p*aStep] and (p,j) of B is b[j/w*bPanel+p*bStep+j%w]",
		fmt.Sprintf("for w = %d; whole vectors of B are read. The chain starts from C if load.", 2*m.lanes),
		"It goes on with the runs in more, four ints each: k products, from where A is a[from]",
		"and B is step p = row, as (from, row, k, -).")
	Pragma("noescape")
	rows := Load(Param("rows"), GP64())
	o := operation{
		machine: m,
		aLine:   multiples{one: Load(Param("aLine"), GP64()), three: GP64(), five: GP64()},
		b:       Load(Param("b").Base(), GP64()),
		c:       Load(Param("c").Base(), GP64()),
		aStep:   Load(Param("aStep"), GP64()),
		bStep:   Load(Param("bStep"), GP64()),
		ldc:     Load(Param("ldc"), GP64()),
		n:       place(Param("n")),
		k:       place(Param("k")),
		a:       place(Param("a").Base()),
		bPanel:  place(Param("bPanel")),
		cStart:  place(Param("c").Base()),
		load:    place(Param("load")),
		more:    place(Param("more").Base()),
		cursor:  AllocLocal(8),
		end:     AllocLocal(8),
	}
	end := GP64()
	MOVQ(place(Param("more").Len()), end)
	SHLQ(U8(3), end)
	ADDQ(o.more, end)
	MOVQ(end, o.end)
	for _, step := range []Op{o.aLine.one, o.aStep, o.bStep, o.ldc, o.bPanel} {
		SHLQ(U8(2), step)
	}
	o.aLine.compute()
	o.keepMask(o.n)
	for r := m.rows; r > 1; r-- {
		CMPQ(rows, U8(r))
		JEQ(LabelRef(fmt.Sprintf("rows%d", r)))
	}
	for r := 1; r <= m.rows; r++ {
		Label(fmt.Sprintf("rows%d", r))
		CMPQ(o.n, U8(m.lanes))
		JLE(LabelRef(fmt.Sprintf("tile%dx1", r)))
		o.tile(r, 2)
		o.tile(r, 1)
	}
}

// place returns where a parameter, or a part of it, is on the stack.
func place(c gotypes.Component) Op {
	b, err := c.Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

// tile writes the code for tiles of C that are rows high and width vectors
// wide. It loops over tiles while enough columns are left, then falls through
// to the next narrower width, and returns at the end.
//
// Each of A's elements is broadcast into a register that width multiply-adds
// share. Broadcasts within the multiply-adds would be as fast on a core that
// loads three elements per cycle, but on others there would be too many loads.
func (o operation) tile(rows, width int) {
	name := func(part string) string { return fmt.Sprintf("%s%dx%d", part, rows, width) }
	jump := func(j func(Op), part string) { j(LabelRef(name(part))) }
	vec := o.vec
	take := func(n int) []VecPhysical {
		taken := vec[:n]
		vec = vec[n:]
		return taken
	}
	acc := make([][]VecPhysical, rows)
	for i := range acc {
		acc[i] = take(width)
	}
	b, a := take(width), take(2)
	column := func(at Register, v int) Mem { return Mem{Base: at, Disp: 4 * o.lanes * v} }

	Label(name("tile"))
	row := GP64()
	CMPB(o.load, U8(0))
	jump(JEQ, "zero")
	MOVQ(o.c, row)
	CMPQ(o.n, U8(width*o.lanes))
	jump(JLT, "loadpart")
	for i := range acc {
		for v := range acc[i] {
			VMOVUPS(column(row, v), acc[i][v])
		}
		ADDQ(o.ldc, row)
	}
	jump(JMP, "start")

	Label(name("loadpart"))
	mask := o.kept(b[0])
	for i := range acc {
		for v := range width - 1 {
			VMOVUPS(column(row, v), acc[i][v])
		}
		o.machine.load(column(row, width-1), mask, acc[i][width-1])
		ADDQ(o.ldc, row)
	}
	jump(JMP, "start")

	Label(name("zero"))
	for i := range acc {
		for v := range acc[i] {
			o.zero(acc[i][v])
		}
	}

	Label(name("start"))
	pa, pa7, pb, left := GP64(), GP64(), GP64(), GP64()
	next, last := o.nextTile(rows, width, name)
	MOVQ(o.more, left)
	MOVQ(left, o.cursor)
	MOVQ(o.a, pa)
	MOVQ(o.b, pb)
	MOVQ(o.k, left)
	Label(name("run"))
	if rows > 7 {
		LEAQ(o.aLine.of(6, pa), pa7)
		ADDQ(o.aLine.one, pa7)
	}
	step := func() {
		// If A is a transposed matrix, the next tile's rows are here.
		PREFETCHT0(Mem{Base: pa, Disp: 4 * (2*rows - 1)})
		for v := range b {
			VMOVUPS(column(pb, v), b[v])
		}
		for i := range acc {
			x := a[i%len(a)]
			if i < 7 {
				VBROADCASTSS(o.aLine.of(i, pa), x)
			} else {
				VBROADCASTSS(o.aLine.of(i-7, pa7), x)
			}
			for v := range b {
				VFMADD231PS(b[v], x, acc[i][v])
			}
		}
		ADDQ(o.aStep, pa)
		if rows > 7 {
			ADDQ(o.aStep, pa7)
		}
		ADDQ(o.bStep, pb)
	}
	SUBQ(U8(2), left)
	jump(JLT, "odd")
	Label(name("products"))
	for line := 0; line < 4*o.lanes*width; line += 64 {
		PREFETCHT0(Mem{Base: next, Disp: line})
	}
	ADDQ(o.ldc, next)
	CMPQ(next, last)
	CMOVQGT(last, next)
	step()
	step()
	SUBQ(U8(2), left)
	jump(JGE, "products")
	Label(name("odd"))
	CMPQ(left, I8(-1))
	jump(JNE, "more")
	step()

	Label(name("more"))
	run := left
	MOVQ(o.cursor, run)
	CMPQ(run, o.end)
	jump(JEQ, "finish")
	ADDQ(U8(32), o.cursor)
	MOVQ(Mem{Base: run}, pa)
	SHLQ(U8(2), pa)
	ADDQ(o.a, pa)
	MOVQ(o.bStep, pb)
	IMULQ(Mem{Base: run, Disp: 8}, pb)
	ADDQ(o.b, pb)
	MOVQ(Mem{Base: run, Disp: 16}, left)
	jump(JMP, "run")

	Label(name("finish"))
	MOVQ(o.c, row)
	CMPQ(o.n, U8(width*o.lanes))
	jump(JLT, "storepart")
	for i := range acc {
		for v := range acc[i] {
			VMOVUPS(acc[i][v], column(row, v))
		}
		ADDQ(o.ldc, row)
	}
	ADDQ(o.bPanel, o.b)
	ADDQ(U32(4*width*o.lanes), o.c)
	SUBQ(U8(width*o.lanes), o.n)
	if width == 2 {
		CMPQ(o.n, U8(o.lanes))
		jump(JGT, "tile")
		CMPQ(o.n, U8(0))
		JG(LabelRef(fmt.Sprintf("tile%dx1", rows)))
	}
	VZEROUPPER()
	RET()

	Label(name("storepart"))
	mask = o.kept(b[0])
	for i := range acc {
		for v := range width - 1 {
			VMOVUPS(acc[i][v], column(row, v))
		}
		o.store(acc[i][width-1], mask, column(row, width-1))
		ADDQ(o.ldc, row)
	}
	VZEROUPPER()
	RET()
}

// nextTile returns the places of the next tile of C and of its last row. The
// tile is prefetched row by row, since it cannot begin to multiply before it
// has C.
func (o operation) nextTile(rows, width int, name func(string) string) (next, last GPVirtual) {
	next, last = GP64(), GP64()
	IMUL3Q(U8(rows-1), o.ldc, last)
	LEAQ(Mem{Base: o.c, Disp: 4 * width * o.lanes}, next)
	if width == 2 {
		CMPQ(o.n, U8(2*o.lanes))
		JGT(LabelRef(name("rowwise")))
	}
	MOVQ(o.cStart, next)
	ADDQ(last, next)
	ADDQ(o.ldc, next)
	Label(name("rowwise"))
	ADDQ(next, last)
	return next, last
}

// multiples reach seven places a stride apart from one pointer.
type multiples struct{ one, three, five Register }

func (m multiples) compute() {
	LEAQ(Mem{Base: m.one, Index: m.one, Scale: 2}, m.three)
	LEAQ(Mem{Base: m.one, Index: m.one, Scale: 4}, m.five)
}

func (m multiples) of(i int, from Register) Mem {
	mem := Mem{Base: from}
	switch i {
	case 1, 2, 4:
		mem.Index, mem.Scale = m.one, uint8(i)
	case 3, 6:
		mem.Index, mem.Scale = m.three, uint8(i/3)
	case 5:
		mem.Index, mem.Scale = m.five, 1
	}
	return mem
}
