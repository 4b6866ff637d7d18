package main

import (
	"path/filepath"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/simulate"
	"gpipebench/train"
)

// A training in windows goes on from a snapshot at a window's end with the same bits, on another
// kind of device, and not on another number of stages.
func TestTrainInWindows(t *testing.T) {
	args := []string{"train", "--schedule", "pipedream", "-k", "3", "-m", "1", "--window", "4", "--clip-norm", "0", "--layers", "2", "--dim", "8",
		"--heads", "1", "--seq", "4", "--batch", "4", "--eval-every", "4", "--lr-schedule", "constant"}
	run := func(more ...string) train.Result {
		t.Helper()
		return decodedJSON[train.Result](t, append(args, more...)...)
	}
	want := run("--steps", "12")
	if len(want.Losses) != 12 || len(want.Evals) != 2 || want.StepSeconds <= 0 {
		t.Errorf("%d losses, %d evaluations, step %v s", len(want.Losses), len(want.Evals), want.StepSeconds)
	}
	snapshots := []string{"--snapshot-dir", filepath.Join(t.TempDir(), "s"), "--snapshot-every", "4"}
	run(append(snapshots, "--steps", "8")...)
	got := run(append(snapshots, "--steps", "12", "--resume", "--device", "emulated", "--checkpoint", "never")...)
	testkit.Equal(t, got.WeightsSHA256, want.WeightsSHA256, "weights of the resumed training")
	testkit.Equal(t, got.ResumedAt, 8, "resumed after step")
	for what, other := range map[string][]string{
		"partitions": {"-k", "2"}, "window": {"--window", "2"}, "schedule": {"--schedule", "pipedream-vertical"}, "balance": {"--balance", "2,1,1"},
	} {
		fails(t, 1, "a snapshot of a training with "+what, append(append(append(args, snapshots...), "--steps", "16", "--resume"), other...)...)
	}
}

// What versions of the weights cost is shown by each command that plans.
func TestVersionsAreShown(t *testing.T) {
	network := []string{"--layers", "4", "--dim", "64", "--batch", "8"}
	s := decodedJSON[simulate.Simulation](t, append([]string{"simulate", "--schedule", "pipedream", "-k", "3", "-m", "1", "--window", "8"}, network...)...)
	d := decodedJSON[simulate.Description](t, append([]string{"describe", "--schedule", "pipedream", "-k", "3"}, network...)...)
	r := decodedJSON[simulate.Scheduled](t, "schedule", "--schedule", "pipedream", "-k", "3", "-m", "1", "--window", "8", "--times", "f=1,b=1,w=1,u=.5")
	for k, want := range []int{3, 2, 1} {
		if got := s.Devices[k]; got.Versions != want || got.Staleness != want-1 {
			t.Errorf("simulate, device %d: %d versions, staleness %d: want %d, %d", k, got.Versions, got.Staleness, want, want-1)
		}
		if got := d.Versions[k]; got.Versions != want || got.Staleness != want-1 || got.StashedBytes != int64(want-1)*got.WeightBytes || got.WeightBytes == 0 {
			t.Errorf("describe, stage %d: %+v: want %d versions", k, got, want)
		}
		if got := r.Devices[k]; got.Versions != want || got.Staleness != want-1 || got.Busy != 8*3.5 {
			t.Errorf("schedule, device %d: %+v: want %d versions, busy for 28 ms", k, got, want)
		}
	}
	text, _ := succeeds(t, append([]string{"simulate", "--schedule", "pipedream", "-k", "3", "-m", "1", "--window", "8", "--timeline"}, network...)...)
	testkit.Has(t, text, "versions of the weights on each device: 3 2 1; staleness, in updates: 2 1 0", "U update")
	plan, _ := succeeds(t, append([]string{"plan", "--schedule", "pipedream", "--window", "8", "--devices", "2"}, network...)...)
	testkit.Has(t, plan, "pipedream")
}
