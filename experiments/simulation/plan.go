package simulation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"gpipebench/experiments/progress"
	"gpipebench/experiments/workload"
	"gpipebench/gpipe"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/usage"
	"gpipebench/nn"
)

// Planning is the search for the best way to train a network on some modelled
// accelerators: over K, M, partition and checkpoint mode.
type Planning struct {
	Simulating     // its Setup has the schedule only; Batch is the mini-batch, or the smallest
	Devices    int // at most; K may be less
	MaxBatch   int // the largest mini-batch, if it may grow by doubling; 0: Batch
	Keep       int // how many plans to tell
}

// Plan is what was found, best first.
type Plan struct {
	Accelerator string      `json:"accelerator"`
	Params      int64       `json:"params"`
	Plans       []Candidate `json:"plans"` // those that fit
	// Nearest lacks the least memory, if no plan fits.
	Nearest   *Candidate `json:"nearest,omitempty"`
	Simulated int        `json:"simulated"` // steps that were planned and timed
	Dismissed int        `json:"dismissed"` // ways to cut that could not be better than those told
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

// cut is a (K, M, mini-batch) and what it can reach at best.
type cut struct {
	k, m, batch int
	layers      []gpipe.LayerEstimate
	bounds      map[schedule.Checkpoint]float64 // examples per second, of the modes that may fit
}

// bound is that of the best mode.
func (c cut) bound() (most float64) {
	for _, b := range c.bounds {
		most = max(most, b)
	}
	return most
}

// planQuiet is how long a search goes on before it says how far it is.
const planQuiet = 2 * time.Second

// Run searches. It orders all (K, M, mini-batch) by what a replay of the layers'
// own times says, with free links, and simulates them from the most promising
// on until no other can be among the plans to keep.
func (s Planning) Run(ctx context.Context, p progress.Progress) (*Plan, error) {
	s.MaxBatch = max(s.MaxBatch, s.Batch)
	switch {
	case s.Devices < 1:
		return nil, usage.Errorf("%d devices: want 1 or more", s.Devices)
	case s.Batch < 1:
		return nil, usage.Errorf("a mini-batch of %d examples: want 1 or more", s.Batch)
	case s.Keep < 1:
		return nil, usage.Errorf("%d plans: want 1 or more", s.Keep)
	}
	s.Setup.Partitions, s.Setup.MicroBatches, s.Setup.Balance, s.Setup.Cost = 1, 1, nil, workload.FLOPs
	pipeline, err := s.Pipeline(ctx, s.Model.Input(s.Batch))
	if err != nil {
		return nil, err
	}
	if !s.holdsParams(pipeline, nn.CountParams(pipeline.Layers), s.Devices) {
		return &Plan{Accelerator: pipeline.Devices[0].Accelerator.Name, Params: nn.CountParams(pipeline.Layers)}, nil
	}
	described, err := pipeline.Describe(s.Model.Input(s.Batch))
	if err != nil {
		return nil, err
	}
	search := &planSearch{Planning: s, pipeline: pipeline, described: described}
	cuts, err := search.cuts(ctx)
	if err != nil {
		return nil, err
	}
	r := &Plan{Accelerator: pipeline.Devices[0].Accelerator.Name, Params: described.Params}
	start, shown := time.Now(), false
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
		switch {
		case shown:
			p.Advance(fmt.Sprintf("K=%d M=%d, mini-batch %d", c.k, c.m, c.batch))
		case time.Since(start) > planQuiet && i+1 < len(cuts):
			p.Begin(fmt.Sprintf("plan: %d of at most %d cuts left, the most promising first", len(cuts)-i-1, len(cuts)), len(cuts)-i-1)
			defer p.End()
			shown = true
		}
	}
	if len(r.Plans) > 0 {
		r.Nearest = nil
	}
	r.Plans = r.Plans[:min(len(r.Plans), s.Keep)]
	return r, nil
}

// better puts the higher throughput first, then fewer devices, then fewer micro-batches.
func better(a, b Candidate) int {
	return cmp.Or(-cmp.Compare(a.ExamplesPerSecond, b.ExamplesPerSecond), cmp.Compare(a.K, b.K), cmp.Compare(a.M, b.M))
}

type planSearch struct {
	Planning
	pipeline  gpipe.Pipeline
	described *gpipe.Description
}

// stateBytes is what a parameter takes, with all that is kept for it.
func (s Planning) stateBytes(p gpipe.Pipeline) int64 {
	state := int64(4 * (1 + len(p.Optimizer.Slots())))
	if s.Accounting == gpipe.FullAccounting {
		state += 4
	}
	return state
}

// holdsParams tells whether k devices hold so many parameters, and nothing else.
func (s Planning) holdsParams(p gpipe.Pipeline, params int64, k int) bool {
	capacity := p.Devices[0].Capacity
	return capacity == 0 || s.stateBytes(p)*params/int64(k) <= capacity
}

// doublings are 1, 2, 4, ... below most, and most.
func doublings(most int) (ns []int) {
	for n := 1; n < most; n *= 2 {
		ns = append(ns, n)
	}
	return append(ns, most)
}

// cuts lists every K, M and mini-batch that may be worth it, the most promising
// first. Where the parameters alone are too much for K devices there is none.
func (s *planSearch) cuts(ctx context.Context) ([]cut, error) {
	estimates := map[int][]gpipe.LayerEstimate{} // by size of micro-batch
	var cuts []cut
	for batch := s.Batch; batch <= s.MaxBatch; batch *= 2 {
		for _, k := range doublings(min(s.Devices, len(s.pipeline.Layers))) {
			if !s.holdsParams(s.pipeline, s.described.Params, k) {
				continue
			}
			for _, m := range doublings(batch) {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				if schedule.Check(s.Setup.Schedule, k, m, schedule.Always) != nil {
					continue
				}
				size := gpipe.MicroBatchSizes(batch, m)[0]
				if estimates[size] == nil {
					q := s.pipeline
					q.MicroBatches = 1
					layers, err := q.ModelLayers(s.Model.Input(size), s.Modelling())
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

// limit sets the bounds: the throughput without updates and links, of the best
// cut by time. Never has none if its residuals and the parameters could not fit
// all devices together, were they spread evenly; the residuals are taken a fifth
// lower, as a cut saves some.
func (s *planSearch) limit(c *cut) error {
	sizes, err := partition.Split(partition.MinMax, Seconds(c.layers), c.k)
	if err != nil {
		return err
	}
	stages := make([]gpipe.LayerEstimate, c.k)
	next := 0
	for k, n := range sizes.Sizes {
		for _, l := range c.layers[next : next+n] {
			stages[k].Forward += l.Forward
			stages[k].Recompute += l.Recompute
			stages[k].Backward += l.Backward
		}
		next += n
	}
	c.bounds = map[schedule.Checkpoint]float64{}
	for _, mode := range checkpoints(c.m) {
		e := s.memory(*c, mode)
		if mode == schedule.Never && e.capacity > 0 && e.params+0.8*e.residuals > e.capacity*float64(c.k) {
			continue
		}
		lists, err := schedule.Build(s.Setup.Schedule, c.k, c.m, mode, false)
		if err != nil {
			return err
		}
		tl, err := timeline.Replay(lists, timeline.Costs{Task: func(at place.Place, t schedule.Task) float64 {
			switch t.Kind {
			case schedule.Forward:
				return stages[at.Stage].Forward
			case schedule.Recompute:
				return stages[at.Stage].Recompute
			}
			return stages[at.Stage].Backward
		}})
		if err != nil {
			return err
		}
		c.bounds[mode] = float64(c.batch) / tl.Span()
	}
	return nil
}

func Seconds(layers []gpipe.LayerEstimate) []float64 {
	costs := make([]float64, len(layers))
	for i, l := range layers {
		costs[i] = l.Seconds()
	}
	return costs
}

// checkpoints are all modes; for one micro-batch, except-last is never.
func checkpoints(m int) []schedule.Checkpoint {
	if m == 1 {
		return []schedule.Checkpoint{schedule.Always, schedule.Never}
	}
	return []schedule.Checkpoint{schedule.Always, schedule.ExceptLast, schedule.Never}
}

// simulate cuts by time; for the modes in which that does not fit, by time among
// the cuts whose estimated memory fits, and by memory.
//
// Modes that cannot reach more than enough are left out.
func (s *planSearch) simulate(c cut, enough float64) ([]Candidate, error) {
	costs := Seconds(c.layers)
	found := map[schedule.Checkpoint]Candidate{}
	tried := map[string]bool{}
	try := func(by string, sizes []int, modes []schedule.Checkpoint) error {
		if key := fmt.Sprint(sizes, modes); tried[key] {
			return nil
		} else {
			tried[key] = true
		}
		q := s.pipeline
		q.Partitions, q.MicroBatches, q.Balance = c.k, c.m, sizes
		var variants []gpipe.Variant
		for _, mode := range modes {
			v := q.Variant()
			v.Checkpoint = mode
			variants = append(variants, v)
		}
		sims, err := q.SimulateVariants(s.Model.Input(c.batch), s.Modelling(), variants...)
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

// planMemory is an estimate of a stage's memory that needs no plan: parameters,
// residuals, and the stash of what comes in. It knows no workspace.
type planMemory struct {
	perLayer []float64 // parameters and residuals
	stash    []float64 // of a stage that begins with the layer
	capacity float64

	params, residuals float64 // of all layers
}

func (s *planSearch) memory(c cut, mode schedule.Checkpoint) planMemory {
	held := 1 // sets of residuals; at least, where the schedule is not fill-drain
	if mode == schedule.Never && s.Setup.Schedule == schedule.GPipe {
		held = c.m
	}
	size := float64(gpipe.MicroBatchSizes(c.batch, c.m)[0])
	state := float64(s.stateBytes(s.pipeline))
	e := planMemory{capacity: float64(s.pipeline.Devices[0].Capacity)}
	incoming := 0.0
	for i, l := range s.described.Layers {
		params, residuals := state*float64(l.Params), float64(held)*float64(c.layers[i].Residual)
		e.params += params
		e.residuals += residuals
		e.perLayer = append(e.perLayer, params+residuals)
		e.stash = append(e.stash, incoming*size*float64(c.m))
		incoming = 0
		for _, shape := range l.OutShape {
			incoming += float64(shape.Elems()) * float64(s.DType.Bytes())
		}
	}
	return e
}

// fits leaves a twentieth for the workspace.
func (e planMemory) fits(from, to int) bool {
	sum := e.stash[from]
	for _, b := range e.perLayer[from:to] {
		sum += b
	}
	return e.capacity == 0 || sum <= 0.95*e.capacity
}
