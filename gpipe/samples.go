package gpipe

import (
	"slices"

	"gpipebench/gpipe/clock"
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
		meetings := func(of func(*StageTimes) [][]clock.Meeting) [][]clock.Meeting {
			return medians(s.steps, k, sizes, of, medianMeetings)
		}
		st := StageTimes{
			FMeetings: meetings(func(t *StageTimes) [][]clock.Meeting { return t.FMeetings }),
			BMeetings: meetings(func(t *StageTimes) [][]clock.Meeting { return t.BMeetings }),
		}
		for i, to := range st.perMicro() {
			*to = medians(s.steps, k, sizes, func(t *StageTimes) []float64 { return *t.perMicro()[i] }, func(repeats []float64) float64 { return stats.Median(nonZero(repeats)) })
		}
		for i, ends := range first.Stages[k].Groups {
			if ends == 0 { // no group ends here
				st.Groups[i] = 0
			}
		}
		for i, to := range st.perStep() {
			var all []float64
			for _, of := range s.steps {
				all = append(all, *of.Stages[k].perStep()[i])
			}
			*to = stats.Median(all)
		}
		m.Stages = append(m.Stages, st)
	}
	return &m
}

// medians are the medians of a stage's values by micro-batch, each over all micro-batches of
// its size in all steps.
func medians[T any](steps []*Times, stage int, sizes []int, of func(*StageTimes) []T, median func(repeats []T) T) []T {
	if of(&steps[0].Stages[stage]) == nil {
		return nil
	}
	bySize := map[int][]T{}
	for _, st := range steps {
		for i, v := range of(&st.Stages[stage]) {
			bySize[sizes[i]] = append(bySize[sizes[i]], v)
		}
	}
	out := make([]T, len(sizes))
	for i, size := range sizes {
		out[i] = median(bySize[size])
	}
	return out
}

// medianMeetings are the meetings of a task, each with the medians of its repeats.
func medianMeetings(repeats [][]clock.Meeting) []clock.Meeting {
	all := slices.Clone(repeats[0])
	for i := range all {
		var at, seconds []float64
		for _, of := range repeats {
			at, seconds = append(at, of[i].At), append(seconds, of[i].Seconds)
		}
		all[i].At, all[i].Seconds = stats.Median(at), stats.Median(seconds)
	}
	return all
}

// Run runs the lists on the virtual clock with these times, without a list of events.
func (t *Times) Run() (*clock.Step, error) { return clock.Run(t.Lists, t.Costs()) }

// Replay runs the lists on the virtual clock with these times.
func (t *Times) Replay() (*timeline.Timeline, error) { return clock.Replay(t.Lists, t.Costs()) }

// Breakdown splits the step of Replay into its parts.
func (t *Times) Breakdown() (clock.Parts, error) { return clock.Breakdown(t.Lists, t.Costs()) }

// Bubble is Breakdown's Bubble alone.
func (t *Times) Bubble() (float64, error) { return clock.Bubble(t.Lists, t.Costs()) }

// ClosedForm is the theory's time for the same step on even stages: f, r and b
// are the mean over devices of the tasks' mean times, links are free, and setup,
// update and the time for adding up groups and replicas are the slowest
// device's. Meetings of replicas are part of f and b, without waiting. Of a schedule with I
// and W, with U, or with several chunks on a device, it is [Times.EvenStep].
func (t *Times) ClosedForm(s schedule.Schedule, c schedule.Checkpoint, late bool) (float64, error) {
	if !s.Straight() || schedule.Splits(t.Lists) || schedule.Updates(t.Lists) {
		return t.EvenStep()
	}
	d, rest := t.even()
	step, err := schedule.StepTime(s, c, late, len(t.Stages)/max(t.Replicas, 1), len(t.Stages[0].F), d.F, d.R, d.I+d.W)
	return rest.setup + step + rest.reduce + rest.update, err
}

// EvenStep is the time of the step's own lists, where no formula is known: a run in which
// every piece of the network takes the mean times of all, and links are free. Of a window it is
// an even part.
func (t *Times) EvenStep() (float64, error) {
	d, rest := t.even()
	lists := t.Lists[:len(t.Lists)/max(t.Replicas, 1)]
	run, err := schedule.Run(lists, t.Placement.Or(len(lists)), len(t.Stages[0].F), schedule.Alike(d, 0))
	if err != nil {
		return 0, err
	}
	return (rest.setup + run.Makespan() + rest.reduce + rest.update) / float64(max(t.Window, 1)), nil
}

// besides is what a step takes besides its tasks.
type besides struct{ setup, reduce, update float64 }

// even returns the mean task times over stages and the maximum of all other times. An unsplit B
// is reported as I.
func (t *Times) even() (d schedule.Duration, rest besides) {
	split := schedule.Splits(t.Lists)
	var f, r, b, i, w, u, halved float64
	devices := float64(len(t.Stages))
	micro := len(t.Stages[0].F)
	tasks := float64(max(micro, 1))
	for k := range t.Stages {
		st := &t.Stages[k]
		forward, backward := st.meetingSeconds()
		f += (mean(st.F) + forward/tasks) / devices
		r += meanNonZero(st.R) / devices
		b += (mean(st.B) + backward/tasks) / devices
		u += meanNonZero(st.U) / devices
		if one := meanNonZero(st.I); one > 0 { // a piece may have whole B only
			i, w, halved = i+one+backward/tasks, w+meanNonZero(st.W), halved+1
		}
		rest.setup, rest.update = max(rest.setup, st.Setup), max(rest.update, st.Update)
		rest.reduce = max(rest.reduce, floats.Sum(st.Groups)+st.Reduce+st.Gather+st.Rows)
	}
	if i, w = i/max(halved, 1), w/max(halved, 1); !split {
		i, w = b, 0
	}
	return schedule.Duration{F: f, R: r, I: i, W: w, U: u}, rest
}

// CutClosedForm returns the closed form of a step of the stages as they are cut, each
// with the means of its own times: that of [schedule.UnevenStepTime], which is for gpipe
// where everything is recomputed early, on one replica.
func (t *Times) CutClosedForm() float64 {
	var f, r, b []float64
	var setup, update float64
	for i := range t.Stages {
		st := &t.Stages[i]
		f, r, b = append(f, mean(st.F)), append(r, mean(st.R)), append(b, mean(st.B))
		setup, update = max(setup, st.Setup), max(update, st.Update)
	}
	return setup + schedule.UnevenStepTime(len(t.Stages[0].F), f, r, b) + update
}

func mean(xs []float64) (m float64) {
	for _, x := range xs {
		m += x / float64(len(xs))
	}
	return m
}

func meanNonZero(xs []float64) float64 { return mean(nonZero(xs)) }

func nonZero(xs []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(xs), func(x float64) bool { return x == 0 })
}
