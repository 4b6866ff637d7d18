package program

import (
	"slices"

	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// The plan of parts of images (see the package comment): which rows of every value each part has,
// what each instruction of a compiled program does on each part, and every byte that goes between
// them. It is pure; nothing here computes.

// Rows are rows of an image, From <= row < To.
type Rows struct{ From, To int }

// Len returns the number of rows.
func (r Rows) Len() int { return max(r.To-r.From, 0) }

// RowsOf returns the rows of an image of the given height that one of the parts has:
// sizes differ by one at most.
func RowsOf(height, part, parts int) Rows {
	return Rows{height * part / parts, height * (part + 1) / parts}
}

// Division says what the parts do at an instruction.
type Division uint8

const (
	// Alone runs on part 0, which gets the rows that the others have of its inputs: what
	// has no rule here, and images with fewer rows than there are parts.
	Alone Division = iota
	// ByRows: each part computes its rows of the result.
	ByRows
	// Partial: each part sums over its rows, and the parts' sums are added up: gradients
	// of weights.
	Partial
	// Chunked: each part has the chunks of rows of a batch norm that begin in its rows,
	// and all parts get the results of all chunks.
	Chunked
	// Everywhere: all parts do the same, from values that all have.
	Everywhere
	// Exchange: each part copies what it lacks from the others. Only divided programs have
	// such instructions (Stage.Divide), no Piece.
	Exchange
	// Divided: each part computes its units of the result, or the summand of its units. It and
	// InTurns are of [Stage.Split] alone.
	Divided
	// InTurns: each part goes on from the sums of the part before.
	InTurns

	// Divisions is the number of those of parts of images.
	Divisions = int(Exchange) + 1
)

func (d Division) String() string {
	return [...]string{"alone", "by rows", "partial", "chunked", "everywhere", "exchange", "divided", "in turns"}[d]
}

// Traffic has the bytes that parts get from each other, [to][from]. It is nil if there are
// none.
type Traffic [][]int64

// Total is the sum over all pairs.
func (t Traffic) Total() (sum int64) {
	for _, from := range t {
		for _, n := range from {
			sum += n
		}
	}
	return sum
}

// Most is the most that goes from one part to one other.
func (t Traffic) Most() (most int64) {
	for _, from := range t {
		most = max(most, slices.Max(from))
	}
	return most
}

func (t *Traffic) add(parts, to, from int, bytes int64) {
	if bytes == 0 || to == from {
		return
	}
	if *t == nil {
		*t = make(Traffic, parts)
		for i := range *t {
			(*t)[i] = make([]int64, parts)
		}
	}
	(*t)[to][from] += bytes
}

// Piece is an instruction as the parts run it.
type Piece struct {
	Division
	// Rows are those that each part computes, or sums over; nil if there is nothing to
	// divide by rows.
	Rows []Rows
	// Small says that the instruction is alone only because its images have fewer rows
	// than there are parts.
	Small bool
	// Before has what goes between the parts before the instruction: halos, the pixels of
	// chunks that reach into another part, or the rows that part 0 gathers.
	Before Traffic
	// Handed has the rows that part 0 hands out before it, of a value that was computed there.
	Handed Traffic
	// After is the exchange of the statistics of chunks.
	After Traffic
	// Sum is the size of what the parts of Partial add up, in bytes.
	Sum int64
}

// Spatial is a program divided over parts.
type Spatial struct {
	Pieces []Piece // of each instruction
	// Parts has for each part the instructions that it runs, with its own rows. They are
	// for costs, and do not run. Index has their places in the whole program.
	Parts []*Program
	Index [][]int
}

// Spatial divides the stage's programs over parts along the rows of images, at least 1:
// those of Keep, Forward if that is nil, and Backward, which is nil if there is none. Of a
// stage that [Stage.Divide] has divided they are the undivided one's.
func (s *Stage) Spatial(parts int) (forward, backward *Spatial) {
	s = s.undivided()
	if s.Keep == nil {
		return s.SpatialForward(parts), nil
	}
	d := s.spatial(parts)
	return d.program(s.Keep), d.program(s.Backward)
}

// SpatialForward is Spatial of Forward alone, which keeps no residuals.
func (s *Stage) SpatialForward(parts int) *Spatial {
	s = s.undivided()
	return s.spatial(parts).program(s.Forward)
}

func (s *Stage) undivided() *Stage {
	if s.whole != nil {
		return s.whole
	}
	return s
}

// spatial knows which part has each of the stage's inputs.
func (s *Stage) spatial(parts int) *spatial {
	d := &spatial{parts: parts, layout: map[*graph.Node]layout{}}
	for _, call := range s.graph.Calls {
		for _, n := range call.In {
			if n.Role == graph.Input && d.image(n) {
				d.layout[n] = byRows
			} else if n.Role == graph.Param || n.Role == graph.Const {
				d.layout[n] = everywhere
			}
		}
	}
	return d
}

// layout says which part has a value.
type layout uint8

const (
	onFirst    layout = iota // part 0 has it all
	given                    // the same, and operations divide it: it has come over the stage's edge
	byRows                   // each has its rows
	everywhere               // all have all of it
)

type spatial struct {
	parts  int
	layout map[*graph.Node]layout
	had    map[*graph.Node][][]bool // of each part, the rows that it has besides its own
	// sent, if not nil, is called with every row of a value that goes between parts.
	sent func(n *graph.Node, to, from, y int)
}

// image reports whether a value is images with enough rows to divide.
func (d *spatial) image(n *graph.Node) bool { return images(n) && n.Shape[1] >= d.parts }

func images(n *graph.Node) bool {
	return len(n.Shape) == 4 && n.DType != graph.I32 && (n.Role == graph.Computed || n.Role == graph.Input)
}

func (d *spatial) program(p *Program) *Spatial {
	d.had = map[*graph.Node][][]bool{}
	s := &Spatial{Parts: make([]*Program, d.parts), Index: make([][]int, d.parts)}
	for i := range s.Parts {
		s.Parts[i] = &Program{Name: p.Name, Span: p.Span, threads: p.threads, scratch: p.scratch}
	}
	for i := range p.Instrs {
		in := &p.Instrs[i]
		rule := in.traits.rule
		piece := d.piece(in, rule)
		s.Pieces = append(s.Pieces, piece)
		for part := range d.parts {
			if local := d.cost(in, rule, piece, part); local != nil {
				s.Parts[part].Instrs = append(s.Parts[part].Instrs, *local)
				s.Index[part] = append(s.Index[part], i)
			}
		}
	}
	return s
}

// rule says how an instruction could be divided.
type rule struct {
	Division
	// needs returns the rows of operand i that the given rows of the result, or of the
	// images that are summed over, need.
	needs func(i int, rows Rows) Rows
	over  *graph.Node // images whose rows are divided: the result, or what is summed over
	// moved returns the op with as many rows before a part's first as the rows that it needs
	// leave; nil: the op has no window.
	moved func(rows Rows) any
	// made returns the rows of the result that the kernel makes for those of a part, which
	// are among them; nil: exactly these.
	made func(rows Rows) Rows
}

func sameRows(_ int, rows Rows) Rows { return rows }

// ownRows is the rule of an op that computes rows of its result from the same rows of its
// inputs.
func ownRows(c *graph.Call) rule { return rule{Division: ByRows, needs: sameRows, over: c.Out[0]} }

// windows is the rule of an op whose result's rows come from windows over the input. Moved
// gives it another number of rows before the first.
func windows(c *graph.Call, r reach, moved func(before int) any) rule {
	return rule{ByRows, func(_ int, rows Rows) Rows { return r.inputs(rows) }, c.Out[0], func(rows Rows) any {
		return moved(r.beforeBand(r.inputs(rows), rows))
	}, nil}
}

// reversed is the rule of a gradient whose rows come from the outputs that see them.
func reversed(c *graph.Call, r reach, moved func(before int) any) rule {
	return rule{ByRows, func(_ int, rows Rows) Rows { return r.outputs(rows) }, c.Out[0], func(rows Rows) any {
		return moved(r.beforeBand(rows, r.outputs(rows)))
	}, nil}
}

// wholeWindows is reversed for a pool, of dy and perhaps x and y, whose gradient depends on
// whole windows: which pixel is the first of the largest, and how many there are. Its
// kernel makes the gradient of all the rows of these windows.
func wholeWindows(c *graph.Call, r reach, moved func(before int) any) rule {
	return rule{ByRows, func(i int, rows Rows) Rows {
		if i == 1 {
			return r.whole(rows)
		}
		return r.outputs(rows)
	}, c.Out[0], func(rows Rows) any {
		return moved(r.beforeBand(r.whole(rows), r.outputs(rows)))
	}, r.whole}
}

// sumOverWindows is the rule of the gradient of a weight, of x and dy.
func sumOverWindows(c *graph.Call, r reach, moved func(before int) any) rule {
	return rule{Partial, func(i int, rows Rows) Rows {
		if i == 0 {
			return r.inputs(rows)
		}
		return rows
	}, c.In[1], func(rows Rows) any { return moved(r.beforeBand(r.inputs(rows), rows)) }, nil}
}

// piece decides what the parts do, and notes where the results are.
func (d *spatial) piece(in *Instr, r rule) Piece {
	s := in.step
	p := Piece{Division: r.Division}
	switch {
	case !slices.ContainsFunc(s.in, func(n *graph.Node) bool { return d.layout[n] != everywhere }):
		p.Division = Everywhere
	case p.Division != Alone && !images(r.over), p.Division == Partial && in.out[0].Space != Grads:
		p.Division = Alone
	case p.Division != Alone && slices.ContainsFunc(append(slices.Clip(s.in), r.over), func(n *graph.Node) bool { return images(n) && !d.image(n) }):
		p.Division, p.Small = Alone, true
	case d.stays(in, r):
		p.Division = Alone
	}
	if p.Division == ByRows || p.Division == Partial || p.Division == Chunked {
		for part := range d.parts {
			p.Rows = append(p.Rows, RowsOf(r.over.Shape[1], part, d.parts))
		}
	}
	d.fetch(in, r, &p)
	to := everywhere
	switch p.Division {
	case Alone:
		to = onFirst
	case ByRows:
		to = byRows
	case Chunked:
		d.chunks(in, r, &p)
	case Partial:
		for _, n := range s.out {
			p.Sum += 4 * int64(n.Elems())
		}
	}
	for _, n := range s.out {
		d.layout[n] = to
	}
	return p
}

// stays reports whether an instruction without windows stays where all its images are: on
// part 0. Handing them out would cost more than it computes.
func (d *spatial) stays(in *Instr, r rule) bool {
	s := in.step
	switch {
	case in.traits.product.ofWeight():
		return false
	case s.call.Op == (op.Copy{}): // of what comes and leaves
		return d.layout[s.in[0]] != byRows
	}
	return r.Division != Alone && !slices.ContainsFunc(s.in, func(n *graph.Node) bool { return d.layout[n] == byRows || d.layout[n] == given })
}

// fetch counts what goes between the parts before the instruction: each gets the rows of
// images that it needs and does not have, from their owners. Rows stay until the end of
// the program.
func (d *spatial) fetch(in *Instr, r rule, p *Piece) {
	for i, n := range in.step.in {
		at := d.layout[n]
		if at == everywhere || p.Division == Everywhere || (at == onFirst || at == given) && p.Division == Alone {
			continue
		}
		row := int64(n.Elems()/height(n)) * in.store.dtype(n).Bytes()
		for part := range d.parts {
			want := Rows{0, height(n)}
			switch {
			case p.Division == Alone && part > 0:
				continue
			case p.Division != Alone && images(n):
				want = r.needs(i, p.Rows[part])
			}
			had := d.rows(n, part)
			for y := want.From; y < want.To; y++ {
				if owner := d.owner(n, y); owner != part && !had[y] {
					had[y] = true
					if d.sent != nil {
						d.sent(n, part, owner, y)
					}
					if at == onFirst || at == given {
						p.Handed.add(d.parts, part, owner, row)
					} else {
						p.Before.add(d.parts, part, owner, row)
					}
				}
			}
		}
	}
}

// rows returns which rows of a value a part has got from others.
func (d *spatial) rows(n *graph.Node, part int) []bool {
	if d.had[n] == nil {
		d.had[n] = make([][]bool, d.parts)
	}
	if d.had[n][part] == nil {
		d.had[n][part] = make([]bool, height(n))
	}
	return d.had[n][part]
}

// owner returns the part that has a row of a value.
func (d *spatial) owner(n *graph.Node, y int) int {
	if d.layout[n] == onFirst || d.layout[n] == given {
		return 0
	}
	return partOf(height(n), y, d.parts)
}

// partOf is the part whose rows of an image a row is among.
func partOf(height, y, parts int) (part int) {
	for y >= RowsOf(height, part, parts).To {
		part++
	}
	return part
}

// chunks counts what the parts exchange for statistics. A chunk is op.NormChunk consecutive
// pixels of all examples, whatever the parts; it is computed by the part
// that has its first pixel, which gets the others, and its result goes to all.
func (d *spatial) chunks(in *Instr, r rule, p *Piece) {
	own := make([]int64, d.parts) // chunks
	d.segments(r.over, func(first bool, to, from, at, end int) {
		if first {
			own[to]++
		}
		for _, n := range in.step.in {
			if images(n) {
				p.Before.add(d.parts, to, from, int64(end-at)*int64(n.Shape.Last())*in.store.dtype(n).Bytes())
			}
		}
	})
	for _, n := range in.step.out {
		each := 4 * int64(n.Elems()/n.Shape[0])
		for to := range d.parts {
			for from := range d.parts {
				p.After.add(d.parts, to, from, own[from]*each)
			}
		}
	}
}

// segments calls f with all pixels of images, in ascending order: those from at to end-1 are
// in one row, which part from has, and of one chunk, which part to computes. First says that
// they are the first of their chunk.
func (d *spatial) segments(of *graph.Node, f func(first bool, to, from, at, end int)) {
	height, width, pixels := of.Shape[1], of.Shape[2], of.Shape.Rows()
	for chunk := 0; chunk < pixels; chunk += op.NormChunk {
		to := partOf(height, chunk/width%height, d.parts)
		for at := chunk; at < min(chunk+op.NormChunk, pixels); {
			end := min((at/width+1)*width, chunk+op.NormChunk, pixels)
			f(at == chunk, to, partOf(height, at/width%height, d.parts), at, end)
			at = end
		}
	}
}

// cost returns the instruction as a part runs it, for its costs; nil if it does not.
func (d *spatial) cost(in *Instr, r rule, p Piece, part int) *Instr {
	switch {
	case p.Division == Alone && part > 0:
		return nil
	case p.Rows == nil:
		return in
	}
	own := p.Rows[part]
	cut := func(n *graph.Node, rows Rows) *graph.Node {
		if !images(n) {
			return n
		}
		return only(n, rows.Len())
	}
	s := *in.step
	call := *s.call
	s.call, s.in, s.out = &call, slices.Clone(s.in), slices.Clone(s.out)
	call.In = slices.Clone(call.In)
	for i, n := range s.in {
		s.in[i] = cut(n, r.needs(i, own))
		if i < len(call.In) {
			call.In[i] = s.in[i]
		}
	}
	for i, n := range s.out {
		if p.Division == Chunked {
			local := *n
			local.Shape = slices.Clone(n.Shape)
			local.Shape[0] = max(1, (n.Shape[0]*own.Len()+r.over.Shape[1]-1)/r.over.Shape[1])
			n = &local
		}
		if p.Division == Partial { // the whole of a weight
			break
		}
		rows := own
		if r.made != nil {
			rows = r.made(own)
		}
		s.out[i] = cut(n, rows)
	}
	call.Out = s.out
	if r.moved != nil {
		call.Op = op.Moved{Of: call.Op, By: r.moved(own)}
	}
	local := *in
	local.step, local.kernel, local.traits = &s, nil, s.traits()
	local.FLOPs = in.share(r, p, part)
	return &local
}

// share returns the FLOPs of a part's rows: exactly its share of the whole, also where a
// halo's rows are among the operands.
func (in *Instr) share(r rule, p Piece, part int) int64 {
	height, own := int64(r.over.Shape[1]), p.Rows[part]
	return in.FLOPs*int64(own.To)/height - in.FLOPs*int64(own.From)/height
}
