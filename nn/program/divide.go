package program

import (
	"fmt"
	"slices"

	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// The programs of a stage's parts. [Stage.Divide] compiles the plan of spatial.go: each part
// gets programs of its own, with memory of its own, whose instructions the parts run in lock
// step: the i-th of one part and the i-th of another belong together. Where a part needs
// rows of another, all of them come to an exchange first, in which every part copies what it
// lacks from where it is, and nobody computes.
//
// What crosses the stage's edge lies on the first part, as it does without parts, and so do
// the accumulators of gradients. Everything else lies where it is computed: a part has its
// own rows of a value in one place, and the rows that an operation needs besides, its own
// included, in another, for as long as operations of the program need them.

// Divide returns the stage for a number of parts, 2 or more: its programs are the first
// part's, and run the others' as well (see [Options.Parts]). It has the places of the undivided
// stage for parameters, accumulators, and all that crosses its edge; Parts has what the other
// parts need. If room is not nil, it is the same stage for larger micro-batches, divided into
// as many parts, and no program spans more than its counterpart there.
//
// It refuses what cannot be divided, and says what would be. As any stage, one whose storage
// is not that of devices that compute here can be planned and costed, but not run.
func (s *Stage) Divide(parts int, room *Stage) (*Stage, error) {
	switch {
	case parts < 2:
		return nil, fmt.Errorf("%d parts of images: want 2 or more", parts)
	case s.Input != nil:
		return nil, fmt.Errorf("parts of images with a backward function in two: want a schedule without W")
	case s.Span[Statistics] > 0:
		return nil, fmt.Errorf("parts of images with statistics over replicas: want those of each replica")
	case s.store().Rounded:
		return nil, fmt.Errorf("parts of images with activations of type %v: want f32", s.store().DType)
	}
	whole := *s
	whole.whole = s
	all := []*Stage{&whole}
	for range parts - 1 {
		all = append(all, &Stage{Params: s.Params, Span: [Spaces]int{Params: s.Span[Params]}})
	}
	whole.Parts = all[1:]
	whole.Span[Workspace], whole.Span[Residual] = 0, 0
	var d *divider
	s.partPrograms(all, room, func(p, like *Program) []*Program {
		if p.Name != backward { // which reads what Keep leaves
			d = newDivider(parts, s.store(), p.threads)
		}
		d.program(p, like)
		if p.Name == keep {
			for part, of := range all {
				of.Span[Residual], of.Saved = d.residual[part], d.saved[part]
				of.SavedIn = [Spaces]map[int]int{Residual: d.saved[part], Lasting: {}}
			}
		}
		return d.done
	})
	return &whole, nil
}

// store returns how the stage's values are stored.
func (s *Stage) store() (of Storage) {
	if len(s.Forward.Instrs) > 0 {
		of = s.Forward.Instrs[0].store.Storage
	}
	return of
}

// partwise makes the programs of parts, one program after another: Backward after the Keep
// whose residuals it reads.
type partwise struct {
	count   int // of the parts
	threads int
	store   *storage
	// Of each part: the places that are known before liveness is.
	fixed []map[*graph.Node]Operand

	// Of the program that is divided now.
	whole *Program
	steps [][]*step // of each part
	ticks []tick

	done []*Program // of all parts
}

// divider makes those of parts that divide images.
type divider struct {
	*partwise
	*spatial
	rows     []map[*graph.Node]*graph.Node // of each part: its rows of the values that are divided
	residual []int                         // the spans of residuals
	saved    []map[int]int                 // by layer

	// Of each part: what it needs of a value beyond its own rows, and copies of other rows.
	reached []map[*graph.Node]*extent
	cut     []map[cutting]*graph.Node
}

// extent is the rows of a value that a part needs during a program, if some of them are not
// its own: all from the first to the last of these.
type extent struct {
	Rows
	node *graph.Node // nil until some of them are here
}

// cutting names rows of a value.
type cutting struct {
	of *graph.Node
	Rows
}

func newDivider(parts int, store Storage, threads int) *divider {
	d := &divider{
		partwise: newPartwise(parts, store, threads), spatial: &spatial{parts: parts, layout: map[*graph.Node]layout{}},
		rows: nodeMaps(parts), residual: make([]int, parts), saved: make([]map[int]int, parts),
	}
	for i := range d.saved {
		d.saved[i] = map[int]int{}
	}
	return d
}

func newPartwise(parts int, store Storage, threads int) *partwise {
	p := &partwise{count: parts, threads: threads, store: newStorage(store), fixed: make([]map[*graph.Node]Operand, parts)}
	for i := range p.fixed {
		p.fixed[i] = map[*graph.Node]Operand{}
	}
	return p
}

// begin starts the parts' programs of a program.
func (d *partwise) begin(p *Program) {
	d.whole, d.ticks, d.done, d.steps = p, nil, nil, make([][]*step, d.count)
}

func nodeMaps(parts int) []map[*graph.Node]*graph.Node {
	m := make([]map[*graph.Node]*graph.Node, parts)
	for i := range m {
		m[i] = map[*graph.Node]*graph.Node{}
	}
	return m
}

// tick is what all parts do at one place of their programs: they exchange rows, or compute.
type tick struct {
	Division
	copies   []transfer // of an Exchange, by receiver
	kind     Kind       // of what is copied or goes around
	examples int        // at which the parts take turns
	from     bool       // their result starts from zero
	flops    []int64    // of each part, of what is divided by rows; nil: of nothing
}

// program divides a program, and leaves the parts' in done. Like, if not nil, is the first
// part's of a larger micro-batch.
func (d *divider) program(p *Program, like *Program) {
	d.partwise.begin(p)
	d.reached, d.cut = make([]map[*graph.Node]*extent, d.parts), make([]map[cutting]*graph.Node, d.parts)
	for i := range d.reached {
		d.reached[i], d.cut[i] = map[*graph.Node]*extent{}, map[cutting]*graph.Node{}
	}
	d.had = map[*graph.Node][][]bool{}
	d.find()
	pieces, got := d.survey()
	for i := range p.Instrs {
		d.instruction(&p.Instrs[i], pieces[i], got[i])
	}
	d.places()
	d.assemble(like)
}

// find notes where the values are that the program finds.
func (d *divider) find() {
	for i := range d.whole.Instrs {
		in := &d.whole.Instrs[i]
		for j, n := range in.step.in {
			switch at := in.in[j]; {
			case at.Space == Params:
				d.layout[n] = everywhere
				for part := range d.parts {
					d.fixed[part][n] = at
				}
			case (at.Space == In || at.Space == DOut) && n.Role == graph.Input:
				d.layout[n] = onFirst
				if d.image(n) {
					d.layout[n] = given
				}
				d.fixed[0][n] = at
			}
		}
	}
}

// fetched is a row that a part gets from another before an instruction.
type fetched struct {
	of          *graph.Node
	to, from, y int
}

// survey decides what the parts do at each instruction, and finds what they need beyond
// their own rows.
func (d *divider) survey() (pieces []Piece, got [][]fetched) {
	got = make([][]fetched, len(d.whole.Instrs))
	for i := range d.whole.Instrs {
		in := &d.whole.Instrs[i]
		r := in.traits.rule
		d.sent = func(n *graph.Node, to, from, y int) { got[i] = append(got[i], fetched{n, to, from, y}) }
		piece := d.piece(in, r)
		pieces = append(pieces, piece)
		for part := range d.parts {
			for j, n := range in.step.in {
				want, any := d.wants(r, piece, part, j, n)
				if own := d.own(n, part); !any || want.Len() == 0 || within(want, own) {
					continue
				}
				if b := d.reached[part][n]; b != nil {
					b.From, b.To = min(b.From, want.From), max(b.To, want.To)
				} else {
					d.reached[part][n] = &extent{Rows: want}
				}
			}
		}
	}
	d.sent = nil
	return pieces, got
}

func within(r, of Rows) bool { return of.From <= r.From && r.To <= of.To }

// wants returns the rows of operand i, which is n, that a part needs at an instruction. Any
// is false if the part has all of it anyway, or does nothing.
func (d *divider) wants(r rule, p Piece, part, i int, n *graph.Node) (want Rows, any bool) {
	switch {
	case d.layout[n] == everywhere, p.Division == Everywhere, p.Division == Alone && part > 0:
		return want, false
	case p.Division != Alone && images(n):
		return r.needs(i, p.Rows[part]), true
	}
	return Rows{0, height(n)}, true
}

// own returns the rows of a value that a part has where the value was computed.
func (d *divider) own(n *graph.Node, part int) Rows {
	switch {
	case d.layout[n] == byRows:
		return RowsOf(height(n), part, d.parts)
	case part == 0:
		return Rows{0, height(n)}
	}
	return Rows{}
}

// height is the number of a value's rows; one that is no image is one row.
func height(n *graph.Node) int {
	if images(n) {
		return n.Shape[1]
	}
	return 1
}

// examples and rowFloats are how often, and how far apart, a value has each of its rows.
func examples(n *graph.Node) int {
	if images(n) {
		return n.Shape[0]
	}
	return 1
}

func rowFloats(n *graph.Node) int { return n.Elems() / max(examples(n)*height(n), 1) }

// only returns the first rows of a value, as a value of its own.
func only(n *graph.Node, rows int) *graph.Node {
	part := *n
	if images(n) {
		part.Shape = slices.Clone(n.Shape)
		part.Shape[1] = rows
	}
	return &part
}

// primary returns a part's own rows of a value, or the value itself where the part has all
// of it.
func (d *divider) primary(n *graph.Node, part int) *graph.Node {
	if d.layout[n] != byRows {
		return n
	}
	if d.rows[part][n] == nil {
		d.rows[part][n] = only(n, d.own(n, part).Len())
	}
	return d.rows[part][n]
}

// rowsOn returns the node of rows of a value on a part, where those of other parts have been
// fetched: the part's own, what it has fetched, or a copy of rows of these.
func (d *divider) rowsOn(x *exchange, n *graph.Node, want Rows, part int) *graph.Node {
	own, b := d.own(n, part), d.reached[part][n]
	switch {
	case want.Len() == 0:
		return d.nothing(only(n, 0), part)
	case want == own:
		return d.primary(n, part)
	case b != nil && b.Rows == want:
		return b.node
	}
	key := cutting{n, want}
	if c := d.cut[part][key]; c != nil {
		return c
	}
	c := only(n, want.Len())
	d.cut[part][key] = c
	x.makes(c, part)
	if within(want, own) {
		x.rows(n, want, part, c, want.From, part, d.primary(n, part), own.From)
	} else {
		x.rows(n, want, part, c, want.From, part, b.node, b.From)
	}
	return c
}

// nothing gives a value without elements on a part a place.
func (d *divider) nothing(n *graph.Node, part int) *graph.Node {
	d.fixed[part][n] = Operand{Space: Workspace}
	return n
}

// operand returns the node of operand i of an instruction on a part, which is n in the whole
// program.
func (d *divider) operand(x *exchange, r rule, p Piece, part, i int, n *graph.Node) *graph.Node {
	if want, any := d.wants(r, p, part, i, n); any {
		return d.rowsOn(x, n, want, part)
	}
	return n
}

// tick adds one instruction to each part's program; nil: the part has nothing to do.
func (d *partwise) tick(steps []*step, t tick) {
	for part, s := range steps {
		if s == nil {
			s = &step{call: &graph.Call{Op: op.Exchange{}}}
		}
		d.steps[part] = append(d.steps[part], s)
	}
	d.ticks = append(d.ticks, t)
}

// alike returns what a part does at an instruction that all parts run, given its step. Accumulators are
// the first part's alone; nil: nothing else is computed.
func (d *partwise) alike(in *Instr, s step, part int) *step {
	if part == 0 {
		return &s
	}
	s.out = slices.Clone(s.out)
	left := len(s.out)
	for i, n := range s.out {
		if in.out[i].Space == Grads {
			none := *n
			s.out[i] = &none
			d.fixed[part][&none] = Operand{Space: Grads}
			left--
		}
	}
	if left == 0 {
		return nil
	}
	return &s
}

// places finds the places of what is not in the workspace, and gathers results that are
// divided on the first part.
func (d *divider) places() {
	x := d.exchange(RowsOfImages, 0)
	sizes, kept := make([][]int, d.parts), make([][]*graph.Node, d.parts)
	for i := range d.whole.Instrs {
		in := &d.whole.Instrs[i]
		for j, n := range in.step.out {
			switch at := in.out[j]; {
			case at.Space == Grads || (at.Space == Out || at.Space == DIn) && d.layout[n] != byRows:
				d.fixed[0][n] = at
			case at.Space == Out || at.Space == DIn:
				x.layer = in.Layer
				whole := *n
				d.fixed[0][&whole] = at
				x.makes(&whole, 0)
				for part := range d.parts {
					own := d.own(n, part)
					x.rows(n, own, 0, &whole, 0, part, d.primary(n, part), own.From)
				}
			case at.Space == Residual && d.whole.Name == keep:
				for part := range d.parts {
					if d.layout[n] == everywhere || d.own(n, part).Len() > 0 {
						own := d.primary(n, part)
						kept[part] = append(kept[part], own)
						floats := d.store.floats(own)
						sizes[part] = append(sizes[part], floats)
						d.saved[part][n.Call.Layer] += floats
					}
				}
			}
		}
	}
	x.end()
	if d.whole.Name != keep {
		return
	}
	for part := range d.parts {
		offsets, span := Layout(sizes[part])
		d.residual[part] = span
		for i, n := range kept[part] {
			d.fixed[part][n] = Operand{Residual, offsets[i], sizes[part][i]}
		}
	}
}

// assemble makes the programs of all parts, and finds the places of what is copied.
func (d *partwise) assemble(like *Program) {
	for part := range d.count {
		c := &compiler{threads: d.threads, fixed: d.fixed[part], inner: map[*graph.Node]bool{}, store: d.store}
		c.consumable[Residual] = d.whole.Name == backward || d.whole.Name == backwardInput
		c.consumable[Lasting] = d.whole.Name == backward
		if like != nil {
			c.like = like.ofPart(part)
		}
		var span [Spaces]int
		p := c.assemble(d.whole.Name, d.steps[part], nil, Out, nil, &span)
		for t := range p.Instrs {
			p.Instrs[t].Division = d.ticks[t].Division
			if all := d.ticks[t].flops; all != nil {
				p.Instrs[t].FLOPs = all[part]
			}
		}
		d.done = append(d.done, p)
	}
	for t := range d.ticks {
		first := &d.done[0].Instrs[t]
		for _, p := range d.done[1:] {
			first.beside = append(first.beside, &p.Instrs[t])
		}
		for i := range d.ticks[t].copies {
			first.copied += d.ticks[t].copies[i].bytes()
		}
	}
	if d.count > 1 {
		d.done[0].lock = &lockstep{d.done, d.ticks}
	}
}

// ofPart is one part's of a program that parts run together, or the program of one that is alone.
func (p *Program) ofPart(part int) *Program {
	if p.lock == nil {
		return p
	}
	return p.lock.programs[part]
}

// operandOf is the place of one of the instruction's operands.
func (in *Instr) operandOf(n *graph.Node) Operand {
	if i := slices.Index(in.step.in, n); i >= 0 {
		return in.in[i]
	}
	return in.out[slices.Index(in.step.out, n)]
}
