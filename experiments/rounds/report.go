package rounds

import (
	"fmt"

	"gpipebench/experiments/suite"
	"gpipebench/experiments/units"
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

// PartsTable is a table of where measured steps' time goes: what names a run,
// and then the cells of a run.
func PartsTable(id, title string, names ...suite.Column) *suite.Table {
	return &suite.Table{
		ID: id, Title: title,
		Caption: []string{"Shares of the step, averaged over devices; they add up to the whole. Every kind of task at the median of its repeats over all rounds; the 95% interval of the step is that of its rounds. Classic bubble: (K-1)/(M+K-1), which leaves recomputation out. Balance: what the stages' tasks take, the mean over the largest."},
		Columns: append(names,
			suite.Column{Name: "K", Left: false}, suite.Column{Name: "M", Left: false}, suite.Column{Name: "step", Left: false}, suite.Column{Name: "95%", Left: false}, suite.Column{Name: "closed form", Left: false}, suite.Column{Name: "computation", Left: false}, suite.Column{Name: "recompute", Left: false}, suite.Column{Name: "bubble", Left: false},
			suite.Column{Name: "classic bubble", Left: false}, suite.Column{Name: "imbalance", Left: false}, suite.Column{Name: "communication", Left: false}, suite.Column{Name: "setup", Left: false}, suite.Column{Name: "barrier", Left: false}, suite.Column{Name: "update", Left: false},
			suite.Column{Name: "balance", Left: false}, suite.Column{Name: "largest peak", Left: false}, suite.Column{Name: "partition", Left: true}),
	}
}

// Cells are a run's cells in a partsTable.
func (m *Measured) Cells(s workload.Setup) []string {
	share := func(x float64) string { return units.FormatShare(x, m.Span) }
	var peak int64
	for _, p := range m.Peak {
		peak = max(peak, p)
	}
	p := m.Parts
	return []string{
		fmt.Sprint(s.Partitions), fmt.Sprint(s.MicroBatches), units.FormatSeconds(m.Span), suite.Bracketed(m.Rounds, units.FormatSeconds), units.FormatSeconds(m.Closed),
		share(p.Computation), share(p.Recompute), share(p.Bubble), units.FormatShare(schedule.Bubble(s.Partitions, s.MicroBatches), 1),
		share(p.Imbalance), share(p.Communication), share(p.Setup), share(p.Barrier), share(p.Update),
		fmt.Sprintf("%.2f", m.Balance()), units.FormatBytes(peak), suite.JoinInts(m.Partition),
	}
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
