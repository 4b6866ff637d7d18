package simulate

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"gpipebench/gpipe"
	"gpipebench/gpipe/planner"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/failure"
	"gpipebench/internal/progress"
	"gpipebench/nn"
	"gpipebench/train"
)

// Planning is the search for the best way to train a network on some modelled
// accelerators: over replicas, K, M, schedule, chunks, partition and checkpoint mode, and of
// clusters also over T, ZeRO's stages and recomputation.
type Planning struct {
	Simulating // its Setup has BNScope and Spatial only; Batch is the mini-batch, or the smallest
	Search     Search

	Schedules []schedule.Schedule
	Searched  bool   // schedules that are looked for within the devices' memory, too
	Seed      uint64 // of that search
	Window    int    // mini-batches between two drains, of the asynchronous schedules among them; 0: there are none
	Chunks    int    // V, pieces on each device, where a schedule has any number; 0: searched
	Devices   int    // at most; R K S may be less
	Replicas  int    // R; 0: searched
	MaxBatch  int    // the largest mini-batch, if it may grow by doubling; 0: Batch
	Keep      int    // how many plans to return
}

// Search is what is searched besides K and M. Tensor tries every T that is a power of two within a
// node, or with TensorOverNodes within all devices, and divides the network's layers; Zero every stage
// of ZeRO; Recompute recomputation none, full, and of
// attention with its scores in memory selective. They take the place of what Parallel says.
type Search struct {
	Tensor, Zero, Recompute bool
	Replicas, All           bool // asked for by name: Replicas 0, and everything
}

// ParseSearch reads names of what is searched.
func ParseSearch(text string) (s Search, err error) {
	of := map[string]*bool{"tensor": &s.Tensor, "replicas": &s.Replicas, "zero": &s.Zero, "recompute": &s.Recompute, "all": &s.All}
	for _, name := range strings.Split(text, ",") {
		if of[name] == nil || *of[name] {
			return Search{}, fmt.Errorf("want tensor, replicas, zero, recompute or all, or several of them, each once")
		}
		*of[name] = true
	}
	return s, nil
}

// OnCluster reports whether ways are modelled as on a cluster.
func (s Planning) OnCluster() bool {
	return s.Used() || s.Search.Tensor || s.Search.Zero || s.Search.Recompute
}

// Plan is the outcome of the search: the planner's, with each plan's metrics.
type Plan struct {
	*planner.Plan
	Plans []Planned `json:"plans"` // those that fit, best first
}

// Planned is one way to train.
type Planned struct {
	planner.Candidate
	Metrics
}

// planQuiet is how long a search runs before it reports its progress.
const planQuiet = 2 * time.Second

// Run searches.
func (s Planning) Run(ctx context.Context, p progress.Progress) (*Plan, error) {
	switch {
	case s.Devices < 1:
		return nil, failure.Usagef("%d devices: want 1 or more", s.Devices)
	case s.Batch < 1:
		return nil, failure.Usagef("a mini-batch of %d examples: want 1 or more", s.Batch)
	case s.Keep < 1:
		return nil, failure.Usagef("%d plans: want 1 or more", s.Keep)
	}
	s.Setup.Partitions, s.Setup.MicroBatches, s.Setup.Balance, s.Setup.Cost = 1, 1, nil, train.FLOPs
	scope := s.Setup.BNScope
	s.Setup.Replicas, s.Setup.Groups, s.Setup.BNScope = 1, 1, gpipe.ReplicaScope
	base := s.Simulating
	base.Parallel = gpipe.Parallel{} // the whole network
	pipeline, err := base.Pipeline(ctx, s.Model.Input(s.Batch))
	if err != nil {
		return nil, err
	}
	parts, err := s.parts(pipeline)
	if err != nil {
		return nil, err
	}
	pipeline.BatchNormScope = scope
	start, shown := time.Now(), false
	defer func() {
		if shown {
			p.End()
		}
	}()
	search := planner.Search{
		Pipeline: pipeline, Input: s.Model.Input(s.Batch), How: s.Modelling(), Parts: parts,
		Schedules: s.Schedules, Searched: s.Searched, Seed: s.Seed, Window: s.Window, Devices: s.Devices, Replicas: s.Replicas, MaxBatch: max(s.MaxBatch, s.Batch), Keep: s.Keep,
		Looked: func(at planner.Way, looked, left int) {
			if shown {
				p.Advance(fmt.Sprintf("R=%d K=%d M=%d, mini-batch %d, %v", at.R, at.K, at.M, at.Batch, at.Order()))
			} else if time.Since(start) > planQuiet && left > 0 {
				p.Begin(fmt.Sprintf("plan: %d of at most %d cuts left, the most promising first", left, looked+left), left)
				shown = true
			}
		},
	}
	if s.Chunks > 0 {
		search.Chunks = []int{s.Chunks}
	}
	if s.Search.Zero {
		search.Zeros = []int{0, 1, 2, 3}
	}
	if s.Search.Recompute {
		search.Recomputes = []gpipe.Recompute{gpipe.RecomputeNone, gpipe.RecomputeFull}
		if s.Attention == gpipe.UnfusedAttention || s.KeepScores { // others keep no scores
			search.Recomputes = append(search.Recomputes, gpipe.RecomputeSelective)
		}
	}
	if err := search.Validate(); err != nil {
		return nil, failure.Usage(err)
	}
	found, err := search.Run(ctx)
	if err != nil {
		return nil, err
	}
	r := &Plan{Plan: found}
	if len(found.Plans) == 0 {
		return r, nil
	}
	whole, err := s.whole(pipeline, s.Model.Input(s.Batch))
	if err != nil {
		return nil, err
	}
	for _, c := range found.Plans {
		if s.Recompute, err = gpipe.ParseRecompute(c.Recompute); err != nil {
			return nil, err
		}
		devices := c.R * c.K * c.T * max(pipeline.Spatial, 1)
		r.Plans = append(r.Plans, Planned{c, s.work(pipeline, whole).metrics(c.StepSeconds, c.Batch, devices, c.Partition, c.Recomputed)})
	}
	return r, nil
}

// parts are the numbers T of devices of a stage that are tried, with the layers of one of them; nil
// if ways are not those of a cluster.
func (s Planning) parts(p gpipe.Pipeline) (map[int][]nn.Layer, error) {
	if !s.OnCluster() {
		return nil, nil
	}
	least := max(s.Tensor, 1)
	most := least
	node := cmp.Or(s.NodeDevices, p.Devices[0].Accelerator.Far.Devices, s.Devices)
	if s.Search.Tensor {
		if least, most = 1, min(node, s.Devices); s.TensorOverNodes {
			most = s.Devices
		}
	}
	all := map[int][]nn.Layer{}
	for t := least; t <= min(most, gpipe.MaxParts); t *= 2 {
		if s.Search.Tensor && node%t != 0 && t%node != 0 {
			continue
		}
		s.Model.Parts = nn.Parts{Count: t, Sequence: s.SequenceParallel && t > 1}
		layers, err := s.Model.Build()
		if err != nil && (t == 1 || !s.Search.Tensor) {
			return nil, err
		}
		if err == nil {
			all[t] = layers
		}
	}
	return all, nil
}
