package densify

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gpipebench/gpipe"
	"gpipebench/internal/machine"
	"gpipebench/internal/progress"
	"gpipebench/internal/stats"
	"gpipebench/internal/units"
	"gpipebench/lab"
	"gpipebench/lab/exchange"
	"gpipebench/lab/records"
	"gpipebench/lab/shown"
	"gpipebench/lab/timed"
)

// accumulationMeasuredSpec is the spec of accumulation-measured.
//
//lint:ignore U1000 it is the type argument of an embedded field, which staticcheck does not see
type accumulationMeasuredSpec struct {
	timed.Profiled[accumulationMeasuredProfile] `yaml:",inline"`
	Network                                     string `yaml:"network" want:"network"`
	Processes                                   []int  `yaml:"processes" want:"1..64,first=1,ascending"`
	Modelled                                    []int  `yaml:"modelled" want:"2..65536,ascending"`
	// Paper is what was measured on one number of ranks.
	Paper struct {
		Ranks  int          `yaml:"ranks" want:"2..65536"`
		Gather lab.Verbatim `yaml:"gather"` // milliseconds
		Reduce lab.Verbatim `yaml:"reduce"` // milliseconds
	} `yaml:"paper" want:"shown,optional"`
}

type accumulationMeasuredProfile struct {
	timed.Size  `yaml:",inline"`
	Table       tiedTable   `yaml:"table"`
	Calibration []tiedTable `yaml:"calibration"`
	Resident    float64     `yaml:"resident" want:"0..100"` // the most, over the formula; 0: not compared
}

// tables are the one that is compared, and the smaller ones that the model is made of.
func (p accumulationMeasuredProfile) tables() []tiedTable {
	return append([]tiedTable{p.Table}, p.Calibration...)
}

// accumulationMeasured accumulates the gradient of a tied table in processes, gathered and
// reduced, and compares bytes with the formulas and times with a model.
type accumulationMeasured struct {
	timed.Compared[accumulationMeasuredSpec, accumulationMeasuredProfile, tableRun, accumulationRecord]

	available func() int64 // bytes of memory
}

type accumulationRuns = timed.Comparison[accumulationMeasuredProfile, tableRun, accumulationRecord]

// tableRun is one accumulation by some processes.
type tableRun struct {
	table     tiedTable
	processes int
	way       gpipe.TableGradients
}

func newAccumulationMeasured() (lab.Experiment, error) {
	x := &accumulationMeasured{available: machine.AvailableMemory}
	x.Starts = true
	x.Runs = x.runs
	x.Name = func(r tableRun) string {
		return fmt.Sprintf("%v/V=%d/H=%d/tokens=%d+%d/processes=%d", r.way, r.table.Vocab, r.table.Dim, r.table.Source, r.table.Target, r.processes)
	}
	x.Make = func(ctx context.Context, _ accumulationMeasuredProfile, r tableRun) (*accumulationRecord, error) {
		made := &accumulationRecord{Command: exchange.Arguments(accumulationName, &accumulationJob{r.table, r.way, x.Spec.Seed}), Cores: machine.This().GOMAXPROCS}
		return made, x.Run(ctx, r.processes, x.Spec.Network, made.Command, &made.Ranks)
	}
	x.Show = x.show
	return x, nil
}

func (x *accumulationMeasured) Resolve() *lab.Problem {
	s := &x.Spec
	switch {
	case s.Modelled[0] <= slices.Max(s.Processes):
		return lab.At(errors.New("want more than are measured"), "modelled")
	case s.Paper.Ranks > 0 && !slices.Contains(s.Modelled, s.Paper.Ranks):
		return lab.At(errors.New("want one of those that are modelled"), "paper", "ranks")
	}
	for _, name := range lab.Profiles {
		p := s.Profiles[name]
		for i, t := range p.tables() {
			where := []string{"profiles", name, "table"}
			if i > 0 {
				where = []string{"profiles", name, "calibration", fmt.Sprint(i - 1)}
			}
			if i > 0 && t.Rows() >= p.Table.Rows() {
				return lab.At(errors.New("want a smaller table than the one that is compared"), where...)
			}
			if t.Vocab < 2 || t.Source+t.Target < 1 || t.Rows()*int64(t.Dim) > 1<<32 {
				return lab.At(fmt.Errorf("want 2 rows and 1 token or more, and at most %d values of a rank", int64(1<<32)), where...)
			}
		}
	}
	return nil
}

func (x *accumulationMeasured) runs(p accumulationMeasuredProfile) (all []tableRun) {
	for i, table := range p.tables() {
		for _, n := range x.Spec.Processes {
			if i > 0 && n == 1 {
				continue // nothing is exchanged, and one core is busy
			}
			for _, way := range tableWays {
				all = append(all, tableRun{table, n, way})
			}
		}
	}
	return all
}

// needs is the memory of all processes.
func (r tableRun) needs() int64 {
	each := r.table.GatheredBytes(1) + r.table.IndexBytes(1)
	if r.way == gpipe.GatherTied {
		each *= int64(r.processes)
	}
	const program = 32 << 20 // about what a process needs for the program itself
	return int64(r.processes) * (each + each/10 + program)
}

// formula is what each rank of a run must hold, and what all must receive.
func (r tableRun) formula() (held, travels int64) {
	if r.way == gpipe.GatherTied {
		return r.table.GatheredBytes(r.processes) + r.table.IndexBytes(r.processes), r.table.GatherTravels(r.processes)
	}
	return r.table.DenseBytes(), r.table.ReduceTravels(r.processes)
}

// accumulationRecord is one accumulation.
type accumulationRecord struct {
	Command []string          `json:"command"` // of each process
	Cores   int               `json:"cores"`   // that the processes share
	Ranks   []rankAccumulated `json:"ranks"`
}

// Check requires ranks in their order, each with a hash, bytes and time.
func (r *accumulationRecord) Check() error {
	if len(r.Ranks) == 0 || r.Cores < 1 {
		return fmt.Errorf("%d ranks on %d cores: want 1 or more", len(r.Ranks), r.Cores)
	}
	for i, o := range r.Ranks {
		if o.Rank != i || o.Held < 1 || o.Indices < 0 || o.Received < 0 || o.seconds() <= 0 {
			return fmt.Errorf("rank %d: %d bytes held, %d of indices, %d received, in %v s", i, o.Held, o.Indices, o.Received, o.seconds())
		}
		if err := records.CheckHash("sha256", o.SHA256); err != nil {
			return err
		}
	}
	return nil
}

// slowest is the longest time of a rank.
func (r *accumulationRecord) slowest(of func(*rankAccumulated) float64) (longest float64) {
	for i := range r.Ranks {
		longest = max(longest, of(&r.Ranks[i]))
	}
	return longest
}

func (r *accumulationRecord) seconds() float64 { return r.slowest((*rankAccumulated).seconds) }

// received is what all ranks received.
func (r *accumulationRecord) received() (n int64) {
	for _, o := range r.Ranks {
		n += o.Received
	}
	return n
}

// checkMemory refuses runs that would make the machine swap, or end processes.
func (x *accumulationMeasured) checkMemory(runs []tableRun) error {
	has := x.available()
	for _, r := range runs {
		if r.needs() > has {
			return fmt.Errorf("%s: %d processes that %v a table of %d rows need %s of memory, and %s are free: want as much, or a spec with fewer processes or a smaller table",
				x.ID(), r.processes, r.way, r.table.Vocab, units.FormatBytes(r.needs()), units.FormatBytes(has))
		}
	}
	return nil
}

// Measure starts nothing if memory does not hold all runs that the log lacks.
func (x *accumulationMeasured) Measure(ctx context.Context, log *records.Log, to progress.Progress) error {
	runs, rounds, err := x.Sampled(log.Key.Profile)
	if err != nil {
		return err
	}
	if err := x.checkMemory(slices.DeleteFunc(runs, func(r tableRun) bool {
		for round := range rounds {
			if !log.Has(x.Sample(r, round)) {
				return false
			}
		}
		return true
	})); err != nil {
		return err
	}
	return x.Compared.Measure(ctx, log, to)
}

// accumulationPart is one of an accumulation, one after another. All are work of processors,
// as the processes of a machine exchange bytes by copying them.
type accumulationPart struct {
	way     gpipe.TableGradients
	bytes   func(t tiedTable, ranks int) int64
	seconds func(*rankAccumulated) float64
}

var accumulationParts = []accumulationPart{
	// Rows and indices that travel, then rows and tables that are added, by every rank.
	{gpipe.GatherTied, tiedTable.GatherTravels, func(o *rankAccumulated) float64 { return o.Exchange }},
	{gpipe.GatherTied, func(t tiedTable, ranks int) int64 { return int64(ranks) * t.SummedBytes(ranks) }, func(o *rankAccumulated) float64 { return o.Sum }},
	// Rows of tokens that are added, then summands and sums that travel.
	{gpipe.ReduceTied, func(t tiedTable, ranks int) int64 { return int64(ranks) * t.TokenBytes() }, func(o *rankAccumulated) float64 { return o.Densify }},
	{gpipe.ReduceTied, tiedTable.ReduceTravels, func(o *rankAccumulated) float64 { return o.Exchange }},
}

// rateModel has a rate for each part of an accumulation: bytes a second of each busy core. The
// processes share the machine's cores; each keeps one busy.
type rateModel struct {
	all   [][]float64 // of all smaller tables, numbers of processes and rounds
	cores int
}

// modelOf is made of the smaller tables of a comparison.
func (x *accumulationMeasured) modelOf(c *accumulationRuns) *rateModel {
	m := &rateModel{all: make([][]float64, len(accumulationParts))}
	for _, r := range x.runs(c.Profile) {
		for i, part := range accumulationParts {
			if r.table == c.Profile.Table || part.way != r.way {
				continue
			}
			for _, rec := range c.Of[r] {
				m.cores = rec.Cores
				busy := float64(min(r.processes, rec.Cores))
				m.all[i] = append(m.all[i], float64(part.bytes(r.table, r.processes))/rec.slowest(part.seconds)/busy)
			}
		}
	}
	return m
}

// seconds is the time of an accumulation by two ranks or more.
func (m *rateModel) seconds(t tiedTable, ranks int, way gpipe.TableGradients) (s float64) {
	for i, part := range accumulationParts {
		if part.way == way {
			s += float64(part.bytes(t, ranks)) / stats.Median(m.all[i]) / float64(min(ranks, m.cores))
		}
	}
	return s
}

func (x *accumulationMeasured) show(c *accumulationRuns) (shown.Rows, error) {
	m, paper := x.modelOf(c), x.Spec.Paper
	var rows []shown.Values
	for _, n := range slices.Concat(x.Spec.Processes, x.Spec.Modelled) {
		row := shown.Values{"ranks": n, "paper": math.NaN()}
		if n == paper.Ranks {
			row["paper"] = paper.Gather.Number() / paper.Reduce.Number()
		}
		for _, way := range tableWays {
			run := tableRun{c.Profile.Table, n, way}
			name := way.String()
			row[name], row["before_"+name] = c.Each(run, (*accumulationRecord).seconds), c.Before.Each(run, (*accumulationRecord).seconds)
			row["modelled_"+name] = m.seconds(run.table, n, way)
		}
		rows = append(rows, row)
	}
	return shown.Rows{"": rows, "bytes": x.bytes(c)}, nil
}

// bytes are rows of what each way took, of all processes and rounds, beside the formulas. The verdict says
// where bytes, bits or the resident memory are other than they must be.
func (x *accumulationMeasured) bytes(c *accumulationRuns) (rows []shown.Values) {
	p := c.Profile
	var wrong []string
	for _, way := range tableWays {
		for _, n := range x.Spec.Processes {
			run := tableRun{p.Table, n, way}
			all := c.Of[run]
			held, travels := run.formula()
			hash := c.Of[tableRun{p.Table, n, gpipe.GatherTied}][0].Ranks[0].SHA256
			exact, same := true, true
			var resident, program int64
			own := 0.0 // the most that a process has resident besides the program, over the formula
			for _, r := range all {
				for _, o := range r.Ranks {
					exact = exact && o.Held+o.Indices == held
					same = same && o.SHA256 == hash
					resident, program = max(resident, o.Resident), max(program, o.Program)
					own = max(own, float64(o.Resident-o.Program)/float64(held))
				}
				exact = exact && len(r.Ranks) == n && r.received() == travels
			}
			name := fmt.Sprintf("%v, %d processes: ", way, n)
			if !exact {
				wrong = append(wrong, name+"other bytes than by the formula")
			}
			if !same {
				wrong = append(wrong, name+"other bits than gathered")
			}
			if way == gpipe.GatherTied && p.Resident > 0 && own > p.Resident {
				wrong = append(wrong, fmt.Sprintf("%s%.2f times the formula's bytes resident, want at most %v", name, own, p.Resident))
			}
			one := all[0].Ranks[0]
			rows = append(rows, shown.Values{
				"way": way.String(), "ranks": n, "held": one.Held + one.Indices, "held_formula": held, "travelled": all[0].received(), "travelled_formula": travels,
				"resident": resident, "program": program, "own": own, "exact": exact, "same": same, "hash": one.SHA256[:16], "most": p.Resident,
			})
		}
	}
	if len(wrong) > 0 {
		c.Verdict = errors.New(strings.Join(wrong, ", "))
	}
	return rows
}
