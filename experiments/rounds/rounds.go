// Package rounds measures times in rounds, each in a process of its own.
package rounds

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"

	"gpipebench/experiments/machine"
	"gpipebench/experiments/records"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/workload"
	"gpipebench/gpipe"
	"gpipebench/internal/stats"
	"gpipebench/nn/program"
)

// Rounds times training steps of several pipelines. Every round times every
// pipeline, so that a disturbance or a drift hits all of them alike, and ratios
// are taken within a round. Which pipeline is first moves from round to round.
type Rounds struct {
	ID       string // of the experiment
	Runs     []Run
	Count    int    // rounds
	WarmUp   int    // steps at the beginning of a round, of its first pipeline, that are not counted
	Seed     uint64 // of weights and data
	CoreRate bool   // each round begins with a sample of the rate of one core
}

// Run is one of the pipelines that take turns.
type Run struct {
	Name     string            // of its samples
	Bench    string            // in the Go benchmark format; "": Name
	Training workload.Training // every step trains on the same mini-batch of its model's kind
	Steps    int               // in a round
	Cores    int               // that the machine must have; with fewer, the run is left out
	Over     *Crossing         // what emulated steps, timed without links, are replayed with; nil: no link
}

// Sample names a run's step in a round.
func (r *Run) Sample(round, step int) string {
	return fmt.Sprintf("%s/round=%d/step=%d", r.Name, round, step)
}

// cores is how many the run keeps busy.
func (r *Run) cores() int {
	if r.Training.Setup.Device == gpipe.Emulated {
		return 1
	}
	return r.Training.Setup.Partitions
}

// within leaves out the runs that need more cores.
func (r *Rounds) within(cores int) *Rounds {
	out := *r
	out.Runs = slices.DeleteFunc(slices.Clone(r.Runs), func(run Run) bool { return run.Cores > cores })
	return &out
}

// hostCores is how many cores host devices may count on.
func hostCores() int { return min(runtime.NumCPU(), runtime.GOMAXPROCS(0)) }

// Sample is one timed step. Tasks are in nanoseconds, by stage and micro-batch;
// Setup, Update and what follows are by stage.
type Sample struct {
	Seconds   float64   `json:"seconds"` // of the step, on its devices' clock
	F         [][]int64 `json:"f"`
	R         [][]int64 `json:"r"`
	B         [][]int64 `json:"b"`
	Setup     []int64   `json:"setup"`
	Update    []int64   `json:"update"`
	Partition []int     `json:"partition"`
	Peak      []int64   `json:"peak_bytes"`
	HighWater []int64   `json:"high_water_bytes"`
	Others    float64   `json:"others"` // cores that other processes took meanwhile; -1: unknown
}

// check refuses a sample that lacks a task's time of k stages and micro micro-batches,
// or a stage's figure, or whose partition is not of the layers that over has.
func (s *Sample) check(k, micro int, over *Crossing) error {
	for name, tasks := range map[string][][]int64{"f": s.F, "r": s.R, "b": s.B} {
		if len(tasks) != k || slices.ContainsFunc(tasks, func(of []int64) bool { return len(of) != micro }) {
			return fmt.Errorf("%q is not of %d stages and %d micro-batches", name, k, micro)
		}
	}
	for name, n := range map[string]int{"setup": len(s.Setup), "update": len(s.Update), "partition": len(s.Partition), "peak_bytes": len(s.Peak), "high_water_bytes": len(s.HighWater)} {
		if n != k {
			return fmt.Errorf("%q is of %d stages, want %d", name, n, k)
		}
	}
	layers := 0
	for _, n := range s.Partition {
		if n < 1 {
			return fmt.Errorf("a partition of %d layers", n)
		}
		layers += n
	}
	if over != nil && layers != len(over.Out) {
		return fmt.Errorf("partitions of %d layers, want %d", layers, len(over.Out))
	}
	return nil
}

// CoreRate names a round's sample of the rate of one core, in floating-point
// operations per second.
func CoreRate(round int) string { return fmt.Sprintf("core/flops-per-second/round=%d", round) }

// MedianCoreRate is the median of these samples.
func (r *Rounds) MedianCoreRate(log *records.Log) (float64, error) {
	rates := make([]float64, r.Count)
	for round := range rates {
		if err := log.Get(CoreRate(round), &rates[round]); err != nil {
			return 0, err
		}
	}
	return stats.Median(rates), nil
}

// Order is the runs of a round, from first to last.
func (r *Rounds) Order(round int) []*Run {
	runs := make([]*Run, len(r.Runs))
	for i := range runs {
		runs[i] = &r.Runs[(i+round)%len(runs)]
	}
	return runs
}

// Samples names those of each round, in the order in which they are measured.
func (r *Rounds) Samples() [][]string {
	names := make([][]string, r.Count)
	for round := range names {
		if r.CoreRate {
			names[round] = []string{CoreRate(round)}
		}
		for _, run := range r.Order(round) {
			for step := range run.Steps {
				names[round] = append(names[round], run.Sample(round, step))
			}
		}
	}
	return names
}

// Round adds the samples of a round that the log lacks. A pipeline is open for
// its own turn only.
func (r *Rounds) Round(ctx context.Context, round int, log *records.Log) error {
	if name := CoreRate(round); r.CoreRate && !log.Has(name) {
		rate, err := program.CoreRate(ctx)
		if err == nil {
			err = log.Add(name, 0, rate)
		}
		if err != nil {
			return fmt.Errorf("%s, %s: %w", r.ID, name, err)
		}
	}
	warmUp, timing := r.WarmUp, &workload.Timing{}
	for _, run := range r.Order(round) {
		var lacks []int
		for step := range run.Steps {
			if !log.Has(run.Sample(round, step)) {
				lacks = append(lacks, step)
			}
		}
		if len(lacks) == 0 {
			continue
		}
		if err := r.turn(ctx, round, run, lacks, warmUp, log, timing); err != nil {
			return fmt.Errorf("%s, %s: %w", r.ID, run.Name, err)
		}
		warmUp = 0 // the process is
	}
	return nil
}

// turn opens a run's pipeline and times steps after those that warm up.
func (r *Rounds) turn(ctx context.Context, round int, run *Run, steps []int, warmUp int, log *records.Log, timing *workload.Timing) error {
	t := run.Training
	t.Seed, t.Steps = r.Seed, warmUp+len(steps)
	var err error
	if t.Setup.Balance, err = r.balance(log, run); err != nil {
		return err
	}
	l, err := timing.Open(ctx, t)
	if err != nil {
		return err
	}
	defer l.Close()
	var meter machine.Meter
	return l.Run(ctx, workload.Hooks{
		At: func(int) error {
			meter = machine.StartMeter()
			return nil
		},
		After: func(step *workload.TrainStep) error {
			if step.Step <= warmUp {
				return nil
			}
			s := newTimedSample(step.Result)
			s.Others = meter.Others()
			s.Partition, _ = l.Trainer.Sizes()
			s.Peak, s.HighWater = l.Memory()
			return log.Add(run.Sample(round, steps[step.Step-warmUp-1]), r.Seed, s)
		},
	})
}

// balance is how a run is cut: as its samples were, if it has some, since a
// partition by measured time could come out differently. Nil: as its setup says.
func (r *Rounds) balance(log *records.Log, run *Run) ([]int, error) {
	if run.Training.Setup.Balance != nil {
		return run.Training.Setup.Balance, nil
	}
	for round := range r.Count {
		for step := range run.Steps {
			var s Sample
			if name := run.Sample(round, step); log.Has(name) {
				err := log.Get(name, &s)
				return s.Partition, err
			}
		}
	}
	return nil, nil
}

func newTimedSample(res *gpipe.Result) *Sample {
	s := &Sample{Seconds: res.Seconds}
	for _, st := range res.Times.Stages {
		ends := nanoseconds([]float64{st.Setup, st.Update})
		s.F, s.R, s.B = append(s.F, nanoseconds(st.F)), append(s.R, nanoseconds(st.R)), append(s.B, nanoseconds(st.B))
		s.Setup, s.Update = append(s.Setup, ends[0]), append(s.Update, ends[1])
	}
	return s
}

func nanoseconds(seconds []float64) []int64 {
	ns := make([]int64, len(seconds))
	for i, s := range seconds {
		ns[i] = int64(math.Round(s * 1e9))
	}
	return ns
}

// Planned are the trainings of timed runs, whose models are a profile's.
func (r *Rounds) Planned(profile string) (list []suite.PlannedRun) {
	for _, run := range r.Runs {
		t := run.Training
		t.Seed = r.Seed
		list = append(list, suite.PlannedRun{Path: []string{"profiles", profile}, Run: t})
	}
	return list
}
