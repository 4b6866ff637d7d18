package program

import (
	"fmt"
	"slices"

	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// The plan of parts of operations (see the package comment): from the parameters that can be divided on
// (graph.Split), every value has a slicing, which the rules of tensorrules.go carry from operation to
// operation.

// slicing is how a value is divided: by units of one width along an axis, in every one of its sections.
// Zero: every part has all of it.
type slicing struct {
	axis, sections int
	units          int // of a section
	width, length  int // elements of a unit, of which the last may have fewer, and of a section
}

func (s slicing) divided() bool { return s.units > 0 }

// on is the same division of another value, along its axis.
func (s slicing) on(axis int) slicing {
	s.axis = axis
	return s
}

// edge is the element of a section with which share i of n begins.
func (s slicing) edge(i, n int) int { return min(s.units*i/n*s.width, s.length) }

// owner is the part that has an element of the axis, of one section. It panics if none has, as a kernel of the
// whole does.
func (s slicing) owner(element, parts int) int {
	for part := range parts {
		if s.edge(part, parts) <= element && element < s.edge(part+1, parts) {
			return part
		}
	}
	panic(fmt.Sprintf("program: element %d of a divided axis of %d", element, s.length))
}

// slicingOf is how a parameter is divided where results are sums of blocks (1: they are not).
func slicingOf(split graph.Split, shape graph.Shape, blocks int) slicing {
	if split.Units == 0 {
		return slicing{}
	}
	length := shape[split.Axis] / split.Sections
	s := slicing{split.Axis, split.Sections, split.Units, length / split.Units, length}
	if split.Summed && blocks == 1 {
		s.units, s.width = UnitsOf(split, blocks), 64
	}
	return s
}

// UnitsOf is how many units of a parameter's axis parts can divide, where results are sums of blocks.
func UnitsOf(s graph.Split, blocks int) int {
	if s.Summed && blocks == 1 {
		return (s.Units + 63) / 64
	}
	return s.Units
}

// Run is where a part has its slice of a tensor: Times runs of Floats consecutive elements. First is
// the first one's place in the tensor, and Stride what is from one to the next; Start and Distance are
// the same in the slice.
type Run struct{ Floats, Times, First, Stride, Start, Distance int }

// SlicesOf returns the runs of each part's slice of a parameter, one for each of its sections, where
// results are sums of blocks; nil: all parts have all of it.
func SlicesOf(split graph.Split, shape graph.Shape, parts, blocks int) (all [][]Run) {
	s := slicingOf(split, shape, blocks)
	if !s.divided() {
		return nil
	}
	for part := range parts {
		all = append(all, s.runs(shape, part, parts))
	}
	return all
}

// Floats is the size of a slice.
func Floats(runs []Run) (floats int) {
	for _, r := range runs {
		floats += r.Floats * r.Times
	}
	return floats
}

// Within calls f for the pieces of the n elements of a tensor from first on that a slice has: where they
// are among these n, and in the slice, and how many.
func Within(runs []Run, first, n int, f func(at, in, floats int)) {
	for _, r := range runs {
		from := 0
		if first > r.First {
			from = (first - r.First) / r.Stride
		}
		for i := from; i < r.Times && r.First+i*r.Stride < first+n; i++ {
			whole := r.First + i*r.Stride
			lo, hi := max(whole, first), min(whole+r.Floats, first+n)
			if lo < hi {
				f(lo-first, r.Start+i*r.Distance+lo-whole, hi-lo)
			}
		}
	}
}

// runs lists the runs of a part's slice of a value, one for each section.
func (s slicing) runs(shape graph.Shape, part, parts int) (all []Run) {
	before, inner := graph.Shape(shape[:s.axis]).Elems(), graph.Shape(shape[s.axis+1:]).Elems()
	from, to := s.edge(part, parts), s.edge(part+1, parts)
	for i := range s.sections {
		all = append(all, Run{
			Floats: (to - from) * inner, Times: before,
			First: (i*s.length + from) * inner, Stride: s.sections * s.length * inner,
			Start: i * (to - from) * inner, Distance: s.sections * (to - from) * inner,
		})
	}
	return all
}

// Split returns the stage for parts that divide its operations, 1 or more: its programs are the
// first part's, and run the others' as well. Each has its slices of the parameters that can be divided,
// with their accumulators ([SlicesOf]), and all others, whose accumulators are the first part's alone,
// as is what crosses the stage's edge; Parts has what the other parts need.
//
// With one block the stage has the bits of the undivided one. Otherwise the units of every divided axis
// are in blocks, of which each part has as many (parts divides blocks, and the quotient is a power of
// two), with edges at floor(units b / blocks): bits depend on the blocks, and not on the parts.
//
// Room is as of [Stage.Divide]. It panics with a [*graph.Misuse] if nothing can be divided, or not so.
func (s *Stage) Split(parts, blocks int, room *Stage) *Stage {
	whole := *s
	whole.whole = s
	all := []*Stage{&whole}
	for range parts - 1 {
		all = append(all, &Stage{})
	}
	whole.Parts = all[1:]
	d := &splitter{
		partwise: newPartwise(parts, s.store(), s.Forward.threads), blocks: blocks, layout: map[*graph.Node]slicing{}, local: nodeMaps(parts),
		placed: make([]map[Operand]Operand, parts), sums: map[Operand]slicing{},
	}
	if s.Span[Statistics] > 0 {
		graph.Refuse("program", "parts of operations with statistics over replicas: want those of each replica")
	}
	d.stage(s, all)
	s.partPrograms(all, room, func(p, like *Program) []*Program {
		d.program(p, like, all)
		return d.done
	})
	return &whole
}

// stage lays out the parts' parameters and accumulators.
func (d *splitter) stage(s *Stage, all []*Stage) {
	for part, of := range all {
		d.placed[part] = map[Operand]Operand{}
		of.Span[Workspace], of.Span[Residual], of.Span[Lasting], of.Span[Between] = 0, 0, 0, 0
		of.Params, of.Uses, of.Tallies = nil, nil, nil
		of.Saved, of.SavedIn = map[int]int{}, [Spaces]map[int]int{Residual: {}, Lasting: {}, Between: {}}
		var params, sums []int
		for _, n := range s.params {
			params = append(params, n.Elems())
			if l := d.of(n); l.divided() {
				params[len(params)-1] = Floats(l.runs(n.Shape, part, d.count))
			}
		}
		for _, u := range s.Uses {
			d.sums[u.Operand] = d.of(s.params[u.Param])
			floats := params[u.Param]
			if part > 0 && !d.sums[u.Operand].divided() {
				floats = 0
			}
			sums = append(sums, floats)
		}
		for _, o := range s.Tallies {
			if part > 0 {
				o.Len = 0
			}
			sums = append(sums, o.Len)
		}
		place := func(space Space, sizes []int, whole func(int) Operand) (places []Operand) {
			offsets, span := Layout(sizes)
			of.Span[space] = span
			for i, floats := range sizes {
				o := Operand{space, offsets[i], floats}
				d.placed[part][whole(i)] = o
				places = append(places, o)
			}
			return places
		}
		of.Params = place(Params, params, func(i int) Operand { return s.Params[i] })
		places := place(Grads, sums, func(i int) Operand {
			if i < len(s.Uses) {
				return s.Uses[i].Operand
			}
			return s.Tallies[i-len(s.Uses)]
		})
		for i, u := range s.Uses {
			u.Operand = places[i]
			of.Uses = append(of.Uses, u)
		}
		of.Tallies = places[len(s.Uses):]
	}
}

// of is how a parameter is divided.
func (d *splitter) of(n *graph.Node) slicing { return slicingOf(n.Split, n.Shape, d.blocks) }

// splitter makes the programs of parts that divide operations.
type splitter struct {
	*partwise
	blocks int // of all parts
	layout map[*graph.Node]slicing
	local  []map[*graph.Node]*graph.Node // of each part: its slices of values
	placed []map[Operand]Operand         // of each part: where it has what the whole stage has in a place
	sums   map[Operand]slicing           // of the whole stage's accumulators

	// Of the program that is divided now.
	edge   map[*graph.Node]bool        // values that the first part alone has so far
	wholes map[*graph.Node]*graph.Node // values that have been gathered
	others map[sliced]*graph.Node      // values that have been divided otherwise
}

// sliced is a value divided in a way.
type sliced struct {
	*graph.Node
	slicing
}

// program divides a program, and leaves the parts' in done.
func (d *splitter) program(p, like *Program, all []*Stage) {
	d.begin(p)
	d.edge, d.wholes, d.others = map[*graph.Node]bool{}, map[*graph.Node]*graph.Node{}, map[sliced]*graph.Node{}
	for part := range d.fixed {
		d.fixed[part] = map[*graph.Node]Operand{}
	}
	made := map[*graph.Node]bool{}
	for i := range p.Instrs {
		in := &p.Instrs[i]
		for j, n := range in.step.in {
			if !made[n] {
				d.find(n, in.in[j])
			}
		}
		for _, n := range in.step.out {
			made[n] = true
		}
	}
	for i := range p.Instrs {
		d.instruction(&p.Instrs[i])
	}
	d.results(all)
	d.assemble(like)
}

// find notes where a value is that the program finds.
func (d *splitter) find(n *graph.Node, at Operand) {
	switch at.Space {
	case In, DOut:
		d.fixed[0][n], d.edge[n] = at, d.count > 1
		return
	case Params:
		d.layout[n] = d.of(n)
	}
	for part := range d.fixed {
		d.fixed[part][d.slice(n, part)] = d.placed[part][at]
	}
}

// results finds the places of what the program leaves.
func (d *splitter) results(all []*Stage) {
	x := d.exchange(AllGathered, 0)
	last := map[Operand]*graph.Node{} // in each place: a result may have been computed in place
	for i := range d.whole.Instrs {
		for j, n := range d.whole.Instrs[i].step.out {
			last[d.whole.Instrs[i].out[j]] = n
		}
	}
	kept := make([][Spaces][]*graph.Node, d.count)
	places := make([][Spaces][]Operand, d.count)
	for i := range d.whole.Instrs {
		in := &d.whole.Instrs[i]
		for j, n := range in.step.out {
			at := in.out[j]
			keeps := d.whole.Name == keep && (at.Space == Residual || at.Space == Lasting) || at.Space == Between
			switch {
			case last[at] != n:
			case at.Space == Grads:
				for part := range d.fixed {
					own, place := d.slice(n, part), d.placed[part][at]
					if place.Len != own.Elems() && (part == 0 || place.Len > 0) {
						graph.Refuse("program", "%s gives the gradient of all of a parameter that the parts divide", in.Op)
					}
					d.fixed[part][own] = place
				}
			case (at.Space == Out || at.Space == DIn) && d.count > 1 && d.layout[n].divided():
				x.layer = in.Layer
				whole := *n
				d.fixed[0][&whole] = at
				x.makes(&whole, 0)
				d.gather(x, n, &whole, 0)
			case at.Space == Out || at.Space == DIn:
				d.fixed[0][n] = at
			case keeps:
				for part := range d.fixed {
					kept[part][at.Space] = append(kept[part][at.Space], d.slice(n, part))
					places[part][at.Space] = append(places[part][at.Space], at)
				}
			}
		}
	}
	x.end()
	for part, of := range all {
		for _, space := range []Space{Residual, Lasting, Between} {
			nodes := kept[part][space]
			if len(nodes) == 0 {
				continue
			}
			sizes := make([]int, len(nodes))
			for i, n := range nodes {
				sizes[i] = d.store.floats(n)
				of.SavedIn[space][n.Call.Layer] += sizes[i]
				if space != Between {
					of.Saved[n.Call.Layer] += sizes[i]
				}
			}
			offsets, span := Layout(sizes)
			of.Span[space] = span
			for i, n := range nodes {
				o := Operand{space, offsets[i], sizes[i]}
				d.fixed[part][n], d.placed[part][places[part][space][i]] = o, o
			}
		}
	}
}

// slice returns a part's slice of a value, or the value itself where the part has all of it.
func (d *splitter) slice(n *graph.Node, part int) *graph.Node {
	l := d.layout[n]
	if !l.divided() || d.count == 1 {
		return n
	}
	if own := d.local[part][n]; own != nil {
		return own
	}
	own := *n
	own.Shape = slices.Clone(n.Shape)
	own.Shape[l.axis] = l.sections * (l.edge(part+1, d.count) - l.edge(part, d.count))
	d.local[part][n] = &own
	return &own
}

func (d *splitter) slices(nodes []*graph.Node, part int) []*graph.Node {
	own := make([]*graph.Node, len(nodes))
	for i, n := range nodes {
		own[i] = d.slice(n, part)
	}
	return own
}

// bring hands the other parts a value that the first one alone has.
func (d *splitter) bring(n *graph.Node, layer int) {
	if !d.edge[n] {
		return
	}
	delete(d.edge, n)
	x := d.exchange(EdgeValues, layer)
	for part := 1; part < d.count; part++ {
		x.makes(n, part)
		x.move(transfer{to: part, from: 0, dst: n, src: n, floats: n.Elems(), times: 1})
	}
	x.end()
}

// gather copies all parts' slices of a value to where a part has all of it.
func (d *splitter) gather(x *exchange, n, whole *graph.Node, to int) {
	for from := range d.count {
		for _, r := range d.layout[n].runs(n.Shape, from, d.count) {
			x.move(transfer{to: to, from: from, dst: whole, src: d.slice(n, from), floats: r.Floats, times: r.Times, first: r.First, stride: r.Stride, start: r.Start, distance: r.Distance})
		}
	}
}

// all returns the values, whole: those that are divided are gathered on every part.
func (d *splitter) all(nodes []*graph.Node, layer int) []*graph.Node {
	got := slices.Clone(nodes)
	x := d.exchange(AllGathered, layer)
	for i, n := range nodes {
		if d.count == 1 || !d.layout[n].divided() {
			continue
		}
		if d.wholes[n] == nil {
			whole := *n
			d.wholes[n] = &whole
			for part := range d.count {
				x.makes(&whole, part)
				d.gather(x, n, &whole, part)
			}
		}
		got[i] = d.wholes[n]
	}
	x.end()
	return got
}

// with is the step with its first inputs divided in the given ways, or whole.
func (d *splitter) with(s *step, wants ...slicing) *step {
	own := *s
	own.in = slices.Clone(s.in)
	for i, want := range wants {
		if want.divided() {
			own.in[i] = d.sliced(s.in[i], want, s.call.Layer)
		} else {
			own.in[i] = d.all(s.in[i:i+1], s.call.Layer)[0]
		}
	}
	return &own
}

// sliced returns the value divided in a way: each part cuts its slice out of what it has whole, or gets
// the pieces of it that others have. Of a value that is divided along another axis these are rectangles.
func (d *splitter) sliced(n *graph.Node, want slicing, layer int) *graph.Node {
	have := d.layout[n]
	if d.count == 1 || have == want {
		return n
	}
	key := sliced{n, want}
	if d.others[key] != nil {
		return d.others[key]
	}
	cut := *n
	d.others[key], d.layout[&cut] = &cut, want
	x := d.exchange(AllGathered, layer)
	for to := range d.count {
		own := d.slice(&cut, to)
		x.makes(own, to)
		if !have.divided() {
			for _, r := range want.runs(n.Shape, to, d.count) {
				x.move(transfer{to: to, from: to, dst: own, src: n, floats: r.Floats, times: r.Times, first: r.Start, stride: r.Distance, start: r.First, distance: r.Stride})
			}
			continue
		}
		for from := range d.count {
			d.rectangles(x, n, own, want, to, from)
		}
	}
	x.end()
	return &cut
}

// rectangles copies what a part's slice along one axis has of another part's slice along a later one; both
// have one section.
func (d *splitter) rectangles(x *exchange, n, own *graph.Node, want slicing, to, from int) {
	have := d.layout[n]
	if have.axis <= want.axis || have.sections*want.sections > 1 {
		graph.Refuse("program", "%s divided along axis %d: want it along %d", n, have.axis, want.axis)
	}
	first, begin := want.edge(to, d.count), have.edge(from, d.count)
	between, inner := n.Shape[want.axis+1:have.axis].Elems(), n.Shape[have.axis+1:].Elems()
	rows, columns := want.edge(to+1, d.count)-first, (have.edge(from+1, d.count)-begin)*inner
	width := n.Shape[have.axis] * inner
	for i := range n.Shape[:want.axis].Elems() {
		x.move(transfer{
			to: to, from: from, dst: own, src: d.slice(n, from), floats: columns, times: rows * between,
			first: i*rows*between*width + begin*inner, stride: width,
			start: (i*n.Shape[want.axis] + first) * between * columns, distance: columns,
		})
	}
}

// call is a call of an operation on a part.
func (d *splitter) call(layer int, o any, in, out []*graph.Node) *graph.Call {
	return &graph.Call{Op: o, In: in, Out: out, Layer: layer}
}

// local is an operation that package program alone knows.
type local interface {
	traits(c *graph.Call) traits
}

func init() {
	register(func(o op.Local, c *graph.Call) traits { return o.Of.(local).traits(c) })
}
