package gpipe

import (
	"fmt"
	"slices"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/schedule"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
	"gpipebench/nn/trace"
)

// network is a pipeline cut into stages: everything about a run that is known
// from shapes alone.
type network struct {
	Pipeline                 // with its defaults filled in
	input    Input           // to train on; no examples: it does not train
	storage  program.Storage // on the devices
	placed   schedule.Placement
	pieces   place.Pieces // where placed has them
	// Of each piece, in the order of the layers. With one chunk a device, pieces are stages.
	sizes    []int // layers
	first    []int // index of the first layer
	note     string
	trained  [][]int              // of each device: the sizes of its trained parameters, in the order of its weights
	reduced  [][]int              // the same with 0 for those whose gradients are gathered
	layouts  []*reduction.Layout  // of each device, see layout; nil: not needed so far
	tables   []tableRows          // of the largest mini-batch, see rowsOf
	params   []parameter          // of the whole network, in layer order, tied ones once
	paths    map[*nn.Param]string // of all parameters, by the first layer that lists each
	moving   [][]nn.Moving        // of each piece, in the order of its programs' tallies
	compiled map[variant]compiled
	lists    map[int][][]schedule.Task // of Pipeline.Tasks, by number of micro-batches
	whole    [][]schedule.Task         // of a group, if groups are run one by one
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

// device is the number of a piece's device.
func (n *network) device(piece int) int { return n.placed.Device[piece] }

// compiled is the pieces' programs for one micro-batch size.
type compiled []*program.Stage

// parameter is a trained parameter and where its uses are.
type parameter struct {
	*nn.Param
	path string
	rate float64 // factor of the learning rate; 0: frozen
	uses []use   // in layer order
	// gathered: its gradient goes as rows (see GatherTied).
	gathered bool
}

// use is one accumulator: the index-th Use of a piece, which is the stage.
type use struct {
	stage, index int
	sparse       bool    // a gradient of rows, of which a multiple by scale is added up
	scale        float32 //
}

// stageLayers are the layers of piece k.
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
func (n *network) trace(in Input, size int, what purpose) []*trace.Stage {
	traced := make([]*trace.Stage, n.pieces.Len())
	wide := n.wide() && what == training
	flow := BatchOf(in.Inputs, size)
	for k := range traced {
		var loss nn.Loss
		var targets []graph.Type
		if k == len(traced)-1 && what != predicting {
			loss, targets = n.Loss, BatchOf(in.Targets, size)
		}
		traced[k] = trace.Into(&graph.Graph{OverReplicas: wide}, n.stageLayers(k), n.first[k], loss, flow, targets, what == training)
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
	c = n.compile(traced, what, nil)
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
			c = n.compile(traced, what, room)
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

// compile compiles the stages, and divides them. If room is not nil, parts' programs take no
// more than their counterparts there.
func (n *network) compile(traced []*trace.Stage, what purpose, room compiled) (c compiled) {
	if what == training {
		c = n.compileTraining(traced)
	} else {
		for k, tr := range traced {
			c = append(c, program.CompileEvaluateStored(tr.Function, n.Devices[n.device(k)].threads(), n.storage))
		}
	}
	if n.params == nil {
		n.listParams(traced, c)
	}
	for k := range c {
		var within *program.Stage
		if room != nil {
			within = room[k]
		}
		if n.Spatial > 1 {
			var err error
			if c[k], err = c[k].Divide(n.Spatial, within); err != nil {
				panic(fmt.Sprint("gpipe: what Validate accepts: ", err))
			}
		}
	}
	return c
}

// fits reports whether no program takes more workspace than its counterpart in room,
// of a larger micro-batch.
func (c compiled) fits(room compiled) bool {
	for k, st := range c {
		if st.Forward.Span > room[k].Forward.Span ||
			st.Keep != nil && (st.Keep.Span > room[k].Keep.Span || st.Keep.Again().Span > room[k].Keep.Again().Span ||
				st.Backward.Span > room[k].Backward.Span ||
				st.Input != nil && (st.Input.Span > room[k].Input.Span || st.Weights.Span > room[k].Weights.Span)) ||
			!compiled(st.Parts).fits(room[k].Parts) {
			return false
		}
	}
	return true
}

// compileTraining goes from the last stage to the first, since the later stage
// determines which boundary tensors have gradients.
func (n *network) compileTraining(traced []*trace.Stage) compiled {
	c := make(compiled, len(traced))
	var gradOut []bool
	splits := n.splits()
	for k := len(c) - 1; k >= 0; k-- {
		traced[k].Function.Split = splits
		c[k] = program.CompileStored(traced[k].Function, gradOut, k > 0, n.Devices[n.device(k)].threads(), n.storage)
		gradOut = make([]bool, len(c[k].DIn))
		for i, d := range c[k].DIn {
			gradOut[i] = d.Len > 0
		}
	}
	return c
}

// listParams finds every parameter's uses over all stages. If nothing is trained, a
// stage that has a parameter counts as a use.
func (n *network) listParams(traced []*trace.Stage, stages compiled) {
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
			p.uses = append(p.uses, use{stage: k, index: i, sparse: u.Rows > 0, scale: u.Scale})
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

// largest is the programs of piece k for the largest micro-batch: those of
// training, if there is any.
func (n *network) largest(k int) *program.Stage {
	for what := training; what <= predicting; what++ {
		if in := n.largestInput(what); in.Examples > 0 {
			return n.planned(n.largestMicro(what), what)[k]
		}
	}
	panic("gpipe: a network without a purpose")
}

// replicas are consecutive ones whose micro-batches have the same sizes: they take the
// same time and the same memory, but for what they own of sums over replicas.
type replicas struct {
	from, to int                      // without to
	portions [predicting + 1]*portion // of the largest mini-batch of every purpose; nil: there is none
}

// alike divides the replicas into those that are alike.
func (n *network) alike() (all []replicas) {
	var portions [predicting + 1][]portion
	for what := range portions {
		if in := n.largestInput(purpose(what)); in.Examples > 0 {
			portions[what] = n.largestPortions(purpose(what))
		}
	}
	for r := range n.Replicas {
		next, like := replicas{from: r, to: r + 1}, r > 0
		for what := range portions {
			if portions[what] != nil {
				next.portions[what] = &portions[what][r]
				like = like && slices.Equal(portions[what][r].sizes, portions[what][r-1].sizes)
			}
		}
		if like {
			all[len(all)-1].to++
		} else {
			all = append(all, next)
		}
	}
	return all
}

// fullest is the one of replicas that are alike that stands for them on stage k: if updates
// are divided, the one that updates most, and of these the one with the largest buffers
// for the sums over replicas.
func (n *network) fullest(of replicas, k int) int {
	fullest, most := of.from, [2]int{-1, -1}
	for r := of.from; r < of.to; r++ {
		at := place.Place{Replica: r, Stage: k}
		needs := [2]int{0, n.reduceFloats(at)}
		for _, part := range n.updated(at) {
			needs[0] += part.Len()
		}
		if slices.Compare(needs[:], most[:]) > 0 {
			fullest, most = r, needs
		}
	}
	return fullest
}

// memoryPlans makes the plans of all devices, in the order of place.Of.
func (n *network) memoryPlans() (all []*Plan) {
	for _, of := range n.alike() {
		for r := of.from; r < of.to; r++ {
			for k := range n.Partitions {
				at := place.Place{Replica: r, Stage: k}
				if r == of.from || n.ShardUpdate || n.reduceFloats(at) != n.reduceFloats(place.Place{Replica: r - 1, Stage: k}) {
					all = append(all, n.plan(at, of.portions))
					continue
				}
				plan := *all[len(all)-n.Partitions]
				plan.At = at
				all = append(all, &plan)
			}
		}
	}
	return all
}

// plan makes the memory plan of a device for a replica's shares of the largest
// mini-batches of every purpose, nil if there are none. Purposes do not run at the same
// time, so each piece of memory is as large as the purpose that needs most of it
// requires.
func (n *network) plan(at place.Place, shares [predicting + 1]*portion) *Plan {
	k := at.Stage
	in := planInput{chunks: make([]chunkInput, len(n.pieces.On(k)))}
	in.workspace(0)
	for c, piece := range n.pieces.On(k) {
		st := n.largest(piece)
		in.chunks[c].hold(program.Params, 0, st.Span[program.Params])
		in.chunks[c].hold(program.Grads, 0, st.Span[program.Grads])
	}
	if s := shares[training]; s != nil {
		n.planTraining(at, s, &in, n.inputsAhead(shares))
	}
	for _, what := range []purpose{evaluating, predicting} {
		if s := shares[what]; s != nil {
			for c, piece := range n.pieces.On(k) {
				n.planForward(piece, what, s, &in, &in.chunks[c], n.inputsAhead(shares))
			}
		}
	}
	in.state = n.stateSlots()
	elsewhere := 0
	for i, part := range n.updated(at) {
		in.params = append(in.params, part.Len())
		elsewhere += n.trained[k][i] - part.Len()
	}
	p := newPlan(in)
	p.At, p.elsewhere, p.normed = at, elsewhere, n.normed(at)
	for part := range n.Spatial - 1 {
		p.Parts = append(p.Parts, n.planPart(at, part, shares))
	}
	return p
}

// inputsAhead is how many inputs each piece must have room for where nothing is trained,
// with several chunks on a device; else nil: a pair is enough.
func (n *network) inputsAhead(shares [predicting + 1]*portion) []int {
	if n.placed.IsStraight() {
		return nil
	}
	most := make([]int, n.pieces.Len())
	for _, what := range []purpose{evaluating, predicting} {
		if s := shares[what]; s != nil {
			for k, ahead := range schedule.InputsAhead(s.lists, n.placed, len(s.sizes)) {
				most[k] = max(most[k], ahead)
			}
		}
	}
	return most
}

// planTraining adds what a device needs to train.
func (n *network) planTraining(at place.Place, s *portion, in *planInput, ahead []int) {
	k, train, list := at.Stage, s.programs, s.lists[at.Stage]
	if len(train) == 0 {
		return
	}
	workspace := 0
	for _, t := range list {
		piece := n.pieces.On(k)[t.Chunk]
		st := train[t.Micro][piece]
		prog := programOf(st, t)
		workspace = max(workspace, prog.Span)
		if t.Kind == schedule.Recompute && piece < n.pieces.Len()-1 {
			in.keep = max(in.keep, prog.Span)
			in.discard = max(in.discard, st.Span[program.Out])
		}
	}
	in.workspace(workspace)
	in.exchange = max(n.exchangeFloats(k), n.rowFloats(k), n.reduceFloats(at))
	gradients := clock.GradientSlots(s.lists, n.placed, len(train))
	for c, piece := range n.pieces.On(k) {
		if of := train[0][piece].Backward; in.widest == nil || of.Span > in.widest.Span {
			in.widest = of
		}
		n.planChunk(piece, s, ofChunk(list, c), &in.chunks[c], gradients[piece], ahead)
	}
	n.planGroups(k, in)
}

// planChunk adds what a device needs for one of its pieces of the network, whose tasks are
// given.
func (n *network) planChunk(k int, s *portion, list []schedule.Task, in *chunkInput, gradients int, ahead []int) {
	train := s.programs
	// A receiver holds an input from its arrival to its B. Its sender has as
	// many in flight as its own list says, and never runs further ahead.
	before := n.pieces.At(0, max(k-1, 0))
	inputs, _ := schedule.InFlight(ofChunk(s.lists[before.Stage], before.Chunk))
	if ahead != nil {
		inputs = max(inputs, ahead[k])
	}
	own, residuals := schedule.InFlight(list)
	slots := func(s program.Space, count int) {
		for m := range train {
			in.hold(s, m%count, train[m][k].Span[s]) // slot i holds micro-batches i, i+count, ...
		}
	}
	slots(program.In, inputs)
	if train[0][k].Span[program.Statistics] > 0 {
		slots(program.Statistics, own)
	}
	holders := func(s program.Space, count int, takes, frees func(schedule.Task) bool) {
		in.holdAlong(list, s, count, takes, frees, func(m int) *program.Stage { return train[m][k] })
	}
	holders(program.Residual, residuals, schedule.Task.MakesResiduals, schedule.Task.FreesResiduals)
	if train[0][k].Input != nil {
		lasting, between := schedule.AwaitingWeights(list)
		holders(program.Lasting, lasting, schedule.Task.MakesResiduals, schedule.Task.Accumulates)
		is := func(kind schedule.Kind) func(schedule.Task) bool {
			return func(t schedule.Task) bool { return t.Kind == kind }
		}
		holders(program.Between, between, is(schedule.BackwardInput), is(schedule.BackwardWeights))
	}
	pair := min(2, len(train))
	if k < n.pieces.Len()-1 {
		slots(program.Out, pair)
		slots(program.DOut, gradients)
	} else {
		slots(program.Out, 1)
	}
	if k > 0 {
		slots(program.DIn, pair)
	}
}

// holdAlong makes the slots of a space as large as a list's micro-batches need them, each of
// which holds one from its task that takes to its task that frees.
func (in *chunkInput) holdAlong(list []schedule.Task, s program.Space, count int, takes, frees func(schedule.Task) bool, of func(micro int) *program.Stage) {
	held := newHolders(count)
	for _, t := range list {
		if takes(t) {
			in.hold(s, held.take(t.Micro), of(t.Micro).Span[s])
		}
		if frees(t) {
			held.free(t.Micro)
		}
	}
}

// planForward adds what a piece needs to evaluate or predict. With training, the
// training's slots are used, made larger where necessary; without, there is a pair at
// each edge, so that a tensor can cross it while the next one is made, or as many as are
// ahead.
func (n *network) planForward(k int, what purpose, s *portion, in *planInput, of *chunkInput, ahead []int) {
	all := s.programs
	last := k == n.pieces.Len()-1
	slots := func(s program.Space, count int) {
		if trained := len(of.slots[s]); trained > 0 {
			count = trained
		}
		for m := range all {
			of.hold(s, m%count, all[m][k].Span[s])
		}
	}
	inputs := min(k+1, 2)
	if ahead != nil {
		inputs = max(inputs, ahead[k])
	}
	slots(program.In, inputs)
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
		if need > in.chunks[0].slots[program.Workspace][0] {
			in.workspace(need)
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
	case t.Kind == schedule.BackwardInput:
		return st.Input
	case t.Kind == schedule.BackwardWeights:
		return st.Weights
	case t.Kind == schedule.Recompute:
		return st.Keep.Again()
	case t.Keep:
		return st.Keep
	}
	return st.Forward
}

// deviceParams lists the parameters and constants of all of a device's pieces: those of
// each, and so one that two of them have twice, since each has a copy.
func (n *network) deviceParams(device int) (ps []*nn.Param) {
	for _, piece := range n.pieces.On(device) {
		ps = append(ps, n.stageParams(piece)...)
	}
	return ps
}

// stageParams lists the parameters and constants of piece k in layout order.
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
		return n.checkParts(p, capacity)
	}
	free := capacity
	take := func(layer string, c Category, bytes int64) error {
		if bytes > free {
			return &OutOfMemoryError{n.deviceOf(p.At), layer, c, bytes, free, capacity}
		}
		free -= bytes
		return nil
	}
	per, perState := int64(n.copies()-n.stateSlots()+n.sums()), int64(floatBytes)
	updated := n.updated(p.At) // in the order of the stage's trained parameters
	if n.trains() {
		perState += int64(1+n.tallies()) * tallyBytes / 2 // a moving average's half of a tally
	}
	weights := func(l nn.Layer, seen map[*nn.Param]bool) error {
		var bytes int64
		for _, q := range l.Params() {
			switch {
			case seen[q]:
			case q.State:
				bytes += int64(q.Shape.Elems()) * perState
			case q.Frozen:
				bytes += int64(q.Shape.Elems()) * floatBytes
			default:
				if n.gathers(q) { // the sums of groups take the place of rows
					bytes -= int64(q.Shape.Elems()*n.sums()) * floatBytes
				}
				bytes += int64(q.Shape.Elems())*floatBytes*per + int64(updated[0].Len()*n.stateSlots())*floatBytes
				updated = updated[1:]
			}
			seen[q] = true
		}
		return take(l.Name(), Parameters, bytes)
	}
	for _, piece := range n.pieces.On(k) {
		seen := map[*nn.Param]bool{}
		for _, l := range n.stageLayers(piece) {
			if err := weights(l, seen); err != nil {
				return err
			}
		}
	}
	for i := range n.tables {
		if t := &n.tables[i]; t.on(k) {
			if err := take(n.params[t.param].path, Gradients, t.bytes(0, t.rows)); err != nil {
				return err
			}
		}
	}
	for c, piece := range n.pieces.On(k) {
		st, slots := n.largest(piece), &p.chunks[c]
		first := n.layerName(n.first[piece])
		var boundary int64
		for s, of := range slots {
			for _, slot := range of {
				if categoryOf[s] == Boundary {
					boundary += int64(slot.span) * floatBytes
				}
			}
		}
		if len(p.chunks) == 1 {
			boundary = p.Bytes[Boundary]
		}
		if err := take(first, Boundary, boundary); err != nil {
			return err
		}
		statistics := int64(len(slots[program.Statistics])) * int64(st.Span[program.Statistics]) * floatBytes
		if err := take(first, Residuals, statistics); err != nil {
			return err
		}
		last := n.first[piece] + n.sizes[piece]
		for i := n.first[piece]; i <= last; i++ {
			var floats int
			for _, s := range []program.Space{program.Residual, program.Lasting, program.Between} {
				floats += len(slots[s]) * st.SavedIn[s][i]
			}
			if err := take(n.layerName(i), Residuals, int64(floats)*floatBytes); err != nil {
				return err
			}
		}
	}
	// The rest of the peak is the workspace and the padding between tensors.
	where := n.layerName(p.widest.Widest())
	if p.widestFor != training && n.trains() {
		where += " in " + p.widestFor.String()
	}
	return &OutOfMemoryError{n.deviceOf(p.At), where, Workspace, p.Peak - (capacity - free), free, capacity}
}
