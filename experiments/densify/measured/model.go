package measured

import (
	"gpipebench/experiments/densify/accumulate"
	"gpipebench/experiments/densify/exchange"
	"gpipebench/internal/stats"
)

// The model has one rate for each part of an accumulation: bytes a second of each busy
// core. All parts are work of processors, as the processes of a machine exchange bytes by
// copying them. The processes share the machine's cores; each keeps one busy.

// part is one of an accumulation, one after another.
type part struct {
	way     accumulate.Way
	name    string
	what    string // which bytes count
	bytes   func(t accumulate.Table, ranks int) int64
	seconds func(*exchange.Outcome) float64
}

var parts = []part{
	{
		accumulate.Gather, "exchange", "rows and indices that travel", accumulate.Table.GatherTravels,
		func(o *exchange.Outcome) float64 { return o.Exchange },
	},
	{
		accumulate.Gather, "sum", "rows and tables that are added, by every rank",
		func(t accumulate.Table, ranks int) int64 { return int64(ranks) * t.SummedBytes(ranks) },
		func(o *exchange.Outcome) float64 { return o.Sum },
	},
	{
		accumulate.Reduce, "densify", "rows of tokens that are added",
		func(t accumulate.Table, ranks int) int64 { return int64(ranks) * t.TokenBytes() },
		func(o *exchange.Outcome) float64 { return o.Densify },
	},
	{
		accumulate.Reduce, "exchange and sum", "summands and sums that travel", accumulate.Table.ReduceTravels,
		func(o *exchange.Outcome) float64 { return o.Exchange },
	},
}

// model is the rates of parts, in their order, and the machine that they are of.
type model struct {
	rates []float64 // the median of all
	all   [][]float64
	cores int
}

// calibrated is one run with its records.
type calibrated struct {
	run
	records []Record
}

// calibrate makes a model of runs.
func calibrate(of []calibrated) *model {
	m := &model{all: make([][]float64, len(parts))}
	for _, c := range of {
		for i, p := range parts {
			if p.way != c.way {
				continue
			}
			for _, r := range c.records {
				m.cores = r.Cores
				busy := float64(min(c.processes, r.Cores))
				m.all[i] = append(m.all[i], float64(p.bytes(c.table, c.processes))/r.slowest(p.seconds)/busy)
			}
		}
	}
	for _, rates := range m.all {
		m.rates = append(m.rates, stats.Median(rates))
	}
	return m
}

// seconds is the time of an accumulation by two ranks or more.
func (m *model) seconds(t accumulate.Table, ranks int, way accumulate.Way) (s float64) {
	for i, p := range parts {
		if p.way == way {
			s += float64(p.bytes(t, ranks)) / m.rates[i] / float64(min(ranks, m.cores))
		}
	}
	return s
}
