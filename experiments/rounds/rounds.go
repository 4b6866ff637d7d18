// Package rounds measures times in rounds, each in a process of its own.
package rounds

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gpipebench/experiments/machine"
	"gpipebench/experiments/records"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/workload"
	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/stats"
)

// Rounds times training steps of several pipelines. Every round times every
// pipeline, so that a disturbance or a drift hits all of them alike, and ratios
// are taken within a round. Which pipeline is first moves from round to round.
type Rounds struct {
	ID     string // of the experiment
	Runs   []Run
	Count  int    // rounds
	WarmUp int    // steps at the beginning of a round, of its first pipeline, that are not counted
	Seed   uint64 // of weights and data
}

// Run is one of the pipelines that take turns.
type Run struct {
	Name     string            // of its samples
	Bench    string            // in the Go benchmark format
	Training workload.Training // every step trains on the same mini-batch of its model's kind
	Steps    int               // in a round
	// over are links that emulated steps, timed without, are replayed with; nil: none.
	Over *Crossing
}

func (r *Run) Sample(round, step int) string { return StepName(r.Name, round, step) }

// StepName is the name of a run's sample.
func StepName(run string, round, step int) string {
	return fmt.Sprintf("%s/round=%d/step=%d", run, round, step)
}

// cores is how many the run keeps busy.
func (r *Run) cores() int {
	if r.Training.Setup.Device == gpipe.Emulated {
		return 1
	}
	return r.Training.Setup.Partitions
}

// Sample is one timed step. Tasks are in nanoseconds, by stage and
// micro-batch.
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

// check wants a time of each task of k stages and so many micro-batches, what is of
// each stage for all of them, and all layers that hand something on.
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
// partition by measured time could come out otherwise. Nil: as its setup says.
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
	for i := range res.Times.Stages {
		st := &res.Times.Stages[i]
		s.F = append(s.F, nanoseconds(st.F))
		s.R = append(s.R, nanoseconds(st.R))
		s.B = append(s.B, nanoseconds(st.B))
		s.Setup = append(s.Setup, nanoseconds([]float64{st.Setup})...)
		s.Update = append(s.Update, nanoseconds([]float64{st.Update})...)
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

func fromNanoseconds(ns []int64) []float64 {
	seconds := make([]float64, len(ns))
	for i, n := range ns {
		seconds[i] = float64(n) / 1e9
	}
	return seconds
}

// Times is the sample as the virtual clock takes it.
func (s *Sample) Times(lists [][]schedule.Task) *gpipe.Times {
	t := &gpipe.Times{Lists: lists}
	for k := range s.F {
		t.Stages = append(t.Stages, gpipe.StageTimes{
			F: fromNanoseconds(s.F[k]), R: fromNanoseconds(s.R[k]), B: fromNanoseconds(s.B[k]),
			Setup: float64(s.Setup[k]) / 1e9, Update: float64(s.Update[k]) / 1e9,
		})
	}
	return t
}

// Measured is a run's samples, reduced.
type Measured struct {
	Partition []int
	Peak      []int64
	Rounds    []float64        // seconds of a step, one for each round
	Shares    []timeline.Parts // of the steps of emulated devices, one for each round
	Times     *gpipe.Times     // every kind of task at the median of its repeats over all rounds
	Closed    float64          // closed form with the means of times over stages
	Parts     timeline.Parts
	Span      float64 // of a replay of times
}

// measured reads and reduces the samples of one run.
func (r *Rounds) measured(log *records.Log, run *Run) (*Measured, error) {
	setup := run.Training.Setup
	lists, err := schedule.Build(setup.Schedule, setup.Partitions, setup.MicroBatches, setup.Checkpoint, setup.LateRecompute)
	if err != nil {
		return nil, err
	}
	sizes := gpipe.MicroBatchSizes(run.Training.Batch, setup.MicroBatches)
	m := &Measured{}
	var all gpipe.Samples
	for round := range r.Count {
		var samples gpipe.Samples
		var wall []float64
		for step := range run.Steps {
			var s Sample
			name := run.Sample(round, step)
			if err := log.Get(name, &s); err != nil {
				return nil, err
			}
			if err := s.check(setup.Partitions, len(sizes), run.Over); err != nil {
				return nil, log.Strange(name, err)
			}
			samples.Add(s.Times(lists))
			all.Add(s.Times(lists))
			wall = append(wall, s.Seconds)
			m.Partition, m.Peak = s.Partition, s.Peak
		}
		seconds := stats.Median(wall)
		if setup.Device == gpipe.Emulated {
			parts, err := run.Crossed(samples.Median(sizes), m.Partition).Breakdown()
			if err != nil {
				return nil, err
			}
			seconds = parts.Step
			m.Shares = append(m.Shares, parts)
		}
		m.Rounds = append(m.Rounds, seconds)
	}
	m.Times = run.Crossed(all.Median(sizes), m.Partition)
	if m.Closed, err = m.Times.ClosedForm(setup.Schedule, setup.Checkpoint, setup.LateRecompute); err != nil {
		return nil, err
	}
	if m.Parts, err = m.Times.Breakdown(); err != nil {
		return nil, err
	}
	m.Span = m.Parts.Step
	return m, nil
}

// All reads and reduces the samples of every run, by name.
func (r *Rounds) All(log *records.Log) (map[string]*Measured, error) {
	by := map[string]*Measured{}
	for i := range r.Runs {
		m, err := r.measured(log, &r.Runs[i])
		if err != nil {
			return nil, err
		}
		by[r.Runs[i].Name] = m
	}
	return by, nil
}

// crowdNotes says in how many steps on devices of a kind other processes took
// cores that were needed.
func (r *Rounds) crowdNotes(log *records.Log, device gpipe.Kind) []string {
	cores := min(log.Session.Machine.Cores, log.Session.Machine.GOMAXPROCS)
	steps, disturbed := 0, 0
	for i := range r.Runs {
		run := &r.Runs[i]
		if run.Training.Setup.Device != device {
			continue
		}
		for round := range r.Count {
			for step := range run.Steps {
				var s Sample
				if log.Get(run.Sample(round, step), &s) != nil {
					continue
				}
				steps++
				if machine.Crowded(s.Others, run.cores(), cores) {
					disturbed++
				}
			}
		}
	}
	if disturbed == 0 {
		return nil
	}
	return []string{fmt.Sprintf("The machine was busy: in %d of these %d steps other processes took cores that the step needed. A median bears some of that, not half.", disturbed, steps)}
}

// Notes say what a reader of the times should know: how busy the machine was,
// whether there are too few rounds, and which processes they ran in.
func (r *Rounds) Notes(log *records.Log, device gpipe.Kind) []string {
	return slices.Concat(r.crowdNotes(log, device), suite.FewRoundsNote(r.Count), []string{ProcessNote(r, log)})
}

// StepTimes lists every sample's step. Host devices may have none, on one core.
func (r *Rounds) StepTimes(log *records.Log) ([]StepTime, error) {
	var all []StepTime
	for i := range r.Runs {
		run := &r.Runs[i]
		for round := range r.Count {
			for step := range run.Steps {
				name := run.Sample(round, step)
				if !log.Has(name) && run.Training.Setup.Device == gpipe.Host {
					continue
				}
				var s Sample
				if err := log.Get(name, &s); err != nil {
					return nil, err
				}
				all = append(all, StepTime{run.Bench, s.Seconds})
			}
		}
	}
	return all, nil
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
