package gpipe

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/schedule"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
	"gpipebench/nn/program"
	"gpipebench/nn/trace"
)

// clusterStep is a step on a cluster as Parallel describes it. Its layers are one of T parts' own,
// each distinct one is compiled once by itself, and stages are sums of layers. One replica stands
// for all, which have equal shares of the mini-batch.
type clusterStep struct {
	Pipeline
	Parallel
	how      Modelling
	a        *accelerator.Accelerator
	replicas int
	micro    int // examples of a micro-batch
	node     int // devices of a node
	parts    int // T
	near     clock.Link
	far      clock.Link

	layers []*layerCost // those that are alike are one
	lists  [][]schedule.Task
	placed schedule.Placement
	sizes  []int // layers of each piece
	first  []int // its first layer
	note   string
}

// layerCost is what a layer takes and keeps of one micro-batch. Bytes are as stored.
type layerCost struct {
	forward, backward accelerator.Timing // without what is computed again
	input, weights    accelerator.Timing // the parts of backward, of split schedules
	again, scores     accelerator.Timing // the forward again, and the core of attention
	in, out           int64              // what crosses its edges
	kept              int64              // residuals, without in
	lasting, between  int64              // the part of kept that W reads, and what I keeps for W
	workspace         int64
	scored            int64 // the scores of attention, where they are in memory and not kept
}

// CheckParallel reports what of Modelling.Parallel cannot be modelled for mini-batches like in, and
// what would be accepted. It builds nothing.
func (p Pipeline) CheckParallel(in Input, how Modelling) error {
	if !how.Parallel.Used() {
		return nil
	}
	_, err := p.onCluster(in, how)
	return err
}

// onCluster finds the devices of a step, and what each has of the mini-batch.
func (p Pipeline) onCluster(in Input, how Modelling) (*clusterStep, error) {
	c := &clusterStep{Pipeline: p, Parallel: how.Parallel, how: how, replicas: max(p.Replicas, 1), parts: max(how.Tensor, 1)}
	if len(p.Devices) == 0 || p.Devices[0].Kind != Modelled || p.Devices[0].Accelerator == nil {
		return nil, errors.New("simulation runs on modelled devices only")
	}
	if err := c.refuse(); err != nil {
		return nil, err
	}
	if err := c.divide(in); err != nil {
		return nil, err
	}
	if c.ShardUpdate { // ZeRO 1 by its older name
		c.Zero = max(c.Zero, 1)
	}
	c.Pipeline.Replicas, c.Groups, c.ShardUpdate = 1, 1, false
	return c, c.device()
}

// cluster plans a step; an error says what cannot be modelled, and what would be.
func (p Pipeline) cluster(in Input, how Modelling) (*clusterStep, error) {
	c, err := p.onCluster(in, how)
	if err != nil {
		return nil, err
	}
	in.Examples /= c.replicas
	if err := c.Validate(in); err != nil {
		return nil, err
	}
	if err := c.order(); err != nil {
		return nil, err
	}
	if err := c.cost(in); err != nil {
		return nil, err
	}
	return c, c.cut()
}

// clusterVariants is SimulateVariants on a cluster, whose links are not the variants'.
func (p Pipeline) clusterVariants(in Input, how Modelling, variants []Variant) (all []*Simulation, err error) {
	for _, v := range variants {
		p.Schedule, p.Checkpoint, p.LateRecompute = v.Schedule, v.Checkpoint, v.LateRecompute
		s, err := p.Simulate(in, how)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// refuse refuses what no simulation of a cluster has.
func (c *clusterStep) refuse() error {
	switch {
	case c.Tensor < 0 || c.Tensor > MaxParts:
		return fmt.Errorf("%d parts of each stage: want 1 to %d", c.Tensor, MaxParts)
	case c.Zero < 0 || c.Zero > 3:
		return fmt.Errorf("ZeRO %d: want 0, 1, 2 or 3", c.Zero)
	case !(c.Near.Bandwidth >= 0 && c.Far.Bandwidth >= 0) || math.IsInf(c.Near.Bandwidth+c.Far.Bandwidth, 1):
		return fmt.Errorf("links of %g and %g bytes a second: want positive ones, or 0 for the accelerator's", c.Near.Bandwidth, c.Far.Bandwidth)
	case c.NodeDevices < 0:
		return fmt.Errorf("nodes of %d devices: want 1 or more, or 0 for the accelerator's", c.NodeDevices)
	case c.SequenceParallel && c.parts == 1:
		return fmt.Errorf("sequence parallelism of 1 part: want tensor parallelism of 2 or more")
	case c.Spatial > 1 || c.BatchNormScope != ReplicaScope || c.TiedGradients != ReduceTied:
		return fmt.Errorf("parts of images, statistics over replicas and gathered tables on a cluster: want none of them with tensor parallelism, ZeRO, recomputation or a precision")
	case c.Schedule.Asynchronous():
		return fmt.Errorf("%v on a cluster: want a synchronous schedule with tensor parallelism, ZeRO, recomputation or a precision", c.Schedule)
	case c.Groups > 1 && c.Groups != c.replicas:
		return fmt.Errorf("%d groups of a mini-batch on %d replicas of a cluster: want one for each", c.Groups, c.replicas)
	case c.Recompute == RecomputeStage && c.Checkpoint == schedule.ExceptLast:
		return fmt.Errorf("checkpoint except-last on a cluster: want always, never, or recomputation none, selective or full")
	}
	return nil
}

// divide finds the size of all micro-batches.
func (c *clusterStep) divide(in Input) error {
	all := c.replicas * max(c.MicroBatches, 1)
	if in.Examples < 1 || in.Examples%all != 0 {
		return fmt.Errorf("a mini-batch of %d examples for %d replicas of %d micro-batches: want a multiple of %d", in.Examples, c.replicas, max(c.MicroBatches, 1), all)
	}
	c.micro = in.Examples / all
	return nil
}

// device sets the accelerator's rates and links.
func (c *clusterStep) device() error {
	a := *c.Devices[0].Accelerator
	switch c.Precision {
	case FP16Weights:
		if a.FP16 > 0 {
			a.BF16 = a.FP16
		}
	case FP8Products:
		if a.FP8 == 0 {
			return fmt.Errorf("%s has no rate for products in 8 bits: want another precision", a.Name)
		}
		a.Narrow = a.FP8 * a.Share("dense-fp8") / (a.BF16 * a.Share("dense"))
	}
	if a.Rate(c.how.DType) == 0 {
		return fmt.Errorf("%s has no rate for %v: want activations of another dtype", a.Name, c.how.DType)
	}
	c.near, c.far = a.Near(c.Near), a.FarHop(c.Far)
	total := c.parts * max(c.Partitions, 1) * c.replicas
	if c.node = c.NodeDevices; c.node == 0 {
		c.node = a.Far.Devices
	}
	if c.node == 0 {
		c.node = total
	}
	a.Running.Parts = reduction.Groups{Size: c.node, Near: c.near, Far: c.far}
	a.Running.Attention, a.Running.DropScores, a.Running.Overlap, a.Running.Apart = c.Attention, c.DropScores, c.Overlap, c.GradientsApart
	if a.Kernels == nil && c.Attention != OurAttention {
		a.Running.Attention = OurAttention // its rates know of no kernels
	}
	if c.parts > 1 && c.node%c.parts != 0 && (!c.TensorOverNodes || c.parts%c.node != 0) {
		return fmt.Errorf("%d parts of each stage on nodes of %d devices: want a divisor of %d, or a multiple if parts in several nodes are allowed", c.parts, c.node, c.node)
	}
	c.a = &a
	return nil
}

// order makes the task lists.
func (c *clusterStep) order() (err error) {
	k, m := max(c.Partitions, 1), max(c.MicroBatches, 1)
	if c.Tasks != nil {
		c.lists, c.placed = c.Tasks(k, m), c.Placement.Or(k)
		return nil
	}
	mode := schedule.Never
	if c.Recompute == RecomputeStage {
		mode = c.Checkpoint
	}
	c.lists, c.placed, err = schedule.Lists(c.Schedule, k, c.Chunks, m, mode, c.LateRecompute)
	return err
}

// weightBytes, gradientBytes and stateBytes are the bytes of one parameter.
func (p Parallel) weightBytes() int64 {
	if p.Precision == F32Weights {
		return 4
	}
	return 2
}

func (p Parallel) gradientBytes() int64 {
	switch {
	case p.WideGradients && p.Precision != F32Weights:
		return 2 + plan.FloatBytes
	case p.Precision == FP16Weights:
		return 2
	}
	return plan.FloatBytes
}

// summedBytes are the bytes of one parameter's gradient as replicas add them up.
func (c *clusterStep) summedBytes() int64 { return min(c.gradientBytes(), plan.FloatBytes) }

func (c *clusterStep) stateBytes() int64 {
	_, _, state := c.PerParameter(c.slots())
	return int64(state)
}

// copied are the bytes of a gradient's float32 copy, which only the update has.
func (c *clusterStep) copied() int64 {
	if c.gradientBytes() < plan.FloatBytes {
		return plan.FloatBytes
	}
	return 0
}

// slots are the tensors of the optimiser's state.
func (c *clusterStep) slots() int {
	if c.Optimizer == nil {
		return 0
	}
	return len(c.Optimizer.Slots())
}

// Costs keeps what layers cost, for other simulations of the same layers on the same devices that
// differ in the pipeline, replicas, ZeRO and recomputation. One is for one goroutine.
type Costs struct{ known map[costKey][]*layerCost }

// costKey is what costs depend on.
type costKey struct {
	first         nn.Layer
	micro         int
	splits, keeps bool
}

// cost sets the layers' costs.
func (c *clusterStep) cost(in Input) error {
	keeps := c.Attention == UnfusedAttention && c.Recompute != RecomputeSelective || c.how.KeepScores
	key := costKey{c.Layers[0], c.micro, schedule.Splits(c.lists), keeps}
	if of := c.how.Costs; of != nil && of.known[key] != nil {
		c.layers = of.known[key]
		return nil
	}
	if err := c.compile(in, key); err != nil || c.how.Costs == nil {
		return err
	}
	if c.how.Costs.known == nil {
		c.how.Costs.known = map[costKey][]*layerCost{}
	}
	c.how.Costs.known[key] = c.layers
	return nil
}

// compile traces every layer and compiles each distinct one.
func (c *clusterStep) compile(in Input, of costKey) (err error) {
	defer plan.Misfit(&err)
	storage := program.Storage{
		DType: c.how.DType, NoPacking: !c.a.Packing, KeepScores: of.keeps, DropScores: c.DropScores,
		Weights: c.weightBytes(), Gradients: c.summedBytes(),
	}
	seen := map[string]*layerCost{}
	flow := plan.BatchOf(in.Inputs, c.micro)
	last := len(c.Layers) - 1
	for i := range c.Layers {
		var loss nn.Loss
		var targets []graph.Type
		if i == last {
			loss, targets = c.Loss, plan.BatchOf(in.Targets, c.micro)
		}
		traced := trace.Layers(c.Layers[i:i+1], i, loss, flow, targets, true)
		flow = traced.Out
		key := signature(traced)
		if seen[key] == nil {
			traced.Function.Split = of.splits
			seen[key] = c.layer(traced, i, storage)
		}
		c.layers = append(c.layers, seen[key])
	}
	return nil
}

// signature has everything that decides the cost of a layer.
func signature(traced *trace.Stage) string {
	var b strings.Builder
	write := func(n *graph.Node) { fmt.Fprint(&b, n.Role, n.DType, n.Shape) }
	for _, call := range traced.Function.Graph.Calls {
		fmt.Fprint(&b, call.Name(), " ")
		if _, keyed := call.Op.(op.Dropout); !keyed { // by its path, which costs nothing
			fmt.Fprint(&b, call.Op)
		}
		for _, n := range call.In {
			write(n)
		}
		b.WriteString("->")
		for _, n := range call.Out {
			write(n)
		}
		b.WriteString(";")
	}
	return b.String()
}

// layer compiles layer i of the network.
func (c *clusterStep) layer(traced *trace.Stage, i int, storage program.Storage) *layerCost {
	var gradOut []bool
	if i < len(c.Layers)-1 {
		for _, t := range traced.Out {
			gradOut = append(gradOut, t.DType != graph.I32)
		}
	}
	st := program.CompileStored(traced.Function, gradOut, i > 0, 1, storage)
	all := func(int) bool { return true }
	time := func(p *program.Program) accelerator.Timing { return c.a.Timing(p, c.how.DType, all) }
	bytes := func(s program.Space) int64 { return plan.FloatBytes * int64(st.Span[s]) }
	l := &layerCost{
		forward: time(st.Forward), backward: time(st.Backward), again: time(st.Keep.Again()),
		in: bytes(program.In), out: bytes(program.Out),
		kept: bytes(program.Residual) + bytes(program.Lasting) + masks(st.Keep), lasting: bytes(program.Lasting), between: bytes(program.Between),
		workspace: bytes(program.Workspace),
	}
	if c.Attention == UnfusedAttention && !storage.KeepScores {
		l.scored = scored(st.Keep, c.how.DType.Bytes(), c.DropScores)
	}
	l.scores = accelerator.Timing{Operations: l.again.Scores, Scores: l.again.Scores}
	if st.Input != nil {
		l.input, l.weights = time(st.Input), time(st.Weights)
	}
	if i == len(c.Layers)-1 {
		l.out = 0
	}
	return l
}

// scored are the bytes of all scores of attention, with those after a dropout and its mask.
func scored(p *program.Program, each int64, dropped bool) (bytes int64) {
	for i := range p.Instrs {
		if in := &p.Instrs[i]; in.Op == "attention" {
			d := in.Dims()
			scores := int64(d.Count) * int64(d.M) * int64(d.N)
			if bytes += scores * each; dropped {
				bytes += scores * (each + 1)
			}
		}
	}
	return bytes
}

// masks are what frameworks keep of dropouts: a byte for each element.
func masks(p *program.Program) (bytes int64) {
	for i := range p.Instrs {
		if strings.HasPrefix(p.Instrs[i].Op, "dropout") {
			bytes += p.Instrs[i].Cost.Elems
		}
	}
	return bytes
}

// recomputed is what the backward of layer i computes again.
func (c *clusterStep) recomputed(i int) accelerator.Timing {
	switch {
	case c.Recompute == RecomputeFull && 0 < i && i < len(c.layers)-1:
		return c.layers[i].again
	case c.Recompute == RecomputeSelective:
		return c.layers[i].scores
	}
	return accelerator.Timing{}
}

// keeps is what a micro-batch holds of layer i from its F to its B, in bytes.
func (c *clusterStep) keeps(i int) int64 {
	if c.Recompute == RecomputeFull && 0 < i && i < len(c.layers)-1 {
		return c.layers[i].in
	}
	return c.layers[i].in + c.layers[i].kept
}

// estimates are the layers' costs to cut by. What GPipe's recomputation of stages does in tasks of
// its own is in the backward otherwise.
func (c *clusterStep) estimates() []LayerEstimate {
	all := make([]LayerEstimate, len(c.layers))
	for i, l := range c.layers {
		of := layerTimings{forward: l.forward, backward: l.backward, input: l.input, weights: l.weights}
		of.backward.Add(c.recomputed(i))
		of.input.Add(c.recomputed(i))
		if c.Recompute == RecomputeStage && c.Checkpoint != schedule.Never {
			of.recompute = l.again
		}
		all[i] = of.estimate(c.keeps(i))
	}
	return all
}

// cut cuts the layers into pieces, by their modelled times if nothing else is said.
func (c *clusterStep) cut() error {
	if c.sizes = c.Balance; c.sizes == nil {
		costs := c.Costs
		if costs == nil {
			costs = LayerSeconds(c.estimates())
		}
		split, err := partition.Split(c.Partitioner, costs, c.placed.Stages())
		if err != nil {
			return err
		}
		c.sizes, c.note = split.Sizes, split.Moved
	}
	next := 0
	for _, n := range c.sizes {
		c.first = append(c.first, next)
		next += n
	}
	return nil
}

// rank is the number of a device on the cluster.
func (c *clusterStep) rank(part, replica, stage int) int {
	if c.Order == TensorPipelineData {
		return part + c.parts*(stage+max(c.Partitions, 1)*replica)
	}
	return part + c.parts*(replica+c.replicas*stage)
}

// hop is the link between two stages: the far one if some replica's are in different nodes.
func (c *clusterStep) hop(from, to place.Place) clock.Link {
	far := false
	for r := 0; r < c.replicas && !far; r++ {
		far = c.rank(0, r, from.Stage)/c.node != c.rank(0, r, to.Stage)/c.node
	}
	link := c.near
	if far {
		link = c.far
	}
	if far && c.Scatter && c.parts > 1 && !c.SequenceParallel { // shares, which the parts gather
		t := float64(c.parts)
		link.Bandwidth = 1 / (1/(t*c.far.Bandwidth) + (t-1)/t/c.near.Bandwidth)
		link.Latency += (t - 1) * c.near.Latency
	}
	return link
}

// among is the time in which the replicas of a stage add up bytes: until each has its share of the
// sums, and until all have all. Within a node they do that first, each then with its share of the
// data between nodes, on its own adapter.
func (c *clusterStep) among(stage int, bytes float64) (reduce, gather float64) {
	inNode := map[int]int{}
	for r := range c.replicas {
		inNode[c.rank(0, r, stage)/c.node]++
	}
	most := 0
	for _, n := range inNode {
		most = max(most, n)
	}
	return reduction.Groups{Size: most, Near: c.near, Far: c.far}.Cost(most*len(inNode), bytes)
}

// params are the trained elements of piece k, each once, and of its layers.
func (c *clusterStep) params(k int) (all int64, byLayer []int64) {
	seen := map[*nn.Param]bool{}
	for _, l := range c.Layers[c.first[k] : c.first[k]+c.sizes[k]] {
		var own int64
		for _, q := range l.Params() {
			if !q.Frozen && !seen[q] {
				seen[q] = true
				own += int64(q.Shape.Elems())
			}
		}
		all += own
		byLayer = append(byLayer, own)
	}
	return all, byLayer
}

// exchanges are the gradients of tables that the first and another stage have, which both send.
func (c *clusterStep) exchanges() (all []clock.Exchange) {
	owner := map[*nn.Param]int{}
	for piece, first := range c.first {
		device := c.placed.Device[piece]
		for _, l := range c.Layers[first : first+c.sizes[piece]] {
			for _, q := range l.Params() {
				if at, ok := owner[q]; !ok {
					owner[q] = device
				} else if at != device && !q.Frozen {
					bytes := c.summedBytes() * int64(q.Shape.Elems())
					a, b := place.Place{Stage: at}, place.Place{Stage: device}
					all = append(all, clock.Exchange{From: a, To: b, Bytes: bytes}, clock.Exchange{From: b, To: a, Bytes: bytes})
				}
			}
		}
	}
	return all
}

// share is the part of what replicas divide from a stage of ZeRO on that each of them has.
func (c *clusterStep) share(from int) float64 {
	if c.Zero >= from {
		return 1 / float64(c.replicas)
	}
	return 1
}

// pieceTimes are the times of a piece's tasks, and what they have of a micro-batch by cause, in
// seconds.
type pieceTimes struct {
	StageTimes
	parts    float64 // exposed sums and gathers of the T parts
	again    float64 // what is computed again, within B or I
	gathered float64 // exposed gathers and sums of ZeRO 3
	sent     float64 // transfers that tasks wait for (AwaitTransfers)
}

// times returns how long piece k computes and communicates.
func (c *clusterStep) times(k int) (t pieceTimes) {
	var f, b, in, w, r accelerator.Timing
	for i := c.first[k]; i < c.first[k]+c.sizes[k]; i++ {
		l, again := c.layers[i], c.recomputed(i)
		f.Add(l.forward)
		b.Add(l.backward)
		b.Add(again)
		in.Add(l.input)
		in.Add(again)
		w.Add(l.weights)
		r.Add(l.again)
		t.again += again.Computing()
	}
	t.parts = f.Parts + b.Parts
	forward, backward, input := f.Seconds(), b.Seconds(), in.Seconds()
	if c.Zero == 3 && c.replicas > 1 {
		moreF, moreB := c.gathered(k, forward, backward)
		t.gathered = moreF + moreB
		forward, backward, input = forward+moreF, backward+moreB, input+moreB
	}
	if c.AwaitTransfers {
		next, before := c.transfer(k, k+1), c.transfer(k, k-1)
		t.sent = next + before
		forward, backward, input = forward+next, backward+before, input+before
	}
	m := max(c.MicroBatches, 1)
	t.F, t.B, t.R = slices.Repeat([]float64{forward}, m), slices.Repeat([]float64{backward}, m), slices.Repeat([]float64{r.Seconds()}, m)
	if schedule.Splits(c.lists) {
		t.I, t.W = slices.Repeat([]float64{input}, m), slices.Repeat([]float64{w.Seconds()}, m)
	}
	return t
}

// transfer is the time in which a piece's device sends to the device of the next piece or of the one
// before; 0: it has none there, or has it itself.
func (c *clusterStep) transfer(from, to int) float64 {
	if to < 0 || to == len(c.first) || c.placed.Device[from] == c.placed.Device[to] {
		return 0
	}
	lower := min(from, to)
	link := c.hop(place.Place{Stage: c.placed.Device[from]}, place.Place{Stage: c.placed.Device[to]})
	return link.Latency + float64(c.layers[c.first[lower]+c.sizes[lower]-1].out)/link.Bandwidth
}

// gathered is what FSDP exposes of gathering a piece's weights beside the layer before, forward and
// backward, and of adding up gradients beside the layer after: the first gather, the last sum, and
// what does not fit beside the tasks' own time.
func (c *clusterStep) gathered(k int, forward, backward float64) (f, b float64) {
	params, byLayer := c.params(k)
	weights, gradients := float64(c.weightBytes()), float64(c.summedBytes())
	all, largest := float64(params), float64(slices.Max(byLayer))
	stage := c.placed.Device[k]
	_, gather := c.among(stage, weights*all)
	_, first := c.among(stage, weights*largest)
	sums, _ := c.among(stage, gradients*all)
	last, _ := c.among(stage, gradients*largest)
	return max(0, gather-first-forward) + first, max(0, gather+sums-first-last-backward) + first + last
}

// simulate replays the step.
func (c *clusterStep) simulate() (*Simulation, error) {
	s := &Simulation{Sizes: c.sizes, Note: c.note, Recomputed: make([]int, len(c.sizes))}
	if !c.placed.IsStraight() {
		s.Placement = c.placed
	}
	m := max(c.MicroBatches, 1)
	pieces := c.placed.Pieces()
	times := &Times{
		Replicas: 1, Together: 1, Lists: c.lists, Examples: [][]int{slices.Repeat([]int{c.micro}, m)}, Placement: s.Placement,
		Link: c.near, Hop: c.hop, Exchanges: c.exchanges(),
		Boundary: func(at place.Place, _ int) int64 {
			k := pieces.Piece(at)
			return c.layers[c.first[k]+c.sizes[k]-1].out
		},
	}
	if c.AwaitTransfers { // tasks have them
		times.Hop = func(place.Place, place.Place) clock.Link { return clock.Link{} }
	}
	var tensor, again, gathered, transfers float64 // of all devices
	for device, list := range c.lists {
		on := pieces.On(device)
		ofDevice := make([]StageTimes, len(on))
		var params int64
		var backward float64
		for chunk, piece := range on {
			t := c.times(piece)
			ofDevice[chunk] = t.StageTimes
			tensor += t.parts * float64(m)
			again += t.again * float64(m)
			gathered += t.gathered * float64(m)
			transfers += t.sent * float64(m)
			own, _ := c.params(piece)
			params += own
			backward += t.B[0]
		}
		c.update(&ofDevice[0], device, params, backward)
		s.ReduceSeconds = max(s.ReduceSeconds, ofDevice[0].Reduce+ofDevice[0].Gather)
		s.UpdateSeconds = max(s.UpdateSeconds, ofDevice[0].Update)
		times.Stages = append(times.Stages, ofDevice...)
		s.Devices = append(s.Devices, c.estimate(list, on, params))
		for _, t := range list {
			if t.Kind == schedule.Recompute {
				s.Recomputed[on[t.Chunk]] += c.replicas * c.micro
			}
		}
	}
	if c.how.Brief {
		unfit := slices.ContainsFunc(s.Devices, func(d DeviceEstimate) bool { return !d.Fits() })
		if unfit || c.how.Enough > 0 && c.least(times) > c.how.Enough {
			return s, nil
		}
	}
	var err error
	if s.Timeline, err = times.Replay(); err != nil {
		return nil, err
	}
	s.Seconds = s.Timeline.Span()
	if c.how.Brief {
		return s, nil
	}
	if s.Parts, err = times.Breakdown(); err != nil {
		return nil, err
	}
	k := float64(len(c.lists))
	p := s.Parts
	s.Step = StepParts{
		Computing: p.Computation + p.Recompute - (tensor+gathered+transfers)/k, Recomputed: p.Recompute + again/k, Tensor: tensor / k,
		Pipeline: p.Communication + transfers/k, Bubble: p.Bubble + p.Imbalance + p.Barrier, Replicas: p.Reduction + gathered/k, Optimizer: p.Setup + p.Update,
	}
	for i := range s.Devices {
		s.Devices[i].BusySeconds = s.Timeline.Busy(i)
	}
	return s, nil
}

// least is less than a step takes, in seconds: a device begins when the first micro-batch has passed the
// pieces before its first one, and after its last backward function the gradient passes these.
func (c *clusterStep) least(t *Times) (seconds float64) {
	pieces, of := c.placed.Pieces(), t.places()
	fill, drain := make([]float64, len(c.sizes)+1), make([]float64, len(c.sizes)+1)
	for k := range c.sizes {
		fill[k+1], drain[k+1] = fill[k]+of(pieces.At(0, k)).F[0], drain[k]+of(pieces.At(0, k)).B[0]
	}
	for device, list := range c.lists {
		first, own := pieces.On(device)[0], of(place.Place{Stage: device})
		busy, end := max(own.Setup, fill[first]), own.Reduce+own.Update+own.Gather
		for _, task := range list {
			busy += of(place.Place{Stage: device, Chunk: task.Chunk}).Task(task)
		}
		if last := list[len(list)-1]; last.Kind == schedule.Backward && last.Chunk == 0 {
			end = max(end, drain[first])
		}
		seconds = max(seconds, busy+end)
	}
	return seconds * (1 - 1e-9) // no more than the sums of a replay
}

// update sets what a device does at a step's ends.
func (c *clusterStep) update(t *StageTimes, device int, params int64, backward float64) {
	elements := float64(params)
	weights, gradients := float64(c.weightBytes()), float64(c.gradientBytes())
	own := c.share(1) * elements
	t.Setup = c.a.Moving(accelerator.Clear, c.share(2)*gradients*elements)
	// The norm reads gradients, which are scaled and copied in float32, and the update reads them;
	// it reads and writes float32 weights and state, and writes weights of two bytes.
	moved := gradients + (gradients + 4) + 4 + 8 + 8*float64(c.slots())
	if weights < plan.FloatBytes {
		moved += weights
	}
	t.Update = c.a.Moving(accelerator.Update, moved*own)
	if c.replicas == 1 || c.Zero == 3 {
		return
	}
	reduce, gather := c.among(device, float64(c.summedBytes())*elements)
	if c.Zero > 0 {
		_, t.Gather = c.among(device, weights*elements)
		gather = 0
	}
	t.Reduce = reduce + gather
	if c.Overlap {
		t.Reduce = max(t.Reduce-backward, t.Reduce/float64(len(c.layers)))
	}
}

// estimate is the memory of a device that runs the list and has some pieces.
func (c *clusterStep) estimate(list []schedule.Task, on []int, params int64) DeviceEstimate {
	var d DeviceEstimate
	var footprints []schedule.Footprint
	var workspace, edges, largest int64
	for _, piece := range on {
		var kept, lasting, between, again int64
		_, byLayer := c.params(piece)
		largest = max(largest, slices.Max(byLayer))
		for i := c.first[piece]; i < c.first[piece]+c.sizes[piece]; i++ {
			l := c.layers[i]
			kept += c.keeps(i)
			lasting += l.lasting
			between += l.between
			needs := l.workspace + l.scored
			if c.keeps(i) < l.in+l.kept {
				needs += l.kept
			}
			workspace = max(workspace, needs)
			again += l.in + l.kept
		}
		input := int64(0)
		if c.Recompute == RecomputeStage && c.Checkpoint != schedule.Never {
			input = c.layers[c.first[piece]].in
			kept = again - input
		}
		footprints = append(footprints, schedule.Footprint{Input: float64(input), Residuals: float64(kept), Weights: float64(lasting + between)})
		last := c.layers[c.first[piece]+c.sizes[piece]-1]
		if len(c.first) > 1 {
			edges = max(edges, c.layers[c.first[piece]].in+2*last.out)
		}
		d.kept = append(d.kept, micro{residual: max(kept-lasting, 0) / plan.FloatBytes, lasting: lasting / plan.FloatBytes, between: between / plan.FloatBytes})
	}
	elements := float64(params)
	weights, gradients := float64(c.weightBytes()), float64(c.gradientBytes())
	d.Memory = DeviceMemory{
		Weights: int64(c.share(3) * weights * elements), Gradients: int64(c.share(2) * gradients * elements),
		State:       int64(c.share(1) * float64(c.stateBytes()) * elements),
		Activations: int64(schedule.Peak(list, footprints)) + edges, Workspace: workspace,
	}
	if c.Zero == 3 && c.replicas > 1 { // of a layer's weights and the next one's, and its gradients
		d.Memory.Workspace += int64(2*weights+gradients) * largest
	}
	// The update runs when no activations are left.
	d.Memory.Workspace = max(d.Memory.Workspace, int64(c.share(1)*float64(c.copied())*elements)-d.Memory.Activations)
	d.ParamBytes, d.GradientBytes = d.Memory.Weights+d.Memory.State, d.Memory.Gradients
	d.BoundaryBytes, d.ResidualBytes, d.WorkspaceBytes = edges, d.Memory.Activations-edges, d.Memory.Workspace
	d.ActivationBytes = d.Memory.Activations + d.Memory.Workspace
	d.Capacity, d.Footprints = c.Devices[0].Capacity, footprints
	d.PeakBytes = d.Memory.Sum()
	if c.how.Accounting == PaperAccounting {
		d.PeakBytes -= d.Memory.Gradients
	}
	return d
}
