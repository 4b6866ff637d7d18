package gpipe

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/schedule"
	"gpipebench/nn"
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
	splits bool // some B are in two
	placed schedule.Placement
	sizes  []int // layers of each piece
	first  []int // its first layer
	params []pieceParams
	note   string
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
	c.splits = schedule.Splits(c.lists)
	if err := c.cost(in); err != nil {
		return nil, err
	}
	return c, c.cut()
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
	c.node = cmp.Or(c.NodeDevices, a.Far.Devices, c.parts*max(c.Partitions, 1)*c.replicas)
	a.Running.Parts = reduction.Groups{Size: c.node, Near: c.near, Far: c.far}
	a.Running.Attention, a.Running.DropScores, a.Running.Overlap, a.Running.Apart = c.Attention, c.DropScores, c.Overlap, c.GradientsApart
	if a.Kernels == nil && c.Attention != OurAttention {
		return fmt.Errorf("%v attention on %s, which has no kernels: want ours", c.Attention, a.Name)
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

// cut cuts the layers into pieces, by their modelled times if nothing else is said.
func (c *clusterStep) cut() error {
	if c.sizes = c.Balance; c.sizes == nil {
		costs := c.Costs
		if costs == nil {
			costs = LayerSeconds(c.estimates(), c.Checkpoint)
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
		c.params = append(c.params, paramsOf(c.Layers[next:next+n]))
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
		link.Latency += float64((t - 1) * c.near.Latency)
	}
	return link
}

// among is the time in which the replicas of a stage add up bytes: until each has its share of the
// sums, and until all have all. Within a node they do that first, each then with its share of the
// data between nodes, on its own adapter.
func (c *clusterStep) among(stage int, bytes float64) (reduce, gather float64) {
	inNode, most := map[int]int{}, 0
	for r := range c.replicas {
		node := c.rank(0, r, stage) / c.node
		inNode[node]++
		most = max(most, inNode[node])
	}
	return reduction.Groups{Size: most, Near: c.near, Far: c.far}.Cost(most*len(inNode), bytes)
}

// pieceParams counts the trained elements of a piece, each once: all, and the most of a layer.
type pieceParams struct{ all, largest int64 }

func paramsOf(layers []nn.Layer) (p pieceParams) {
	seen := map[*nn.Param]bool{}
	for _, l := range layers {
		var own int64
		for _, q := range l.Params() {
			if !q.Frozen && !seen[q] {
				seen[q] = true
				own += int64(q.Shape.Elems())
			}
		}
		p.all, p.largest = p.all+own, max(p.largest, own)
	}
	return p
}

// exchanges are the gradients of tables that the first and another device have, which both send.
func (c *clusterStep) exchanges() (all []clock.Exchange) {
	on := map[*nn.Param][]int{} // its devices
	for piece, first := range c.first {
		device := c.placed.Device[piece]
		for _, l := range c.Layers[first : first+c.sizes[piece]] {
			for _, q := range l.Params() {
				if q.Frozen || slices.Contains(on[q], device) {
					continue
				}
				if on[q] = append(on[q], device); len(on[q]) > 1 {
					bytes := c.summedBytes() * int64(q.Shape.Elems())
					a, b := place.Place{Stage: on[q][0]}, place.Place{Stage: device}
					all = append(all, clock.Exchange{From: a, To: b, Bytes: bytes}, clock.Exchange{From: b, To: a, Bytes: bytes})
				}
			}
		}
	}
	return all
}

// pieceTimes are the times of a piece's tasks, and what they have of a micro-batch by cause, in
// seconds.
type pieceTimes struct {
	StageTimes
	parts     float64            // exposed sums and gathers of the T parts
	again     float64            // what is computed again, within B or I
	recompute accelerator.Timing // R, with exposed sums of its own
	gathered  float64            // exposed gathers and sums of ZeRO 3
	sent      float64            // transfers that tasks wait for (AwaitTransfers)
}

// times returns how long piece k computes and communicates.
func (c *clusterStep) times(k int) (t pieceTimes) {
	var f, b, in, w accelerator.Timing
	for i := c.first[k]; i < c.first[k]+c.sizes[k]; i++ {
		l, again := c.layers[i], c.recomputed(i)
		f.Add(l.forward)
		b.Add(l.backward)
		b.Add(again)
		in.Add(l.input)
		in.Add(again)
		w.Add(l.weights)
		t.recompute.Add(l.again)
		t.again += again.Computing()
	}
	t.parts = f.Parts + b.Parts
	if c.splits { // with no product for weights beside the sums
		t.parts = f.Parts + in.Parts + w.Parts
	}
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
	t.F, t.B, t.R = slices.Repeat([]float64{forward}, m), slices.Repeat([]float64{backward}, m), slices.Repeat([]float64{t.recompute.Seconds()}, m)
	if c.splits {
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
	return link.Seconds(c.layers[c.first[lower]+c.sizes[lower]-1].out)
}

// gathered is what FSDP exposes of gathering a piece's weights beside the layer before, forward and
// backward, and of adding up gradients beside the layer after: the first gather, the last sum, and
// what does not fit beside the tasks' own time.
func (c *clusterStep) gathered(k int, forward, backward float64) (f, b float64) {
	params := c.params[k]
	weights, gradients := float64(c.weightBytes()), float64(c.summedBytes())
	all, largest := float64(params.all), float64(params.largest)
	stage := c.placed.Device[k]
	_, gather := c.among(stage, weights*all)
	_, first := c.among(stage, weights*largest)
	sums, _ := c.among(stage, gradients*all)
	last, _ := c.among(stage, gradients*largest)
	return max(0, gather-first-forward) + first, max(0, gather+sums-first-last-backward) + first + last
}
