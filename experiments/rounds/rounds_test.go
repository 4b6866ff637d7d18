package rounds_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"gpipebench/experiments/progress"
	"gpipebench/experiments/records"
	"gpipebench/experiments/rounds"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/workload"
	"gpipebench/gpipe"
)

// A run that goes on keeps the partition that it began with.
func TestRoundsKeepThePartition(t *testing.T) {
	run := rounds.Run{Name: "run", Steps: 1, Training: workload.Training{
		Model: workload.Model{Name: "amoebanetd", Layers: 3, Filters: 8, Image: 48, Classes: 3}, Batch: 2,
		Optimizer: "momentum", LR: 0.001, LRSchedule: "constant",
		Setup: workload.Setup{Partitions: 2, MicroBatches: 1, Device: gpipe.Emulated, Threads: 1},
	}}
	r := &rounds.Rounds{ID: "e", Count: 2, Seed: 1, Runs: []rounds.Run{run}}
	log := records.New(records.Key{Experiment: "e"})
	if err := log.Add(run.Sample(0, 0), 1, &rounds.Sample{Partition: []int{1, 8}}); err != nil {
		t.Fatal(err)
	}
	if err := rounds.InThisProcess(context.Background(), r, log, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	var s rounds.Sample
	if err := log.Get(run.Sample(1, 0), &s); err != nil || suite.JoinWith(s.Partition, ",") != "1,8" {
		t.Errorf("partition %v, %v; want that of the first sample", s.Partition, err)
	}
	// A run may be cut by time.
	r.Runs[0].Training.Setup.Cost = workload.Time
	log = records.New(records.Key{Experiment: "e"})
	if err := rounds.InThisProcess(context.Background(), r, log, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if err := rounds.InThisProcess(ctx, r, records.New(records.Key{Experiment: "e"}), progress.Silent{}); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "e, run: ") {
		t.Errorf("cancelled: %v", err)
	}
}

// The commit of step times is that of the rounds, not of what was modelled later.
func TestBenchFormatCommit(t *testing.T) {
	log := records.New(records.Key{Experiment: "e", Profile: "smoke"})
	round := 1
	for i, p := range []records.Provenance{
		{Time: "2026-01-01", Commit: "older"}, {Time: "2026-01-02", Commit: "timed", Process: &records.Process{Round: &round}}, {Time: "2026-01-03", Commit: "modelled"},
	} {
		id := fmt.Sprint(i)
		log.Put(&records.Record{Session: id, Provenance: &p})
		log.Put(&records.Record{Session: id, Sample: "sample " + id, Data: []byte("1")})
	}
	if got := rounds.BenchFormat(log, nil); !strings.Contains(got, "\ncommit: timed\n") {
		t.Error(got)
	}
}
