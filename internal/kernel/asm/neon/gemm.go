package main

import "fmt"

// tileRows and panelVectors are the largest tile of C: 24 accumulators, which hide the latency of four
// multiply-adds a cycle, and four registers of B and of A. By LLVM's models of apple-m1 and neoverse-v1 a
// step takes as long as its multiply-adds alone (TestGemmLoopKeepsUnitsBusy).
const (
	tileRows     = 6
	panelVectors = 4
)

// gemm emits the multiplication of up to tileRows rows of A by panels of B. Elements of A are loaded one
// by one and multiplied by lane, so that A may have any strides. No element outside is read: columns
// that do not fill a vector are tiles of one column, in lane 0.
func gemm() {
	function("gemmPanels", "func(rows, n, k int, a []float32, aLine, aStep int, b []float32, bStep, bPanel int, c []float32, ldc int, load bool, more []int)",
		"is gemmTable.panels.", func() {
			rows := integer("rows")
			g := tiles{
				n: integer("n"), b: base("b"), c: base("c"), line: []reg{base("a")},
				aStep: floats("aStep"), bStep: floats("bStep"), ldc: floats("ldc"),
			}
			aLine := floats("aLine")
			for i := 1; i < tileRows; i++ {
				g.line = append(g.line, sum(g.line[i-1], aLine))
			}
			for r := 1; r < tileRows; r++ {
				do(fmt.Sprintf("CMP $%d, R%%d", r), rows)
				jump("BEQ", fmt.Sprintf("rows%d", r))
			}
			for r := tileRows; r > 0; r-- {
				place(fmt.Sprintf("rows%d", r))
				g.rows(r)
			}
		})
}

// tiles has the values that stay the same over the tiles of one call; b and c move from tile to tile.
type tiles struct {
	n, b, c           reg
	line              []reg // the rows of A
	aStep, bStep, ldc reg   // in bytes
}

// rows emits the tiles of r rows, of four vectors, two, one and single columns, in turn.
func (g tiles) rows(r int) {
	for _, vectors := range []int{panelVectors, 2, 1, 0} {
		columns := max(4*vectors, 1)
		next := label("next")
		do(fmt.Sprintf("CMP $%d, R%%d", columns), g.n)
		jump("BLT", next)
		loop("BGE", func() {
			g.tile(r, vectors)
			if vectors == panelVectors {
				add(floats("bPanel"), g.b)
			} else {
				advance(g.b, 4*columns)
			}
			advance(g.c, 4*columns)
			do(fmt.Sprintf("SUB $%d, R%%d, R%%d", columns), g.n, g.n)
			do(fmt.Sprintf("CMP $%d, R%%d", columns), g.n)
		})
		place(next)
	}
	do("RET")
}

// tile emits a tile of r rows and some vectors, or one column.
func (g tiles) tile(r, vectors int) {
	load, store, width := loadTo, str, vectors
	if vectors == 0 {
		load, store, width = loadLane0To, strLane, 1
	}
	zero, started := label("zero"), label("started")
	acc := make([][]reg, r)
	for i := range acc {
		acc[i] = each(make([]reg, width), func(reg) reg { return vec() })
	}
	do("CBZ R%d, "+zero, boolean("load"))
	row := move(g.c)
	for i := range acc {
		for j, v := range acc[i] {
			load(v, row, 16*j)
		}
		add(g.ldc, row)
	}
	jump("B", started)
	place(zero)
	for i := range acc {
		for _, v := range acc[i] {
			clearTo(v)
		}
	}
	place(started)

	offset, pb, left := gp(), move(g.b), integer("k")
	do("MOVD $0, R%d", offset)
	run, end := base("more"), length("more")
	do("ADD R%d<<3, R%d, R%d", end, run, end)
	done := label("done")
	loop("B", func() {
		repeat(left, func() { g.step(acc, offset, pb, load) })
		do("CMP R%d, R%d", end, run)
		jump("BEQ", done)
		do("MOVD (R%d), R%d", run, offset)
		do("LSL $2, R%d, R%d", offset, offset)
		do("MOVD 8(R%d), R%d", run, left)
		do("MADD R%d, R%d, R%d, R%d", g.bStep, g.b, left, pb)
		do("MOVD 16(R%d), R%d", run, left)
		advance(run, 32)
	})
	place(done)

	row = move(g.c)
	for i := range acc {
		for j, v := range acc[i] {
			store(v, row, 16*j)
		}
		add(g.ldc, row)
	}
}

// step emits the multiply-adds of one element of each row of A with one row of B.
func (g tiles) step(acc [][]reg, offset, pb reg, load func(d, p reg, offset int)) {
	const ahead = 4
	var a []reg
	fetch := func() {
		if i := len(a); i < len(acc) {
			a = append(a, ldrAt(g.line[i], offset))
		}
	}
	for range ahead {
		fetch()
	}
	b := make([]reg, len(acc[0]))
	for j := range b {
		b[j] = vec()
		load(b[j], pb, 16*j)
	}
	for i := range acc {
		for j, v := range acc[i] {
			fmlaLane(v, b[j], lane{a[i], 0})
		}
		fetch()
	}
	add(g.aStep, offset)
	add(g.bStep, pb)
}

// transpose emits the transposition of a matrix whose sides are multiples of 4.
func transpose() {
	function("transposeFours", "func(rows, cols int, src *float32, stride int, dst *float32, ld int)",
		"sets dst[j*ld+i] to src[i*stride+j], for rows and cols that are multiples of 4 and positive.", func() {
			n, src, dst := integer("rows"), pointer("src"), pointer("dst")
			stride, ld := floats("stride"), floats("ld")
			stride4, ld4 := scaled(stride, 2), scaled(ld, 2)
			do("LSR $2, R%d, R%d", n, n)
			repeat(n, func() {
				from, to, m := move(src), move(dst), integer("cols")
				do("LSR $2, R%d, R%d", m, m)
				repeat(m, func() {
					x, row := make([]reg, 4), move(from)
					for i := range x {
						x[i] = ldr(row, 0)
						add(stride, row)
					}
					even, odd := []reg{trn1(x[0], x[1]), trn2(x[0], x[1])}, []reg{trn1(x[2], x[3]), trn2(x[2], x[3])}
					row = move(to)
					for _, v := range []reg{
						trn1Pair(even[0], odd[0]), trn1Pair(even[1], odd[1]),
						trn2Pair(even[0], odd[0]), trn2Pair(even[1], odd[1]),
					} {
						str(v, row, 0)
						add(ld, row)
					}
					advance(from, 16)
					add(ld4, to)
				})
				add(stride4, src)
				advance(dst, 16)
			})
		})
}
