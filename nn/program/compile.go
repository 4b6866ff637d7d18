package program

import (
	"cmp"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"gpipebench/internal/failure"
	"gpipebench/nn/graph"
)

// Function is the traced forward function of one stage.
type Function struct {
	Graph *graph.Graph
	In    []*graph.Node // the boundary tuple from the previous stage
	Feeds []*graph.Node // further inputs from the mini-batch: labels, at the last stage
	Out   []*graph.Node // the boundary tuple for the next stage, or a loss's rows
	// Params are the parameters and constants in the order of their layout.
	Params []*graph.Node
	// Tallies accumulate statistics over the micro-batches of a step. They are
	// outputs of forward calls, and keep their contents until they are cleared.
	Tallies []*graph.Node
	// Room, if not nil, is the same function of tensors at least as large,
	// compiled for the same number of threads. Every value of the workspace
	// then gets the place of its counterpart in Room, so that no program spans
	// more than its counterpart. Otherwise one might: buffers are packed
	// greedily, and blocks are cut evenly.
	Room *Stage
	// Split says that the backward function is also compiled in two programs,
	// Stage.Input and Stage.Weights (split.go). It is the same for Room.
	Split bool
}

// Tensor is a named place for a tensor that crosses a stage's edge.
type Tensor struct {
	Operand
	Shape graph.Shape
	DType graph.DType
}

// Fill sets the tensor, in its space's memory, to values, which it rounds where it is
// bfloat16; those of an int32 tensor are integers' bits.
func (t Tensor) Fill(space, values []float32) { t.form().store(space[t.Off:t.End()], 0, values) }

// Floats returns the tensor's values in its space's memory: in place, or a copy where it
// is bfloat16.
func (t Tensor) Floats(space []float32) []float32 {
	if t.Len == 0 {
		return nil
	}
	if t.form() == wide {
		return space[t.Off:t.End():t.End()]
	}
	return t.form().load(make([]float32, t.Shape.Elems()), space[t.Off:t.End()], 0, t.Shape.Elems())
}

func (t Tensor) form() form {
	if t.DType == graph.BF16 {
		return narrow
	}
	return wide
}

// Use is the accumulator of one use of a parameter.
type Use struct {
	Param int // index into Function.Params
	Operand
	// Rows is the number of embedding rows a micro-batch contributes, each scaled by Scale (see
	// Options.Rows); 0 if the gradient is dense.
	Rows  int
	Scale float32
}

// Stage is a compiled function: programs that share their layouts.
type Stage struct {
	Forward, Keep, Backward *Program
	// Input and Weights are Backward in two, with Function.Split; else nil.
	Input, Weights *Program

	In, Feeds, Out []Tensor
	// DOut and DIn have the places of the gradients of Out and In; Len is 0 for
	// a tensor without a gradient.
	DOut, DIn []Tensor
	Params    []Operand
	Uses      []Use
	Tallies   []Operand // of Function.Tallies, after the uses in Grads
	// Clear lists what must be zero in Grads before Backward, or Input and Weights, run with
	// Env.Fresh: all but the accumulators of products, which then start from zero themselves, with
	// the same bits as from a cleared accumulator and without its way through memory.
	Clear []Operand

	// Parts are the others of a stage that is divided, each with programs that the first
	// part's run, parameters, residuals and a workspace; see Divide.
	Parts  []*Stage
	whole  *Stage // that was divided into this one and others; nil: it was not
	params []*graph.Node

	// Span is the extent of each space in floats; Workspace is the extent for the
	// largest program.
	Span [Spaces]int
	// Saved is the part of the residuals, in floats, that each layer keeps: those in
	// Residual and in Lasting.
	Saved map[int]int
	// SavedIn is the same for Residual, Lasting and Between, each alone.
	SavedIn [Spaces]map[int]int

	graph *graph.Graph // of the function, with its gradients
}

// programs are the places of the stage's programs, some of which may be nil.
func (s *Stage) programs() []**Program {
	return []**Program{&s.Forward, &s.Keep, &s.Backward, &s.Input, &s.Weights}
}

// Fits reports whether no program takes more workspace than its counterpart in room,
// of a larger micro-batch.
func (s *Stage) Fits(room *Stage) bool {
	return slices.EqualFunc(s.programs(), room.programs(), func(p, larger **Program) bool {
		return *p == nil || (*p).Span <= (*larger).Span && (*p).Again().Span <= (*larger).Again().Span
	}) && slices.EqualFunc(s.Parts, room.Parts, (*Stage).Fits)
}

// partPrograms makes the parts' programs of each of the stage's, which divide returns: like, if room is
// not nil, is the counterpart in it.
func (s *Stage) partPrograms(all []*Stage, room *Stage, divide func(p, like *Program) []*Program) {
	for i, p := range s.programs() {
		if *p == nil {
			continue
		}
		var like *Program
		if room != nil {
			like = *room.programs()[i]
		}
		for part, done := range divide(*p, like) {
			*all[part].programs()[i] = done
			all[part].Span[Workspace] = max(all[part].Span[Workspace], done.Span)
		}
	}
}

// Compile derives the backward function of f and compiles all three programs
// for the given number of worker threads, on a device that stores values as storage describes.
// GradOut says which of f.Out have a gradient from outside; nil means none, as for a loss, which
// starts the chain. GradIn says whether to compute the gradients of f.In, which the first stage
// does not need.
func Compile(f Function, gradOut []bool, gradIn bool, threads int, storage Storage) *Stage {
	return derive(f, gradOut, gradIn).compile(threads, storage)
}

// CompileChain is Compile for functions of which each takes the results of the one before, and the last is a
// loss: only the first does without gradients of its inputs. Threads has each one's. They are derived from the last to
// the first, and then compiled beside one another; what fails in the last of those that fail is the panic.
func CompileChain(chain []Function, threads []int, storage Storage) []*Stage {
	all := make([]*derived, len(chain))
	var gradOut []bool
	for i, f := range slices.Backward(chain) {
		all[i] = derive(f, gradOut, i > 0)
		gradOut = make([]bool, len(all[i].dins))
		for j, d := range all[i].dins {
			gradOut[j] = d != nil
		}
	}
	stages, failed := make([]*Stage, len(chain)), make([]any, len(chain))
	var next atomic.Int32
	var done sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(chain)) {
		done.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(chain); i = int(next.Add(1)) - 1 {
				func() {
					defer func() {
						v := recover()
						if _, misuse := v.(*graph.Misuse); v != nil && !misuse {
							v = failure.Recovered(v)
						}
						failed[i] = v
					}()
					stages[i] = all[i].compile(threads[i], storage)
				}()
			}
		})
	}
	done.Wait()
	for _, v := range slices.Backward(failed) {
		if v != nil {
			panic(v)
		}
	}
	return stages
}

// derived is a function and its backward function.
type derived struct {
	Function
	forward, backward []*graph.Call
	douts, dins       []*graph.Node // nil: there is no gradient
	grads             []graph.ParamGrad
}

// derive derives the backward function; see Compile.
func derive(f Function, gradOut []bool, gradIn bool) *derived {
	g := f.Graph
	d := &derived{Function: f, forward: g.Calls, douts: make([]*graph.Node, len(f.Out))}
	for i, o := range f.Out {
		if gradOut != nil && gradOut[i] {
			d.douts[i] = g.NewNode(graph.Input, "d"+o.Name, o.DType, o.Shape...)
		}
	}
	d.dins, d.grads = g.Gradients(f.Out, d.douts, f.In)
	if !gradIn {
		clear(d.dins)
	}
	d.backward = live(g.Calls[len(d.forward):], d.dins, d.grads)
	return d
}

func (d *derived) compile(threads int, storage Storage) *Stage {
	f, calls, derived, douts, dins, grads := d.Function, d.forward, d.backward, d.douts, d.dins, d.grads
	s := &Stage{graph: f.Graph}
	c := newCompiler(f, threads, storage)
	c.place(s)
	kept := c.statistics(calls, &s.Span)
	s.DOut = c.inputs(DOut, douts, &s.Span)

	// The accumulators, in the order of the parameters and of the uses of each.
	var sizes []int
	var uses []*graph.Node
	of := map[*graph.Node][]*graph.Node{}
	for _, pg := range grads {
		of[pg.Param] = append(of[pg.Param], pg.Node)
	}
	for i, p := range f.Params {
		for _, n := range of[p] {
			s.Uses = append(s.Uses, Use{Param: i})
			sizes = append(sizes, p.Elems())
			uses = append(uses, n)
		}
	}
	for _, n := range f.Tallies {
		sizes = append(sizes, n.Elems())
	}
	offsets, span := Layout(sizes)
	s.Span[Grads] = span
	accumulators := map[*graph.Node]Operand{}
	for i := range s.Uses {
		s.Uses[i].Operand = Operand{Grads, offsets[i], sizes[i]}
		s.Uses[i].asRows(uses[i])
		accumulators[uses[i]] = s.Uses[i].Operand
	}
	for i, n := range f.Tallies {
		o := Operand{Grads, offsets[len(uses)+i], n.Elems()}
		s.Tallies = append(s.Tallies, o)
		c.fixed[n] = o
	}

	// Fusing considers the uses in both functions, so that it is the same with
	// and without residuals, and in Backward, Input and Weights.
	count := countUses(append(slices.Clip(calls), derived...), f.Out, dins)
	steps, back := c.fuse(calls, count), c.fuse(derived, count)
	var parts parts
	if f.Split {
		parts = divide(back, dins, accumulators)
	}
	residual := c.residuals(calls, derived, parts.reads(), s)

	s.Forward = c.assemble(forward, steps, f.Out, Out, nil, &s.Span)
	s.Out = c.outputs(f.Out)
	s.Keep = c.assemble(keep, steps, f.Out, Out, residual, &s.Span)
	if len(kept) > 0 {
		s.Forward.again = s.Forward.without(onlyFor(kept, calls, f.Out, nil))
		s.Keep.again = s.Keep.without(onlyFor(kept, calls, f.Out, residual))
	}

	for n, o := range residual {
		c.fixed[n] = o
	}
	c.consumable[Residual], c.consumable[Lasting] = true, true
	s.Backward = c.assemble(backward, back, dins, DIn, accumulators, &s.Span)
	s.DIn = c.outputs(dins)
	if f.Split {
		c.assembleParts(s, parts, dins, accumulators)
	}
	s.Clear = s.Backward.unstarted(s.Span[Grads])
	return s
}

// unstarted returns what is left of the accumulators, whose length is given in floats, without those
// that the program's kernels start themselves.
func (p *Program) unstarted(floats int) (left []Operand) {
	started := []Operand{{Space: Grads, Off: floats}}
	for _, in := range p.Instrs {
		if in.starts {
			started = append(started, in.out[0])
		}
	}
	slices.SortFunc(started, func(a, b Operand) int { return cmp.Compare(a.Off, b.Off) })
	end := 0
	for _, o := range started {
		if o.Off > end {
			left = append(left, Operand{Grads, end, o.Off - end})
		}
		end = o.End()
	}
	return left
}

// CompileEvaluate is Compile of only the forward function, without residuals.
func CompileEvaluate(f Function, threads int, storage Storage) *Stage {
	s := &Stage{graph: f.Graph}
	c := newCompiler(f, threads, storage)
	c.place(s)
	steps := c.fuse(f.Graph.Calls, countUses(f.Graph.Calls, f.Out, nil))
	s.Forward = c.assemble(evaluate, steps, f.Out, Out, nil, &s.Span)
	s.Out = c.outputs(f.Out)
	return s
}

type compiler struct {
	f       Function
	threads int
	fixed   map[*graph.Node]Operand // values whose place does not depend on the program
	// consumable are the spaces whose values the program may overwrite at their
	// last use: those of residuals that nobody reads after a backward program.
	consumable [Spaces]bool
	store      *storage
	// inner are values within steps that would be fused if not every result were rounded.
	inner   map[*graph.Node]bool
	lastOut []Operand           // of the program assembled last
	room    map[*graph.Call]int // indices of the calls in f.Graph, if there is f.Room
	// like, if not nil, is the same part's program for larger micro-batches (see divider), in
	// whose places all values of the workspace are.
	like *Program
}

func newCompiler(f Function, threads int, storage Storage) *compiler {
	return &compiler{f: f, threads: threads, fixed: map[*graph.Node]Operand{}, inner: map[*graph.Node]bool{}, store: newStorage(storage)}
}

// counterpart returns the computed node of f.Room that corresponds to n, or n
// if there is no Room.
func (c *compiler) counterpart(n *graph.Node) *graph.Node {
	if c.f.Room == nil {
		return n
	}
	if c.room == nil {
		c.room = map[*graph.Call]int{}
		for i, call := range c.f.Graph.Calls {
			c.room[call] = i
		}
	}
	return c.f.Room.graph.Calls[c.room[n.Call]].Out[n.Index]
}

// larger returns the program of f.Room that corresponds to the named one, or
// nil if there is no Room.
func (c *compiler) larger(name string) *Program {
	if c.f.Room == nil {
		return nil
	}
	all := c.f.Room.programs()
	i := slices.IndexFunc(all, func(p **Program) bool { return *p != nil && (*p).Name == name })
	return *all[i]
}

// place lays out the tensors that exist before any program runs.
func (c *compiler) place(s *Stage) {
	sizes := make([]int, len(c.f.Params))
	for i, p := range c.f.Params {
		sizes[i] = p.Elems()
	}
	offsets, span := Layout(sizes)
	s.Span[Params], s.params = span, c.f.Params
	for i, p := range c.f.Params {
		o := Operand{Params, offsets[i], sizes[i]}
		s.Params = append(s.Params, o)
		c.fixed[p] = o
	}
	tensors := c.inputs(In, slices.Concat(c.f.In, c.f.Feeds), &s.Span)
	s.In, s.Feeds = tensors[:len(c.f.In)], tensors[len(c.f.In):]
}

// inputs lays out nodes in a space; nil nodes take no space.
func (c *compiler) inputs(space Space, nodes []*graph.Node, span *[Spaces]int) []Tensor {
	tensors := make([]Tensor, len(nodes))
	sizes := make([]int, len(nodes))
	for i, n := range nodes {
		if n != nil {
			sizes[i] = c.store.floats(n)
		}
	}
	offsets, total := Layout(sizes)
	for i, n := range nodes {
		tensors[i].Operand = Operand{space, offsets[i], sizes[i]}
		if n != nil {
			tensors[i].Shape, tensors[i].DType = n.Shape, c.store.dtype(n)
			c.fixed[n] = tensors[i].Operand
		}
	}
	span[space] = total
	return tensors
}

// outputs describes the results of the program assembled last.
func (c *compiler) outputs(nodes []*graph.Node) []Tensor {
	tensors := make([]Tensor, len(nodes))
	for i, n := range nodes {
		tensors[i].Operand = c.lastOut[i]
		if n != nil {
			tensors[i].Shape, tensors[i].DType = n.Shape, c.store.dtype(n)
		}
	}
	return tensors
}

// residuals places the values that the forward computes and the backward reads, unless
// they have a place already: those that the program of the weights reads in Lasting.
func (c *compiler) residuals(forward, backward []*graph.Call, last map[*graph.Node]bool, s *Stage) map[*graph.Node]Operand {
	made := make(map[*graph.Node]bool, len(forward))
	order := make([]*graph.Node, 0, len(forward))
	for _, call := range forward {
		for _, n := range call.Out {
			made[n] = true
			order = append(order, n)
		}
	}
	needed := make(map[*graph.Node]bool, len(made))
	for _, call := range backward {
		for _, n := range call.In {
			if made[n] {
				needed[n] = true
			}
		}
	}
	s.Saved = map[int]int{}
	places := map[*graph.Node]Operand{}
	for _, space := range []Space{Residual, Lasting} {
		var kept []*graph.Node
		for _, n := range order {
			if _, placed := c.fixed[n]; needed[n] && !placed && last[n] == (space == Lasting) {
				kept = append(kept, n)
			}
		}
		c.save(s, space, kept, places, func(n *graph.Node) int { return n.Call.Layer })
		for layer, floats := range s.SavedIn[space] {
			s.Saved[layer] += floats
		}
	}
	return places
}

// save lays out the values that a space keeps, and adds their places to places. Of says
// on which layer's account each is.
func (c *compiler) save(s *Stage, space Space, kept []*graph.Node, places map[*graph.Node]Operand, of func(*graph.Node) int) {
	sizes := make([]int, len(kept))
	for i, n := range kept {
		sizes[i] = ownPart(n, c.store.floats(n))
	}
	offsets, total := Layout(sizes)
	s.Span[space] = total
	s.SavedIn[space] = map[int]int{}
	for i, n := range kept {
		places[n] = Operand{space, offsets[i], sizes[i]}
		s.SavedIn[space][of(n)] += sizes[i]
	}
}

// live drops the calls of the backward function on which no wanted value
// depends.
func live(calls []*graph.Call, dins []*graph.Node, grads []graph.ParamGrad) []*graph.Call {
	wanted := make(map[*graph.Node]bool, len(calls))
	for _, n := range dins {
		wanted[n] = true
	}
	for _, pg := range grads {
		wanted[pg.Node] = true
	}
	kept := make([]*graph.Call, 0, len(calls))
	for _, c := range slices.Backward(calls) {
		if slices.ContainsFunc(c.Out, func(n *graph.Node) bool { return wanted[n] }) {
			kept = append(kept, c)
			for _, n := range c.In {
				wanted[n] = true
			}
		}
	}
	slices.Reverse(kept)
	return kept
}
