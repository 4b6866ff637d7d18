package schedule_test

import (
	"math/rand/v2"
	"testing"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/testkit"
)

// Every closed form is the length of a replay. The times are small integers,
// so both sides are exact. Among them: "when M is set to 1, there is effectively no pipeline
// parallelism [...] indicating only one device is actively computing at any given time" (Huang et
// al. 2019, section 3): the step is the sum of all tasks. And "re-computation during the backward
// pass can be scheduled earlier, without waiting for the gradients from earlier layers" (section
// 2.3): that saves K-1 of them.
func TestStepTimeIsReplay(t *testing.T) {
	type times struct{ f, r, b float64 }
	cases := 0
	for _, s := range schedule.Plain() {
		for _, c := range []schedule.Checkpoint{schedule.Always, schedule.ExceptLast, schedule.Never} {
			for _, late := range []bool{false, true} {
				for stages := 1; stages <= 6; stages++ {
					for micro := 1; micro <= 8; micro++ {
						for _, at := range []times{{1, 1, 1}, {1, 1, 2}, {3, 2, 5}, {7, 1, 1}, {1, 9, 1}, {1, 1, 9}, {5, 3, 0}, {0, 4, 1}, {2, 0, 3}} {
							want := replay(t, s, stages, micro, c, late, func(k schedule.Kind) float64 {
								return map[schedule.Kind]float64{schedule.Forward: at.f, schedule.Recompute: at.r, schedule.Backward: at.b}[k]
							})
							got := testkit.Must(schedule.StepTime(s, c, late, stages, micro, at.f, at.r, at.b))(t)
							testkit.Equal(t, got, want, "%v %v late=%v K=%d M=%d %+v: closed form", s, c, late, stages, micro, at)
							cases++
						}
					}
				}
			}
		}
	}
	t.Logf("%d cases", cases)
	for _, s := range []schedule.Schedule{schedule.ZBH1, schedule.PipeDream} {
		testkit.Refused(schedule.StepTime(s, schedule.Always, false, 2, 2, 1, 1, 1))(t, "schedule: a closed form of "+s.String()+": want gpipe, naive")
	}
}

// So is the step time of stages which differ.
func TestUnevenStepTimeIsReplay(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	draw := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = float64(random.IntN(10))
		}
		return x
	}
	for range 3000 {
		stages, micro := 1+random.IntN(6), 1+random.IntN(8)
		f, r, b := draw(stages), draw(stages), draw(stages)
		tasks := testkit.Must(schedule.Build(schedule.GPipe, stages, micro, schedule.Always, false))(t)
		tl := testkit.Must(clock.Replay(tasks, clock.Costs{Task: func(at place.Place, t schedule.Task) float64 {
			return map[schedule.Kind][]float64{schedule.Forward: f, schedule.Recompute: r, schedule.Backward: b}[t.Kind][at.Stage]
		}}))(t)
		testkit.Equal(t, schedule.UnevenStepTime(micro, f, r, b), tl.Span(), "M=%d f=%v r=%v b=%v: closed form", micro, f, r, b)
	}
}

func replay(t *testing.T, s schedule.Schedule, stages, micro int, c schedule.Checkpoint, late bool, seconds func(schedule.Kind) float64) float64 {
	t.Helper()
	tasks := testkit.Must(schedule.Build(s, stages, micro, c, late))(t)
	tl := testkit.Must(clock.Replay(tasks, clock.Costs{Task: func(_ place.Place, t schedule.Task) float64 { return seconds(t.Kind) }}))(t)
	return tl.Span()
}

// The figures that follow from the closed form alone, for comparison with the
// paper's: with f = r and b = 2f, K = 4 and M = 1 gains 1.077 over K = 2 and
// M = 1 of the same model (the paper's Transformer has 1.07), K = 8 gains 1.12.
func TestStepTimeGains(t *testing.T) {
	step := func(stages int) float64 {
		f := 1 / float64(stages)
		return testkit.Must(schedule.StepTime(schedule.GPipe, schedule.Always, false, stages, 1, f, f, 2*f))(t)
	}
	for _, test := range []struct {
		stages int
		want   float64
	}{{4, 14. / 13}, {8, 28. / 25}} {
		if got := step(2) / step(test.stages); got < test.want-1e-12 || got > test.want+1e-12 {
			t.Errorf("K=%d: gain %v, want %v", test.stages, got, test.want)
		}
	}
}

// Without recomputation the bubble is the classic one, exactly: "partitioning introduces some idle
// time per accelerator, which we refer to as the bubble overhead. This bubble time is
// O((K-1)/(M+K-1)) amortized over the number of micro-steps M" (Huang et al. 2019, section 2.3).
func TestBubbleIsReplay(t *testing.T) {
	for stages := 1; stages <= 6; stages++ {
		for micro := 1; micro <= 9; micro++ {
			seconds := func(schedule.Kind) float64 { return 1 }
			span := replay(t, schedule.GPipe, stages, micro, schedule.Never, false, seconds)
			idle := span - 2*float64(micro)
			testkit.Equal(t, schedule.Bubble(stages, micro), idle/span, "K=%d M=%d", stages, micro)
		}
	}
}
