package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpipebench/gpipe/snapshot"
	"gpipebench/internal/testkit"
)

// survivor is a training that is stopped, in the words of a command line, and the ways in
// which it may be run with the same bits.
type survivor struct {
	name, training string
	ways           []string
}

// line is the survivor's command line, run in one of its ways.
func (s survivor) line(way, more string) string {
	launched := ""
	if n, rest, ok := strings.Cut(way, " processes: "); ok {
		launched, way = "launch -n "+n+" -- ", rest
	}
	return launched + "train --json " + s.training + " " + way + more
}

// outcome is what a training with --json must tell alike however often it was killed.
type outcome struct {
	Weights string    `json:"weights_sha256"`
	Initial string    `json:"initial_sha256"`
	EMA     string    `json:"ema_sha256"`
	Losses  []float64 `json:"losses"`
	Evals   []any     `json:"evals"`
	Eval    any       `json:"eval"`

	ResumedAt int `json:"resumed_at"`
}

// said is the outcome without what depends on the kill.
func (o outcome) said() string { o.ResumedAt = 0; return fmt.Sprintf("%+v", o) }

func finished(t *testing.T, cmd *exec.Cmd) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	testkit.NoError(t, cmd.Run(), "%s", stderr.String())
	var o outcome
	testkit.NoError(t, json.Unmarshal(stdout.Bytes(), &o))
	return o
}

// What some processes have kept, others go on from, and one, under other schedules: each
// with the same bits.
func TestSnapshotsOfProcesses(t *testing.T) {
	testkit.CI(t)
	t.Parallel()
	temporary, dir := t.TempDir(), filepath.Join(t.TempDir(), "snapshots")
	s := survivor{training: strings.Join(tiny, " ") + " --batch 8 --groups 4 --ema 0.9 --lr-schedule constant"}
	want := finished(t, command(temporary, s.line("-m 1", " --steps 8")))
	keeping := " --snapshot-every 2 --snapshot-dir " + dir
	finished(t, command(temporary, s.line("2 processes: --replicas 2 -m 1 --zero 1", keeping+" --steps 4")))
	got := finished(t, command(temporary, s.line("-k 2 -m 2 --schedule zb-v", keeping+" --resume --steps 6")))
	testkit.Equal(t, got.ResumedAt, 4, "one process goes on after step")
	got = finished(t, command(temporary, s.line("4 processes: --replicas 4 -m 2 --schedule interleaved --chunks 3", keeping+" --resume --steps 8")))
	testkit.Equal(t, got.ResumedAt, 6, "four go on after step")
	testkit.Equal(t, got.said(), want.said())
}

// A signal ends a training after its step, with a snapshot and a line that says how to go on.
func TestInterruptKeeps(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no SIGINT between processes here")
	}
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(fmt.Sprint(sig), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "snapshots")
			r := start(t, command(t.TempDir(), "train --steps 100000000 --snapshot-dir "+dir, tiny...))
			r.await("step 1/")
			for range 20 { // as timeout, twice
				_ = r.cmd.Process.Signal(sig)
				time.Sleep(time.Millisecond)
			}
			r.endsWith(1)
			step := interruptedAfter(t, r.reason(), dir)
			o := decodedJSON[outcome](t, append([]string{"train", "--steps", fmt.Sprint(step + 2), "--lr-schedule", "inverse-sqrt:200", "--snapshot-dir", dir, "--resume"}, tiny...)...)
			testkit.Equal(t, [2]int{o.ResumedAt, len(o.Losses)}, [2]int{step, step + 2}, "resumed after step, losses")
		})
	}
}

// interruptedAfter returns the step that a line about an interrupt names, whose snapshot
// must be the newest.
func interruptedAfter(t *testing.T, said, dir string) (step int) {
	t.Helper()
	var steps int
	if _, err := fmt.Sscanf(said, "gpipebench: interrupted after step %d of %d;", &step, &steps); err != nil ||
		!strings.HasSuffix(said, "; the same command with --resume goes on from there, by the snapshot in "+dir+"; no file is left half-written") {
		t.Fatalf("%q, %v", said, err)
	}
	s, damaged, err := snapshot.Newest(dir)
	if err != nil || len(damaged) > 0 || s.Step != step {
		t.Fatalf("%v, %v, %v: want the snapshot of step %d", s, damaged, err, step)
	}
	return step
}
