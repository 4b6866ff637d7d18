package gpipe

import (
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/testkit"
	"gpipebench/nn/program"
)

// What a kernel and a task besides its kernels take in the tests of profiles.
const besideTime = 7 * time.Millisecond

func kernelSeconds(op string) float64 { return 0.001 * float64(len(op)) }

// In a synctest bubble kernels that sleep take exactly that time, so a profile can be
// compared with what was slept and with the closed form.
func TestProfileAddsUp(t *testing.T) {
	for _, kind := range []Kind{Host, Emulated} {
		for _, km := range [][2]int{{1, 1}, {1, 3}, {2, 3}, {4, 4}} {
			synctest.Test(t, func(t *testing.T) {
				p := small.pipeline(t)
				p.Partitions, p.MicroBatches = km[0], km[1]
				p.Devices = []Device{{Kind: kind}}
				p.testing.inKernel = func(in *program.Instr) {
					time.Sleep(time.Duration(kernelSeconds(in.Op) * float64(time.Second)))
				}
				p.testing.inTask = func(_ place.Place, kind timeline.Kind, _ int) {
					if kind.Task() || kind == timeline.Update {
						time.Sleep(besideTime)
					}
				}
				tr := opened(t, p, InputOf(small.data(0)))
				stepped(t, tr, small.data(0)) // not counted
				profile := tr.Profile()
				const steps = 2
				var step float64
				for i := range steps {
					r := stepped(t, tr, small.data(1+i))
					step += r.Seconds / steps
				}
				profile.Stop()
				stepped(t, tr, small.data(0))
				near := func(what string, got, want float64) {
					t.Helper()
					if math.Abs(got-want) > 1e-9 {
						t.Errorf("%v K=%d M=%d: %s %v, want %v", kind, km[0], km[1], what, got, want)
					}
				}
				near("step", profile.StepSeconds(), step)
				var sum, shares float64
				rows := map[string]ProfileRow{}
				for _, row := range profile.Rows() {
					sum += row.Seconds
					shares += row.Share
					rows[strings.TrimSpace(row.Task+" "+row.Op)] = row
					if row.Task != "" {
						near(row.Op, row.Seconds, row.Calls*kernelSeconds(row.Op))
					}
				}
				near("sum of rows", sum, step*float64(km[0]))
				near("sum of shares", shares, 1)

				tasks := float64(3 * km[0] * km[1]) // F, R and B
				near(BesideRow, rows[BesideRow].Seconds, tasks*besideTime.Seconds())
				near(UpdateRow, rows[UpdateRow].Seconds, float64(2*km[0])*besideTime.Seconds()) // before the barrier and after it
				near(ClearRow, rows[ClearRow].Seconds, 0)
				near(CrossingRow, rows[CrossingRow].Seconds, 0)
				if km[0] == 1 {
					near(WaitingRow, rows[WaitingRow].Seconds, 0)
				} else if rows[WaitingRow].Seconds <= 0 {
					t.Errorf("%v K=%d: no bubble", kind, km[0])
				}
				for _, kernel := range []string{"forward cross-entropy", "recompute cross-entropy", "backward cross-entropy-grad"} {
					near(kernel, rows[kernel].Calls, float64(km[1]))
				}
				if r := rows["backward matmul-at"]; r.FLOPs == 0 || r.Bytes == 0 {
					t.Errorf("a product of %v FLOPs and %v bytes", r.FLOPs, r.Bytes)
				}
			})
		}
	}
}

// Copies count where the device does nothing else, each moment once.
func TestProfileOfCopies(t *testing.T) {
	times := newStageTimes(1)
	times.F[0], times.B[0], times.Update = 2, 3, 1.5
	at := func(kind timeline.Kind, from, to float64) timeline.Event {
		return timeline.Event{Kind: kind, Start: from, End: to}
	}
	r := &Result{Times: &Times{Stages: []StageTimes{*times}}, Timeline: &timeline.Timeline{Devices: 1, Events: []timeline.Event{
		at(timeline.Forward, 1, 3), at(timeline.Backward, 6, 9), at(timeline.Barrier, 9, 11), at(timeline.Update, 11, 12),
		at(timeline.Transfer, 2.5, 4), at(timeline.Transfer, 3.5, 4.5), at(timeline.FromHost, 5, 5.5),
	}}}
	var got stepParts
	got.add(r, place.Stage(0))
	want := stepParts{tasks: 5, update: 1.5, crossing: 2, waiting: 3.5}
	testkit.Equal(t, got, want)
}

// Replicas have devices and goroutines of their own, and an F that keeps its residuals counts as
// forward, though it runs the program of R.
func TestProfileOfReplicas(t *testing.T) {
	p := small.pipeline(t)
	p.Replicas, p.Groups, p.Partitions, p.MicroBatches, p.Checkpoint = 2, 4, 2, 2, schedule.ExceptLast
	tr := opened(t, p, InputOf(small.data(0)))
	profile := tr.Profile()
	r := stepped(t, tr, small.data(0))
	var sum, reduce float64
	calls := map[string]float64{}
	for _, row := range profile.Rows() {
		sum += row.Seconds
		if strings.HasPrefix(row.Op, "cross-entropy") {
			calls[row.Task] += row.Calls
		}
		if row.Op == ReduceRow {
			reduce = row.Seconds
		}
	}
	// Of each replica's four micro-batches the last is kept.
	if calls["forward"] != 2*4 || calls["recompute"] != 6 || calls["backward"] != 2*4 {
		t.Errorf("calls of the loss: %v, want 8 forward, 6 recompute, 8 backward", calls)
	}
	if math.Abs(sum/(4*r.Seconds)-1) > 1e-9 || !(reduce > 0) {
		t.Errorf("rows of %v s, of which sums %v s, on four devices in %v s", sum, reduce, r.Seconds)
	}
}

// On emulated devices a kernel that parts run takes what the slowest of them takes, or more where
// they take turns, and tasks are not shorter than their kernels.
func TestProfileOfParts(t *testing.T) {
	p := smallSSD.pipeline(t, false)
	p.MicroBatches, p.Spatial, p.Devices = 1, 3, []Device{{Kind: Emulated}}
	tr := smallSSD.open(t, p)
	profile := tr.Profile()
	add, divisions := tr.watch, map[program.Division]int{}
	tr.Watch(func(run KernelRun) {
		add(run)
		divisions[run.Instr.Division]++
		if len(run.Parts) != p.Spatial || !(run.Seconds >= slices.Max(run.Parts)-1e-9) {
			t.Errorf("%v %v, %v: %v s, of the parts %v", run.Task, run.Instr.Op, run.Instr.Division, run.Seconds, run.Parts)
		}
		testkit.Equal(t, run.Instr.Op == "exchange", run.Instr.Division == program.Exchange, "%v is %v", run.Instr.Op, run.Instr.Division)
	})
	r := stepped(t, tr, smallSSD.data(0))
	testkit.Equal(t, len(divisions), program.Divisions, "kernels %v, want some of each division", divisions)
	var rows, beside float64
	for _, row := range profile.Rows() {
		rows += row.Seconds
		if row.Op == BesideRow {
			beside = row.Seconds
		}
	}
	if math.Abs(rows/r.Seconds-1) > 1e-9 || !(beside >= 0) {
		t.Errorf("rows of %v s, of which besides kernels %v s, in a step of %v s", rows, beside, r.Seconds)
	}
}
