package gpipe

import (
	"fmt"
	"slices"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/tracer"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// network is a pipeline cut into stages: everything about a run that is known
// from shapes alone.
type network struct {
	Pipeline                 // with its defaults filled in
	input    Input           // to train on; no examples: it does not train
	storage  program.Storage // on the devices
	sizes    []int           // layers of each stage
	first    []int           // index of each stage's first layer
	note     string
	params   []parameter          // of the whole network, in layer order, tied ones once
	paths    map[*nn.Param]string // of all parameters, by the first layer that lists each
	moving   [][]tracer.Moving    // of each stage, in the order of its programs' tallies
	compiled map[variant]compiled
	lists    map[int][][]schedule.Task // of Pipeline.Tasks, by number of micro-batches
	watch    func(KernelRun)           // see Trainer.Watch
}

// variant is what programs are compiled for: a purpose, the shapes of an
// example and the size of a micro-batch.
type variant struct {
	purpose purpose
	shapes  string
	size    int
	largest int // size of the largest micro-batch that the replica's memory is planned for
}

// purpose is what a step is for.
type purpose uint8

const (
	training   purpose = iota
	evaluating         // forward only, no dropout, to the loss
	predicting         // the same, to the last layer's outputs
)

func (p purpose) String() string { return [...]string{"training", "evaluation", "prediction"}[p] }

// largestInput describes the largest mini-batches for a purpose; no examples: there
// are none.
func (n *network) largestInput(what purpose) Input {
	return [...]Input{n.input, n.Evaluating, n.Predicting}[what]
}

// trains reports whether the network is trained.
func (n *network) trains() bool { return n.input.Examples > 0 }

// compiled is the stages' programs for one micro-batch size.
type compiled []*program.Stage

// parameter is a trained parameter and where its uses are.
type parameter struct {
	*nn.Param
	path string
	rate float64 // factor of the learning rate; 0: frozen
	uses []use   // in layer order
}

// use is one accumulator: the index-th Use of a stage.
type use struct{ stage, index int }

// stageLayers are the layers of stage k.
func (n *network) stageLayers(k int) []nn.Layer {
	return n.Layers[n.first[k] : n.first[k]+n.sizes[k]]
}

// layerName is the name of a layer for messages; the one after the last is the loss.
func (n *network) layerName(i int) string {
	if i < len(n.Layers) {
		return n.Layers[i].Name()
	}
	return "loss"
}

// trace traces all stages for a micro-batch of the given size.
func (n *network) trace(in Input, size int, what purpose) []*tracer.Stage {
	traced := make([]*tracer.Stage, n.Partitions)
	flow := BatchOf(in.Inputs, size)
	for k := range traced {
		var loss nn.Loss
		var targets []graph.Type
		if k == n.Partitions-1 && what != predicting {
			loss, targets = n.Loss, BatchOf(in.Targets, size)
		}
		traced[k] = tracer.Trace(n.stageLayers(k), n.first[k], loss, flow, targets, what == training)
		flow = traced[k].Out
	}
	return traced
}

// programs compiles the network, once, for examples of in's shapes and a micro-batch
// size, neither larger than what is planned for the purpose: for replicas whose memory
// is planned for micro-batches of at most the size largest.
func (n *network) programs(in Input, size int, what purpose, largest int) (c compiled, err error) {
	v := variantOf(in, size, what, largest)
	if c, ok := n.compiled[v]; ok {
		return c, nil
	}
	defer misfit(&err)
	traced := n.trace(in, size, what)
	if err := n.countable(traced, (in.Examples+size-1)/size); err != nil {
		return nil, err
	}
	c = n.compile(traced, what)
	if !n.plans(v) {
		room, err := n.programs(n.largestInput(what), largest, what, largest)
		if err != nil {
			return nil, err
		}
		if !c.fits(room) {
			traced = n.trace(in, size, what)
			for k := range traced {
				traced[k].Function.Room = room[k]
			}
			c = n.compile(traced, what)
		}
	}
	n.compiled[v] = c
	return c, nil
}

func variantOf(in Input, size int, what purpose, largest int) variant {
	return variant{what, fmt.Sprint(in.Inputs, in.Targets), size, largest}
}

// plans reports whether the memory of the variant's replicas is planned for the variant
// itself, not for a larger one.
func (n *network) plans(v variant) bool {
	in := n.largestInput(v.purpose)
	return v == variantOf(in, v.size, v.purpose, v.largest) && slices.ContainsFunc(n.divide(in.Examples, v.purpose), func(s portion) bool {
		return s.largest() == v.largest && slices.Contains(s.sizes, v.size)
	})
}

func (n *network) compile(traced []*tracer.Stage, what purpose) (c compiled) {
	if what == training {
		c = n.compileTraining(traced)
	} else {
		for k, tr := range traced {
			c = append(c, program.CompileEvaluate(tr.Function, n.Devices[k].threads()))
		}
	}
	if n.params == nil {
		n.listParams(traced, c)
	}
	return c
}

// fits reports whether no program takes more workspace than its counterpart in room,
// of a larger micro-batch.
func (c compiled) fits(room compiled) bool {
	for k, st := range c {
		if st.Forward.Span > room[k].Forward.Span ||
			st.Keep != nil && (st.Keep.Span > room[k].Keep.Span || st.Backward.Span > room[k].Backward.Span) {
			return false
		}
	}
	return true
}

// compileTraining goes from the last stage to the first, since the later stage
// determines which boundary tensors have gradients.
func (n *network) compileTraining(traced []*tracer.Stage) compiled {
	c := make(compiled, n.Partitions)
	var gradOut []bool
	for k := n.Partitions - 1; k >= 0; k-- {
		c[k] = program.CompileStored(traced[k].Function, gradOut, k > 0, n.Devices[k].threads(), n.storage)
		gradOut = make([]bool, len(c[k].DIn))
		for i, d := range c[k].DIn {
			gradOut[i] = d.Len > 0
		}
	}
	return c
}

// listParams finds every parameter's uses over all stages. If nothing is trained, a
// stage that has a parameter counts as a use.
func (n *network) listParams(traced []*tracer.Stage, stages compiled) {
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
				n.params = append(n.params, parameter{Param: p, path: n.paths[p], rate: n.rate(n.paths[p])})
			}
		}
	}
	for k, st := range stages {
		n.moving = append(n.moving, traced[k].Moving)
		uses := st.Uses
		if !n.trains() {
			for i, p := range traced[k].Params {
				if !p.Frozen {
					uses = append(uses, program.Use{Param: i})
				}
			}
		}
		for i, u := range uses {
			p := &n.params[index[traced[k].Params[u.Param]]]
			p.uses = append(p.uses, use{k, i})
		}
	}
	for _, p := range n.params {
		if len(p.uses) == 0 {
			graph.Refuse("gpipe", "parameter %s gets no gradient: its layer lists it and does not use it, or an operation after it has no gradient", p.path)
		}
	}
}

// planned returns the programs for a micro-batch of the planned shapes and the given
// size, which have been compiled.
func (n *network) planned(size int, what purpose) compiled {
	c, err := n.programs(n.largestInput(what), size, what, n.largestMicro(what))
	if err != nil {
		panic(err)
	}
	return c
}

// largest is the programs of stage k for the largest micro-batch: those of
// training, if there is any.
func (n *network) largest(k int) *program.Stage {
	for what := training; what <= predicting; what++ {
		if in := n.largestInput(what); in.Examples > 0 {
			return n.planned(n.largestMicro(what), what)[k]
		}
	}
	panic("gpipe: a network without a purpose")
}

// memoryPlans makes the plans of all devices, in the order of place.Of. Replicas
// whose micro-batches have the same sizes have the same plan.
func (n *network) memoryPlans() []*Plan {
	var shares [predicting + 1][]portion
	for what := range shares {
		if in := n.largestInput(purpose(what)); in.Examples > 0 {
			shares[what] = n.largestPortions(purpose(what))
		}
	}
	var all []*Plan
	for _, at := range place.Of(n.Replicas, n.Partitions) {
		var of [predicting + 1]*portion
		like := at.Replica > 0 && !n.ShardUpdate
		for what := range shares {
			if shares[what] != nil {
				of[what] = &shares[what][at.Replica]
				like = like && slices.Equal(of[what].sizes, shares[what][at.Replica-1].sizes)
			}
		}
		if like {
			plan := *all[len(all)-n.Partitions]
			plan.At = at
			all = append(all, &plan)
			continue
		}
		all = append(all, n.plan(at, of))
	}
	return all
}

// plan makes the memory plan of a device for a replica's shares of the largest
// mini-batches of every purpose, nil if there are none. Purposes do not run at the same
// time, so each piece of memory is as large as the purpose that needs most of it
// requires.
func (n *network) plan(at place.Place, shares [predicting + 1]*portion) *Plan {
	var in planInput
	k := at.Stage
	st := n.largest(k)
	in.hold(program.Workspace, 0, 0)
	in.hold(program.Params, 0, st.Span[program.Params])
	in.hold(program.Grads, 0, st.Span[program.Grads])
	if s := shares[training]; s != nil {
		n.planTraining(k, s, &in)
	}
	for _, what := range []purpose{evaluating, predicting} {
		if s := shares[what]; s != nil {
			n.planForward(k, what, s, &in)
		}
	}
	in.state = n.stateSlots()
	for _, part := range n.updated(at) {
		in.params = append(in.params, part.Len())
	}
	p := newPlan(in)
	p.At = at
	return p
}

// planTraining adds what stage k needs to train.
func (n *network) planTraining(k int, s *portion, in *planInput) {
	train, lists := s.programs, s.lists
	if len(train) == 0 {
		return
	}
	workspace := 0
	for _, t := range lists[k] {
		st := train[t.Micro][k]
		prog := programOf(st, t)
		workspace = max(workspace, prog.Span)
		if t.Kind == schedule.Recompute && k < n.Partitions-1 {
			in.keep = max(in.keep, prog.Span)
			in.discard = max(in.discard, st.Span[program.Out])
		}
	}
	in.hold(program.Workspace, 0, workspace)
	in.widest = train[0][k].Backward
	in.exchange = max(n.exchangeFloats(k), n.reduceFloats(k))

	// A receiver holds an input from its arrival to its B. Its sender has as
	// many in flight as its own list says, and never runs further ahead.
	inputs, _ := schedule.InFlight(lists[max(k-1, 0)])
	_, residuals := schedule.InFlight(lists[k])
	slots := func(s program.Space, count int) {
		for m := range train {
			in.hold(s, m%count, train[m][k].Span[s]) // slot i holds micro-batches i, i+count, ...
		}
	}
	slots(program.In, inputs)
	held := make([]int, residuals) // as stageRun.hold takes slots
	for i := range held {
		held[i] = -1
	}
	for _, t := range lists[k] {
		switch {
		case t.Kind == schedule.Backward:
			held[slices.Index(held, t.Micro)] = -1
		case t.Kind == schedule.Recompute || t.Keep:
			i := slices.Index(held, -1)
			held[i] = t.Micro
			in.hold(program.Residual, i, train[t.Micro][k].Span[program.Residual])
		}
	}
	pair := min(2, len(train))
	if k < n.Partitions-1 {
		slots(program.Out, pair)
		slots(program.DOut, pair)
	} else {
		slots(program.Out, 1)
	}
	if k > 0 {
		slots(program.DIn, pair)
	}
	n.planGroups(k, in)
}

// planForward adds what stage k needs to evaluate or predict. With training, the
// training's slots are used, made larger where necessary; without, there is a pair at
// each edge, so that a tensor can cross it while the next one is made.
func (n *network) planForward(k int, what purpose, s *portion, in *planInput) {
	all := s.programs
	last := k == n.Partitions-1
	slots := func(s program.Space, count int) {
		if trained := len(in.slots[s]); trained > 0 {
			count = trained
		}
		for m := range all {
			in.hold(s, m%count, all[m][k].Span[s])
		}
	}
	slots(program.In, min(k+1, 2))
	switch {
	case !last:
		slots(program.Out, 2)
	case what == evaluating:
		slots(program.Out, 1)
	}
	for _, c := range all {
		need := c[k].Forward.Span
		if last && what == predicting {
			need = predictionOffset(c[k]) + c[k].Span[program.Out]
		}
		if need > in.slots[program.Workspace][0] {
			in.hold(program.Workspace, 0, need)
			in.widest, in.widestFor = c[k].Forward, what
		}
	}
}

// predictionOffset is the offset of the last stage's predictions in its workspace:
// after everything else there.
func predictionOffset(st *program.Stage) int { return program.AlignUp(st.Forward.Span) }

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
func (n *network) checkCapacity(p *Plan) error {
	k := p.At.Stage
	capacity := n.Devices[k].Capacity
	if capacity == 0 || p.Peak <= capacity {
		return nil
	}
	free := capacity
	take := func(layer string, c Category, bytes int64) error {
		if bytes > free {
			return &OutOfMemoryError{n.deviceOf(p.At), layer, c, bytes, free, capacity}
		}
		free -= bytes
		return nil
	}
	st := n.largest(k)
	seen := map[*nn.Param]bool{}
	per, perState := int64(n.copies()-n.stateSlots()+n.sums()), int64(floatBytes)
	updated := n.updated(p.At) // in the order of the stage's trained parameters
	if n.trains() {
		perState += int64(1+n.tallies()) * tallyBytes / 2 // a moving average's half of a tally
	}
	for _, l := range n.stageLayers(k) {
		var bytes int64
		for _, q := range l.Params() {
			switch {
			case seen[q]:
			case q.State:
				bytes += int64(q.Shape.Elems()) * perState
			case q.Frozen:
				bytes += int64(q.Shape.Elems()) * floatBytes
			default:
				bytes += int64(q.Shape.Elems())*floatBytes*per + int64(updated[0].Len()*n.stateSlots())*floatBytes
				updated = updated[1:]
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
	// The rest of the peak is the workspace and the padding between tensors.
	where := n.layerName(p.widest.Widest())
	if p.widestFor != training && n.trains() {
		where += " in " + p.widestFor.String()
	}
	return &OutOfMemoryError{n.deviceOf(p.At), where, Workspace, p.Peak - (capacity - free), free, capacity}
}
