package gpipe

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/models/transformer"
)

// interleaved is the pipeline on devices with several chunks each.
func interleaved(p Pipeline, devices, chunks, micro int) Pipeline {
	p.Partitions, p.Chunks, p.MicroBatches, p.Schedule = devices, chunks, micro, schedule.InterleavedOneFOneB
	return p
}

// fine is small, cut also inside of its layers, for more pieces.
func fine() lm {
	l := small
	l.model = transformer.Config{Layers: 4, Dim: 8, FeedForward: 16, Heads: 2, Vocab: 11, SeqLen: 6, Tied: true, Fine: true}
	return l
}

// On every device two chunks share the table: the first has the embedding, and the last the
// softmax. Each has a copy, and all have the same gradient in the norm once.
func TestChunksShareAWeight(t *testing.T) {
	l := fine()
	want := l.train(t, l.pipeline(t))
	want.changes(t)
	for _, placed := range []schedule.Placement{schedule.Vee(2), schedule.Loop(1, 3), schedule.Vee(3)} {
		p := l.pipeline(t)
		p.Partitions, p.MicroBatches, p.Placement, p.Tasks = placed.Devices, 4, placed, through(placed)
		if got := l.train(t, p); got != want {
			t.Errorf("%v: got %v, want %v", placed, got, want)
		}
	}
	// Also with groups and replicas.
	for _, r := range []int{1, 2} {
		p := l.pipeline(t)
		p.Groups = 2
		want := l.train(t, p)
		p.Partitions, p.MicroBatches, p.Placement, p.Tasks, p.Replicas = 2, 3, schedule.Vee(2), through(schedule.Vee(2)), r
		if got := l.train(t, p); got != want {
			t.Errorf("R=%d: got %v, want %v", r, got, want)
		}
	}
}

// A large table's blocks, which different replicas own, count once in the norm, though
// every device has two copies of it.
func TestChunksShareALargeWeight(t *testing.T) {
	l := blocky
	l.model.Fine = true
	p := l.pipeline(t)
	p.Groups = 2
	want := l.train(t, p)
	want.changes(t)
	p.Partitions, p.MicroBatches, p.Placement, p.Tasks, p.Replicas = 2, 3, schedule.Vee(2), through(schedule.Vee(2)), 2
	if got := l.train(t, p); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// through has the lists of one micro-batch after the other, with R.
func through(p schedule.Placement) func(devices, micro int) [][]schedule.Task {
	return func(devices, micro int) [][]schedule.Task {
		lists := make([][]schedule.Task, devices)
		chunks := p.Chunks()
		for m := range micro {
			for c := range chunks[0] {
				for d := range lists {
					lists[d] = append(lists[d], schedule.Task{Kind: schedule.Forward, Micro: m, Chunk: c, Keep: m%2 == 1})
				}
			}
			for c := range chunks[0] {
				for d := range lists {
					chunk := len(chunks[d]) - 1 - c
					if m%2 == 0 {
						lists[d] = append(lists[d], schedule.Task{Kind: schedule.Recompute, Micro: m, Chunk: chunk})
					}
					lists[d] = append(lists[d], schedule.Task{Kind: schedule.Backward, Micro: m, Chunk: chunk})
				}
			}
		}
		return lists
	}
}

// Lists with chunks are refused in a line that names the task and what it waits for.
func TestChunkedListsRefused(t *testing.T) {
	f := func(m, c int) schedule.Task {
		return schedule.Task{Kind: schedule.Forward, Micro: m, Chunk: c, Keep: true}
	}
	b := func(m, c int) schedule.Task { return schedule.Task{Kind: schedule.Backward, Micro: m, Chunk: c} }
	for _, c := range []struct {
		want  string
		lists [][]schedule.Task
	}{
		{"schedule: device 0 waits for ever: 2F0 needs 1F0 of device 1, which cannot run before it", [][]schedule.Task{
			{f(0, 0), f(0, 1), b(0, 1), b(0, 0)}, {f(0, 1), f(0, 0), b(0, 1), b(0, 0)}}},
		{"schedule: device 1: 3F0 is missing: want an F of each of 1 micro-batches", [][]schedule.Task{
			{f(0, 0), f(0, 1), b(0, 1), b(0, 0)}, {f(0, 0), b(0, 0)}}},
		{"schedule: lists of 1 devices: want 2", [][]schedule.Task{{f(0, 0), f(0, 1), b(0, 1), b(0, 0)}}},
	} {
		p := small.pipeline(t)
		p.Partitions, p.MicroBatches, p.Placement = 2, 1, schedule.Loop(2, 2)
		p.Tasks = func(int, int) [][]schedule.Task { return c.lists }
		_, err := p.Open(InputOf(small.data(0)))
		if want := "task lists for 1 micro-batches: " + c.want; err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %s", err, want)
		}
	}
	p := interleaved(small.pipeline(t), 3, 9, 4)
	if _, err := p.Open(InputOf(small.data(0))); err == nil || !strings.Contains(err.Error(), "27 chunks on 3 devices of ") {
		t.Error(err)
	}
	p = small.pipeline(t)
	p.Partitions, p.Chunks = 2, 2
	if _, err := p.Open(InputOf(small.data(0))); err == nil || !strings.Contains(err.Error(), "2 chunks on each device with gpipe: want 1") {
		t.Error(err)
	}
}

// A state is that of any other number of chunks, and evaluations and predictions are the
// same; a short mini-batch at an epoch's end has fewer micro-batches.
func TestChunksGoOn(t *testing.T) {
	short := small
	short.batch = 5
	open := func(p Pipeline) *Trainer {
		p.Evaluating, p.Predicting = InputOf(small.data(9)), InputOf(small.data(9))
		return openSmall(t, p)
	}
	step := func(tr *Trainer, l lm, i int) {
		if _, err := tr.Step(t.Context(), l.data(i)); err != nil {
			t.Fatal(err)
		}
	}
	one, many := open(small.pipeline(t)), open(interleaved(small.pipeline(t), 2, 2, 8))
	step(one, small, 0)
	step(many, small, 0)
	state, err := many.State(nil)
	if err != nil {
		t.Fatal(err)
	}
	other := open(interleaved(small.pipeline(t), 1, 3, 3))
	if err := other.Restore(state); err != nil {
		t.Fatal(err)
	}
	for _, tr := range []*Trainer{one, many, other} {
		step(tr, short, 1)
		step(tr, small, 2)
	}
	want, err := one.Evaluate(t.Context(), small.data(9))
	if err != nil {
		t.Fatal(err)
	}
	for _, tr := range []*Trainer{many, other} {
		if got := tr.Hash(); got != one.Hash() {
			t.Errorf("hash %s, want %s", got, one.Hash())
		}
		got, err := tr.Evaluate(t.Context(), small.data(9))
		if err != nil || got.Loss != want.Loss {
			t.Errorf("loss %v, want %v: %v", got, want, err)
		}
		checkMemory(t, tr)
	}
}

// What a step's places send each other is what is planned, within a device as well.
func TestChunksTraffic(t *testing.T) {
	for _, how := range []TableGradients{ReduceTied, GatherTied} {
		p := interleaved(smallTranslation.pipeline(t), 2, 2, 4)
		p.Replicas, p.TiedGradients = 2, how
		tr, err := p.Open(InputOf(smallTranslation.data(0)))
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		r, err := tr.Step(t.Context(), smallTranslation.data(0))
		if err != nil {
			t.Fatal(err)
		}
		planned := r.PlannedTraffic()
		if len(planned) != len(r.Traffic) {
			t.Fatalf("%v: %d kinds, planned %d", how, len(r.Traffic), len(planned))
		}
		back, rows := false, false // from the last device to the first; of gathered gradients
		for i, got := range r.Traffic {
			got.Seconds = 0
			if got != planned[i] {
				t.Errorf("%v: %+v, planned %+v", how, got, planned[i])
			}
			back = back || got.From == place.Stage(1) && got.To == place.Place{Stage: 0, Chunk: 1} && got.What == BoundaryActivations
			rows = rows || got.What == GatheredRows
		}
		if !back || rows != (how == GatherTied) {
			t.Errorf("%v: from the last device to the first one's second chunk %v, gathered rows %v", how, back, rows)
		}
	}
}

// Simulations run chunks: with even times and free links, interleaving divides the bubble.
func TestChunksSimulated(t *testing.T) {
	l := fine()
	var bubbles []float64
	for _, chunks := range []int{1, 2} {
		p := interleaved(l.pipeline(t), 2, chunks, 4)
		p.Devices = []Device{DeviceOf(chip())}
		s, err := p.Simulate(InputOf(l.data(0)), Modelling{})
		if err != nil {
			t.Fatal(err)
		}
		if err := timeline.Validate(s.Timeline, p.Schedule, 2, 4, p.Checkpoint, false); err != nil {
			t.Error(err)
		}
		if len(s.Devices) != 2 || len(s.Sizes) != 2*chunks {
			t.Errorf("%d devices, %d pieces", len(s.Devices), len(s.Sizes))
		}
		bubbles = append(bubbles, s.Parts.Bubble)
	}
	if ratio := bubbles[1] / bubbles[0]; ratio > 0.75 {
		t.Errorf("the bubble of two chunks is %v of that of one", ratio)
	}
}

// Two processes run two devices with two chunks each, as one process does.
func TestChunksInProcesses(t *testing.T) {
	for _, s := range []schedule.Schedule{schedule.InterleavedOneFOneB, schedule.ZeroBubbleVee, schedule.DualPipeVee} {
		run := func(owners []int) string {
			ps := apart(t, owners, InputOf(small.data(0)), func() Pipeline {
				p := small.pipeline(t)
				p.MicroBatches, p.Schedule, p.EMA.Decay = 4, s, 0.9
				return p
			})
			dir := t.TempDir()
			return said(t, ps, "history", func(tr *Trainer) string { return history(t, tr, small.data, dir) })
		}
		if one, two := run([]int{0, 0}), run([]int{0, 1}); one != two || one == "" {
			t.Errorf("%v: in two processes\n%s\nin one\n%s", s, two, one)
		}
	}
}

// TestG1Schedules is TestG1 for every schedule with every small number of devices, chunks on
// each and micro-batches, also fewer of these than devices: all that there are, and under
// -short those with three devices.
func TestG1Schedules(t *testing.T) {
	l := small
	l.model.Fine, l.steps = true, 2
	want := l.train(t, l.pipeline(t))
	want.changes(t)
	devices := []int{1, 2, 3, 4}
	if testing.Short() {
		devices = devices[2:3]
	}
	for s := schedule.GPipe; s <= schedule.DualPipeVee; s++ {
		chunks := []int{0} // as many as the schedule has
		if s == schedule.InterleavedOneFOneB {
			chunks = []int{1, 2, 3}
		}
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			for _, k := range devices {
				for _, v := range chunks {
					for _, m := range []int{1, 2, 3, 4, l.batch} {
						if s == schedule.DualPipeVee && m < 2*k {
							continue // there is none
						}
						p := l.pipeline(t)
						p.Schedule, p.Partitions, p.Chunks, p.MicroBatches, p.Checkpoint = s, k, v, m, schedule.Checkpoint((k+v+m)%3)
						if got := l.train(t, p); got != want {
							t.Errorf("K=%d V=%d M=%d %v: got %v, want %v", k, v, m, p.Checkpoint, got, want)
						}
					}
				}
			}
		})
	}
}

// In fake time the wall clock of every schedule is its own run, to the nanosecond.
func TestChunksKeepTime(t *testing.T) {
	sleep := map[timeline.Kind]time.Duration{timeline.Forward: fTime, timeline.Recompute: rTime, timeline.Backward: bTime,
		timeline.BackwardInput: bTime - rTime, timeline.BackwardWeights: rTime}
	for s := schedule.InterleavedOneFOneB; s <= schedule.DualPipeVee; s++ {
		for i, c := range []schedule.Checkpoint{schedule.Always, schedule.ExceptLast, schedule.Never} {
			late := i == 1 // R waits for the output gradient
			for _, kmv := range [][3]int{{2, 4, 2}, {2, 5, 3}, {3, 6, 2}, {3, 2, 2}, {1, 3, 3}} {
				k, m, v := kmv[0], kmv[1], kmv[2]
				if s != schedule.InterleavedOneFOneB {
					v = 0
				}
				lists, placed, err := schedule.Lists(s, k, v, m, c, late)
				if err != nil || placed.Stages() > len(fine().pipeline(t).Layers) {
					continue // there is no dualpipe-v of few micro-batches
				}
				synctest.Test(t, func(t *testing.T) {
					p := fine().pipeline(t)
					p.Partitions, p.Chunks, p.MicroBatches, p.Schedule, p.Checkpoint, p.LateRecompute = k, v, m, s, c, late
					p.testing.inTask = func(_ int, kind timeline.Kind, _ int) { time.Sleep(sleep[kind]) }
					tr, err := p.Open(InputOf(fine().data(0)))
					if err != nil {
						t.Fatal(err)
					}
					defer tr.Close()
					r, err := tr.Step(t.Context(), fine().data(0))
					if err != nil {
						t.Fatal(err)
					}
					checkTimeline(t, tr, r)
					run, err := schedule.Run(lists, placed, m, schedule.Alike(schedule.Duration{F: fTime.Seconds(), R: rTime.Seconds(), I: (bTime - rTime).Seconds(), W: rTime.Seconds()}, 0))
					if err != nil {
						t.Fatal(err)
					}
					even, err := r.Times.ClosedForm(s, c, late)
					if err != nil {
						t.Fatal(err)
					}
					virtual, err := r.Times.Replay()
					if err != nil {
						t.Fatal(err)
					}
					for what, got := range map[string]float64{"wall clock": r.Seconds, "replay": virtual.Span(), "even step": even} {
						if math.Abs(got-run.Makespan()) > 1e-9 {
							t.Errorf("%v %v K=%d V=%d M=%d: %s %v, want %v", s, c, k, v, m, what, got, run.Makespan())
						}
					}
				})
			}
		}
	}
}
