package gpipe

import (
	"strings"
	"testing"

	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
)

// eager is 1F1B with twice the lead, which hides slow links.
func eager(stages, micro int) [][]schedule.Task {
	lists := make([][]schedule.Task, stages)
	for k := range lists {
		ahead := min(micro, 2*(stages-1-k))
		for m := range micro + ahead {
			if m < micro {
				lists[k] = append(lists[k], schedule.Task{Kind: schedule.Forward, Micro: m})
			}
			if b := m - ahead; b >= 0 {
				lists[k] = append(lists[k], schedule.Task{Kind: schedule.Recompute, Micro: b}, schedule.Task{Kind: schedule.Backward, Micro: b})
			}
		}
	}
	return lists
}

// A caller's lists train to the same bits, in exactly the planned memory, also with fewer
// micro-batches at an epoch's end.
func TestOwnLists(t *testing.T) {
	short := small
	short.batch = 2
	step := func(p Pipeline) string {
		tr := openSmall(t, p)
		for i := range 2 {
			r, err := tr.Step(t.Context(), small.data(i))
			if err != nil {
				t.Fatal(err)
			}
			if p.Tasks != nil {
				if d := len(r.Times.Lists[0]); d != 3*p.MicroBatches {
					t.Errorf("K=%d: %d tasks", p.Partitions, d)
				}
			}
		}
		checkMemory(t, tr)
		if _, err := tr.Step(t.Context(), short.data(5)); err != nil {
			t.Fatal(err)
		}
		return tr.Hash()
	}
	want := step(small.pipeline(t))
	for _, kind := range []Kind{Host, Emulated} {
		for _, k := range []int{1, 3, 5} {
			p := small.pipeline(t)
			p.Partitions, p.MicroBatches, p.Tasks, p.Devices = k, 6, eager, []Device{{Kind: kind}}
			p.Checkpoint = schedule.Never // of no effect
			if got := step(p); got != want {
				t.Errorf("K=%d: %s, want %s", k, got, want)
			}
		}
	}
}

// What is refused is refused in a line, before anything is planned.
func TestOwnListsRefused(t *testing.T) {
	f := func(m int) schedule.Task { return schedule.Task{Kind: schedule.Forward, Micro: m} }
	keep := func(m int) schedule.Task { return schedule.Task{Kind: schedule.Forward, Micro: m, Keep: true} }
	r := func(m int) schedule.Task { return schedule.Task{Kind: schedule.Recompute, Micro: m} }
	b := func(m int) schedule.Task { return schedule.Task{Kind: schedule.Backward, Micro: m} }
	good := []schedule.Task{f(0), f(1), r(0), b(0), r(1), b(1)}
	for _, c := range []struct {
		want  string
		lists [][]schedule.Task
	}{
		{"schedule: lists of 1 devices: want 2", [][]schedule.Task{good}},
		{"schedule: device 1: F1 is missing: want an F of each of 2 micro-batches", [][]schedule.Task{good, {keep(0), b(0)}}},
		{"schedule: device 0: B1 is out of order", [][]schedule.Task{{keep(0), keep(1), b(1), b(0)}, good}},
		{"schedule: device 1: B0 lacks residuals", [][]schedule.Task{good, {f(0), b(0)}}},
		{"schedule: device 0: R0 is out of place", [][]schedule.Task{{f(0), r(0), f(1), b(0), r(1), b(1)}, good}},
		{"schedule: device 0 waits for ever: B0 needs B0 of device 1", [][]schedule.Task{{keep(0), b(0), keep(1), b(1)}, {keep(0), keep(1), b(0), b(1)}}},
	} {
		p := small.pipeline(t)
		p.Partitions, p.MicroBatches = 2, 2
		p.Tasks = func(int, int) [][]schedule.Task { return c.lists }
		_, err := p.Open(InputOf(small.data(0)))
		if want := "task lists for 2 micro-batches: " + c.want; err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %s", err, want)
		}
	}

	// A short mini-batch may not need more memory than what is planned.
	p := small.pipeline(t)
	p.Partitions, p.MicroBatches = 2, 6
	p.Tasks = func(stages, micro int) [][]schedule.Task {
		how := schedule.OneFOneB
		if micro < 6 {
			how = schedule.GPipe
		}
		lists, err := schedule.Build(how, stages, micro, schedule.Never, false)
		if err != nil {
			t.Error(err)
		}
		return lists
	}
	tr := openSmall(t, p)
	short := small
	short.batch = 4
	_, err := tr.Step(t.Context(), short.data(0))
	if want := "task lists for 4 micro-batches: stage 0 holds 4 inputs and 4 sets of residuals at once: want at most 2 and 2, as for 6 micro-batches"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	stepSmall(t, tr, 0) // it goes on
}

// All built lists keep the properties that lists of a caller must have.
func TestBuiltListsAreAccepted(t *testing.T) {
	for _, s := range []schedule.Schedule{schedule.GPipe, schedule.Naive, schedule.OneFOneB} {
		for _, c := range []schedule.Checkpoint{schedule.Always, schedule.ExceptLast, schedule.Never} {
			for k := 1; k < 6; k++ {
				for m := 1; m < 8; m++ {
					p := Pipeline{Partitions: k, Cut: Cut{Tasks: func(stages, micro int) [][]schedule.Task {
						lists, err := schedule.Build(s, stages, micro, c, m%2 == 0)
						if err != nil {
							t.Error(err)
						}
						return lists
					}}}
					if _, err := p.config().OwnTasks(m); err != nil {
						t.Errorf("%v %v K=%d M=%d: %v", s, c, k, m, err)
					}
				}
			}
		}
	}
}

// Simulations run a caller's lists, too.
func TestOwnListsSimulated(t *testing.T) {
	p := small.pipeline(t)
	p.Partitions, p.MicroBatches, p.Tasks, p.Devices = 3, 6, eager, []Device{DeviceOf(chip())}
	s, err := p.Simulate(InputOf(small.data(0)), Modelling{})
	if err != nil {
		t.Fatal(err)
	}
	first := 0 // F of stage 0 before its first B
	for _, e := range s.Timeline.Events {
		if e.At.Stage == 0 && e.Kind == timeline.Forward {
			first++
		}
		if e.At.Stage == 0 && e.Kind == timeline.Backward {
			break
		}
	}
	if first != 5 {
		t.Errorf("%d F before the first B of stage 0, want 5", first)
	}
}
