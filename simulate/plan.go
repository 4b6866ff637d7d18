package simulate

import (
	"context"
	"fmt"
	"time"

	"gpipebench/gpipe"
	"gpipebench/gpipe/planner"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/failure"
	"gpipebench/internal/progress"
	"gpipebench/train"
)

// Planning is the search for the best way to train a network on some modelled
// accelerators: over replicas, K, M, schedule, chunks, partition and checkpoint mode.
type Planning struct {
	Simulating // its Setup has BNScope, ShardUpdate and Spatial only; Batch is the mini-batch, or the smallest
	Schedules  []schedule.Schedule
	Searched   bool   // schedules that are looked for within the devices' memory, too
	Seed       uint64 // of that search
	Chunks     int    // V, pieces on each device, where a schedule has any number; 0: searched
	Devices    int    // at most; R K S may be less
	Replicas   int    // R; 0: searched
	MaxBatch   int    // the largest mini-batch, if it may grow by doubling; 0: Batch
	Keep       int    // how many plans to return
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
	pipeline, err := s.Pipeline(ctx, s.Model.Input(s.Batch))
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
		Pipeline: pipeline, Input: s.Model.Input(s.Batch), How: s.Modelling(),
		Schedules: s.Schedules, Searched: s.Searched, Seed: s.Seed, Devices: s.Devices, Replicas: s.Replicas, MaxBatch: max(s.MaxBatch, s.Batch), Keep: s.Keep,
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
	if err := search.Validate(); err != nil {
		return nil, failure.Usage(err)
	}
	found, err := search.Run(ctx)
	if err != nil {
		return nil, err
	}
	r := &Plan{Plan: found}
	for _, c := range found.Plans {
		of := s.work(pipeline, found.Described)
		r.Plans = append(r.Plans, Planned{c, of.metrics(c.StepSeconds, c.Batch, c.R*c.K*max(pipeline.Spatial, 1), c.Partition, c.Recomputed)})
	}
	return r, nil
}
