package schedule_test

import (
	"slices"
	"strings"
	"testing"

	"gpipebench/gpipe/schedule"
	"gpipebench/internal/testkit"
)

var asynchronous = []schedule.Schedule{schedule.PipeDream, schedule.PipeDreamVertical, schedule.PipeDreamNoStash, schedule.PipeDream2BW}

// eachWindow calls f with windows of all sizes up to a few more mini-batches than stages; of
// pipedream-2bw the mini-batches have different numbers of micro-batches.
func eachWindow(t *testing.T, f func(s schedule.Schedule, stages int, ends []int, lists [][]schedule.Task)) {
	t.Helper()
	for _, s := range asynchronous {
		for stages := 1; stages <= 5; stages++ {
			for window := 1; window <= stages+3; window++ {
				var ends []int
				for m, end := 0, 0; m < window; m++ {
					end++
					if s == schedule.PipeDream2BW {
						end += stages - 1 + m%3
					}
					ends = append(ends, end)
				}
				c := schedule.Checkpoint((stages + window) % 3)
				f(s, stages, ends, testkit.Must(schedule.Window(s, stages, ends, c))(t))
			}
		}
	}
}

// Every window is one by its definition, holds as many versions as the papers say, and finds each
// version where it is.
func TestWindows(t *testing.T) {
	eachWindow(t, func(s schedule.Schedule, stages int, ends []int, lists [][]schedule.Task) {
		window := len(ends)
		testkit.NoError(t, schedule.VerifyWindow(s, lists, ends), "%v K=%d, window %d", s, stages, window)
		for k, list := range lists {
			behind := map[schedule.Schedule]int{schedule.PipeDream: stages - 1 - k, schedule.PipeDreamVertical: stages - 1, schedule.PipeDreamNoStash: stages - 1 - k, schedule.PipeDream2BW: 1}[s]
			testkit.Equal(t, schedule.Staleness(list), min(behind, window-1), "%v K=%d, window %d, stage %d: stale by", s, stages, window, k)
			slots, versions := schedule.WeightSlots(list)
			want := 1
			if s != schedule.PipeDreamNoStash && min(behind, window-1) > 0 { // window-behind versions are read, all but the newest late
				want += min(behind, max(1, window-behind))
			}
			testkit.Equal(t, versions, want, "%v K=%d, window %d, stage %d: versions", s, stages, window, k)
			holds := make([]int, versions)
			for i, task := range list {
				if task.Kind != schedule.Update {
					testkit.Equal(t, holds[slots[i]], task.Version, "%v K=%d, window %d, stage %d: %v reads version", s, stages, window, k, task)
					continue
				}
				if slots[i] > 0 {
					holds[slots[i]] = holds[0]
				}
				holds[0] = task.Version
			}
		}
	})
}

// A window in which anything is wrong is refused.
func TestWindowsThatAreNone(t *testing.T) {
	ends := []int{1, 2, 3, 4, 5}
	find := func(list []schedule.Task, name string) int {
		return slices.IndexFunc(list, func(task schedule.Task) bool { return task.String() == name })
	}
	for want, change := range map[string]func(lists [][]schedule.Task){
		"U2 is out of place: want it directly after B2": func(lists [][]schedule.Task) { // an update before its B
			i := find(lists[1], "U2")
			lists[1][i], lists[1][i-1] = lists[1][i-1], lists[1][i]
		},
		"B3 of mini-batch 3 has version 3 of the weights: want 1": func(lists [][]schedule.Task) { // the newest in place of the stashed one
			lists[0][find(lists[0], "B3")].Version = 3
		},
		"B3 reads version 0 of the weights: want 1, as its F, or 3": func(lists [][]schedule.Task) { // a stale one
			lists[0][find(lists[0], "B3")].Version = 0
		},
		"F3 reads version 4 of the weights: want 0 to 1": func(lists [][]schedule.Task) { // one that is not made
			lists[0][find(lists[0], "F3")].Version = 4
		},
		"U2 makes version 2": func(lists [][]schedule.Task) { // the same version twice
			lists[0][find(lists[0], "U2")].Version = 2
		},
		"want U after it": func(lists [][]schedule.Task) { // a drain without the last update
			for k := range lists {
				lists[k] = lists[k][:len(lists[k])-1]
			}
		},
		"updates after the micro-batches": func(lists [][]schedule.Task) { // a stage with an update of two mini-batches
			i := find(lists[2], "U1")
			lists[2] = slices.Delete(lists[2], i, i+1)
			for j := range lists[2] {
				if task := &lists[2][j]; task.Version > 1 {
					task.Version--
				}
			}
		},
		"device 0 holds 4 micro-batches: want 3": func(lists [][]schedule.Task) { // one F too early
			i, j := find(lists[0], "B0"), find(lists[0], "F3")
			f := lists[0][j]
			f.Version = 0
			lists[0] = slices.Insert(slices.Delete(lists[0], j, j+1), i, f)
			lists[0][find(lists[0], "B3")].Version = 0
		},
	} {
		lists := testkit.Must(schedule.Window(schedule.PipeDream, 3, ends, schedule.Never))(t)
		change(lists)
		testkit.Fails(t, schedule.VerifyWindow(schedule.PipeDream, lists, ends), want)
	}
	// Each schedule is its own: where definitions differ, no other is taken for it.
	for _, s := range asynchronous {
		for _, other := range asynchronous {
			ends := []int{1, 2, 3, 4, 5}
			if s == schedule.PipeDream2BW {
				ends = []int{3, 6, 9, 12}
			}
			lists := testkit.Must(schedule.Window(s, 3, ends, schedule.Never))(t)
			if err := schedule.VerifyWindow(other, lists, ends); (err == nil) != (s == other) {
				t.Errorf("a window of %v as one of %v: %v", s, other, err)
			}
		}
	}
}

func TestWindowRefuses(t *testing.T) {
	for want, try := range map[string]func() error{
		"does not update within its lists": func() error { _, err := schedule.Window(schedule.GPipe, 2, []int{1}, schedule.Always); return err },
		"a window of no mini-batch":        func() error { _, err := schedule.Window(schedule.PipeDream, 2, nil, schedule.Always); return err },
		"mini-batch 1 of a window has 2 micro-batches: want 3": func() error {
			_, err := schedule.Window(schedule.PipeDream2BW, 3, []int{3, 5}, schedule.Always)
			return err
		},
		"mini-batch 1 of a window has 2 micro-batches: want 1": func() error {
			_, err := schedule.Window(schedule.PipeDream, 2, []int{1, 3}, schedule.Always)
			return err
		},
		"want Window": func() error { _, err := schedule.Build(schedule.PipeDream, 2, 2, schedule.Always, false); return err },
		"no place in PyTorch's files": func() error {
			lists := testkit.Must(schedule.Window(schedule.PipeDream, 2, []int{1, 2}, schedule.Never))(t)
			return schedule.WriteCSV(&strings.Builder{}, lists, schedule.Straight(2), 2)
		},
	} {
		testkit.Fails(t, try(), want)
	}
	for _, name := range schedule.AsynchronousNames() {
		if s := testkit.Must(schedule.Parse(name))(t); !s.Asynchronous() || s.Splits() || !s.Straight() {
			t.Errorf("%v: asynchronous %v, splits %v, straight %v", s, s.Asynchronous(), s.Splits(), s.Straight())
		}
	}
}
