// Package planner searches for the best way to train a network on modelled
// accelerators: over K, M, mini-batch, partition and checkpoint mode.
package planner

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"gpipebench/gpipe"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/schedule"
	"gpipebench/nn"
)

// Search says what to search, and how far.
type Search struct {
	// Pipeline has the network, of any layers, its loss, the optimizer, the schedule and
	// one modelled device, as of gpipe.DeviceOf. Its K, M, cut and task lists are not used.
	Pipeline gpipe.Pipeline
	Input    gpipe.Input // the mini-batch, or the smallest
	How      gpipe.Modelling

	Devices  int // at most, 1 or more; K may be less
	MaxBatch int // examples of the largest mini-batch, as it grows by doubling; 0: those of Input
	Keep     int // how many plans to return; 0: 1
	// Looked is called after each (K, M, mini-batch) that was simulated, with the number
	// of those so far and the largest number of those that remain. Nil: it is not called.
	Looked func(k, m, batch, looked, left int)
}

// Plan is the result of a search.
type Plan struct {
	Accelerator string      `json:"accelerator"`
	Params      int64       `json:"params"`
	Plans       []Candidate `json:"plans"` // those that fit, best first
	// Nearest is the candidate that lacks the least memory, if none fits.
	Nearest   *Candidate `json:"nearest,omitempty"`
	Simulated int        `json:"simulated"` // steps that were planned and timed
	Dismissed int        `json:"dismissed"` // (K, M, mini-batch) that could not be better than Plans
}

// Candidate is one way to train.
type Candidate struct {
	ExamplesPerSecond float64 `json:"examples_per_second"`
	StepSeconds       float64 `json:"step_seconds"`
	K                 int     `json:"k"`
	M                 int     `json:"m"`
	Batch             int     `json:"batch"`
	Checkpoint        string  `json:"checkpoint"`
	Partition         []int   `json:"partition"`
	PartitionBy       string  `json:"partition_by"` // time, time within memory, or memory
	PeakBytes         int64   `json:"peak_bytes"`   // of the fullest device
	LacksBytes        int64   `json:"lacks_bytes,omitempty"`
	BubbleFraction    float64 `json:"bubble_fraction"`
}

// cut is a (K, M, mini-batch) and an upper bound of its throughput.
type cut struct {
	k, m, batch int
	layers      []gpipe.LayerEstimate
	bounds      map[schedule.Checkpoint]float64 // examples per second, of the modes that may fit
}

// bound is the bound of the best mode.
func (c cut) bound() (most float64) {
	for _, b := range c.bounds {
		most = max(most, b)
	}
	return most
}

// Run searches. It orders all (K, M, mini-batch) by a replay of the layers' own times
// with free links, and simulates them, the most promising first, until no other can be
// among the plans to keep.
func (s Search) Run(ctx context.Context) (*Plan, error) {
	if err := s.complete(); err != nil {
		return nil, err
	}
	r := &Plan{Accelerator: s.device().Accelerator.Name, Params: nn.CountParams(s.Pipeline.Layers)}
	if !s.holdsParams(r.Params, s.Devices) {
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
	for i, c := range cuts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		enough := 0.0
		if len(r.Plans) >= s.Keep {
			enough = r.Plans[s.Keep-1].ExamplesPerSecond
		}
		if enough >= c.bound() {
			r.Dismissed = len(cuts) - i
			break
		}
		found, err := search.simulate(c, enough)
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
		if s.Looked != nil {
			s.Looked(c.k, c.m, c.batch, i+1, len(cuts)-i-1)
		}
	}
	if len(r.Plans) > 0 {
		r.Nearest = nil
	}
	r.Plans = r.Plans[:min(len(r.Plans), s.Keep)]
	return r, nil
}

// complete fills in what is 0 or nil, and refuses what cannot be searched.
func (s *Search) complete() error {
	p := &s.Pipeline
	p.Partitions, p.MicroBatches, p.Balance, p.Costs, p.Tasks = 1, 1, nil, nil, nil
	if p.Optimizer == nil {
		p.Optimizer = nn.SGD{}
	}
	if s.MaxBatch == 0 {
		s.MaxBatch = s.Input.Examples
	}
	s.Keep = max(s.Keep, 1)
	switch {
	case len(p.Devices) != 1 || p.Devices[0].Kind != gpipe.Modelled:
		return fmt.Errorf("a search on %d devices that are described: want one that is modelled and stands for all", len(p.Devices))
	case s.Devices < 1:
		return fmt.Errorf("at most %d devices: want 1 or more", s.Devices)
	case s.MaxBatch < s.Input.Examples:
		return fmt.Errorf("a largest mini-batch of %d examples: want %d or more, the smallest", s.MaxBatch, s.Input.Examples)
	}
	return p.Validate(s.Input)
}

// input is a mini-batch of so many examples.
func (s Search) input(examples int) gpipe.Input {
	in := s.Input
	in.Examples = examples
	return in
}

// better puts the higher throughput first, then fewer devices, then fewer micro-batches.
func better(a, b Candidate) int {
	return cmp.Or(-cmp.Compare(a.ExamplesPerSecond, b.ExamplesPerSecond), cmp.Compare(a.K, b.K), cmp.Compare(a.M, b.M))
}

// search is a Search and the description of its network.
type search struct {
	Search
	described *gpipe.Description
}

func (s Search) device() gpipe.Device { return s.Pipeline.Devices[0] }

// stateBytes is the memory of a parameter and of all that is kept for it, in bytes.
func (s Search) stateBytes() int64 {
	state := int64(4 * (1 + len(s.Pipeline.Optimizer.Slots())))
	if s.How.Accounting == gpipe.FullAccounting {
		state += 4
	}
	return state
}

// holdsParams reports whether k devices can hold the parameters, with nothing else.
func (s Search) holdsParams(params int64, k int) bool {
	capacity := s.device().Capacity
	return capacity == 0 || s.stateBytes()*params/int64(k) <= capacity
}

// doublings are 1, 2, 4, ... below most, and most.
func doublings(most int) (ns []int) {
	for n := 1; n < most; n *= 2 {
		ns = append(ns, n)
	}
	return append(ns, most)
}

// cuts lists every K, M and mini-batch that may be worth simulating, the most
// promising first. K whose devices do not hold the parameters alone are left out.
func (s *search) cuts(ctx context.Context) ([]cut, error) {
	estimates := map[int][]gpipe.LayerEstimate{} // by size of micro-batch
	var cuts []cut
	for batch := s.Input.Examples; batch <= s.MaxBatch; batch *= 2 {
		for _, k := range doublings(min(s.Devices, len(s.Pipeline.Layers))) {
			if !s.holdsParams(s.described.Params, k) {
				continue
			}
			for _, m := range doublings(batch) {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				if schedule.Check(s.Pipeline.Schedule, k, m, schedule.Always) != nil {
					continue
				}
				size := gpipe.MicroBatchSizes(batch, m)[0]
				if estimates[size] == nil {
					q := s.Pipeline
					q.MicroBatches = 1
					layers, err := q.ModelLayers(s.input(size), s.How)
					if err != nil {
						return nil, err
					}
					estimates[size] = layers
				}
				c := cut{k: k, m: m, batch: batch, layers: estimates[size]}
				if err := s.limit(&c); err != nil {
					return nil, err
				}
				if len(c.bounds) > 0 {
					cuts = append(cuts, c)
				}
			}
		}
	}
	slices.SortStableFunc(cuts, func(a, b cut) int { return -cmp.Compare(a.bound(), b.bound()) })
	return cuts, nil
}

// limit sets the bounds: the throughput of the best cut by time, without updates and
// links. Mode never has no bound if its residuals and the parameters would not fit all
// devices together even if spread evenly; a fifth of the residuals is not counted,
// since a cut saves some.
func (s *search) limit(c *cut) error {
	sizes, err := partition.Split(partition.MinMax, gpipe.LayerSeconds(c.layers), c.k)
	if err != nil {
		return err
	}
	stages := make([]gpipe.StageTimes, c.k)
	next := 0
	for k, n := range sizes.Sizes {
		var f, r, b float64
		for _, l := range c.layers[next : next+n] {
			f, r, b = f+l.Forward, r+l.Recompute, b+l.Backward
		}
		next += n
		stages[k] = gpipe.StageTimes{F: slices.Repeat([]float64{f}, c.m), R: slices.Repeat([]float64{r}, c.m), B: slices.Repeat([]float64{b}, c.m)}
	}
	c.bounds = map[schedule.Checkpoint]float64{}
	for _, mode := range checkpoints(c.m) {
		e := s.memory(*c, mode)
		if mode == schedule.Never && e.capacity > 0 && e.params+0.8*e.residuals > e.capacity*float64(c.k) {
			continue
		}
		lists, err := schedule.Build(s.Pipeline.Schedule, c.k, c.m, mode, false)
		if err != nil {
			return err
		}
		tl, err := (&gpipe.Times{Stages: stages, Lists: lists}).Replay()
		if err != nil {
			return err
		}
		c.bounds[mode] = float64(c.batch) / tl.Span()
	}
	return nil
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
	costs := gpipe.LayerSeconds(c.layers)
	found := map[schedule.Checkpoint]Candidate{}
	tried := map[string]bool{}
	try := func(by string, sizes []int, modes []schedule.Checkpoint) error {
		key := fmt.Sprint(sizes, modes)
		if tried[key] {
			return nil
		}
		tried[key] = true
		q := s.Pipeline
		q.Partitions, q.MicroBatches, q.Balance = c.k, c.m, sizes
		var variants []gpipe.Variant
		for _, mode := range modes {
			v := q.Variant()
			v.Checkpoint = mode
			variants = append(variants, v)
		}
		sims, err := q.SimulateVariants(s.input(c.batch), s.How, variants...)
		if err != nil {
			return err
		}
		for i, sim := range sims {
			now := Candidate{
				ExamplesPerSecond: float64(c.batch) / sim.Seconds, StepSeconds: sim.Seconds, K: c.k, M: c.m, Batch: c.batch,
				Checkpoint: modes[i].String(), Partition: sim.Sizes, PartitionBy: by, BubbleFraction: sim.Parts.Bubble / sim.Seconds,
			}
			for _, d := range sim.Devices {
				now.PeakBytes = max(now.PeakBytes, d.PeakBytes)
				if !d.Fits() {
					now.LacksBytes = max(now.LacksBytes, d.PeakBytes-d.Capacity)
				}
			}
			if before, ok := found[modes[i]]; !ok || before.LacksBytes > now.LacksBytes {
				found[modes[i]] = now
			}
		}
		return nil
	}
	modes := slices.DeleteFunc(checkpoints(c.m), func(mode schedule.Checkpoint) bool { return c.bounds[mode] <= enough })
	byTime, err := partition.Split(partition.MinMax, costs, c.k)
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
		if within, err := partition.MinMaxUnderCapacity(costs, c.k, memory.fits); err == nil {
			if err := try("time within memory", within.Sizes, []schedule.Checkpoint{mode}); err != nil {
				return nil, err
			}
		}
		if found[mode].LacksBytes == 0 {
			continue
		}
		byMemory, err := partition.Split(partition.MinMax, memory.perLayer, c.k)
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

// planMemory estimates a stage's memory in bytes without a plan: parameters, residuals,
// and the stash of inputs, but no workspace.
type planMemory struct {
	perLayer []float64 // parameters and residuals
	stash    []float64 // by layer: of a stage that begins with it
	capacity float64

	params, residuals float64 // of all layers
}

func (s *search) memory(c cut, mode schedule.Checkpoint) planMemory {
	held := 1 // sets of residuals; a lower limit if the schedule is not fill-drain
	if mode == schedule.Never && s.Pipeline.Schedule == schedule.GPipe {
		held = c.m
	}
	size := float64(gpipe.MicroBatchSizes(c.batch, c.m)[0])
	state := float64(s.stateBytes())
	e := planMemory{capacity: float64(s.device().Capacity)}
	incoming := 0.0
	for i, l := range s.described.Layers {
		params, residuals := state*float64(l.Params), float64(held)*float64(c.layers[i].Residual)
		e.params += params
		e.residuals += residuals
		e.perLayer = append(e.perLayer, params+residuals)
		e.stash = append(e.stash, incoming*size*float64(c.m))
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
	return e.capacity == 0 || sum <= 0.95*e.capacity
}
