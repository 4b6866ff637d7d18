package timed

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"

	"gpipebench/gpipe"
	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline/draw"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/records"
)

// Measured is a run's samples, reduced.
type Measured struct {
	Partition []int
	Peak      []int64
	Rounds    []float64     // seconds of a step, one for each round
	Times     *gpipe.Times  // every kind of task at the median of its repeats over all rounds
	Closed    float64       // closed form with the means of Times over stages
	CutClosed float64       // closed form with the means of each stage; 0: there is none for the schedule or the link
	Parts     clock.Parts   // of a replay of Times
	Steps     []clock.Parts // the same of each round, on emulated devices

	run     *Run
	samples []Sample
	rounds  []*gpipe.Times // of each round, on emulated devices: the median step, over the run's link
}

// All reads and reduces the samples of every run, by name.
func (r *Rounds) All(log *records.Log) (map[string]*Measured, error) {
	by := map[string]*Measured{}
	for i := range r.Runs {
		m, err := r.measured(log, &r.Runs[i])
		if err != nil {
			return nil, err
		}
		by[r.Runs[i].Name] = m
	}
	return by, nil
}

// measured reads and reduces the samples of one run.
func (r *Rounds) measured(log *records.Log, run *Run) (*Measured, error) {
	setup := run.Training.Setup
	m := &Measured{run: run}
	var all gpipe.Samples
	for round := range r.Count {
		var samples gpipe.Samples
		var wall []float64
		for step := range run.Steps {
			var s Sample
			name := run.Sample(round, step)
			if err := log.Get(name, &s); err != nil {
				return nil, err
			}
			if err := s.check(run); err != nil {
				return nil, log.Strange(name, err)
			}
			times, err := s.Times(run)
			if err != nil {
				return nil, err
			}
			samples.Add(times)
			all.Add(times)
			wall = append(wall, s.Seconds)
			m.Partition, m.Peak, m.samples = s.Partition, s.Peak, append(m.samples, s)
		}
		seconds := stats.Median(wall)
		if setup.Device == gpipe.Emulated {
			times := run.Crossed(samples.Median(), m.Partition)
			parts, err := times.Breakdown()
			if err != nil {
				return nil, err
			}
			seconds, m.Steps, m.rounds = parts.Step, append(m.Steps, parts), append(m.rounds, times)
		}
		m.Rounds = append(m.Rounds, seconds)
	}
	m.Times = run.Crossed(all.Median(), m.Partition)
	var err error
	if m.Closed, err = m.Times.ClosedForm(setup.Schedule, setup.Checkpoint, setup.LateRecompute); err != nil {
		return nil, err
	}
	if setup.Schedule == schedule.GPipe && setup.Checkpoint == schedule.Always && !setup.LateRecompute && run.groups() == 1 && m.Times.Link == (clock.Link{}) {
		m.CutClosed = m.Times.CutClosedForm()
	}
	m.Parts, err = m.Times.Breakdown()
	return m, err
}

// Shares are a part's shares in the steps of emulated devices, one for each round.
func (m *Measured) Shares(part func(clock.Parts) float64) (all []float64) {
	for _, of := range m.Steps {
		all = append(all, part(of)/of.Step)
	}
	return all
}

// Times is a run's sample as the virtual clock takes it.
func (s *Sample) Times(r *Run) (*gpipe.Times, error) {
	setup, sizes := r.Training.Setup, r.Sizes()
	lists, err := schedule.Build(setup.Schedule, setup.Partitions, len(sizes), setup.Checkpoint, setup.LateRecompute)
	if err != nil {
		return nil, err
	}
	seconds := func(ns []int64) []float64 {
		out := make([]float64, len(ns))
		for i, n := range ns {
			out[i] = float64(n) / 1e9
		}
		return out
	}
	t := &gpipe.Times{Replicas: r.replicas()}
	for range t.Replicas {
		t.Lists, t.Examples = append(t.Lists, lists...), append(t.Examples, sizes)
	}
	begin, update, reduce, gather := seconds(s.Setup), seconds(s.Update), seconds(s.Reduce), seconds(s.Gather)
	for k := range s.F {
		st := gpipe.StageTimes{F: seconds(s.F[k]), R: seconds(s.R[k]), B: seconds(s.B[k]), Setup: begin[k], Update: update[k]}
		if s.Groups != nil {
			st.Groups = seconds(s.Groups[k])
		}
		if s.Reduce != nil {
			st.Reduce, st.Gather = reduce[k], gather[k]
		}
		if s.Rows != nil {
			st.Rows = float64(s.Rows[k]) / 1e9
		}
		t.Stages = append(t.Stages, st)
	}
	return t, nil
}

// Drawn are the files of a step with every kind of task at its median: a drawing, the same as text below
// what the text says first, and a trace.
func (m *Measured) Drawn(name, says, caption string) ([]lab.File, error) {
	tl, err := m.Times.Replay()
	if err != nil {
		return nil, err
	}
	var text, trace, picture strings.Builder
	fmt.Fprintf(&text, "%s; every kind of task at its median.\n\n", says)
	err = errors.Join(draw.WriteText(&text, tl, 120), draw.WriteChrome(&trace, tl, nil),
		draw.WriteSVG(&picture, draw.Drawing{Caption: caption, Timeline: tl}))
	return []lab.File{{Name: name + ".timeline.svg", Text: picture.String()}, {Name: name + ".timeline.txt", Text: text.String()}, {Name: name + ".trace.json", Text: trace.String()}}, err
}

// Exact reports whether every device has used the memory that was planned for it, to the
// byte, in all steps.
func (m *Measured) Exact() bool {
	return !slices.ContainsFunc(m.samples, func(s Sample) bool { return !slices.Equal(s.Peak, s.HighWater) })
}

// Work is what all F and B take together, in seconds.
func (m *Measured) Work() (sum float64) {
	for _, st := range m.Times.Stages {
		sum += floats.Sum(st.F) + floats.Sum(st.B)
	}
	return sum
}

// PartsTable is a table of where the time of measured steps goes whose links are free: what names a
// run, and then the cells of a run.
func PartsTable(id, title string, names ...string) *lab.Table {
	t := &lab.Table{ID: id, Title: title, Caption: []string{partsCaption}}
	t.Texts(names...)
	t.Numbers("K", "M", "step", "95%", "closed form", "closed form, cut", "step/closed form, cut", "computation", "recompute", "bubble", "classic bubble", "imbalance", "setup", "barrier cost", "update", "largest peak")
	t.Texts("partition")
	return t
}

const partsCaption = "Closed form: for equal stages, with the means of the measured f, r, b over all stages. Closed form, cut: for the stages as cut, each with its own means, with free links. Shares of the step are averaged over devices and add up to the whole. Each kind of task is assigned its median over all rounds; the 95% interval of the step is over rounds. Classic bubble: (K-1)/(M+K-1), without recomputation. Barrier cost: the waiting that the barrier before the update adds."

// Cells are a run's cells in a PartsTable.
func (m *Measured) Cells() []any {
	p, k, micro := m.Parts, m.run.Training.Setup.Partitions, m.run.Training.Setup.MicroBatches
	share := func(x float64) lab.Value { return lab.Share(x, p.Step) }
	step, interval := lab.Seconds(p.Step), lab.Bracketed(m.Rounds, lab.Seconds)
	step.Interval = interval.Interval
	cut, beside := lab.Absent, lab.Absent
	if m.CutClosed > 0 {
		cut, beside = lab.Seconds(m.CutClosed), lab.Fixed(p.Step/m.CutClosed, 3)
	}
	return []any{
		k, micro, step, interval, lab.Seconds(m.Closed), cut, beside,
		share(p.Computation), share(p.Recompute), share(p.Bubble), lab.Share(schedule.Bubble(k, micro), 1),
		share(p.Imbalance), share(p.Setup), share(p.Barrier), share(p.Update),
		lab.Bytes(slices.Max(append([]int64{0}, m.Peak...))), m.Partition,
	}
}
