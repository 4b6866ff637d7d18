package program

import (
	"slices"

	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// Kind is why parts of a stage send each other something.
type Kind uint8

const (
	RowsOfImages Kind = iota // of images, with accumulators that go around: see [Stage.Divide]
	EdgeValues               // what has come over the stage's edge, from the first part to the others
	AllReduced               // summands of a result, and their sums
	AllGathered              // parts of a value that all get whole, from each to all others
	TakenInTurns             // sums that go from part to part
	Kinds                    // is their number
)

// transfer copies equal runs of floats, or of bfloat16 values, from one part's memory to
// another's, or within one.
type transfer struct {
	to, from         int
	dst, src         *graph.Node
	first, start     int // floats within them
	floats, times    int
	stride, distance int // between the times, in dst and in src
	runs             int // how many transfers, moved one by one, this stands for
	narrow           bool
}

// goesOn makes the transfer do what another does as well, and reports whether it can: one of as much between
// the same values, as far from the last.
func (t *transfer) goesOn(o *transfer) bool {
	if o.times != 1 || o.floats != t.floats || o.to != t.to || o.from != t.from || o.dst != t.dst || o.src != t.src {
		return false
	}
	if t.times == 1 {
		t.stride, t.distance = o.first-t.first, o.start-t.start
	}
	if o.first != t.first+t.times*t.stride || o.start != t.start+t.times*t.distance {
		return false
	}
	t.times++
	t.runs++
	return true
}

// bytes is what is copied.
func (t *transfer) bytes() int64 {
	if t.narrow {
		return 2 * int64(t.floats) * int64(t.times)
	}
	return 4 * int64(t.floats) * int64(t.times)
}

// exchange is copies that the parts make at one place of their programs.
type exchange struct {
	d      *partwise
	kind   Kind
	layer  int
	copies []transfer
	last   map[[2]int]int         // the last of the copies between two parts
	nodes  [][]*graph.Node        // of each part: what is read or made there
	made   []map[*graph.Node]bool // of each part: what is new
}

func (d *partwise) exchange(kind Kind, layer int) *exchange {
	x := &exchange{d: d, kind: kind, layer: layer, last: map[[2]int]int{}, nodes: make([][]*graph.Node, d.count)}
	for range d.count {
		x.made = append(x.made, map[*graph.Node]bool{})
	}
	return x
}

// makes says that a value is new on a part.
func (x *exchange) makes(n *graph.Node, part int) {
	x.made[part][n] = true
	x.uses(n, part)
}

func (x *exchange) uses(n *graph.Node, part int) {
	if !slices.Contains(x.nodes[part], n) {
		x.nodes[part] = append(x.nodes[part], n)
	}
}

// move adds a transfer, to the last between its parts if that goes on: images by the hundred have millions
// of runs. It must not read what another part gets in this exchange.
func (x *exchange) move(t transfer) {
	if t.floats*t.times == 0 {
		return
	}
	between := [2]int{t.to, t.from}
	if last, has := x.last[between]; has && x.copies[last].goesOn(&t) {
		return
	}
	t.narrow, t.runs = x.d.store.narrow(t.src), 1
	x.uses(t.src, t.from)
	x.uses(t.dst, t.to)
	x.last[between] = len(x.copies)
	x.copies = append(x.copies, t)
}

// rows copies rows of a value: from src on a part, which begins with row start, to dst on
// another, which begins with row first.
func (x *exchange) rows(of *graph.Node, rows Rows, to int, dst *graph.Node, first, from int, src *graph.Node, start int) {
	row := rowFloats(of)
	x.move(transfer{
		to: to, from: from, dst: dst, src: src, floats: rows.Len() * row, times: examples(of),
		first: (rows.From - first) * row, start: (rows.From - start) * row,
		stride: height(dst) * row, distance: height(src) * row,
	})
}

// end makes the exchange an instruction of every part, unless nothing is copied.
func (x *exchange) end() {
	if len(x.copies) == 0 {
		return
	}
	steps := make([]*step, x.d.count)
	for part := range steps {
		call := &graph.Call{Op: op.Exchange{}, Layer: x.layer}
		for _, n := range x.nodes[part] {
			if x.made[part][n] {
				call.Out = append(call.Out, n)
			} else {
				call.In = append(call.In, n)
			}
		}
		steps[part] = stepOf(call)
	}
	x.d.tick(steps, tick{Division: Exchange, copies: x.copies, kind: x.kind})
}

func init() {
	register(func(op.Exchange, *graph.Call) traits { // see lockstepRun.tick
		return traits{kernel: plain(func(*worker, [][]float32, [][]float32, int, int) {})}
	})
}

// bring copies the rows that parts get from others to what they reach, which also gets those
// of their own.
func (d *divider) bring(x *exchange, rows []fetched) {
	for i := 0; i < len(rows); {
		f, next := rows[i], i+1
		for next < len(rows) && rows[next] == (fetched{f.of, f.to, f.from, f.y + next - i}) {
			next++
		}
		b, own := d.reached[f.to][f.of], d.own(f.of, f.to)
		if b.node == nil {
			b.node = only(f.of, b.Len())
			x.makes(b.node, f.to)
			if both := (Rows{max(own.From, b.From), min(own.To, b.To)}); both.Len() > 0 {
				x.rows(f.of, both, f.to, b.node, b.From, f.to, d.primary(f.of, f.to), own.From)
			}
		}
		x.rows(f.of, Rows{f.y, f.y + next - i}, f.to, b.node, b.From, f.from, d.primary(f.of, f.from), d.own(f.of, f.from).From)
		i = next
	}
}
