package gpipe

import (
	"slices"

	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/schedule"
	"gpipebench/nn"
)

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

// simulate replays the step.
func (c *clusterStep) simulate() (*Simulation, error) {
	s := &Simulation{Sizes: c.sizes, Note: c.note, Window: 1, Recomputed: make([]int, len(c.sizes))}
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
		ofDevice, recompute := make([]StageTimes, len(on)), make([]accelerator.Timing, len(on))
		var layers []nn.Layer
		var backward float64
		before := gathered
		for chunk, piece := range on {
			t := c.times(piece)
			ofDevice[chunk], recompute[chunk] = t.StageTimes, t.recompute
			tensor += float64(t.parts * float64(m))
			again += float64(t.again * float64(m))
			gathered += float64(t.gathered * float64(m))
			transfers += float64(t.sent * float64(m))
			layers = append(layers, c.Layers[c.first[piece]:c.first[piece]+c.sizes[piece]]...)
			backward += t.B[0]
		}
		params := paramsOf(layers).all // a table of two pieces once
		c.update(&ofDevice[0], device, params, backward)
		s.ReduceSeconds = max(s.ReduceSeconds, ofDevice[0].Reduce+ofDevice[0].Gather+gathered-before)
		s.UpdateSeconds = max(s.UpdateSeconds, ofDevice[0].Update)
		times.Stages = append(times.Stages, ofDevice...)
		s.Devices = append(s.Devices, c.estimate(list, on, params))
		for _, t := range list {
			if t.Kind == schedule.Recompute {
				s.Recomputed[on[t.Chunk]] += c.replicas * c.micro
				tensor += recompute[t.Chunk].Parts
				again += recompute[t.Chunk].Computing()
			}
		}
	}
	if c.how.Brief {
		s.times = times
		unfit := slices.ContainsFunc(s.Devices, func(d DeviceEstimate) bool { return !d.Fits() })
		if unfit || c.how.Enough > 0 && c.least(times) > c.how.Enough {
			return s, nil
		}
	}
	if err := s.replay(times, c.how); err != nil || c.how.Brief {
		return s, err
	}
	k := float64(len(c.lists))
	p := s.Parts
	s.Step = StepParts{
		Computing: p.Computation + p.Recompute - (tensor+gathered+transfers)/k, Recomputed: again / k, Tensor: tensor / k,
		Pipeline: p.Communication + transfers/k, Bubble: p.Bubble + p.Imbalance + p.Barrier, Replicas: p.Reduction + gathered/k, Optimizer: p.Setup + p.Update,
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
	own := c.share(1, c.replicas) * elements
	t.Setup = c.a.Moving(accelerator.Clear, c.share(2, c.replicas)*gradients*elements)
	// The norm reads gradients, which are scaled and copied in float32, and the update reads them;
	// it reads and writes float32 weights and state, and writes weights of two bytes.
	moved := gradients + (gradients + 4) + 4 + 8 + float64(8*float64(c.slots()))
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
	if c.Zero == 2 { // each micro-batch's sums, since no replica has room for all gradients
		t.Reduce *= float64(max(c.MicroBatches, 1))
	}
}

// estimate is the memory of a device that runs the list and has some pieces.
func (c *clusterStep) estimate(list []schedule.Task, on []int, params int64) DeviceEstimate {
	var d DeviceEstimate
	var footprints []schedule.Footprint
	var workspace, edges, largest int64
	for _, piece := range on {
		var kept, lasting, between, again int64
		largest = max(largest, c.params[piece].largest)
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
	weights, gradients, state := c.PerReplica(c.slots(), c.replicas)
	d.Memory = DeviceMemory{
		Weights: int64(weights * elements), Gradients: int64(gradients * elements), State: int64(state * elements),
		Activations: int64(schedule.Peak(list, footprints)) + edges, Workspace: workspace,
	}
	if c.Zero >= 2 && c.replicas > 1 { // of a layer's gradients and, of ZeRO 3, its weights and the next one's
		d.Memory.Workspace += (c.gradientBytes() + int64(c.Zero-2)*2*c.weightBytes()) * largest
	}
	// The update runs when no activations are left.
	d.Memory.Workspace = max(d.Memory.Workspace, int64(c.share(1, c.replicas)*float64(c.copied())*elements)-d.Memory.Activations)
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
