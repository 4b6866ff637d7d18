package densify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpipebench/gpipe"
	"gpipebench/internal/machine"
	"gpipebench/internal/progress"
	"gpipebench/internal/stats"
	"gpipebench/internal/units"
	"gpipebench/lab"
	"gpipebench/lab/exchange"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
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

	available func() int64 // bytes of memory; nil: the machine's
}

type accumulationRuns = timed.Comparison[accumulationMeasuredProfile, tableRun, accumulationRecord]

// tableRun is one accumulation by some processes.
type tableRun struct {
	table     tiedTable
	processes int
	way       gpipe.TableGradients
}

func newAccumulationMeasured() (lab.Experiment, error) {
	x := &accumulationMeasured{}
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
	available := machine.AvailableMemory
	if x.available != nil {
		available = x.available
	}
	has := available()
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

func (x *accumulationMeasured) show(c *accumulationRuns) error {
	m := x.modelOf(c)
	x.times(c, m)
	c.Tables = []*lab.Table{x.bytes(c)}
	c.Panels = []plot.Axes{plot.TableLines{
		Title: "accumulation of the table", X: "ranks", Y: "seconds", Over: "ranks", Logarithmic: true,
		Lines: []plot.TableLine{
			{Name: "measured, gather", Column: "gather"}, {Name: "measured, reduce", Column: "reduce"},
			{Name: "modelled, gather", Column: "gather, modelled", Dashed: true}, {Name: "modelled, reduce", Column: "reduce, modelled", Dashed: true},
		},
	}.Panel(c.Table)}
	return nil
}

// times fills the main table.
func (x *accumulationMeasured) times(c *accumulationRuns, m *rateModel) {
	p := c.Profile
	seconds := func(c *accumulationRuns, n int, way gpipe.TableGradients) []float64 {
		return c.Each(tableRun{p.Table, n, way}, (*accumulationRecord).seconds)
	}
	ratio := func(c *accumulationRuns, n int) (gather, reduce []float64) {
		return seconds(c, n, gpipe.GatherTied), seconds(c, n, gpipe.ReduceTied)
	}
	// several is a column with values for two ranks or more.
	several := func(head string, of func(n int) any) timed.Column[int] {
		return timed.Number(head, func(n int) any {
			if n == 1 {
				return lab.Absent
			}
			return of(n)
		})
	}
	columns := []timed.Column[int]{timed.Number("ranks", func(n int) any { return n })}
	for _, way := range tableWays {
		modelled := func(n int) float64 { return m.seconds(p.Table, n, way) }
		columns = append(columns,
			timed.Times(way.String(), func(n int) []float64 { return seconds(c, n, way) }),
			several(way.String()+", modelled", func(n int) any { return lab.Seconds(modelled(n)) }),
			several(way.String()+", measured / modelled", func(n int) any {
				if s := seconds(c, n, way); len(s) > 0 {
					return lab.Fixed(stats.Median(s)/modelled(n), 2)
				}
				return lab.Absent
			}))
	}
	columns = append(columns,
		timed.Ratios("gather / reduce", func(n int) (gather, reduce []float64) { return ratio(c, n) }),
		several("gather / reduce, modelled", func(n int) any {
			return lab.Fixed(m.seconds(p.Table, n, gpipe.GatherTied)/m.seconds(p.Table, n, gpipe.ReduceTied), 1)
		}),
		timed.Number("gather / reduce, paper", func(n int) any {
			if n != x.Spec.Paper.Ranks {
				return lab.Absent
			}
			return lab.Fixed(x.Spec.Paper.Gather.Number()/x.Spec.Paper.Reduce.Number(), 1)
		}))
	if c.Before != nil {
		columns = append(columns, timed.Number("gather / reduce, "+c.Beside, func(n int) any {
			if gather, reduce := ratio(c.Before, n); len(gather) > 0 {
				return lab.Fixed(stats.RatioOf(gather, reduce).Median, 2)
			}
			return lab.Absent
		}))
	}
	timed.Fill(c.Table, slices.Concat(x.Spec.Processes, x.Spec.Modelled), columns...)
}

// tableBytes has the bytes of a run, of all processes and rounds.
type tableBytes struct {
	tableRun
	held, travels     int64 // by formula
	resident, program int64
	own               float64 // the most that a process has resident besides the program, over the formula
	exact, same       bool
	first             *accumulationRecord
}

// bytes returns the bytes of all runs of the table that is compared. The verdict says where they, the
// bits or the resident memory are other than they must be.
func (x *accumulationMeasured) bytes(c *accumulationRuns) *lab.Table {
	p := c.Profile
	t := &lab.Table{ID: x.ID() + "-bytes", Title: "What the processes held and sent, in bytes", Caption: []string{
		"Held: the accumulated gradient as every rank has it before it is added up, with the indices of a gather. Travelled: what all ranks received. Beside both are the formulas. Resident: the most memory of a process, and what of it was there before the gradients: the program and its connections. To the byte and same bits: in every process and every round; all of one number of ranks have one sum.",
	}}
	var rows []tableBytes
	var wrong []string
	for _, way := range tableWays {
		for _, n := range x.Spec.Processes {
			b := tableBytes{tableRun: tableRun{p.Table, n, way}, exact: true, same: true}
			all := c.Of[b.tableRun]
			b.first = all[0]
			b.held, b.travels = b.formula()
			hash := c.Of[tableRun{p.Table, n, gpipe.GatherTied}][0].Ranks[0].SHA256
			for _, r := range all {
				for _, o := range r.Ranks {
					b.exact = b.exact && o.Held+o.Indices == b.held
					b.same = b.same && o.SHA256 == hash
					b.resident, b.program = max(b.resident, o.Resident), max(b.program, o.Program)
					b.own = max(b.own, float64(o.Resident-o.Program)/float64(b.held))
				}
				b.exact = b.exact && len(r.Ranks) == n && r.received() == b.travels
			}
			name := fmt.Sprintf("%v, %d processes: ", way, n)
			if !b.exact {
				wrong = append(wrong, name+"other bytes than by the formula")
			}
			if !b.same {
				wrong = append(wrong, name+"other bits than gathered")
			}
			if way == gpipe.GatherTied && p.Resident > 0 && b.own > p.Resident {
				wrong = append(wrong, fmt.Sprintf("%s%.2f times the formula's bytes resident, want at most %v", name, b.own, p.Resident))
			}
			rows = append(rows, b)
		}
	}
	if len(wrong) > 0 {
		c.Verdict = errors.New(strings.Join(wrong, ", "))
	}
	if p.Resident > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("A process that gathers may have %v times the formula's bytes resident, besides the program.", p.Resident))
	}
	one := func(b tableBytes) rankAccumulated { return b.first.Ranks[0] }
	timed.Fill(t, rows,
		timed.Text("way", func(b tableBytes) any { return b.way.String() }),
		timed.Number("ranks", func(b tableBytes) any { return b.processes }),
		timed.Number("held", func(b tableBytes) any { return timed.Whole(one(b).Held + one(b).Indices) }),
		timed.Number("held, formula", func(b tableBytes) any { return timed.Whole(b.held) }),
		timed.Number("travelled", func(b tableBytes) any { return timed.Whole(b.first.received()) }),
		timed.Number("travelled, formula", func(b tableBytes) any { return timed.Whole(b.travels) }),
		timed.Number("resident", func(b tableBytes) any { return lab.Bytes(b.resident) }),
		timed.Number("program", func(b tableBytes) any { return lab.Bytes(b.program) }),
		timed.Number("resident / formula", func(b tableBytes) any { return lab.Fixed(float64(b.resident)/float64(b.held), 3) }),
		timed.Number("resident less program / formula", func(b tableBytes) any { return lab.Fixed(b.own, 3) }),
		timed.Text("to the byte", func(b tableBytes) any { return lab.YesOrNo(b.exact) }),
		timed.Text("same bits", func(b tableBytes) any { return lab.YesOrNo(b.same) }),
		timed.Text("SHA-256", func(b tableBytes) any { return one(b).SHA256[:16] }),
	)
	return t
}
