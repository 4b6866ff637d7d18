package program

import (
	"fmt"
	"maps"
	"slices"

	"gpipebench/nn/graph"
)

// fuse makes steps of calls, one of each where every op's result is rounded.
func (c *compiler) fuse(calls []*graph.Call, uses map[*graph.Node]int) []*step {
	fused := fuse(calls, uses)
	if !c.store.Rounded {
		return fused
	}
	for _, s := range fused {
		for _, call := range []*graph.Call{s.call, s.bias, s.add, s.act} {
			if call != nil && call != s.last() {
				c.inner[call.Out[0]] = true
			}
		}
	}
	steps := make([]*step, len(calls))
	for i, call := range calls {
		steps[i] = stepOf(call)
	}
	return steps
}

// lower returns the kernel of a step and the scratch that a thread needs.
func (c *compiler) lower(s *step, accumulates bool) (kernelFunc, int) {
	if k := c.store.convert(s, accumulates); k != nil {
		return k.lower(s, accumulates, c.threads)
	}
	return lower(s, accumulates, c.threads*max(s.blocks, 1))
}

// assemble places every operand of the steps. Results go to space dst; special
// has the places of further values (residuals or accumulators).
func (c *compiler) assemble(name string, steps []*step, results []*graph.Node, dst Space, special map[*graph.Node]Operand, span *[Spaces]int) *Program {
	place := make(map[*graph.Node]Operand, len(c.fixed)+len(special)+len(results))
	maps.Copy(place, c.fixed)
	maps.Copy(place, special)

	// A result is computed in its place, or copied there if it has another
	// place already (because it is an input, is kept, or leaves twice).
	sizes := make([]int, len(results))
	for i, n := range results {
		if n != nil {
			sizes[i] = c.store.floats(n)
		}
	}
	offsets, total := Layout(sizes)
	span[dst] = max(span[dst], total)
	c.lastOut = make([]Operand, len(results))
	steps = slices.Clone(steps)
	for i, n := range results {
		c.lastOut[i] = Operand{dst, offsets[i], sizes[i]}
		if n == nil {
			continue
		}
		if _, elsewhere := place[n]; !elsewhere {
			place[n] = c.lastOut[i]
			continue
		}
		var g graph.Graph
		copied := g.Copy(n)
		place[copied] = c.lastOut[i]
		steps = append(steps, stepOf(copied.Call))
	}

	last := make(map[*graph.Node]int, len(steps))
	for t, s := range steps {
		for _, n := range s.in {
			last[n] = t
		}
	}
	for _, n := range results {
		if n != nil {
			last[n] = len(steps)
		}
	}

	c.computeInPlace(steps, place)

	// The buffers of the workspace; a value that overwrites another shares its
	// buffer.
	held := make(map[*graph.Node]*buffer, len(steps))
	var buffers []*buffer
	p := &Program{Name: name, Instrs: make([]Instr, 0, len(steps))}
	for t, s := range steps {
		for _, n := range s.in {
			if b := held[n]; b != nil {
				b.last = t
			} else if _, ok := place[n]; !ok {
				panic(fmt.Sprintf("program: %s: %s reads %s before it is computed", name, s.call.Name(), n))
			}
		}
		for j, n := range s.out {
			if _, ok := place[n]; ok {
				continue
			}
			if held[n] != nil { // the step goes on with it
				held[n].last = t
				continue
			}
			if c.like != nil {
				place[n] = c.like.Instrs[t].placeOf(s, j, c.store.floats(n), place)
				continue
			}
			if j == 0 && c.overwrite(s, n, t, last, held, place) {
				continue
			}
			b := &buffer{first: t, last: t, size: c.store.floats(c.counterpart(n))}
			held[n] = b
			buffers = append(buffers, b)
		}
	}
	ws := pack(buffers)

	// Scratch is at the start, so that the space ends with an element of a
	// tensor.
	base := 0
	operands := func(nodes []*graph.Node) []Operand {
		ops := make([]Operand, len(nodes))
		for i, n := range nodes {
			if b := held[n]; b != nil {
				ops[i] = Operand{Workspace, base + b.off, c.store.floats(n)}
			} else {
				ops[i] = place[n]
			}
		}
		return ops
	}
	kernels := make([]kernelFunc, len(steps))
	accumulates := func(s *step) bool { return s.adds || len(s.out) > 0 && place[s.out[0]].Space == Grads }
	for t, s := range steps {
		var scratch int
		kernels[t], scratch = c.lower(s, accumulates(s))
		if !c.store.NoPacking {
			p.scratch = max(p.scratch, AlignUp(scratch))
		}
	}
	if c.like != nil {
		p.scratch = c.like.scratch
	} else if larger := c.larger(name); larger != nil {
		p.scratch = min(p.scratch, larger.scratch) // all kernels work with this much
	}
	base = p.scratch * c.threads
	p.Span = base + ws
	if c.like != nil {
		p.Span = c.like.Span
	}
	for t, s := range steps {
		in := Instr{Op: s.call.Name(), Layer: s.call.Layer, in: operands(s.in), out: operands(s.out), kernel: kernels[t], add: addOf(s.call), FLOPs: s.call.FLOPs(), step: s, traits: s.traits(), store: c.store}
		in.starts = in.traits.starts && in.Accumulates() && c.store.convert(s, true) == nil
		if s.last() != s.call {
			in.Op += "+" + s.last().Name()
		}
		p.Instrs = append(p.Instrs, in)
	}
	if c.like != nil {
		for t := range p.Instrs {
			p.Instrs[t].frees = c.like.Instrs[t].frees
		}
	}
	p.threads = c.threads
	span[Workspace] = max(span[Workspace], p.Span)
	for _, b := range buffers {
		in := &p.Instrs[b.last]
		in.frees = append(in.frees, Operand{Workspace, base + b.off, b.size})
	}
	return p
}

// placeOf returns the place of output j of a step whose counterpart the instruction is: the
// same, or that of the input which it overwrites.
func (in *Instr) placeOf(s *step, j, floats int, place map[*graph.Node]Operand) Operand {
	at := in.out[j]
	if at.Space != Workspace {
		at = place[s.in[slices.Index(in.in, at)]]
	}
	return Operand{at.Space, at.Off, floats}
}

// computeInPlace gives an inner value the place of the result that overwrites it, where
// that is not in the workspace: fused, the value would take no memory.
func (c *compiler) computeInPlace(steps []*step, place map[*graph.Node]Operand) {
	for _, s := range slices.Backward(steps) {
		for _, i := range s.inPlace() {
			if in := s.in[i]; c.inner[in] {
				if o, placed := place[s.out[0]]; placed {
					place[in] = o
				}
			}
		}
	}
}

// overwrite lets the first output n of step t take the place of an input whose
// last use is step t.
func (c *compiler) overwrite(s *step, n *graph.Node, t int, last map[*graph.Node]int, held map[*graph.Node]*buffer, place map[*graph.Node]Operand) bool {
	for _, i := range s.inPlace() {
		in := s.in[i]
		if last[in] != t || c.store.floats(in) != c.store.floats(n) {
			continue
		}
		if b := held[in]; b != nil {
			held[n] = b
			return true
		}
		if o := place[in]; in.Role == graph.Computed && c.consumable[o.Space] {
			place[n] = o
			return true
		}
	}
	return false
}
