package gpipe

import (
	"fmt"

	"gpipebench/gpipe/schedule"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// network is a pipeline cut into stages: everything about a run that is known
// from shapes alone.
type network struct {
	Pipeline // with its defaults filled in
	input    Input
	storage  program.Storage // on the devices
	sizes    []int           // layers of each stage
	first    []int           // index of each stage's first layer
	note     string
	params   []parameter          // of the whole network, in layer order, tied ones once
	paths    map[*nn.Param]string // of all parameters, by the first layer that lists each
	moving   [][]nn.Moving        // of each stage, behind its programs' tallies
	compiled map[variant]compiled
	watch    func(in *program.Instr, seconds float64) // see Trainer.Watch
}

// variant is what programs are compiled for: a purpose, the shapes of an
// example and the size of a micro-batch.
type variant struct {
	purpose purpose
	shapes  string
	size    int
}

// purpose is what a step is for.
type purpose uint8

const (
	training   purpose = iota
	evaluating         // forward only, no dropout, to the loss
	predicting         // the same, to the last layer's outputs
)

// compiled is the stages' programs for one micro-batch size.
type compiled []*program.Stage

// parameter is a trained parameter and where its uses are.
type parameter struct {
	*nn.Param
	path string
	uses []use // in layer order
}

// use is one accumulator: the index-th Use of a stage.
type use struct{ stage, index int }

// stageLayers are the layers of stage k.
func (n *network) stageLayers(k int) []nn.Layer {
	return n.Layers[n.first[k] : n.first[k]+n.sizes[k]]
}

// layerName is the name of a layer for messages; one behind the last is the loss.
func (n *network) layerName(i int) string {
	if i < len(n.Layers) {
		return n.Layers[i].Name()
	}
	return "loss"
}

// trace traces all stages for a micro-batch of the given size.
func (n *network) trace(in Input, size int, what purpose) []*nn.Stage {
	traced := make([]*nn.Stage, n.Partitions)
	flow := batched(in.Inputs, size)
	for k := range traced {
		var loss nn.Loss
		var targets []graph.Type
		if k == n.Partitions-1 && what != predicting {
			loss, targets = n.Loss, batched(in.Targets, size)
		}
		traced[k] = nn.TraceStage(n.stageLayers(k), n.first[k], loss, flow, targets, what == training)
		flow = traced[k].Out
	}
	return traced
}

// programs compiles the network for examples like in's and a micro-batch size,
// once.
func (n *network) programs(in Input, size int, what purpose) (c compiled, err error) {
	v := variant{what, fmt.Sprint(in.Inputs, in.Targets), size}
	if c, ok := n.compiled[v]; ok {
		return c, nil
	}
	defer misfit(&err)
	traced := n.trace(in, size, what)
	if err := n.countable(traced, (in.Examples+size-1)/size); err != nil {
		return nil, err
	}
	if what == training {
		c = n.compileTraining(traced)
	} else {
		for k, tr := range traced {
			c = append(c, program.CompileEvaluate(tr.Function, n.Devices[k].threads()))
		}
	}
	n.compiled[v] = c
	return c, nil
}

// compileTraining goes from the last stage to the first: which boundary tensors
// have gradients is known only behind them.
func (n *network) compileTraining(traced []*nn.Stage) compiled {
	c := make(compiled, n.Partitions)
	var gradOut []bool
	for k := n.Partitions - 1; k >= 0; k-- {
		c[k] = program.CompileStored(traced[k].Function, gradOut, k > 0, n.Devices[k].threads(), n.storage)
		gradOut = make([]bool, len(c[k].DIn))
		for i, d := range c[k].DIn {
			gradOut[i] = d.Len > 0
		}
	}
	if n.params == nil {
		n.listParams(traced, c)
	}
	return c
}

// listParams finds every parameter's uses over all stages.
func (n *network) listParams(traced []*nn.Stage, stages compiled) {
	index := map[*nn.Param]int{}
	n.paths = map[*nn.Param]string{}
	for _, l := range n.Layers {
		for _, p := range l.Params() {
			if n.paths[p] != "" {
				continue
			}
			n.paths[p] = nn.ScopeOf(l) + "/" + p.Name
			if !p.Frozen {
				index[p] = len(n.params)
				n.params = append(n.params, parameter{Param: p, path: n.paths[p]})
			}
		}
	}
	for k, st := range stages {
		n.moving = append(n.moving, traced[k].Moving)
		for i, u := range st.Uses {
			p := &n.params[index[traced[k].Params[u.Param]]]
			p.uses = append(p.uses, use{k, i})
		}
	}
	for _, p := range n.params {
		if len(p.uses) == 0 {
			panic(fmt.Sprintf("parameter %s is listed by its layer and not used", p.path))
		}
	}
}

// planned is the network's training programs for a micro-batch of what it is
// planned for; they are compiled.
func (n *network) planned(size int) compiled {
	c, err := n.programs(n.input, size, training)
	if err != nil {
		panic(err)
	}
	return c
}

// largest is the training programs of stage k for the largest micro-batch.
func (n *network) largest(k int) *program.Stage {
	return n.planned(MicroBatchSizes(n.input.Examples, n.MicroBatches)[0])[k]
}

// plan makes the memory plan of stage k for mini-batches of n.input.Examples.
func (n *network) plan(k int) (*Plan, error) {
	micro := MicroBatchSizes(n.input.Examples, n.MicroBatches)
	lists, err := schedule.Build(n.Schedule, n.Partitions, len(micro), n.Checkpoint, n.LateRecompute)
	if err != nil {
		return nil, err
	}
	train := make([]*program.Stage, len(micro)) // by micro-batch
	for m, size := range micro {
		train[m] = n.planned(size)[k]
	}
	var in planInput
	workspace := 0
	for _, t := range lists[k] {
		st := train[t.Micro]
		prog := programOf(st, t)
		workspace = max(workspace, prog.Span)
		if t.Kind == schedule.Recompute && k < n.Partitions-1 {
			in.keep = max(in.keep, prog.Span)
			in.discard = max(in.discard, st.Span[program.Out])
		}
	}

	// A receiver holds an input from its arrival to its B. Its sender has as
	// many in flight as its own list says, and never runs further ahead.
	inputs, _ := schedule.InFlight(lists[max(k-1, 0)])
	_, residuals := schedule.InFlight(lists[k])
	// Slot i holds micro-batches i, i+slots, ...; the earliest is the largest.
	slots := func(s program.Space, count int) {
		for i := range count {
			in.slots[s] = append(in.slots[s], train[i].Span[s])
		}
	}
	in.slots[program.Workspace] = []int{workspace}
	slots(program.Params, 1)
	slots(program.Grads, 1)
	slots(program.In, inputs)
	slots(program.Residual, residuals)
	pair := min(2, len(micro))
	if k < n.Partitions-1 {
		slots(program.Out, pair)
		slots(program.DOut, pair)
	} else {
		slots(program.Out, 1)
	}
	if k > 0 {
		slots(program.DIn, pair)
	}
	in.state = n.stateSlots()
	for _, p := range n.stageParams(k) {
		if !p.Frozen {
			in.params = append(in.params, p.Shape.Elems())
		}
	}
	in.exchange = n.exchangeFloats(k)
	return newPlan(in), nil
}

// programOf is the program that a task runs.
func programOf(st *program.Stage, t schedule.Task) *program.Program {
	switch {
	case t.Kind == schedule.Backward:
		return st.Backward
	case t.Kind == schedule.Recompute || t.Keep:
		return st.Keep
	}
	return st.Forward
}

// stageParams lists the parameters and constants of stage k in layout order.
func (n *network) stageParams(k int) []*nn.Param {
	var ps []*nn.Param
	seen := map[*nn.Param]bool{}
	for _, l := range n.stageLayers(k) {
		for _, p := range l.Params() {
			if !seen[p] {
				seen[p] = true
				ps = append(ps, p)
			}
		}
	}
	return ps
}

// checkCapacity walks a device's memory in the order in which it is set up and
// reports the first piece that does not fit.
func (n *network) checkCapacity(k int, p *Plan) error {
	capacity := n.Devices[k].Capacity
	if capacity == 0 || p.Peak <= capacity {
		return nil
	}
	free := capacity
	take := func(layer string, c Category, bytes int64) error {
		if bytes > free {
			return &OutOfMemoryError{k, layer, c, bytes, free, capacity}
		}
		free -= bytes
		return nil
	}
	st := n.largest(k)
	seen := map[*nn.Param]bool{}
	per := int64(2 + n.stateSlots()) // weight, gradient, state
	for _, l := range n.stageLayers(k) {
		var bytes int64
		for _, q := range l.Params() {
			switch {
			case seen[q]:
			case q.State: // and its half of a tally
				bytes += int64(q.Shape.Elems()) * (floatBytes + tallyBytes/2)
			case q.Frozen:
				bytes += int64(q.Shape.Elems()) * floatBytes
			default:
				bytes += int64(q.Shape.Elems()) * floatBytes * per
			}
			seen[q] = true
		}
		if err := take(l.Name(), Parameters, bytes); err != nil {
			return err
		}
	}
	if err := take(n.layerName(n.first[k]), Boundary, p.Bytes[Boundary]); err != nil {
		return err
	}
	slots := int64(len(p.slots[program.Residual]))
	last := n.first[k] + n.sizes[k]
	for i := n.first[k]; i <= last; i++ {
		if err := take(n.layerName(i), Residuals, slots*int64(st.Saved[i])*floatBytes); err != nil {
			return err
		}
	}
	// What is left of the peak: the workspace, and the padding between tensors.
	return &OutOfMemoryError{k, n.layerName(st.Backward.Widest()), Workspace, p.Peak - (capacity - free), free, capacity}
}
