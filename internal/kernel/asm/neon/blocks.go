package main

import (
	"fmt"
	"maps"
	"math"
)

// A block is the unit that a function's body processes: u vectors, or vector j of them, side by side
// from byte i. If partial is set, it is the last vector, of which only that many lanes exist.
type block struct {
	i       reg
	u, j    int
	partial *reg
	places  map[reg]reg // of the block behind pointers
}

// blocks emits body for code that covers the elements 0..n: blocks of the given numbers of vectors, in
// descending order, and the rest.
func blocks(n reg, sizes []int, body func(b block)) {
	i, left := gp(), move(n)
	do("MOVD $0, R%d", i)
	for _, u := range sizes {
		blocksOf(u, i, left, func() { body(block{i, u, 0, nil, map[reg]reg{}}) })
	}
	skipIfZero(left, func() { body(block{i, 1, 0, &left, map[reg]reg{}}) })
}

// blocksOf emits a loop over blocks of u vectors while as much is left.
func blocksOf(u int, i, left reg, body func()) {
	while(left, 4*u, func() {
		body()
		advance(i, 16*u)
	})
}

// while emits a loop that runs body and takes n from left while there is as much.
func while(left reg, n int, body func()) {
	done := label("done")
	take := fmt.Sprintf("SUBS $%d, R%%d, R%%d", n)
	do(take, left, left)
	jump("BLT", done)
	loop("BGE", func() {
		body()
		do(take, left, left)
	})
	place(done)
	advance(left, n)
}

// flat emits a kernel over the elements of its first parameter, as eachVector.
func flat(name string, u int, prepare func() func(b block) reg) { kernel(name, eachVector(u, prepare)) }

// eachVector is code over the elements of a function's first parameter, in blocks of u vectors: body
// returns what to store there for each vector.
func eachVector(u int, prepare func() (body func(b block) reg)) func() {
	return func() {
		to, n := base(order[0]), length(order[0])
		body := prepare()
		blocks(n, []int{u, 1}, func(b block) {
			for _, v := range b.vectors() {
				v.store(body(v), to)
			}
		})
	}
}

// rows emits body once for each of n rows; then the pointers advance by their strides, in bytes.
func rows(n reg, streams []stream, body func()) {
	skipIfZero(n, func() {
		repeat(n, func() {
			body()
			for _, s := range streams {
				add(s.stride, s.p)
			}
		})
	})
}

// A stream is a pointer that moves by a stride, in bytes, from row to row.
type stream struct{ p, stride reg }

// vectors returns the block's vectors.
func (b block) vectors() []block {
	v := make([]block, b.u)
	for j := range v {
		v[j] = b
		v[j].j = j
	}
	return v
}

// at returns the place of the block behind a pointer.
func (b block) at(p reg) reg {
	at, ok := b.places[p]
	if !ok {
		at = sum(p, b.i)
		b.places[p] = at
	}
	return at
}

// below emits body for n > 0 rows of the block of columns, with the streams' places there.
func (b block) below(n reg, streams []stream, body func(b block)) {
	left, below := move(n), b
	below.places = maps.Clone(b.places)
	for _, s := range streams {
		below.places[s.p] = move(b.at(s.p))
	}
	repeat(left, func() {
		body(below)
		for _, s := range streams {
			add(s.stride, below.places[s.p])
		}
	})
}

// load returns the vector behind p, zero in lanes that do not exist.
func (b block) load(p reg) reg {
	if b.partial == nil {
		return ldr(b.at(p), 16*b.j)
	}
	v := vec()
	loadLane0To(v, b.at(p), 0)
	b.others(p, func(n int, at reg) { loadLane(v, n, at) })
	return v
}

// store writes the lanes that exist.
func (b block) store(v, p reg) {
	if b.partial == nil {
		str(v, b.at(p), 16*b.j)
		return
	}
	strLane(v, b.at(p), 0)
	b.others(p, func(n int, at reg) { storeLane(v, n, at) })
}

// others emits f for the lanes 1 and 2 that exist.
func (b block) others(p reg, f func(n int, at reg)) {
	end, at := label("lanes"), move(b.at(p))
	advance(at, 4)
	do("CMP $2, R%d", *b.partial)
	jump("BLT", end)
	f(1, at)
	jump("BEQ", end)
	f(2, at)
	place(end)
}

// kill zeroes the lanes that do not exist.
func (b block) kill(v reg) reg {
	if b.partial == nil {
		return v
	}
	return and(v, b.mask())
}

// mask has ones in the lanes that exist, fewer than 4.
func (b block) mask() reg {
	count := splatInteger(*b.partial)
	return cmhi(count, laneNumbers())
}

// laneNumbers returns the integers 0 to 3.
func laneNumbers() reg {
	numbers := make([]float32, 4)
	for i := range numbers {
		numbers[i] = math.Float32frombits(uint32(i))
	}
	return constant(numbers...)[0].of
}

// loads returns the block's vectors behind p.
func (b block) loads(p reg) []reg { return each(b.vectors(), func(v block) reg { return v.load(p) }) }

func (b block) stores(v []reg, p reg) {
	for j, x := range b.vectors() {
		x.store(v[j], p)
	}
}

// parameter loads the block's vectors of a slice of one value for each column.
func (b block) parameter(name string) []reg { return b.loads(base(name)) }

func zeros(n int) []reg {
	v := make([]reg, n)
	for j := range v {
		v[j] = zero()
	}
	return v
}

// panelElements is the approximate size of a panel; least is its least number of rows.
const panelElements = 1024

// panels emits code for a matrix of rows by cols: prepare for every block of columns of every panel of
// rows that are near each other in memory, the function that it returns first for every row of the
// block, and the second one, if any, after that. It leaves the streams behind the matrix.
func panels(streams []stream, sizes []int, least int, prepare func(b block) (row func(b block), end func())) {
	left, cols, high := integer("rows"), integer("cols"), gp()
	do(fmt.Sprintf("MOVD $%d, R%%d", panelElements), high)
	do("UDIV R%d, R%d, R%d", cols, high, high)
	advance(high, least)
	skipIfZero(left, func() {
		loop("BNE", func() {
			do("CMP R%d, R%d", high, left)
			do("CSEL LT, R%d, R%d, R%d", left, high, high)
			blocks(cols, sizes, func(b block) {
				row, end := prepare(b)
				b.below(high, streams, row)
				if end != nil {
					end()
				}
			})
			for _, s := range streams {
				do("MADD R%d, R%d, R%d, R%d", high, s.p, s.stride, s.p)
			}
			do("SUBS R%d, R%d, R%d", high, left, left)
		})
	})
}
