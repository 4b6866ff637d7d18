// Package clocktest makes steps of random pipelines, for tests of the virtual clock and of
// what reads its timelines.
package clocktest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/testkit"
)

// Instance is a step of a pipeline: what schedule.Build and clock.Replay take.
type Instance struct {
	Schedule      schedule.Schedule
	Stages, Micro int
	Checkpoint    schedule.Checkpoint
	Late          bool
	Tasks         [][]schedule.Task
	Costs         clock.Costs
}

func (in Instance) String() string {
	return fmt.Sprintf("%v K=%d M=%d %v late=%v link=%+v", in.Schedule, in.Stages, in.Micro, in.Checkpoint, in.Late, in.Costs.Link)
}

// Random draws an instance. Times are between least and least+1 seconds; with
// least 0, one in five is 0.
func Random(t *testing.T, rng *rand.Rand, least float64) Instance {
	t.Helper()
	in := Instance{
		Schedule:   schedule.Schedule(rng.IntN(len(schedule.Plain()))),
		Stages:     1 + rng.IntN(6),
		Micro:      1 + rng.IntN(8),
		Checkpoint: schedule.Checkpoint(rng.IntN(3)),
		Late:       rng.IntN(2) == 0,
	}
	var err error
	if in.Tasks, err = schedule.Build(in.Schedule, in.Stages, in.Micro, in.Checkpoint, in.Late); err != nil {
		t.Fatal(err)
	}
	seconds := func() float64 {
		if least == 0 && rng.IntN(5) == 0 {
			return 0
		}
		return least + rng.Float64()
	}
	table := make([]map[schedule.Task]float64, in.Stages)
	perStage := [2][]float64{make([]float64, in.Stages), make([]float64, in.Stages)}
	for k, list := range in.Tasks {
		table[k] = map[schedule.Task]float64{}
		for _, task := range list {
			table[k][task] = seconds()
		}
		perStage[0][k], perStage[1][k] = seconds(), seconds()
	}
	in.Costs.Task = func(at place.Place, task schedule.Task) float64 { return table[at.Stage][task] }
	if rng.IntN(2) == 0 {
		in.Costs.Setup = func(at place.Place) float64 { return perStage[0][at.Stage] }
	}
	if rng.IntN(2) == 0 {
		in.Costs.Update = func(at place.Place) float64 { return perStage[1][at.Stage] }
	}
	if rng.IntN(4) > 0 {
		bytes := make([]int64, in.Stages)
		for k := range bytes {
			bytes[k] = rng.Int64N(100)
		}
		in.Costs.Boundary = func(at place.Place, _ int) int64 { return bytes[at.Stage] }
		in.Costs.Link = clock.Link{Bandwidth: float64(rng.IntN(3)) * 60, Latency: float64(rng.IntN(3)) / 8, ThroughHost: rng.IntN(2) == 0}
	}
	return in
}

// Replay is the instance on the virtual clock.
func (in Instance) Replay(t *testing.T) *timeline.Timeline {
	t.Helper()
	tl := testkit.Must(clock.Replay(in.Tasks, in.Costs))(t, "%v", in)
	return tl
}

// Build is the timeline of a step with these costs.
func Build(t *testing.T, s schedule.Schedule, stages, micro int, c schedule.Checkpoint, late bool, costs clock.Costs) *timeline.Timeline {
	t.Helper()
	tasks := testkit.Must(schedule.Build(s, stages, micro, c, late))(t)
	return Instance{s, stages, micro, c, late, tasks, costs}.Replay(t)
}

// Each gives every F, R and B its time on every stage.
func Each(f, r, b float64) func(place.Place, schedule.Task) float64 {
	return func(_ place.Place, t schedule.Task) float64 {
		switch t.Kind {
		case schedule.Forward:
			return f
		case schedule.Recompute:
			return r
		}
		return b
	}
}
