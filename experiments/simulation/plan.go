package simulation

import (
	"context"
	"fmt"
	"time"

	"gpipebench/experiments/progress"
	"gpipebench/experiments/workload"
	"gpipebench/gpipe/planner"
	"gpipebench/internal/usage"
)

// Planning is the search for the best way to train a network on some modelled
// accelerators: over K, M, partition and checkpoint mode.
type Planning struct {
	Simulating     // its Setup has the schedule only; Batch is the mini-batch, or the smallest
	Devices    int // at most; K may be less
	MaxBatch   int // the largest mini-batch, if it may grow by doubling; 0: Batch
	Keep       int // how many plans to return
}

// planQuiet is how long a search runs before it reports its progress.
const planQuiet = 2 * time.Second

// Run searches.
func (s Planning) Run(ctx context.Context, p progress.Progress) (*planner.Plan, error) {
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
	start, shown := time.Now(), false
	defer func() {
		if shown {
			p.End()
		}
	}()
	return planner.Search{
		Pipeline: pipeline, Input: s.Model.Input(s.Batch), How: s.Modelling(),
		Devices: s.Devices, MaxBatch: max(s.MaxBatch, s.Batch), Keep: s.Keep,
		Looked: func(k, m, batch, looked, left int) {
			if shown {
				p.Advance(fmt.Sprintf("K=%d M=%d, mini-batch %d", k, m, batch))
			} else if time.Since(start) > planQuiet && left > 0 {
				p.Begin(fmt.Sprintf("plan: %d of at most %d cuts left, the most promising first", left, looked+left), left)
				shown = true
			}
		},
	}.Run(ctx)
}
