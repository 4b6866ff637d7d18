package rounds

import (
	"fmt"
	"slices"

	"gpipebench/experiments/plot"
	"gpipebench/experiments/records"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/workload"
	"gpipebench/gpipe/schedule"
)

// EmulatedCaption says how steps of emulated devices are timed, in rounds of
// whatever is compared.
func EmulatedCaption(rounds int, what string) string {
	return fmt.Sprintf("Measured on emulated devices: every task runs alone and is timed, a kind of task takes the median of its repeats, the schedule is replayed with these times. Median of %d rounds, each with every %s in it, ratios within a round; in brackets the 95%% interval of order statistics.", rounds, what)
}

const TheoryCaption = "Theory, even: the closed form for even stages, f:r:b = 1:1:2. Theory, cut: the schedule replayed for the stages as cut, FLOPs for times, f:r:b = 1:1:2. Closed form: the same formula as the first with the means of the measured f, r, b, setup and update."

// Against is the throughput of a setup relative to that of a base, if step tells
// how long a step takes.
func Against(step func(workload.Setup) (float64, error), base, s workload.Setup) (float64, error) {
	b, err := step(base)
	if err != nil {
		return 0, err
	}
	t, err := step(s)
	return b / t, err
}

// Theory is the throughput of a setup relative to that of a base: of even stages,
// by the closed form, and of the stages as cut, by a replay, with each of several
// costs of the layers; f:r:b = 1:1:2, no link, no update.
func Theory(base, s workload.Setup, costs ...[]float64) ([]suite.Value, error) {
	steps := []func(workload.Setup) (float64, error){workload.EvenStep}
	for _, of := range costs {
		steps = append(steps, func(s workload.Setup) (float64, error) { return workload.CutStep(s, of) })
	}
	var all []suite.Value
	for _, step := range steps {
		x, err := Against(step, base, s)
		if err != nil {
			return nil, err
		}
		all = append(all, suite.Fixed(x, 2))
	}
	return all, nil
}

// PartsTable is a table of where measured steps' time goes: what names a run,
// and then the cells of a run.
func PartsTable(id, title string, names ...string) *suite.Table {
	t := &suite.Table{ID: id, Title: title, Caption: []string{partsCaption + " Balance: what the stages' tasks take, the mean over the largest."}}
	t.Texts(names...)
	t.Numbers("K", "M", "step", "95%", "closed form", "computation", "recompute", "bubble", "classic bubble", "imbalance", "communication", "setup", "barrier", "update", "balance", "largest peak")
	t.Texts("partition")
	return t
}

const partsCaption = "Shares of the step, averaged over devices; they add up to the whole. Every kind of task at the median of its repeats over all rounds; the 95% interval of the step is that of its rounds. Classic bubble: (K-1)/(M+K-1), which leaves recomputation out."

// FreeLinks leaves out of a parts table what says nothing where links are free.
func FreeLinks(t *suite.Table) {
	t.Caption[0] = partsCaption
	t.Only(func(i int) bool { return t.Columns[i].Name != "communication" && t.Columns[i].Name != "balance" })
}

// Cells are a run's cells in a PartsTable.
func (m *Measured) Cells(s workload.Setup) []any {
	share := func(x float64) suite.Value { return suite.Share(x, m.Span) }
	p, span, interval := m.Parts, suite.Seconds(m.Span), suite.Bracketed(m.Rounds, suite.Seconds)
	span.Interval = interval.Interval
	return []any{
		s.Partitions, s.MicroBatches, span, interval, suite.Seconds(m.Closed),
		share(p.Computation), share(p.Recompute), share(p.Bubble), suite.Share(schedule.Bubble(s.Partitions, s.MicroBatches), 1),
		share(p.Imbalance), share(p.Communication), share(p.Setup), share(p.Barrier), share(p.Update),
		suite.Fixed(m.Balance(), 2), suite.Bytes(slices.Max(append([]int64{0}, m.Peak...))), m.Partition,
	}
}

// References are the runs of a reference, if there is one; then the table has
// columns for them. A table whose reference has other runs says so.
func References[P any](t *suite.Table, reference *records.Log, profiles map[string]P, runs func(*records.Log, P) (map[string]*Measured, error), columns ...string) map[string]*Measured {
	if reference == nil {
		return nil
	}
	profile, err := suite.ProfileOf(profiles, reference.Key.Profile)
	var refs map[string]*Measured
	if err == nil {
		refs, err = runs(reference, profile)
	}
	if err != nil {
		t.Notes = append(t.Notes, fmt.Sprintf("The reference is not shown: %v.", err))
		return nil
	}
	t.Numbers(columns...)
	return refs
}

// Files are an experiment's figure, and the steps in the Go benchmark format.
func (r *Rounds) Files(log *records.Log, id, title string, panels []plot.Axes) ([]suite.File, error) {
	files, err := plot.Files(id, title, panels)
	if err != nil {
		return nil, err
	}
	steps, err := r.StepTimes(log)
	return append(files, suite.File{Name: id + ".bench.txt", Text: BenchFormat(log, steps)}), err
}

// Balance is what the stages' tasks take, the mean over the largest: the
// efficiency of the partition by measured time.
func (m *Measured) Balance() float64 {
	var sum, most float64
	for i := range m.Times.Stages {
		st := &m.Times.Stages[i]
		var stage float64
		for j := range st.F {
			stage += st.F[j] + st.R[j] + st.B[j]
		}
		sum += stage
		most = max(most, stage)
	}
	return sum / (float64(len(m.Times.Stages)) * most)
}

// Work is what all F and B take together, in seconds.
func (m *Measured) Work() (sum float64) {
	for i := range m.Times.Stages {
		st := &m.Times.Stages[i]
		for j := range st.F {
			sum += st.F[j] + st.B[j]
		}
	}
	return sum
}
