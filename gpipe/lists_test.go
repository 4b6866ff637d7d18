package gpipe

import (
	"fmt"
	"strings"
	"testing"

	"gpipebench/gpipe/schedule"
	"gpipebench/internal/testkit"
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
			r := stepped(t, tr, small.data(i))
			if p.Tasks != nil {
				testkit.Equal(t, len(r.Times.Lists[0]), 3*p.MicroBatches, "K=%d: tasks", p.Partitions)
			}
		}
		checkMemory(t, tr)
		stepped(t, tr, short.data(5))
		return tr.Hash()
	}
	want := step(small.pipeline(t))
	for _, kind := range []Kind{Host, Emulated} {
		for _, k := range []int{1, 3, 5} {
			p := small.pipeline(t)
			p.Partitions, p.MicroBatches, p.Tasks, p.Devices = k, 6, eager, []Device{{Kind: kind}}
			p.Checkpoint = schedule.Never // of no effect
			testkit.Equal(t, step(p), want, "K=%d", k)
		}
	}
}

// What schedule.Verify refuses of lists is refused in a line, before anything is planned.
func TestOwnListsRefused(t *testing.T) {
	f := schedule.Task{Kind: schedule.Forward, Keep: true}
	b, w, second := schedule.Task{Kind: schedule.Backward}, schedule.Task{Kind: schedule.BackwardWeights}, schedule.Task{Kind: schedule.Forward, Chunk: 1, Keep: true}
	for _, c := range []struct {
		want   string
		placed schedule.Placement
		lists  [][]schedule.Task
	}{
		{"schedule: lists of 1 devices: want 2", schedule.Placement{}, [][]schedule.Task{{f, b}}},
		{"schedule: device 0: W0 has no I before it", schedule.Placement{}, [][]schedule.Task{{f, w}, {f, b}}},
		{"updates within the lists (U): want", schedule.Placement{}, must(schedule.Window(schedule.PipeDream, 2, []int{1}, schedule.Never))(t)},
		{"schedule: device 1: 3F0 is missing", schedule.Loop(2, 2), [][]schedule.Task{
			{f, second, {Kind: schedule.Backward, Chunk: 1}, b}, {f, b}}},
	} {
		p := small.pipeline(t)
		p.Partitions, p.MicroBatches, p.Placement = 2, 1, c.placed
		p.Tasks = func(int, int) [][]schedule.Task { return c.lists }
		_, err := p.Open(InputOf(small.data(0)))
		if want := "task lists for 1 micro-batches: " + c.want; err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A short mini-batch may not need more memory than what is planned.
func TestShortMiniBatchOfOwnLists(t *testing.T) {
	for _, c := range []struct {
		want         string
		whole, fewer func(stages, micro int) [][]schedule.Task
	}{
		{"holds 4 inputs and 4 sets of residuals at once: want at most 2 and 2",
			func(stages, micro int) [][]schedule.Task {
				return must(schedule.Build(schedule.OneFOneB, stages, micro, schedule.Never, false))(t)
			},
			func(stages, micro int) [][]schedule.Task {
				return must(schedule.Build(schedule.GPipe, stages, micro, schedule.Never, false))(t)
			}},
		{"holds what I keeps for W of 1 micro-batches at once: want at most 0", mixed, func(stages, micro int) [][]schedule.Task {
			return schedule.Checkpointed(schedule.ZeroBubble(stages, micro, false), schedule.Always, false)
		}},
	} {
		p := small.pipeline(t)
		p.Partitions, p.MicroBatches = 2, 6
		p.Tasks = func(stages, micro int) [][]schedule.Task {
			if micro < 6 {
				return c.fewer(stages, micro)
			}
			return c.whole(stages, micro)
		}
		tr := openSmall(t, p)
		_, err := tr.Step(t.Context(), small.data(0).Slice(0, 4))
		testkit.Equal(t, fmt.Sprint(err), "task lists for 4 micro-batches: stage 0 "+c.want+", as for 6 micro-batches")
		stepSmall(t, tr, 0) // it goes on
	}
}
