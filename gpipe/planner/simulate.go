package planner

import (
	"cmp"
	"fmt"
	"slices"

	"gpipebench/gpipe"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/schedule"
)

// simulate simulates the cut by time; for the modes in which that does not fit, also
// the cut by time among those whose estimated memory fits, and the cut by memory. Modes
// whose bound is no higher than enough are left out, and those that are sure to fit in no cut are counted.
func (s *search) simulate(c cut, enough float64) (all []Candidate, unfit int, err error) {
	if c.Searched {
		all, err = s.searched(c)
		return all, 0, err
	}
	found := map[mode]Candidate{}
	tried := map[string]bool{}
	try := func(by string, sizes []int, modes []mode) error {
		key := fmt.Sprint(sizes, modes)
		if tried[key] {
			return nil
		}
		tried[key] = true
		modes = slices.DeleteFunc(slices.Clone(modes), func(m mode) bool {
			lacks := s.short(c, m, sizes)
			if _, ok := found[m]; lacks > 0 && !ok {
				found[m] = Candidate{LacksBytes: int64(lacks) + 1}
			}
			return lacks > 0
		})
		if len(modes) == 0 {
			return nil
		}
		sims, err := s.step(c, sizes, modes, enough)
		if err != nil {
			return err
		}
		for i, sim := range sims {
			now := s.candidate(c, sim, modes[i], by)
			if before := found[modes[i]]; before.sim == nil || before.LacksBytes > now.LacksBytes {
				found[modes[i]] = now
			}
		}
		return nil
	}
	modes := slices.DeleteFunc(slices.Clone(c.tried), func(m mode) bool { return c.bounds[m] < enough })
	if err := try("time", c.sizes, modes); err != nil {
		return nil, 0, err
	}
	for _, m := range modes {
		if found[m].LacksBytes == 0 {
			continue
		}
		memory := s.memory(c, m)
		if within, err := partition.MinMaxUnderCapacity(c.costs(), c.pieces.Stages(), memory.fits); err == nil {
			if err := try("time within memory", within.Sizes, []mode{m}); err != nil {
				return nil, 0, err
			}
		}
		if found[m].LacksBytes == 0 {
			continue
		}
		byMemory, err := partition.Split(partition.MinMax, memory.perLayer, c.pieces.Stages())
		if err != nil {
			return nil, 0, err
		}
		if err := try("memory", byMemory.Sizes, []mode{m}); err != nil {
			return nil, 0, err
		}
	}
	for _, m := range modes {
		switch now := found[m]; {
		case now.sim == nil:
			unfit++
			s.near(c, m, float64(now.LacksBytes))
		case now.StepSeconds > 0 || now.LacksBytes > 0:
			all = append(all, now)
		}
	}
	return all, unfit, nil
}

// near remembers, of candidates that do not fit and are not simulated, the one that lacks least.
func (s *search) near(c cut, m mode, lacks float64) {
	if s.nearest == nil || lacks < s.least {
		c.tried = []mode{m}
		s.nearest, s.least = &c, lacks
	}
}

// step simulates a cut into pieces of sizes layers, in some modes; on a cluster without the times of
// what fits no device or is sure to be worse than enough.
func (s *search) step(c cut, sizes []int, modes []mode, enough float64) (sims []*gpipe.Simulation, err error) {
	p, in := s.pipeline(c, sizes), s.input(c.Batch)
	if !s.onCluster() {
		how := s.how(c.Way, 0)
		compiled, err := p.Compiled(in, how)
		if err != nil {
			return nil, err
		}
		v := p.Variant()
		for _, m := range modes {
			v.Checkpoint = m.Checkpoint
			sim, err := compiled.Simulate(v, how.Brief)
			if err != nil {
				return nil, err
			}
			sims = append(sims, sim)
		}
		return sims, nil
	}
	for _, m := range modes {
		p.Checkpoint = m.Checkpoint
		how := s.how(c.Way, m.zero)
		if enough > 0 {
			how.Enough = float64(c.Batch) / enough
		}
		sim, err := p.Simulate(in, how)
		if err != nil {
			return nil, err
		}
		sims = append(sims, sim)
	}
	return sims, nil
}

// pipeline returns the pipeline of a cut whose pieces have sizes layers.
func (s *search) pipeline(c cut, sizes []int) gpipe.Pipeline {
	q := s.Pipeline
	if s.Parts != nil {
		q.Layers = s.Parts[c.T]
	}
	q.Partitions, q.MicroBatches, q.Balance = c.K, c.M, sizes
	q.Schedule, q.Chunks = c.Schedule, c.Chunks
	if c.Schedule.Asynchronous() {
		q.Window, q.Checkpoint = s.Window, schedule.Never // a mode that all of them have; each variant has its own
	}
	q.Replicas, q.Groups, q.AllReduce = c.R, c.R, s.links(c.R)
	return q
}

// candidate is a way as simulated.
func (s *search) candidate(c cut, sim *gpipe.Simulation, m mode, by string) Candidate {
	sim.Timeline = nil // larger than the rest
	now := Candidate{
		R: c.R, K: c.K, T: c.T, M: c.M, Batch: c.Batch,
		Schedule: c.Order(), Chunks: c.pieces.Stages() / c.K,
		Checkpoint: m.Checkpoint.String(), Recompute: c.Recompute.String(), Zero: m.zero, Partition: sim.Sizes, PartitionBy: by,
		ReduceSeconds: sim.ReduceSeconds, Recomputed: sim.Recomputed, sim: sim,
	}
	if c.Schedule.Asynchronous() {
		now.Window = s.window(c.Way)
	}
	now.timed()
	fullest := slices.MaxFunc(sim.Devices, func(a, b gpipe.DeviceEstimate) int { return cmp.Compare(a.PeakBytes, b.PeakBytes) })
	now.PeakBytes, now.Memory = fullest.PeakBytes, fullest.Memory
	for _, d := range sim.Devices {
		now.Versions = max(now.Versions, d.Versions)
		if !d.Fits() {
			now.LacksBytes = max(now.LacksBytes, d.PeakBytes-d.Capacity)
		}
	}
	return now
}

// timed sets what a candidate has of a step's time, if that was simulated.
func (c *Candidate) timed() {
	if c.sim.Seconds > 0 {
		c.StepSeconds = c.sim.Seconds / float64(max(c.Window, 1))
		c.ExamplesPerSecond = float64(c.Batch) / c.StepSeconds
	}
}

// modes are those in which a way is tried; for one micro-batch, except-last is the same as
// never, and only GPipe's recomputation of stages has any.
func (s *search) modes(c cut) (all []mode) {
	checkpoints := []schedule.Checkpoint{schedule.Always, schedule.ExceptLast, schedule.Never}
	switch {
	case c.Searched || c.Recompute != gpipe.RecomputeStage || c.Schedule == schedule.PipeDreamNoStash:
		checkpoints = checkpoints[2:]
	case c.M == 1 || s.onCluster() || c.Schedule.Asynchronous():
		checkpoints = []schedule.Checkpoint{schedule.Always, schedule.Never}
	}
	for _, checkpoint := range checkpoints {
		for _, zero := range s.zeros(c.R) {
			all = append(all, mode{checkpoint, zero})
		}
	}
	return all
}

// planMemory estimates a stage's memory in bytes without a plan: parameters, residuals,
// and the stash of inputs, but no workspace.
type planMemory struct {
	perLayer []float64 // parameters and residuals
	stash    []float64 // by layer: of a stage that begins with it
	capacity float64
	chunks   float64 // of each device, which have the same part of its memory here
}

func (s *search) memory(c cut, m mode) planMemory {
	held := 1 // sets of residuals; a lower limit if the schedule is not fill-drain
	if m.Checkpoint == schedule.Never && c.Schedule == schedule.GPipe {
		held = c.M
	}
	size, state := float64(c.size()), s.stateBytes(c.R, m.zero)/float64(c.T)
	e := planMemory{capacity: float64(s.device().Capacity), chunks: float64(c.pieces.Stages() / c.K)}
	incoming := 0.0
	for i, l := range s.described.Layers {
		e.perLayer = append(e.perLayer, float64(state*float64(l.Params))+float64(float64(held)*float64(c.layers[i].Residual)))
		e.stash = append(e.stash, incoming*size*float64(c.M))
		incoming = 0
		for _, shape := range l.OutShape {
			incoming += float64(float64(shape.Elems()) * float64(s.How.DType.Bytes()))
		}
	}
	return e
}

// lacks returns the bytes that a way's devices lack at least, however the layers are cut; 0: they
// may fit. Stages take as many layers as they have room for, one after another, with what they are
// sure to hold: what is left for the next ones is then the least. Of several pieces a device, all
// devices have room together.
func (s *search) lacks(c cut, m mode) (lacks float64) {
	capacity, bytes := s.capacity(), s.bytes(c, m)
	if capacity == 0 {
		return 0
	}
	if !c.pieces.IsStraight() || c.Searched {
		for i := range c.layers {
			lacks += bytes(i, 1)
		}
		return max(0, lacks-float64(capacity*float64(c.K)))
	}
	next := 0
	for stage := range c.K {
		held := s.held(c, stage)[0]
		free := capacity
		for ; next < len(c.layers) && bytes(next, held) <= free; next++ {
			free -= bytes(next, held)
		}
	}
	for ; next < len(c.layers); next++ {
		lacks += bytes(next, 1)
	}
	return lacks
}

// short returns the bytes that a way's devices lack at least, if pieces have sizes layers.
func (s *search) short(c cut, m mode, sizes []int) (lacks float64) {
	capacity, bytes := s.capacity(), s.bytes(c, m)
	if capacity == 0 || s.exact {
		return 0
	}
	first := make([]int, len(sizes)+1)
	for piece, n := range sizes {
		first[piece+1] = first[piece] + n
	}
	for device, pieces := range c.pieces.Chunks() {
		held, sum := s.held(c, device), 0.0
		for chunk, piece := range pieces {
			for layer := first[piece]; layer < first[piece+1]; layer++ {
				sum += bytes(layer, held[chunk])
			}
		}
		lacks = max(lacks, sum-capacity)
	}
	return lacks
}

// capacity is what a device may hold, but for rounding; 0: anything.
func (s *search) capacity() float64 { return float64(float64(s.device().Capacity) * (1 + 1e-9)) }

// bytes returns what a layer is sure to take of a device's memory, in a mode, for what is held of
// micro-batches at once.
func (s *search) bytes(c cut, m mode) func(layer, held int) float64 {
	state, residual := s.stateBytes(c.R, m.zero)/float64(c.T), 0.0
	switch {
	case m.Checkpoint == schedule.Never && s.onCluster(): // whose stages keep what their layers do
		residual = 1 - 1e-9
	case m.Checkpoint == schedule.Never:
		residual = 0.8 // a cut saves some
	}
	return func(layer, held int) float64 {
		return float64(state*float64(s.described.Layers[layer].Params)) + float64(residual*float64(held)*float64(c.layers[layer].Residual))
	}
}

// held is how many of the largest micro-batches a device holds of each chunk at once, at least.
func (s *search) held(c cut, device int) []int {
	if c.Batch%(c.R*c.M) != 0 || c.Searched || c.Schedule.Asynchronous() {
		return slices.Repeat([]int{1}, c.pieces.Stages()/c.K)
	}
	return schedule.Ahead(c.Schedule, c.K, c.pieces.Stages()/c.K, c.M, device)
}

// fits reports whether layers from to to-1 fit a device with a twentieth left
// for the workspace.
func (e planMemory) fits(from, to int) bool {
	sum := e.stash[from]
	for _, b := range e.perLayer[from:to] {
		sum += b
	}
	return e.capacity == 0 || sum <= 0.95*e.capacity/e.chunks
}
