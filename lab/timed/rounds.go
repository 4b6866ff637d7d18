package timed

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gpipebench/gpipe"
	"gpipebench/internal/machine"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/nn/program"
	"gpipebench/train"
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
	Name     string         // of its samples
	Training train.Training // every step trains on the same mini-batch of its model's kind
	Steps    int            // in a round
	Over     *Crossing      // what emulated steps, timed without links, are replayed with; nil: no link
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
	return r.replicas() * r.Training.Setup.Partitions
}

func (r *Run) replicas() int { return max(r.Training.Setup.Replicas, 1) }
func (r *Run) groups() int   { return max(r.Training.Setup.Groups, r.replicas()) }

// Sizes are the examples of each micro-batch of a replica. They are all of one size if
// there are several groups.
func (r *Run) Sizes() []int {
	of := r.Training.Setup.MicroBatches * r.groups() / r.replicas()
	return gpipe.MicroBatchSizes(r.Training.Batch/r.replicas(), of)
}

// Sample is one timed step. Tasks are in nanoseconds, by stage and micro-batch;
// Setup, Update and what follows are by stage. The stages are all replicas' stages, one
// replica after another; each has this Partition.
type Sample struct {
	Seconds   float64   `json:"seconds"` // of the step, on its devices' clock
	F         [][]int64 `json:"f"`
	R         [][]int64 `json:"r"`
	B         [][]int64 `json:"b"`
	Setup     []int64   `json:"setup"`
	Update    []int64   `json:"update"`
	Groups    [][]int64 `json:"groups,omitempty"` // adding up groups, by the micro-batch at whose end that is; none if a replica has one
	Reduce    []int64   `json:"reduce,omitempty"` // adding up all groups; none if there is one
	Gather    []int64   `json:"gather,omitempty"` // handing on updated weights; the same
	Rows      []int64   `json:"rows,omitempty"`   // gathering rows of tied tables and adding them up; none if they are reduced
	Partition []int     `json:"partition"`
	Peak      []int64   `json:"peak_bytes"`
	HighWater []int64   `json:"high_water_bytes"`
	Others    float64   `json:"others"` // cores that other processes took meanwhile; -1: unknown
}

// check refuses a sample that lacks a task's time of a run's stages and micro-batches,
// or a stage's figure, or whose partition is not of the layers that the run's link has.
func (s *Sample) check(r *Run) error {
	k, micro, over := r.replicas()*r.Training.Setup.Partitions, len(r.Sizes()), r.Over
	byTask := map[string][][]int64{"f": s.F, "r": s.R, "b": s.B}
	byStage := map[string]int{"setup": len(s.Setup), "update": len(s.Update), "peak_bytes": len(s.Peak), "high_water_bytes": len(s.HighWater)}
	if r.groups() > r.replicas() {
		byTask["groups"] = s.Groups
	}
	if r.groups() > 1 {
		byStage["reduce"], byStage["gather"] = len(s.Reduce), len(s.Gather)
	}
	if r.Training.Setup.TiedGradients == gpipe.GatherTied {
		byStage["rows"] = len(s.Rows)
	}
	for name, tasks := range byTask {
		if len(tasks) != k || slices.ContainsFunc(tasks, func(of []int64) bool { return len(of) != micro }) {
			return fmt.Errorf("%q is not of %d stages and %d micro-batches", name, k, micro)
		}
	}
	for name, n := range byStage {
		if n != k {
			return fmt.Errorf("%q is of %d stages, want %d", name, n, k)
		}
	}
	if n, want := len(s.Partition), r.Training.Setup.Partitions; n != want {
		return fmt.Errorf("\"partition\" is of %d stages, want %d", n, want)
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
	warmUp, timing := r.WarmUp, &train.Timing{}
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
func (r *Rounds) turn(ctx context.Context, round int, run *Run, steps []int, warmUp int, log *records.Log, timing *train.Timing) error {
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
	return l.Run(ctx, train.Hooks{
		At: func(int) error {
			meter = machine.StartMeter()
			return nil
		},
		After: func(step *train.TrainStep) error {
			if step.Step <= warmUp {
				return nil
			}
			s := newTimedSample(run, step.Result)
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

func newTimedSample(run *Run, res *gpipe.Result) *Sample {
	s := &Sample{Seconds: res.Seconds}
	for _, st := range res.Times.Stages {
		ends := nanoseconds([]float64{st.Setup, st.Update, st.Reduce, st.Gather, st.Rows})
		s.F, s.R, s.B = append(s.F, nanoseconds(st.F)), append(s.R, nanoseconds(st.R)), append(s.B, nanoseconds(st.B))
		s.Setup, s.Update = append(s.Setup, ends[0]), append(s.Update, ends[1])
		if st.Groups != nil {
			s.Groups = append(s.Groups, nanoseconds(st.Groups))
		}
		if run.groups() > 1 {
			s.Reduce, s.Gather = append(s.Reduce, ends[2]), append(s.Gather, ends[3])
		}
		if run.Training.Setup.TiedGradients == gpipe.GatherTied {
			s.Rows = append(s.Rows, ends[4])
		}
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
func (r *Rounds) Planned(profile string) (list []lab.PlannedRun) {
	for _, run := range r.Runs {
		t := run.Training
		t.Seed = r.Seed
		list = append(list, lab.PlannedRun{Path: []string{"profiles", profile}, Run: t})
	}
	return list
}
