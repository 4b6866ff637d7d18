package gpipe

import (
	"slices"

	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/stats"

	"gonum.org/v1/gonum/floats"
)

// Samples collects the task times of several steps of one trainer. The emulated
// time of a kind of task on a stage is the median of its repeats, over
// micro-batches of one size and over steps. It is for programs that time several steps
// ([Result.Times]) and want one step of them, in which no task was disturbed.
type Samples struct {
	steps []*Times
}

// Add adds one step's times. All steps must have the same lists.
func (s *Samples) Add(t *Times) { s.steps = append(s.steps, t) }

// Median is a step in which every task takes the median of its kind.
func (s *Samples) Median() *Times {
	first := s.steps[0]
	m := *first
	m.Stages = nil
	for k := range first.Stages {
		sizes := m.Examples[k*len(m.Examples)/len(first.Stages)]
		pick := func(of func(*StageTimes) []float64) []float64 {
			bySize := map[int][]float64{}
			for _, st := range s.steps {
				for i, v := range of(&st.Stages[k]) {
					if v > 0 {
						bySize[sizes[i]] = append(bySize[sizes[i]], v)
					}
				}
			}
			out := make([]float64, len(sizes))
			for i, size := range sizes {
				out[i] = stats.Median(bySize[size])
			}
			return out
		}
		one := func(of func(*StageTimes) float64) float64 {
			var vs []float64
			for _, st := range s.steps {
				vs = append(vs, of(&st.Stages[k]))
			}
			return stats.Median(vs)
		}
		var groups []float64
		if ends := first.Stages[k].Groups; ends != nil {
			groups = pick(func(t *StageTimes) []float64 { return t.Groups })
			for i := range groups {
				if ends[i] == 0 { // no group ends here
					groups[i] = 0
				}
			}
		}
		m.Stages = append(m.Stages, StageTimes{
			F:      pick(func(t *StageTimes) []float64 { return t.F }),
			R:      pick(func(t *StageTimes) []float64 { return t.R }),
			B:      pick(func(t *StageTimes) []float64 { return t.B }),
			Setup:  one(func(t *StageTimes) float64 { return t.Setup }),
			Update: one(func(t *StageTimes) float64 { return t.Update }),
			Groups: groups,
			Reduce: one(func(t *StageTimes) float64 { return t.Reduce }),
			Gather: one(func(t *StageTimes) float64 { return t.Gather }),
		})
	}
	return &m
}

// Replay runs the lists on the virtual clock with these times.
func (t *Times) Replay() (*timeline.Timeline, error) { return timeline.Replay(t.Lists, t.Costs()) }

// Breakdown splits the step of Replay into its parts.
func (t *Times) Breakdown() (timeline.Parts, error) { return timeline.Breakdown(t.Lists, t.Costs()) }

// ClosedForm is the theory's time for the same step on even stages: f, r and b
// are the mean over devices of the tasks' mean times, links are free, and setup,
// update and the time for adding up groups and replicas are those of the slowest
// device.
func (t *Times) ClosedForm(s schedule.Schedule, c schedule.Checkpoint, late bool) (float64, error) {
	var f, r, b, setup, update, reduce float64
	devices := float64(len(t.Stages))
	micro := len(t.Stages[0].F)
	for i := range t.Stages {
		st := &t.Stages[i]
		f += mean(st.F) / devices
		r += meanNonZero(st.R) / devices
		b += mean(st.B) / devices
		setup, update = max(setup, st.Setup), max(update, st.Update)
		reduce = max(reduce, floats.Sum(st.Groups)+st.Reduce+st.Gather)
	}
	step, err := schedule.StepTime(s, c, late, len(t.Stages)/max(t.Replicas, 1), micro, f, r, b)
	return setup + step + reduce + update, err
}

func mean(xs []float64) (m float64) {
	for _, x := range xs {
		m += x / float64(len(xs))
	}
	return m
}

func meanNonZero(xs []float64) float64 {
	xs = slices.DeleteFunc(slices.Clone(xs), func(x float64) bool { return x == 0 })
	if len(xs) == 0 {
		return 0
	}
	return mean(xs)
}
