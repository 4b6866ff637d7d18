package planner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpipebench/gpipe"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/failure"
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
	// Window is the number of mini-batches between two drains of the asynchronous schedules that are
	// tried; 0: there are none.
	Window int
	// Chunks are the numbers of pieces of each device, V, that are tried where a schedule has
	// any number of them; nil: 2, 4, ... as far as there are layers.
	Chunks []int

	// Zeros and Recomputes are tried in place of How's; nil: those of How alone. Parts are the
	// numbers T of devices that divide each stage, with the layers of one of them; nil: How's, whose
	// layers Pipeline has. A way with any of them is modelled as on a cluster ([gpipe.Parallel]), where
	// micro-batches are of one size, and otherwise as GPipe's.
	Zeros      []int
	Recomputes []gpipe.Recompute
	Parts      map[int][]nn.Layer

	Devices  int // at most, 1 or more; T R K S may be less
	Replicas int // R, each with one group of every mini-batch; 0: searched, as K is
	MaxBatch int // examples of the largest mini-batch, as it grows by doubling; 0: those of Input
	Keep     int // how many plans to return; 0: 1
	// Looked is called after each way that was simulated, with the number of those so far
	// and the largest number of those that remain. Nil: it is not called.
	Looked func(at Way, looked, left int)
}

// Way is what the search begins with: replicas, stages of each, devices of each stage,
// micro-batches of a replica's part of the mini-batch, examples of all of it, and a schedule with
// pieces of the network on each stage's devices.
type Way struct {
	R, K, T, M, Batch int
	Schedule          schedule.Schedule // if it is searched: that which it is searched from
	Chunks            int
	Searched          bool
	Recompute         gpipe.Recompute
}

// Order names the schedule.
func (w Way) Order() string {
	if w.Searched {
		return "searched"
	}
	return w.Schedule.String()
}

// Plan is the result of a search.
type Plan struct {
	Accelerator string      `json:"accelerator"`
	Params      int64       `json:"params"`
	Plans       []Candidate `json:"plans"` // those that fit, best first
	// Nearest is the candidate that lacks the least memory, if none fits.
	Nearest   *Candidate `json:"nearest,omitempty"`
	Simulated int        `json:"simulated"` // steps that were planned and timed
	Dismissed int        `json:"dismissed"` // candidates whose bounds say that they are no better than Plans
	Unfit     int        `json:"unfit"`     // candidates that would not fit however they were cut
}

// Candidate is one way to train.
type Candidate struct {
	ExamplesPerSecond float64 `json:"examples_per_second"`
	StepSeconds       float64 `json:"step_seconds"`
	R                 int     `json:"replicas"`
	K                 int     `json:"k"`
	T                 int     `json:"tensor"` // devices of each stage
	M                 int     `json:"m"`
	Batch             int     `json:"batch"`
	Schedule          string  `json:"schedule"`
	Chunks            int     `json:"chunks"`
	Window            int     `json:"window,omitempty"`   // mini-batches between two drains; none: all stages update together
	Versions          int     `json:"versions,omitempty"` // of the weights, on the device that has most; none: one
	Checkpoint        string  `json:"checkpoint"`
	Recompute         string  `json:"recompute"` // stage: as Checkpoint says
	Zero              int     `json:"zero"`
	Partition         []int   `json:"partition"`
	PartitionBy       string  `json:"partition_by"` // time, time within memory, or memory
	PeakBytes         int64   `json:"peak_bytes"`   // of the fullest device

	Memory         gpipe.DeviceMemory `json:"memory"` // of the same
	LacksBytes     int64              `json:"lacks_bytes,omitempty"`
	BubbleFraction float64            `json:"bubble_fraction"`
	ReduceSeconds  float64            `json:"all_reduce_seconds"` // of the stage that takes longest

	// Lists are a searched schedule's; nil: the one of its name.
	Lists [][]schedule.Task `json:"-"`
	// Recomputed is the simulation's.
	Recomputed []int `json:"-"`

	sim *gpipe.Simulation // until it is complete
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
	if least := max(s.Replicas, 1); !s.holdsParams(r.Params, least, s.Devices/least, slices.Max(s.zeros(least))) {
		return r, nil
	}
	described, err := s.Pipeline.Counted(s.Input)
	if err != nil {
		return nil, err
	}
	r.Params = described.Params
	search := s.of(described)
	cuts, unfit, err := search.cuts(ctx)
	if err != nil {
		return nil, err
	}
	r.Unfit = unfit
	if len(cuts) == 0 && unfit == 0 {
		return nil, failure.Usagef("no way to train a mini-batch of %d on at most %d devices with the schedules %s: want other devices, replicas, chunks or schedules, or a mini-batch that they divide",
			s.Input.Examples, s.Devices*max(s.Pipeline.Spatial, 1), strings.Join(s.names(), ", "))
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
			if cuts[i].bound > cuts[best].bound {
				best = i
			}
		}
		c := &cuts[best]
		if enough > c.bound { // what is as good may still come first
			for _, c := range cuts {
				r.Dismissed += len(c.tried)
			}
			break
		}
		if !c.replayed && !s.onCluster() { // whose steps are as fast to simulate
			if err := search.replay(c); err != nil {
				return nil, err
			}
			continue
		}
		found, unfit, err := search.simulate(*c, enough)
		if err != nil {
			return nil, err
		}
		r.Simulated, r.Unfit, r.Dismissed = r.Simulated+len(found), r.Unfit+unfit, r.Dismissed+len(c.tried)-len(found)-unfit
		for _, f := range found {
			if f.LacksBytes == 0 {
				r.Plans = append(r.Plans, f)
			} else if r.Nearest == nil || f.LacksBytes < r.Nearest.LacksBytes {
				r.Nearest = &f
			}
		}
		if len(r.Plans) > 0 {
			r.Nearest = nil
		}
		slices.SortStableFunc(r.Plans, better)
		r.Plans = slices.Delete(r.Plans, min(len(r.Plans), s.Keep), len(r.Plans))
		for i := range r.Plans {
			if err := r.Plans[i].complete(); err != nil {
				return nil, err
			}
		}
		looked++
		if s.Looked != nil {
			s.Looked(c.Way, looked, len(cuts)-1)
		}
		cuts[best] = cuts[len(cuts)-1]
		cuts = cuts[:len(cuts)-1]
	}
	if len(r.Plans) == 0 && r.Nearest == nil && search.nearest != nil {
		search.exact = true
		found, _, err := search.simulate(*search.nearest, 0)
		if err != nil {
			return nil, err
		}
		if len(found) > 0 { // a schedule that is searched for may be none
			r.Nearest = &found[0]
		}
	}
	return r, r.Nearest.complete()
}

// complete finds what is not simulated of candidates that are not kept. It is called at once, since a
// simulation is much larger than what is kept of it.
func (c *Candidate) complete() error {
	if c == nil || c.sim == nil {
		return nil
	}
	bubble, err := c.sim.Bubble()
	if err != nil {
		return err
	}
	c.timed()
	c.BubbleFraction = bubble / c.sim.Seconds
	c.sim = nil
	return nil
}

// Validate reports what cannot be searched, and what would be accepted.
func (s Search) Validate() error { return s.complete() }

// complete fills in what is 0 or nil, and refuses what cannot be searched.
func (s *Search) complete() error {
	p := &s.Pipeline
	if s.Schedules == nil && !s.Searched {
		s.Schedules = []schedule.Schedule{p.Schedule}
	}
	asynchronous := slices.ContainsFunc(s.Schedules, schedule.Schedule.Asynchronous)
	if names := strings.Join(schedule.AsynchronousNames(), ", "); asynchronous != (s.Window > 0) {
		return fmt.Errorf("the schedules %s with a window of %d mini-batches: want a window of 1 or more with %s, and 0 with others", strings.Join(s.names(), ", "), s.Window, names)
	}
	p.Partitions, p.MicroBatches, p.Balance, p.Costs, p.Tasks = 1, 1, nil, nil, nil
	p.Schedule, p.Window, p.Chunks, p.Placement = schedule.GPipe, 0, 0, schedule.Placement{} // each way has its own
	p.Replicas, p.Groups = 1, 1
	if p.ShardUpdate { // ZeRO 1 of devices that compute
		s.How.Zero, p.ShardUpdate = max(s.How.Zero, 1), false
	}
	torus := p.AllReduce.Torus
	if p.AllReduce.Kind != reduction.Torus {
		torus = [2]int{}
	}
	s.Replicas, s.MaxBatch = cmp.Or(s.Replicas, torus[0]*torus[1]), cmp.Or(s.MaxBatch, s.Input.Examples)
	p.Optimizer = cmp.Or[nn.Optimizer](p.Optimizer, nn.SGD{})
	s.Keep = max(s.Keep, 1)
	parts := max(p.Spatial, 1)
	all := s.Devices
	s.Devices /= parts // each part of a stage takes one
	splits := s.Searched || slices.ContainsFunc(s.Schedules, schedule.Schedule.Splits)
	switch {
	case len(p.Devices) != 1 || p.Devices[0].Kind != gpipe.Modelled:
		return fmt.Errorf("a search on %d devices that are described: want one that is modelled and stands for all", len(p.Devices))
	case slices.ContainsFunc(s.Schedules, func(x schedule.Schedule) bool { return schedule.Check(x, 1, 1, schedule.Always) != nil }):
		return fmt.Errorf("schedules %v: want those of package schedule", s.Schedules)
	case slices.ContainsFunc(s.Chunks, func(v int) bool { return v < 1 }):
		return fmt.Errorf("chunks %v: want 1 or more", s.Chunks)
	case s.onCluster() && slices.Contains(s.recomputes(), gpipe.RecomputeStage) && !s.parallel(Way{T: s.tensors()[0]}, slices.Min(s.zeros(2))).Used():
		return errors.New("with T or ZeRO searched in float32, ways without them would be timed by another model than the others: want weights of another precision, or recomputation none, selective or full")
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
	if err := one.Validate(s.Input); err != nil {
		return err
	}
	one.BatchNormScope, one.Checkpoint = p.BatchNormScope, schedule.Never // which any way on a cluster may have
	if i := slices.IndexFunc(s.Schedules, schedule.Schedule.Asynchronous); i >= 0 {
		one.Schedule = s.Schedules[i]
	}
	for _, t := range s.tensors() {
		how := s.How
		how.Parallel = s.parallel(Way{T: t, Recompute: s.recomputes()[0]}, how.Zero)
		if err := one.CheckParallel(s.Input, how); err != nil {
			return err
		}
	}
	return nil
}

// names returns the schedules' names.
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

// input describes a mini-batch of examples.
func (s Search) input(examples int) gpipe.Input {
	in := s.Input
	in.Examples = examples
	return in
}

// better puts the higher throughput first, then fewer devices, fewer micro-batches, fewer
// chunks and less memory. No two candidates are the same, so that the order of what is as
// good does not depend on when it was found.
func better(a, b Candidate) int {
	return cmp.Or(-cmp.Compare(a.ExamplesPerSecond, b.ExamplesPerSecond), cmp.Compare(a.R*a.K*a.T, b.R*b.K*b.T), cmp.Compare(a.T, b.T), cmp.Compare(a.K, b.K), cmp.Compare(a.M, b.M),
		cmp.Compare(a.Chunks, b.Chunks), cmp.Compare(a.PeakBytes, b.PeakBytes), cmp.Compare(a.Batch, b.Batch), cmp.Compare(a.Schedule, b.Schedule),
		cmp.Compare(a.Checkpoint, b.Checkpoint), cmp.Compare(a.Zero, b.Zero), cmp.Compare(a.Recompute, b.Recompute))
}

// search is a Search, the description of its network, and what ways share.
type search struct {
	Search
	described *gpipe.Description
	costs     *gpipe.Costs
	layers    map[estimated][]gpipe.LayerEstimate
	splits    map[splitKey]split

	nearest *cut    // of those that do not fit however they are cut, the one that lacks
	least   float64 // least; nil: all may fit
	exact   bool    // what does not fit is simulated, too
}

// of begins a search with a network's description.
func (s Search) of(described *gpipe.Description) *search {
	return &search{Search: s, described: described, costs: &gpipe.Costs{}, layers: map[estimated][]gpipe.LayerEstimate{}, splits: map[splitKey]split{}}
}

func (s Search) device() gpipe.Device { return s.Pipeline.Devices[0] }
