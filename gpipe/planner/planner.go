// Package planner searches for the best way to train a network on modelled
// accelerators: over replicas, K, M, mini-batch, schedule, chunks, partition and checkpoint
// mode.
package planner

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"gpipebench/gpipe"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/schedule"
	"gpipebench/nn"
)

// Search says what to search, and how far.
type Search struct {
	// Pipeline has the network, of any layers, its loss, the optimizer, how
	// replicas add up gradients and whether they divide the update, and one modelled
	// device, as of gpipe.DeviceOf, of which each stage has Spatial; and the schedule, if there are no Schedules. Its R, G, K, M,
	// chunks, cut and task lists are not used. A 2-D all-reduce without a torus is on the
	// squarest one of each R.
	Pipeline gpipe.Pipeline
	Input    gpipe.Input // the mini-batch, or the smallest
	How      gpipe.Modelling

	// Schedules are tried, each at every K and M for which it is defined; nil: that of Pipeline.
	Schedules []schedule.Schedule
	// Searched adds schedules that are looked for ([schedule.Search]) under each way's times and
	// the devices' memory: one piece of the network on each device, everything kept, B in two. Seed
	// is of that search.
	Searched bool
	Seed     uint64
	// Chunks are the numbers of pieces of each device, V, that are tried where a schedule has
	// any number of them; nil: 2, 4, ... as far as there are layers.
	Chunks []int

	Devices  int // at most, 1 or more; R K S may be less
	Replicas int // R, each with one group of every mini-batch; 0: searched, as K is
	MaxBatch int // examples of the largest mini-batch, as it grows by doubling; 0: those of Input
	Keep     int // how many plans to return; 0: 1
	// Looked is called after each way that was simulated, with the number of those so far
	// and the largest number of those that remain. Nil: it is not called.
	Looked func(at Way, looked, left int)
}

// Way is what the search begins with: replicas, devices of each, micro-batches of a
// replica's part of the mini-batch, examples of all of it, and a schedule with pieces of the
// network on each device.
type Way struct {
	R, K, M, Batch int
	Schedule       schedule.Schedule // if it is searched: that which it is searched from
	Chunks         int
	Searched       bool
}

// Order names the schedule.
func (w Way) Order() string {
	if w.Searched {
		return "searched"
	}
	return w.Schedule.String()
}

// place is where the pieces are; an error: there is no such schedule.
func (w Way) place() (schedule.Placement, error) {
	return schedule.Place(w.Schedule.String(), w.K, w.Chunks, w.M)
}

// size is the number of examples of the largest micro-batch.
func (w Way) size() int {
	return gpipe.MicroBatchSizes(gpipe.MicroBatchSizes(w.Batch, w.R)[0], w.M)[0]
}

// Plan is the result of a search.
type Plan struct {
	Accelerator string      `json:"accelerator"`
	Params      int64       `json:"params"`
	Plans       []Candidate `json:"plans"` // those that fit, best first
	// Nearest is the candidate that lacks the least memory, if none fits.
	Nearest   *Candidate `json:"nearest,omitempty"`
	Simulated int        `json:"simulated"` // steps that were planned and timed
	Dismissed int        `json:"dismissed"` // ways that could not be better than Plans
}

// Candidate is one way to train.
type Candidate struct {
	ExamplesPerSecond float64 `json:"examples_per_second"`
	StepSeconds       float64 `json:"step_seconds"`
	R                 int     `json:"replicas"`
	K                 int     `json:"k"`
	M                 int     `json:"m"`
	Batch             int     `json:"batch"`
	Schedule          string  `json:"schedule"`
	Chunks            int     `json:"chunks"`
	Checkpoint        string  `json:"checkpoint"`
	Partition         []int   `json:"partition"`
	PartitionBy       string  `json:"partition_by"` // time, time within memory, or memory
	PeakBytes         int64   `json:"peak_bytes"`   // of the fullest device
	LacksBytes        int64   `json:"lacks_bytes,omitempty"`
	BubbleFraction    float64 `json:"bubble_fraction"`
	ReduceSeconds     float64 `json:"all_reduce_seconds"` // of the stage that takes longest

	// Lists are a searched schedule's; nil: the one of its name.
	Lists [][]schedule.Task `json:"-"`
}

// cut is a way and an upper bound of its throughput.
type cut struct {
	Way
	layers   []gpipe.LayerEstimate
	pieces   schedule.Placement
	stages   []gpipe.LayerEstimate           // of the pieces, of the best cut by time
	bounds   map[schedule.Checkpoint]float64 // examples per second, of the modes that may fit
	replayed bool                            // the bounds are those of a replay
}

// bound is the bound of the best mode.
func (c cut) bound() (most float64) {
	for _, b := range c.bounds {
		most = max(most, b)
	}
	return most
}

// Run searches. Each way has an upper bound of its throughput: at first a closed one, then
// that of a replay of the layers' own times with free links between stages. Run takes the
// most promising way again and again: one that has not been replayed is replayed, any
// other one is simulated. It ends when no way that is left can be among the plans to keep.
func (s Search) Run(ctx context.Context) (*Plan, error) {
	if err := s.complete(); err != nil {
		return nil, err
	}
	r := &Plan{Accelerator: s.device().Accelerator.Name, Params: nn.CountParams(s.Pipeline.Layers)}
	if least := max(s.Replicas, 1); !s.holdsParams(r.Params, least, s.Devices/least) {
		return r, nil
	}
	described, err := s.Pipeline.Describe(s.Input)
	if err != nil {
		return nil, err
	}
	r.Params = described.Params
	search := &search{s, described}
	cuts, err := search.cuts(ctx)
	if err != nil {
		return nil, err
	}
	for looked := 0; len(cuts) > 0; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		enough := 0.0
		if len(r.Plans) >= s.Keep {
			enough = r.Plans[s.Keep-1].ExamplesPerSecond
		}
		best := 0
		for i := range cuts {
			if cuts[i].bound() > cuts[best].bound() {
				best = i
			}
		}
		c := &cuts[best]
		if enough > c.bound() { // what is as good may still come first
			r.Dismissed = len(cuts)
			break
		}
		if !c.replayed {
			if err := search.replay(c); err != nil {
				return nil, err
			}
			continue
		}
		found, err := search.simulate(*c, enough)
		if err != nil {
			return nil, err
		}
		r.Simulated += len(found)
		for _, f := range found {
			if f.LacksBytes == 0 {
				r.Plans = append(r.Plans, f)
			} else if r.Nearest == nil || f.LacksBytes < r.Nearest.LacksBytes {
				r.Nearest = &f
			}
		}
		slices.SortStableFunc(r.Plans, better)
		looked++
		if s.Looked != nil {
			s.Looked(c.Way, looked, len(cuts)-1)
		}
		cuts = slices.Delete(cuts, best, best+1)
	}
	if len(r.Plans) > 0 {
		r.Nearest = nil
	}
	r.Plans = r.Plans[:min(len(r.Plans), s.Keep)]
	return r, nil
}

// Validate reports what cannot be searched, and what would be accepted.
func (s Search) Validate() error { return s.complete() }

// complete fills in what is 0 or nil, and refuses what cannot be searched.
func (s *Search) complete() error {
	p := &s.Pipeline
	if s.Schedules == nil && !s.Searched {
		s.Schedules = []schedule.Schedule{p.Schedule}
	}
	p.Partitions, p.MicroBatches, p.Balance, p.Costs, p.Tasks = 1, 1, nil, nil, nil
	p.Schedule, p.Chunks, p.Placement = schedule.GPipe, 0, schedule.Placement{} // each way has its own
	p.Replicas, p.Groups = 1, 1
	torus := p.AllReduce.Torus
	if p.AllReduce.Kind != reduction.Torus {
		torus = [2]int{}
	}
	if s.Replicas == 0 {
		s.Replicas = torus[0] * torus[1]
	}
	if p.Optimizer == nil {
		p.Optimizer = nn.SGD{}
	}
	if s.MaxBatch == 0 {
		s.MaxBatch = s.Input.Examples
	}
	s.Keep = max(s.Keep, 1)
	parts := max(p.Spatial, 1)
	all := s.Devices
	s.Devices /= parts // of which each has a stage
	splits := s.Searched || slices.ContainsFunc(s.Schedules, schedule.Schedule.Splits)
	switch {
	case len(p.Devices) != 1 || p.Devices[0].Kind != gpipe.Modelled:
		return fmt.Errorf("a search on %d devices that are described: want one that is modelled and stands for all", len(p.Devices))
	case slices.ContainsFunc(s.Schedules, func(x schedule.Schedule) bool { return schedule.Check(x, 1, 1, schedule.Always) != nil }):
		return fmt.Errorf("schedules %v: want those of package schedule", s.Schedules)
	case slices.ContainsFunc(s.Chunks, func(v int) bool { return v < 1 }):
		return fmt.Errorf("chunks %v: want 1 or more", s.Chunks)
	case s.Devices < 1:
		return fmt.Errorf("at most %d devices: want %d or more", all, parts)
	case parts > 1 && splits:
		return fmt.Errorf("%d parts of images with schedules %v: want some without W, or 1", parts, s.names())
	case s.Replicas < 0 || s.Replicas > s.Devices:
		return fmt.Errorf("%d replicas on at most %d devices: want at most one a device, or 0 to search", s.Replicas, s.Devices)
	case s.Replicas > s.Input.Examples:
		return fmt.Errorf("%d replicas for a mini-batch of %d: want at most one an example", s.Replicas, s.Input.Examples)
	case torus != [2]int{} && s.Replicas != torus[0]*torus[1]:
		return fmt.Errorf("a torus of %d x %d for %d replicas: want as many, or no torus, for the squarest one of each number of replicas", torus[0], torus[1], s.Replicas)
	case s.MaxBatch < s.Input.Examples:
		return fmt.Errorf("a largest mini-batch of %d examples: want %d or more, the smallest", s.MaxBatch, s.Input.Examples)
	case !s.meets(s.Replicas):
		return fmt.Errorf("%d replicas, and batch norm over %v of them: want a number that this divides, or 0 to search", s.Replicas, p.BatchNormScope)
	case int(p.BatchNormScope) > min(s.Devices, s.Input.Examples):
		return fmt.Errorf("batch norm over %v replicas on at most %d devices for a mini-batch of %d: want as many devices and examples, or a smaller scope",
			p.BatchNormScope, s.Devices, s.Input.Examples)
	}
	one := *p // of the replicas that are searched
	one.BatchNormScope = gpipe.ReplicaScope
	return one.Validate(s.Input)
}

// names are those of the schedules.
func (s Search) names() (all []string) {
	for _, x := range s.Schedules {
		all = append(all, x.String())
	}
	if s.Searched {
		all = append(all, "searched")
	}
	return all
}

// meets reports whether batch norm's scope divides r replicas.
func (s Search) meets(r int) bool {
	n := int(s.Pipeline.BatchNormScope)
	return n <= 0 || r%n == 0
}

// input is a mini-batch of so many examples.
func (s Search) input(examples int) gpipe.Input {
	in := s.Input
	in.Examples = examples
	return in
}

// better puts the higher throughput first, then fewer devices, fewer micro-batches, fewer
// chunks and less memory. No two candidates are the same, so that the order of what is as
// good does not depend on when it was found.
func better(a, b Candidate) int {
	return cmp.Or(-cmp.Compare(a.ExamplesPerSecond, b.ExamplesPerSecond), cmp.Compare(a.R*a.K, b.R*b.K), cmp.Compare(a.K, b.K), cmp.Compare(a.M, b.M),
		cmp.Compare(a.Chunks, b.Chunks), cmp.Compare(a.PeakBytes, b.PeakBytes), cmp.Compare(a.Batch, b.Batch), cmp.Compare(a.Schedule, b.Schedule),
		cmp.Compare(a.Checkpoint, b.Checkpoint))
}

// search is a Search and the description of its network.
type search struct {
	Search
	described *gpipe.Description
}

func (s Search) device() gpipe.Device { return s.Pipeline.Devices[0] }

// links returns how r replicas add up gradients.
func (s Search) links(r int) gpipe.AllReduce {
	a := s.Pipeline.AllReduce
	if a.Kind == reduction.Torus && a.Torus == [2]int{} {
		y := int(math.Sqrt(float64(r)))
		for r%y != 0 {
			y--
		}
		a.Torus = [2]int{r / y, y}
	}
	return a
}

// stateBytes is the memory of a parameter and of all that one of r replicas keeps for it,
// in bytes, on average.
func (s Search) stateBytes(r int) float64 {
	state := 4 * float64(len(s.Pipeline.Optimizer.Slots()))
	if s.Pipeline.ShardUpdate {
		state /= float64(r)
	}
	if s.How.Accounting == gpipe.FullAccounting {
		state += 4
	}
	return state + 4
}

// holdsParams reports whether the k devices of one of r replicas can hold the parameters,
// with nothing else.
func (s Search) holdsParams(params int64, r, k int) bool {
	capacity := s.device().Capacity
	return capacity == 0 || s.stateBytes(r)*float64(params)/float64(k) <= float64(capacity)
}

// replicas are the numbers of replicas of k devices that take part in a mini-batch.
func (s Search) replicas(k, batch int) []int {
	most := min(s.Devices/k, batch, gpipe.MaxReplicas)
	switch {
	case s.Replicas == 0:
		return slices.DeleteFunc(doublings(most), func(r int) bool { return !s.meets(r) })
	case s.Replicas <= most:
		return []int{s.Replicas}
	}
	return nil
}

// chunks are the numbers of pieces on each of k devices that are tried with a schedule.
func (s Search) chunks(of schedule.Schedule, k int) (all []int) {
	switch {
	case of != schedule.InterleavedOneFOneB:
		return []int{0} // as many as it has
	case s.Chunks != nil:
		return s.Chunks
	}
	for v := 2; v*k <= len(s.Pipeline.Layers); v *= 2 {
		all = append(all, v)
	}
	return all
}

// doublings are 1, 2, 4, ... below most, and most.
func doublings(most int) (ns []int) {
	for n := 1; n < most; n *= 2 {
		ns = append(ns, n)
	}
	return append(ns, most)
}

// cuts lists every way that may be worth simulating. Those whose devices do not hold the
// parameters alone are left out.
func (s *search) cuts(ctx context.Context) ([]cut, error) {
	type estimated struct {
		size  int // of a micro-batch
		split bool
	}
	estimates := map[estimated][]gpipe.LayerEstimate{}
	var cuts []cut
	add := func(w Way) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		pieces, err := w.place()
		if err != nil || pieces.Stages() > len(s.Pipeline.Layers) || w.R*pieces.Stages()*w.M > gpipe.MaxTasks {
			return nil
		}
		of := estimated{w.size(), w.Schedule.Splits()}
		if estimates[of] == nil {
			p := s.Pipeline
			p.Schedule = w.Schedule
			if estimates[of], err = p.ModelLayers(s.input(of.size), s.How); err != nil {
				return err
			}
		}
		c := cut{Way: w, layers: estimates[of], pieces: pieces}
		if err := s.limit(&c); err != nil {
			return err
		}
		if len(c.bounds) > 0 {
			cuts = append(cuts, c)
		}
		return nil
	}
	for batch := s.Input.Examples; batch <= s.MaxBatch; batch *= 2 {
		for _, k := range doublings(min(s.Devices/max(s.Replicas, 1), len(s.Pipeline.Layers))) {
			for _, r := range s.replicas(k, batch) {
				if !s.holdsParams(s.described.Params, r, k) {
					continue
				}
				for _, m := range doublings(batch / r) {
					for _, sched := range s.Schedules {
						for _, v := range s.chunks(sched, k) {
							if err := add(Way{r, k, m, batch, sched, v, false}); err != nil {
								return nil, err
							}
						}
					}
					if s.Searched {
						if err := add(Way{r, k, m, batch, schedule.ZeroBubbleH1, 0, true}); err != nil {
							return nil, err
						}
					}
				}
			}
		}
	}
	return cuts, nil
}

// limit sets the stages, and the bounds without a replay: a device begins when the first
// micro-batch has passed all stages before its first one, computes all micro-batches of its
// stages, and then the last gradient passes those before the first. Mode never has no bound
// if its residuals and the parameters would not fit a replica's devices together even if
// spread evenly; a fifth of the residuals is not counted, since a cut saves some.
func (s *search) limit(c *cut) error {
	sizes, err := partition.Split(partition.MinMax, gpipe.LayerSeconds(c.layers), c.pieces.Stages())
	if err != nil {
		return err
	}
	next := 0
	for _, n := range sizes.Sizes {
		var sum gpipe.LayerEstimate
		for _, l := range c.layers[next : next+n] {
			sum.Forward, sum.Recompute, sum.Backward = sum.Forward+l.Forward, sum.Recompute+l.Recompute, sum.Backward+l.Backward
			sum.Input, sum.Weights = sum.Input+l.Input, sum.Weights+l.Weights
		}
		next += n
		c.stages = append(c.stages, sum)
	}
	c.bounds = map[schedule.Checkpoint]float64{}
	for _, mode := range c.modes() {
		e := s.memory(*c, mode)
		if mode == schedule.Never && e.capacity > 0 && e.params+0.8*e.residuals > e.capacity*float64(c.K) {
			continue
		}
		ends, drains := make([]float64, c.K), make([]float64, c.K) // of devices
		var fill, drain float64
		for stage, l := range c.stages {
			backward, after := l.Backward, l.Backward
			if parts := l.Input + l.Weights; parts > 0 { // the stage before may end while W runs
				backward, after = parts, 0
				if c.Schedule == schedule.DualPipeVee { // which has both
					backward = min(backward, l.Backward)
				}
			}
			d := c.pieces.Device[stage]
			if ends[d] == 0 {
				ends[d], drains[d] = fill, drain
			}
			ends[d] += float64(c.M)*(l.Forward+backward) + float64(mode.Recomputed(c.M))*l.Recompute
			fill, drain = fill+l.Forward, drain+after
		}
		var span float64
		for d, end := range ends {
			span = max(span, end+drains[d])
		}
		const rounding = 1 - 1e-9 // no more than the sums of a replay
		c.bounds[mode] = s.throughput(c, rounding*span, rounding*slices.Min(ends))
	}
	return nil
}

// replay sets the bounds by the step of the cut's stages; of a schedule that is yet to be
// found, by the least time of any.
func (s *search) replay(c *cut) error {
	if c.Searched {
		c.replayed = true
		w := schedule.Wanted{Place: c.pieces, Micro: c.M}
		first := math.Inf(1)
		for _, l := range c.stages {
			d := schedule.Duration{F: l.Forward, I: l.Input, W: l.Weights}
			w.Times.Stages = append(w.Times.Stages, d)
			first = min(first, float64(c.M)*(d.F+d.I+d.W))
		}
		for mode, bound := range c.bounds {
			const rounding = 1 - 1e-9
			c.bounds[mode] = min(bound, s.throughput(c, rounding*w.Least(), rounding*first))
		}
		return nil
	}
	times := &gpipe.Times{}
	if !c.pieces.IsStraight() {
		times.Placement = c.pieces
	}
	for _, chunks := range c.pieces.Chunks() {
		for _, stage := range chunks {
			l := c.stages[stage]
			times.Stages = append(times.Stages, gpipe.StageTimes{
				F: slices.Repeat([]float64{l.Forward}, c.M), R: slices.Repeat([]float64{l.Recompute}, c.M), B: slices.Repeat([]float64{l.Backward}, c.M),
				I: slices.Repeat([]float64{l.Input}, c.M), W: slices.Repeat([]float64{l.Weights}, c.M),
			})
		}
	}
	for mode := range c.bounds {
		lists, _, err := schedule.Lists(c.Schedule, c.K, c.Chunks, c.M, mode, false)
		if err != nil {
			return err
		}
		times.Lists = lists
		tl, err := times.Replay()
		if err != nil {
			return err
		}
		ends := make([]float64, c.K)
		for _, e := range tl.Events {
			if e.Kind.Task() {
				ends[e.At.Stage] = max(ends[e.At.Stage], e.End)
			}
		}
		c.bounds[mode] = s.throughput(c, tl.Span(), slices.Min(ends))
	}
	c.replayed = true
	return nil
}

// throughput is an upper bound in examples per second, if tasks take span seconds and no
// stage ends before first: without updates and the links between stages. The stage with
// most parameters has at least an even part of them, and adds up its gradients when it
// has ended.
func (s *search) throughput(c *cut, span, first float64) float64 {
	reduce, gather := s.links(c.R).Seconds(c.R, 4*float64(s.described.Params)/float64(c.K))
	if !s.Pipeline.ShardUpdate {
		reduce, gather = reduce+gather, 0
	}
	return float64(c.Batch) / (max(span, first+reduce) + gather)
}

// checkpoints are all modes; for one micro-batch, except-last is the same as never.
func checkpoints(m int) []schedule.Checkpoint {
	if m == 1 {
		return []schedule.Checkpoint{schedule.Always, schedule.Never}
	}
	return []schedule.Checkpoint{schedule.Always, schedule.ExceptLast, schedule.Never}
}

// simulate simulates the cut by time; for the modes in which that does not fit, also
// the cut by time among those whose estimated memory fits, and the cut by memory. Modes
// whose bound is no higher than enough are left out.
func (s *search) simulate(c cut, enough float64) ([]Candidate, error) {
	if c.Searched {
		return s.searched(c)
	}
	costs := gpipe.LayerSeconds(c.layers)
	found := map[schedule.Checkpoint]Candidate{}
	tried := map[string]bool{}
	try := func(by string, sizes []int, modes []schedule.Checkpoint) error {
		key := fmt.Sprint(sizes, modes)
		if tried[key] {
			return nil
		}
		tried[key] = true
		q := s.pipeline(c, sizes)
		var variants []gpipe.Variant
		for _, mode := range modes {
			v := q.Variant()
			v.Checkpoint = mode
			variants = append(variants, v)
		}
		sims, err := q.SimulateVariants(s.input(c.Batch), s.How, variants...)
		if err != nil {
			return err
		}
		for i, sim := range sims {
			now := c.candidate(sim, modes[i], by)
			if before, ok := found[modes[i]]; !ok || before.LacksBytes > now.LacksBytes {
				found[modes[i]] = now
			}
		}
		return nil
	}
	modes := slices.DeleteFunc(c.modes(), func(mode schedule.Checkpoint) bool { return c.bounds[mode] < enough })
	byTime, err := partition.Split(partition.MinMax, costs, c.pieces.Stages())
	if err != nil {
		return nil, err
	}
	if err := try("time", byTime.Sizes, modes); err != nil {
		return nil, err
	}
	for _, mode := range modes {
		if found[mode].LacksBytes == 0 {
			continue
		}
		memory := s.memory(c, mode)
		if within, err := partition.MinMaxUnderCapacity(costs, c.pieces.Stages(), memory.fits); err == nil {
			if err := try("time within memory", within.Sizes, []schedule.Checkpoint{mode}); err != nil {
				return nil, err
			}
		}
		if found[mode].LacksBytes == 0 {
			continue
		}
		byMemory, err := partition.Split(partition.MinMax, memory.perLayer, c.pieces.Stages())
		if err != nil {
			return nil, err
		}
		if err := try("memory", byMemory.Sizes, []schedule.Checkpoint{mode}); err != nil {
			return nil, err
		}
	}
	var all []Candidate
	for _, mode := range modes {
		all = append(all, found[mode])
	}
	return all, nil
}

// pipeline is that of a way, on pieces of so many layers.
func (s *search) pipeline(c cut, sizes []int) gpipe.Pipeline {
	q := s.Pipeline
	q.Partitions, q.MicroBatches, q.Balance = c.K, c.M, sizes
	q.Schedule, q.Chunks = c.Schedule, c.Chunks
	q.Replicas, q.Groups, q.AllReduce = c.R, c.R, s.links(c.R)
	return q
}

// candidate is a way as simulated.
func (c cut) candidate(sim *gpipe.Simulation, mode schedule.Checkpoint, by string) Candidate {
	now := Candidate{
		ExamplesPerSecond: float64(c.Batch) / sim.Seconds, StepSeconds: sim.Seconds, R: c.R, K: c.K, M: c.M, Batch: c.Batch,
		Schedule: c.Order(), Chunks: c.pieces.Stages() / c.K,
		Checkpoint: mode.String(), Partition: sim.Sizes, PartitionBy: by, BubbleFraction: sim.Parts.Bubble / sim.Seconds,
		ReduceSeconds: sim.ReduceSeconds,
	}
	for _, d := range sim.Devices {
		now.PeakBytes = max(now.PeakBytes, d.PeakBytes)
		if !d.Fits() {
			now.LacksBytes = max(now.LacksBytes, d.PeakBytes-d.Capacity)
		}
	}
	return now
}

// modes are those in which a way is tried.
func (c cut) modes() []schedule.Checkpoint {
	if c.Searched {
		return []schedule.Checkpoint{schedule.Never}
	}
	return checkpoints(c.M)
}

// planMemory estimates a stage's memory in bytes without a plan: parameters, residuals,
// and the stash of inputs, but no workspace.
type planMemory struct {
	perLayer []float64 // parameters and residuals
	stash    []float64 // by layer: of a stage that begins with it
	capacity float64
	chunks   float64 // of each device, which have the same part of its memory here

	params, residuals float64 // of all layers
}

func (s *search) memory(c cut, mode schedule.Checkpoint) planMemory {
	held := 1 // sets of residuals; a lower limit if the schedule is not fill-drain
	if mode == schedule.Never && c.Schedule == schedule.GPipe {
		held = c.M
	}
	size, state := float64(c.size()), s.stateBytes(c.R)
	e := planMemory{capacity: float64(s.device().Capacity), chunks: float64(c.pieces.Stages() / c.K)}
	incoming := 0.0
	for i, l := range s.described.Layers {
		params, residuals := state*float64(l.Params), float64(held)*float64(c.layers[i].Residual)
		e.params += params
		e.residuals += residuals
		e.perLayer = append(e.perLayer, params+residuals)
		e.stash = append(e.stash, incoming*size*float64(c.M))
		incoming = 0
		for _, shape := range l.OutShape {
			incoming += float64(shape.Elems()) * float64(s.How.DType.Bytes())
		}
	}
	return e
}

// fits reports whether layers from to to-1 fit a device of which a twentieth is left
// for the workspace.
func (e planMemory) fits(from, to int) bool {
	sum := e.stash[from]
	for _, b := range e.perLayer[from:to] {
		sum += b
	}
	return e.capacity == 0 || sum <= 0.95*e.capacity/e.chunks
}
