package experiments

import (
	"fmt"

	"gpipebench/gpipe/schedule"
)

// emulatedCaption says how steps of emulated devices are timed, in rounds of
// whatever is compared.
func emulatedCaption(rounds int, what string) string {
	return fmt.Sprintf("Measured on emulated devices: every task runs alone and is timed, a kind of task takes the median of its repeats, the schedule is replayed with these times. Median of %d rounds, each with every %s in it, ratios within a round; in brackets the 95%% interval of order statistics.", rounds, what)
}

const theoryCaption = "Theory, even: the closed form for even stages, f:r:b = 1:1:2. Theory, cut: the schedule replayed for the stages as cut, FLOPs for times, f:r:b = 1:1:2. Closed form: the same formula as the first with the means of the measured f, r, b, setup and update."

func referenceNote(reference *Log) string {
	return fmt.Sprintf("Reference: %s, profile %s, %s.", reference.Session.Machine, reference.Key.Profile, reference.Session.Time)
}

// against is the throughput of a setup relative to that of a base, if step tells
// how long a step takes.
func against(step func(Setup) (float64, error), base, s Setup) (float64, error) {
	b, err := step(base)
	if err != nil {
		return 0, err
	}
	t, err := step(s)
	return b / t, err
}

// partsTable is a table of where measured steps' time goes: what names a run,
// and then the cells of a run.
func partsTable(id, title string, names ...Column) *Table {
	return &Table{
		ID: id, Title: title,
		Caption: []string{"Shares of the step, averaged over devices; they add up to the whole. Every kind of task at the median of its repeats over all rounds; the 95% interval of the step is that of its rounds. Classic bubble: (K-1)/(M+K-1), which leaves recomputation out. Balance: what the stages' tasks take, the mean over the largest."},
		Columns: append(names,
			Column{"K", false}, Column{"M", false}, Column{"step", false}, Column{"95%", false}, Column{"closed form", false}, Column{"computation", false}, Column{"recompute", false}, Column{"bubble", false},
			Column{"classic bubble", false}, Column{"imbalance", false}, Column{"communication", false}, Column{"setup", false}, Column{"barrier", false}, Column{"update", false},
			Column{"balance", false}, Column{"largest peak", false}, Column{"partition", true}),
	}
}

// cells are a run's cells in a partsTable.
func (m *measured) cells(s Setup) []string {
	share := func(x float64) string { return FormatShare(x, m.span) }
	var peak int64
	for _, p := range m.peak {
		peak = max(peak, p)
	}
	p := m.parts
	return []string{
		fmt.Sprint(s.Partitions), fmt.Sprint(s.MicroBatches), FormatSeconds(m.span), bracketed(m.rounds, FormatSeconds), FormatSeconds(m.closed),
		share(p.Computation), share(p.Recompute), share(p.Bubble), FormatShare(schedule.Bubble(s.Partitions, s.MicroBatches), 1),
		share(p.Imbalance), share(p.Communication), share(p.Setup), share(p.Barrier), share(p.Update),
		fmt.Sprintf("%.2f", m.balance()), FormatBytes(peak), joinInts(m.partition),
	}
}

// balance is what the stages' tasks take, the mean over the largest: the
// efficiency of the partition by measured time.
func (m *measured) balance() float64 {
	var sum, most float64
	for i := range m.times.Stages {
		st := &m.times.Stages[i]
		var stage float64
		for j := range st.F {
			stage += st.F[j] + st.R[j] + st.B[j]
		}
		sum += stage
		most = max(most, stage)
	}
	return sum / (float64(len(m.times.Stages)) * most)
}

// work is what all F and B take together, in seconds.
func (m *measured) work() (sum float64) {
	for i := range m.times.Stages {
		st := &m.times.Stages[i]
		for j := range st.F {
			sum += st.F[j] + st.B[j]
		}
	}
	return sum
}
