package program

import (
	"slices"

	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// What the parts of a stage do at one instruction of the undivided program: see [Stage.Divide].

// instruction adds what the parts do at an instruction of the whole program.
func (d *divider) instruction(in *Instr, p Piece, fetched []fetched) {
	r := in.traits.rule
	before, after := d.exchange(RowsOfImages, in.Layer), d.exchange(RowsOfImages, in.Layer)
	d.bring(before, fetched)
	if p.Division == Chunked {
		d.chunked(in, r, p, before, after)
		return
	}
	steps, now := make([]*step, d.parts), tick{Division: p.Division}
	for part := range steps {
		switch p.Division {
		case Everywhere:
			steps[part] = d.alike(in, *in.step, part)
		case Alone:
			if part == 0 {
				s := *in.step
				s.in = d.operands(before, in, r, p, 0)
				steps[part] = &s
			}
		case ByRows:
			steps[part] = d.ownRows(in, r, p, part, before, after)
			now.flops = append(now.flops, in.share(r, p, part))
		case Partial:
			steps[part] = d.turn(in, r, p, part, before)
			now.examples = r.over.Shape[0]
			now.flops = append(now.flops, in.share(r, p, part))
		}
	}
	before.end()
	d.tick(steps, now)
	after.end()
}

func (d *divider) operands(x *exchange, in *Instr, r rule, p Piece, part int) []*graph.Node {
	nodes := make([]*graph.Node, len(in.step.in))
	for i, n := range in.step.in {
		nodes[i] = d.operand(x, r, p, part, i, n)
	}
	return nodes
}

// ownRows returns what a part does at an instruction that computes rows.
func (d *divider) ownRows(in *Instr, r rule, p Piece, part int, before, after *exchange) *step {
	own := p.Rows[part]
	s := d.local(in, r, p, part, before)
	made := own
	if r.made != nil {
		made = r.made(own)
	}
	for i, n := range in.step.out {
		s.out[i] = d.primary(n, part)
		if made != own {
			s.out[i] = only(n, made.Len())
			after.makes(d.primary(n, part), part)
			after.rows(n, own, part, d.primary(n, part), own.From, part, s.out[i], made.From)
		}
	}
	s.within, s.total = own.From*rowFloats(in.step.out[0]), in.step.out[0].Shape.Rows()
	return s
}

// turn returns what a part does in each of its turns at a gradient of a weight: it adds what
// its rows of one example contribute. Parts after the first have the accumulator as a guest.
func (d *divider) turn(in *Instr, r rule, p Piece, part int, before *exchange) *step {
	s := d.local(in, r, p, part, before)
	s.adds, s.blocks = true, d.parts
	s.call.In = slices.Clone(s.call.In)
	for i, n := range s.call.In {
		if images(n) {
			one := *n
			one.Shape = slices.Clone(n.Shape)
			one.Shape[0] = 1
			s.call.In[i] = &one
		}
	}
	if part > 0 {
		for i, n := range s.out {
			guest := *n
			s.out[i] = &guest
		}
	}
	return s
}

// local returns a copy of an instruction's step with a part's operands, and with its window,
// if it has one.
func (d *divider) local(in *Instr, r rule, p Piece, part int, before *exchange) *step {
	s, call := *in.step, *in.step.call
	s.call, s.in, s.out = &call, d.operands(before, in, r, p, part), slices.Clone(s.out)
	call.In, call.Out = s.in[:len(call.In)], s.out
	if r.moved != nil {
		call.Op = op.Moved{Of: call.Op, By: r.moved(p.Rows[part])}
	}
	return &s
}

// chunked adds an instruction of batch norm's chunks: each part gets the pixels of its
// chunks, one after another, and all parts get the results of all.
func (d *divider) chunked(in *Instr, r rule, p Piece, before, after *exchange) {
	locals := make([]*step, d.parts)
	for part := range locals {
		locals[part] = d.local(in, r, p, part, before)
	}
	before.end()

	pixels, chunks := make([]int, d.parts), make([]int, d.parts)
	d.segments(r.over, func(first bool, to, _, at, end int) {
		pixels[to] += end - at
		if first {
			chunks[to]++
		}
	})
	gather, steps := d.exchange(RowsOfImages, in.Layer), make([]*step, d.parts)
	sources := make([][]*graph.Node, d.parts)
	for part, s := range locals {
		sources[part] = s.in
		if chunks[part] == 0 {
			continue
		}
		s.in = slices.Clone(s.in)
		for i, n := range in.step.in {
			if images(n) {
				own := *n
				own.Shape = graph.Shape{pixels[part], n.Shape.Last()}
				s.in[i] = &own
				gather.makes(&own, part)
			}
		}
		s.call.In = s.in[:len(s.call.In)]
		result := *in.step.out[0]
		result.Shape = append(graph.Shape{chunks[part]}, result.Shape[1:]...)
		s.out[0] = &result
		steps[part] = s
	}
	for i, n := range in.step.in {
		if !images(n) {
			continue
		}
		h, w, c := n.Shape[1], n.Shape[2], n.Shape[3]
		done := make([]int, d.parts)      // pixels
		last := make([]transfer, d.parts) // to each part: consecutive ones are one
		d.segments(r.over, func(_ bool, to, from, at, end int) {
			own := RowsOf(h, from, d.parts)
			t := transfer{to: to, from: from, dst: locals[to].in[i], src: sources[from][i], floats: (end - at) * c, times: 1, first: done[to] * c}
			t.start = ((at/w/h*own.Len()+at/w%h-own.From)*w + at%w) * c
			done[to] += end - at
			if l := &last[to]; l.dst == t.dst && l.from == t.from && l.start+l.floats == t.start {
				l.floats += t.floats
				return
			}
			gather.move(last[to])
			last[to] = t
		})
		for _, t := range last {
			gather.move(t)
		}
	}
	gather.end()
	d.tick(steps, tick{Division: Chunked})

	result := in.step.out[0]
	each, chunk, seen := result.Elems()/result.Shape[0], 0, make([]int, d.parts)
	for to := range d.parts {
		after.makes(result, to)
	}
	var run transfer // consecutive chunks of a part
	hand := func() {
		for run.to = range d.parts {
			after.move(run)
		}
	}
	d.segments(r.over, func(first bool, from, _, _, _ int) {
		if !first {
			return
		}
		if run.dst == nil || run.from != from {
			hand()
			run = transfer{from: from, dst: result, src: steps[from].out[0], times: 1, first: chunk * each, start: seen[from] * each}
		}
		run.floats += each
		chunk++
		seen[from]++
	})
	hand()
	after.end()
}
