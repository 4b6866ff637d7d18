package program

import (
	"slices"

	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// The rules by which slicings go from values to the results of operations. What has no rule is computed
// by all parts alike, from whole values.

// instruction adds what the parts do at an instruction of the whole program.
func (d *splitter) instruction(in *Instr) {
	s := in.step
	for _, n := range s.in {
		d.bring(n, in.Layer)
	}
	var to slicing
	divided := slices.ContainsFunc(s.in, func(n *graph.Node) bool { return d.layout[n].divided() })
	if in.Accumulates() {
		to = d.sums[in.out[0]]
		divided = to.divided()
	}
	if !divided || !d.rule(s, to) {
		d.everywhere(in)
	}
}

// rule applies a rule of the step's operation, if it has one for its inputs' slicings, and for that of the
// accumulator to which it adds.
func (d *splitter) rule(s *step, to slicing) bool {
	at := make([]slicing, len(s.in))
	for i, n := range s.in {
		at[i] = d.layout[n]
	}
	last := func(i int) bool { return at[i].divided() && at[i].axis == len(s.in[i].Shape)-1 }
	switch o := s.call.Op.(type) {
	case op.MatMul:
		return d.product(s, o, at, to)
	case op.Conv2D:
		if at[1].divided() && at[1].axis == 3 {
			return d.divided(d.with(s, slicing{}, at[1]), nil, at[1])
		}
	case op.ConvInputGrad:
		if at[1].divided() && at[1].axis == 3 {
			return d.convInput(s, o, at[1])
		}
	case op.ConvWeightGrad:
		return d.divided(d.with(s, slicing{}, to), nil, to)
	case op.Rotary:
		if last(0) && !at[1].divided() {
			return d.divided(s, nil, at[0])
		}
	case op.Attention:
		if slices.Equal(at, d.ofHeads(o, at, s.in)) {
			return d.divided(s, func(part int) any { return d.heads(o, at[0], part) }, ofAttention(o, at[0].units)...)
		}
	case op.AttentionGrad:
		inputs := at[3:]
		if inputs[0].units == 0 {
			return false
		}
		results := ofAttention(o.Attention, inputs[0].units)
		if slices.Equal(inputs, d.ofHeads(o.Attention, inputs, s.in[3:])) && at[0] == results[0] && at[1] == results[0] && at[2] == results[1] {
			return d.divided(s, func(part int) any { return op.AttentionGrad{Attention: d.heads(o.Attention, inputs[0], part)} }, inputs[:len(s.out)]...)
		}
	case op.Embed:
		if at[0].divided() && at[0].axis == 0 {
			return d.embed(s, o, at[0])
		}
	case op.EmbedGrad:
		return d.count > 1 && d.divided(s, func(part int) any {
			return op.Local{Name: s.call.Name(), Of: partEmbedGrad{o.Scale, to.edge(part, d.count), to.edge(part+1, d.count)}}
		}, to)
	case op.CrossEntropy:
		if last(0) && at[0].sections == 1 {
			return d.crossEntropy(s, o, at[0])
		}
	case op.CrossEntropyGrad:
		if last(0) && at[0].sections == 1 {
			return d.divided(s, func(part int) any {
				of := lossGrad{o.Smoothing, at[0].edge(part, d.count), at[0].length}
				return op.Local{Name: s.call.Name(), Of: of, InPlace: s.call.InPlace()}
			}, at[0])
		}
	case op.Dropout, op.DropPath:
	default:
		if !s.traits().columns {
			return false
		}
		for i := range at {
			if last(i) && !to.divided() {
				to = at[i]
			}
		}
		return to.divided() && d.columns(s, at, to)
	}
	return false
}

// columns is the rule of an operation that does to each column what it does to the others.
func (d *splitter) columns(s *step, at []slicing, to slicing) bool {
	along := func(n *graph.Node) slicing { return to.on(len(n.Shape) - 1) }
	var in, results []slicing
	for i, n := range s.in {
		if own := along(n); at[i].divided() && at[i] != own || n.Shape.Last() != to.sections*to.length {
			return false
		}
		in = append(in, along(n))
	}
	for _, n := range s.out {
		results = append(results, along(n))
	}
	return d.divided(d.with(s, in...), nil, results...)
}

// divided adds a step that each part does to its slices: with an operation of its own, or, if of is nil,
// the same. It has the step's results.
func (d *splitter) divided(s *step, of func(part int) any, results ...slicing) bool {
	for i, n := range s.out {
		d.layout[n] = results[i]
	}
	steps := make([]*step, d.count)
	for part := range steps {
		own := *s
		o := s.call.Op
		if of != nil {
			o = of(part)
		}
		own.in, own.out = d.slices(s.in, part), d.slices(s.out, part)
		own.call = d.call(s.call.Layer, o, own.in[:len(s.call.In)], own.out)
		steps[part] = &own
	}
	d.tick(steps, tick{Division: Divided})
	return true
}

// everywhere adds what all parts do alike.
func (d *splitter) everywhere(in *Instr) {
	s := *in.step
	s.in = d.all(s.in, in.Layer)
	s.call = d.call(in.Layer, s.call.Op, s.in[:len(s.call.In)], s.call.Out)
	steps := make([]*step, d.count)
	for part := range steps {
		steps[part] = d.alike(in, s, part)
	}
	d.tick(steps, tick{Division: Everywhere})
}

// product is the rule of a matrix product, whose second operand is a weight, or which is the gradient of
// one: how that is divided decides, and its other operands are brought to it.
func (d *splitter) product(s *step, o op.MatMul, at []slicing, to slicing) bool {
	a, b := s.in[0], at[1]
	of := 0 // the axis of the second operand along which terms are
	if o.TransB {
		of = 1
	}
	switch {
	case o.TransA && !to.divided():
		return false
	case o.TransA && to.axis == 0:
		return d.divided(d.with(s, to.on(len(a.Shape)-1), slicing{}), nil, to)
	case o.TransA:
		return d.divided(d.with(s, slicing{}, to.on(len(s.in[1].Shape)-1)), nil, to)
	case b.divided() && b.axis == of:
		terms := b.on(len(a.Shape) - 1)
		d.contract(d.with(s, terms), o, terms)
		return true
	case b.divided():
		return d.divided(d.with(s, slicing{}), nil, b.on(len(s.call.Out[0].Shape)-1))
	}
	return false
}

// contract adds a product whose terms are divided, like the columns of its first operand, and then what
// the step does to it.
func (d *splitter) contract(s *step, o op.MatMul, a slicing) {
	product := s.call.Out[0]
	terms := func(part, i, from, to int) [2]int { // of section i, from share from of all blocks
		begin, width := a.edge(part, d.count), a.edge(part+1, d.count)-a.edge(part, d.count)
		return [2]int{i*width + a.edge(from, d.blocks) - begin, i*width + a.edge(to, d.blocks) - begin}
	}
	part := func(part int, out *graph.Node, blocks [][][2]int) *step {
		in := d.slices(s.in[:2], part)
		of := partProduct{of: o, blocks: blocks}
		call := d.call(s.call.Layer, op.Local{Name: s.call.Name(), Of: of, FLOPs: of.flops(in)}, in, []*graph.Node{out})
		if out != product { // a sum that is not rounded
			out.Call, out.Index = call, 0
		}
		return stepOf(call)
	}
	sum := product
	if d.blocks > 1 && d.count > 1 || d.blocks == 1 && d.store.Rounded {
		own := *product
		sum = &own
	}
	if d.blocks == 1 {
		for i := range a.sections { // each goes around
			steps := make([]*step, d.count)
			for p := range steps {
				width := a.edge(p+1, d.count) - a.edge(p, d.count)
				steps[p] = part(p, sum, [][][2]int{{{i * width, (i + 1) * width}}})
				steps[p].adds, steps[p].blocks = true, d.count
			}
			d.tick(steps, tick{Division: InTurns, kind: TakenInTurns, examples: 1, from: i == 0})
		}
		d.handBack(s.call.Layer, sum)
		if sum != product {
			d.tickAll(d.call(s.call.Layer, op.Local{Name: "round", Of: roundSum{}}, []*graph.Node{sum}, []*graph.Node{product}))
		}
	} else {
		steps := make([]*step, d.count)
		each := d.blocks / d.count
		for p := range steps {
			var blocks [][][2]int
			for b := p * each; b < (p+1)*each; b++ {
				var chain [][2]int
				for i := range a.sections {
					chain = append(chain, terms(p, i, b, b+1))
				}
				blocks = append(blocks, chain)
			}
			steps[p] = part(p, sum, blocks)
		}
		d.tick(steps, tick{Division: Divided})
		if d.count > 1 {
			d.combine(s.call.Layer, sum, product, nil, d.treeOfParts)
		}
	}
	in := product
	for _, c := range []*graph.Call{s.bias, s.act} {
		if c != nil {
			d.tickAll(d.call(c.Layer, c.Op, append([]*graph.Node{in}, c.In[1:]...), c.Out))
			in = c.Out[0]
		}
	}
}

// tickAll adds a call that all parts do alike.
func (d *splitter) tickAll(c *graph.Call) {
	d.tick(slices.Repeat([]*step{stepOf(c)}, d.count), tick{Division: Everywhere})
}

// handBack copies a result that has gone through all parts, and then to the first, from the last one to
// those between.
func (d *splitter) handBack(layer int, result *graph.Node) {
	x := d.exchange(AllGathered, layer)
	for part := 1; part < d.count-1; part++ {
		x.move(transfer{to: part, from: d.count - 1, dst: result, src: result, floats: result.Elems(), times: 1})
	}
	x.end()
}

// combine makes a result of which every part has a summand: each computes some rows of all summands, and
// hands them to the others. How says with what; its inputs are the rows of all parts, one part's after another's, and
// more, of which it sees all.
func (d *splitter) combine(layer int, summand, result *graph.Node, more []*graph.Node, how func(rows Rows) op.Local) {
	height, cols := matrix(result)
	rows := make([]Rows, d.count)
	before, after := d.exchange(AllReduced, layer), d.exchange(AllReduced, layer)
	steps := make([]*step, d.count)
	for to := range d.count {
		rows[to] = RowsOf(height, to, d.count)
		if rows[to].Len() == 0 {
			continue
		}
		all, own := *summand, *result
		all.Shape, own.Shape = graph.Shape{d.count * rows[to].Len(), cols}, graph.Shape{rows[to].Len(), cols}
		before.makes(&all, to)
		for from := range d.count {
			floats := rows[to].Len() * cols
			before.move(transfer{to: to, from: from, dst: &all, src: summand, floats: floats, times: 1, first: from * floats, start: rows[to].From * cols})
		}
		in := append([]*graph.Node{&all}, more...)
		steps[to] = stepOf(d.call(layer, how(rows[to]), in, []*graph.Node{&own}))
	}
	before.end()
	d.tick(steps, tick{Division: Divided})
	for to := range d.count {
		after.makes(result, to)
		for from, r := range rows {
			if r.Len() > 0 {
				after.move(transfer{to: to, from: from, dst: result, src: steps[from].out[0], floats: r.Len() * cols, times: 1, first: r.From * cols})
			}
		}
	}
	after.end()
}

// embed is the rule of a table whose rows are divided: each part looks up the tokens that it has, and
// every row of the result comes from the part that has its token.
func (d *splitter) embed(s *step, o op.Embed, at slicing) bool {
	if d.count == 1 {
		return d.divided(s, nil, slicing{})
	}
	own := *s.out[0]
	steps := make([]*step, d.count)
	for part := range steps {
		in, of := d.slices(s.in, part), partEmbed{o.Scale, at.edge(part, d.count), at.edge(part+1, d.count)}
		steps[part] = stepOf(d.call(s.call.Layer, op.Local{Name: s.call.Name(), Of: of}, in, []*graph.Node{&own}))
	}
	d.tick(steps, tick{Division: Divided})
	d.combine(s.call.Layer, &own, s.out[0], s.in[1:2], func(rows Rows) op.Local {
		return op.Local{Name: "rows of parts", Of: selectRows{rows, at, d.count}}
	})
	return true
}

// ofHeads is how the inputs of an attention are divided, if the first is.
func (d *splitter) ofHeads(o op.Attention, at []slicing, in []*graph.Node) []slicing {
	want := make([]slicing, len(at))
	units := at[0].units
	if units == 0 || o.Heads%units != 0 || o.KVHeads%units != 0 {
		return nil
	}
	of := func(i, sections, heads int) {
		want[i] = slicing{2, sections, units, heads / units * o.HeadDim, heads * o.HeadDim}
	}
	switch {
	case o.KVHeads > 0:
		of(0, 1, o.Heads)
		of(1, 1, o.KVHeads)
		of(2, 1, o.KVHeads)
	case o.Cross:
		of(0, 1, o.Heads)
		of(1, 2, o.Heads)
	default:
		of(0, 3, o.Heads)
	}
	return want
}

// ofAttention is how the results of an attention are divided into units of heads.
func ofAttention(o op.Attention, units int) []slicing {
	each := o.Heads / units
	return []slicing{{2, 1, units, each * o.HeadDim, o.Heads * o.HeadDim}, {1, 1, units, each, o.Heads}}
}

// heads is the attention of a part's heads.
func (d *splitter) heads(o op.Attention, at slicing, part int) op.Attention {
	own := at.units*(part+1)/d.count - at.units*part/d.count
	o.Heads, o.KVHeads = o.Heads/at.units*own, o.KVHeads/at.units*own
	return o
}
