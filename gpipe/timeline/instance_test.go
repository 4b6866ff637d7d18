package timeline

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
)

// instance is a step of a random pipeline: what Build and Replay take.
type instance struct {
	schedule      schedule.Schedule
	stages, micro int
	checkpoint    schedule.Checkpoint
	late          bool
	tasks         [][]schedule.Task
	costs         Costs
}

func (in instance) String() string {
	return fmt.Sprintf("%v K=%d M=%d %v late=%v link=%+v", in.schedule, in.stages, in.micro, in.checkpoint, in.late, in.costs.Link)
}

// random draws an instance. Times are between least and least+1 seconds; with
// least 0, one in five is 0.
func random(t *testing.T, rng *rand.Rand, least float64) instance {
	t.Helper()
	in := instance{
		schedule:   schedule.Schedule(rng.IntN(3)),
		stages:     1 + rng.IntN(6),
		micro:      1 + rng.IntN(8),
		checkpoint: schedule.Checkpoint(rng.IntN(3)),
		late:       rng.IntN(2) == 0,
	}
	var err error
	if in.tasks, err = schedule.Build(in.schedule, in.stages, in.micro, in.checkpoint, in.late); err != nil {
		t.Fatal(err)
	}
	seconds := func() float64 {
		if least == 0 && rng.IntN(5) == 0 {
			return 0
		}
		return least + rng.Float64()
	}
	table := make([]map[schedule.Task]float64, in.stages)
	perStage := [2][]float64{make([]float64, in.stages), make([]float64, in.stages)}
	for k, list := range in.tasks {
		table[k] = map[schedule.Task]float64{}
		for _, task := range list {
			table[k][task] = seconds()
		}
		perStage[0][k], perStage[1][k] = seconds(), seconds()
	}
	in.costs.Task = func(at place.Place, task schedule.Task) float64 { return table[at.Stage][task] }
	if rng.IntN(2) == 0 {
		in.costs.Setup = func(at place.Place) float64 { return perStage[0][at.Stage] }
	}
	if rng.IntN(2) == 0 {
		in.costs.Update = func(at place.Place) float64 { return perStage[1][at.Stage] }
	}
	if rng.IntN(4) > 0 {
		bytes := make([]int64, in.stages)
		for k := range bytes {
			bytes[k] = rng.Int64N(100)
		}
		in.costs.Boundary = func(at place.Place, _ int) int64 { return bytes[at.Stage] }
		in.costs.Link = Link{Bandwidth: float64(rng.IntN(3)) * 60, Latency: float64(rng.IntN(3)) / 8, ThroughHost: rng.IntN(2) == 0}
	}
	return in
}

func (in instance) replay(t *testing.T) *Timeline {
	t.Helper()
	tl, err := Replay(in.tasks, in.costs)
	if err != nil {
		t.Fatalf("%v: %v", in, err)
	}
	return tl
}

func (in instance) validate(tl *Timeline) error {
	return Validate(tl, in.schedule, in.stages, in.micro, in.checkpoint, in.late)
}

// build is Build and Replay of a step whose tasks take f, r and b seconds.
func build(t *testing.T, s schedule.Schedule, stages, micro int, c schedule.Checkpoint, late bool, costs Costs) *Timeline {
	t.Helper()
	tasks, err := schedule.Build(s, stages, micro, c, late)
	if err != nil {
		t.Fatal(err)
	}
	return instance{s, stages, micro, c, late, tasks, costs}.replay(t)
}

// each gives every F, R and B its time on every stage.
func each(f, r, b float64) func(place.Place, schedule.Task) float64 {
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
