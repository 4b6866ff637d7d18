package clock_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/clock/clocktest"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/testkit"
)

// The parts add up to the step, and none is negative but the imbalance: with one micro-batch the
// others wait only for the last stage's R, which may be a short one.
func TestBreakdownAddsUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	negative := 0
	for range 800 {
		in := clocktest.Random(t, rng, 0)
		p := testkit.Must(clock.Breakdown(in.Tasks, in.Costs))(t, "%v", in)
		span := in.Replay(t).Span()
		testkit.Equal(t, p.Step, span, "%v: step", in)
		testkit.Equal(t, testkit.Must(clock.Bubble(in.Tasks, in.Costs))(t), p.Bubble, "%v: a bubble alone", in)
		if math.Abs(p.Sum()-p.Step) > 1e-9*p.Step {
			t.Fatalf("%v: parts add up to %v, step %v", in, p.Sum(), p.Step)
		}
		tiny := -1e-9 * p.Step
		for name, part := range map[string]float64{
			"computation": p.Computation, "recompute": p.Recompute, "bubble": p.Bubble, "communication": p.Communication,
			"setup": p.Setup, "barrier": p.Barrier, "update": p.Update,
		} {
			if part < tiny {
				t.Fatalf("%v: %s is %v", in, name, part)
			}
		}
		if p.Imbalance < tiny {
			negative++
		}
	}
	if negative == 0 {
		t.Error("the imbalance is never negative")
	}
}

// Each part by hand: K=2, M=2, checkpoint mode always, early.
//
// Stage 0 takes 1, 1, 1 for F, R, B and stage 1 takes 3, 1, 3, so the mean is 2,
// 1, 2. Setup is 1 on stage 0; update is 1 on stage 0 and 3 on stage 1: means
// 0.5 and 2. A transfer takes 1. Stage 0 adds up a group for 2 after B0: mean 1.
//
//	even     0.5 + (2+2-1)(2+2) + 2*1 + 1 + 2 = 17.5; at work 2(2+1+2)+0.5+1+2 = 13.5
//	uneven   stage 1 starts at 2 and takes 2(3+1+3) = 14; it updates to 19, while
//	         stage 0 has its last B at 16 to 17 and updates to 18: 19
//	linked   stage 1 starts at 3, so 20 instead of 19
//	full     stage 1 has its last B at 17, stage 0 from 18 to 19, then all
//	         update: 22
func TestBreakdownByHand(t *testing.T) {
	tasks := testkit.Must(schedule.Build(schedule.GPipe, 2, 2, schedule.Always, false))(t)
	costs := clock.Costs{
		Task: func(at place.Place, t schedule.Task) float64 {
			if at.Stage == 1 && t.Kind != schedule.Recompute {
				return 3
			}
			return 1
		},
		Setup:  func(at place.Place) float64 { return float64(1 - at.Stage) },
		Update: func(at place.Place) float64 { return float64(1 + 2*at.Stage) },
		Group:  func(at place.Place, micro int) float64 { return float64(2 * (1 - at.Stage) * (1 - micro)) },
		Link:   clock.Link{Latency: 1},
	}
	got := testkit.Must(clock.Breakdown(tasks, costs))(t)
	want := clock.Parts{
		Computation: 8, Recompute: 2, Setup: 0.5, Update: 2, Reduction: 1, Step: 22,
		Bubble: 17.5 - 13.5, Imbalance: 19 - 17.5, Communication: 20 - 19, Barrier: 22 - 20,
	}
	testkit.Equal(t, cmp.Diff(want, got), "", "-want +got")
}

// Even stages and free links leave the bubble alone: (K-1)(f+b) with early
// recomputation, whatever r is, and (K-1)(f+r+b) without: "the observed bubble overhead was
// slightly lower than the theoretical value partly because recomputation was scheduled early to
// overlap with the bubble" (GPipe arXiv v1, section 4.2).
func TestBreakdownBubble(t *testing.T) {
	const f, r, b = 3, 2, 5
	for stages := 1; stages <= 5; stages++ {
		for micro := 1; micro <= 6; micro++ {
			for _, late := range []bool{false, true} {
				tasks := testkit.Must(schedule.Build(schedule.GPipe, stages, micro, schedule.Always, late))(t)
				got := testkit.Must(clock.Breakdown(tasks, clock.Costs{Task: clocktest.Each(f, r, b)}))(t)
				bubble := float64(stages-1) * (f + b)
				if late {
					bubble += float64(stages-1) * r
				}
				want := clock.Parts{Computation: float64(micro) * (f + b), Recompute: float64(micro) * r, Bubble: bubble, Step: bubble + float64(micro)*(f+r+b)}
				for _, d := range []float64{
					got.Computation - want.Computation, got.Recompute - want.Recompute, got.Bubble - want.Bubble, got.Step - want.Step,
					got.Imbalance, got.Communication, got.Setup, got.Barrier, got.Update,
				} {
					if math.Abs(d) > 1e-12 {
						t.Fatalf("K=%d M=%d late=%v: %+v, want %+v", stages, micro, late, got, want)
					}
				}
			}
		}
	}
}

// Without recomputation, setup and update the imbalance is never negative if a stage's
// micro-batches take the same time.
func TestBreakdownImbalance(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for range 300 {
		stages, micro := 1+rng.IntN(6), 1+rng.IntN(8)
		f, b := make([]float64, stages), make([]float64, stages)
		for k := range f {
			f[k], b[k] = rng.Float64(), rng.Float64()
		}
		tasks := testkit.Must(schedule.Build(schedule.GPipe, stages, micro, schedule.Never, false))(t)
		p := testkit.Must(clock.Breakdown(tasks, clock.Costs{Task: func(at place.Place, t schedule.Task) float64 {
			return clocktest.Each(f[at.Stage], 0, b[at.Stage])(at, t)
		}}))(t)
		if p.Imbalance < -1e-9*p.Step {
			t.Fatalf("K=%d M=%d f=%v b=%v: %+v", stages, micro, f, b, p)
		}
	}
}
