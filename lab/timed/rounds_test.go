package timed_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
	"gpipebench/train"
)

// A run that goes on keeps the partition that it began with.
func TestRoundsKeepThePartition(t *testing.T) {
	run := timed.Run{Name: "run", Steps: 1, Training: train.Training{
		Model: train.Model{Name: "amoebanetd", Layers: 3, Filters: 8, Image: 48, Classes: 3}, Batch: 2,
		Optimizer: "momentum", LR: 0.001, LRSchedule: "constant",
		Setup: train.Setup{Partitions: 2, MicroBatches: 1, Device: gpipe.Emulated, Threads: 1},
	}}
	r := &timed.Rounds{ID: "e", Count: 2, Seed: 1, Runs: []timed.Run{run}}
	log := records.New(records.Key{Experiment: "e"})
	testkit.NoError(t, log.Add(run.Sample(0, 0), 1, &timed.Sample{Partition: []int{1, 8}}))
	testkit.NoError(t, timed.InThisProcess(context.Background(), r, log, progress.Silent{}))
	var s timed.Sample
	if err := log.Get(run.Sample(1, 0), &s); err != nil || lab.JoinWith(s.Partition, ",") != "1,8" {
		t.Errorf("partition %v, %v; want that of the first sample", s.Partition, err)
	}
	// A run may be cut by time.
	r.Runs[0].Training.Setup.Cost = train.Time
	log = records.New(records.Key{Experiment: "e"})
	testkit.NoError(t, timed.InThisProcess(context.Background(), r, log, progress.Silent{}))
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if err := timed.InThisProcess(ctx, r, records.New(records.Key{Experiment: "e"}), progress.Silent{}); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "e, run: ") {
		t.Errorf("cancelled: %v", err)
	}
}

// A sample of replicas has all that their step takes: replayed, it takes as long.
func TestSamplesOfReplicas(t *testing.T) {
	for _, setup := range []train.Setup{
		{Partitions: 2, MicroBatches: 1, Replicas: 2, Groups: 4},
		{Partitions: 2, MicroBatches: 2, Replicas: 2, ShardUpdate: true},
		{Partitions: 1, MicroBatches: 1, Groups: 4},
	} {
		setup.Device, setup.Threads = gpipe.Emulated, 1
		run := timed.Run{Name: "run", Steps: 1, Training: train.Training{
			Model: train.Model{Name: "transformer-lm", Layers: 2, Dim: 16, FF: 32, Heads: 1, Vocab: 64, Seq: 8}, Batch: 8,
			Optimizer: "adam", LR: 0.001, LRSchedule: "constant", Setup: setup,
		}}
		r := &timed.Rounds{ID: "e", Count: 1, Seed: 1, Runs: []timed.Run{run}}
		log := records.New(records.Key{Experiment: "e"})
		testkit.NoError(t, timed.InThisProcess(t.Context(), r, log, progress.Silent{}))
		var s timed.Sample
		testkit.NoError(t, log.Get(run.Sample(0, 0), &s))
		times := testkit.Must(s.Times(&run))(t)
		tl := testkit.Must(times.Replay())(t)
		if got := tl.Span(); math.Abs(got-s.Seconds) > 1e-6 { // nanoseconds of a few tasks on a path
			t.Errorf("%+v: %v s, the step took %v", setup, got, s.Seconds)
		}
		by := testkit.Must(r.All(log))(t)
		if m := by["run"]; !(m.Parts.Reduction > 0) || len(m.Peak) != setup.Partitions*max(setup.Replicas, 1) {
			t.Errorf("%+v: sums take %v s, memory of %d devices", setup, m.Parts.Reduction, len(m.Peak))
		}
		s.Reduce = s.Reduce[1:]
		short := records.New(records.Key{Experiment: "e"})
		testkit.NoError(t, short.Add(run.Sample(0, 0), 1, s))
		testkit.Refused(r.All(short))(t, `"reduce" is of`)
	}
}
