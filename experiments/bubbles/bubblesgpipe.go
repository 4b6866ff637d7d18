package bubbles

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gpipebench/experiments/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/train"
)

type gpipeTablesSpec struct {
	lab.Head    `yaml:",inline"`
	Schedules   []string `yaml:"schedules" want:"schedule"` // the first is that of the tables
	Checkpoints []string `yaml:"checkpoints" want:"checkpoint"`

	Profiles map[string]gpipeTablesProfile `yaml:"profiles"`
}

type gpipeTablesProfile struct {
	Expected lab.Span `yaml:"expected" want:"shown"`
	Most     int      `yaml:"most" want:"2..1024"`
}

// gpipeTables models GPipe's Tables 2 and 3 with the schedules that came after it. It has the
// networks of both tables, under their default convention, and code of its own since every
// schedule fills the memory, in each checkpoint mode.
type gpipeTables struct {
	lab.Base[gpipeTablesSpec]
	tables []gpipeTable
}

// gpipeTable is one of GPipe's.
type gpipeTable struct {
	name string
	*cells.Scale
}

func loadGPipeTables() (lab.Experiment, error) {
	two, three, decides, err := gpipe.ModelledTables()
	if err != nil {
		return nil, err
	}
	g := &gpipeTables{tables: []gpipeTable{{"Table 2", two.Standard()}, {"Table 3", three.Standard()}}}
	g.Others = decides
	return g, nil
}

func (g *gpipeTables) Resolve() *lab.Problem {
	if len(g.Spec.Schedules) == 0 || g.Spec.Schedules[0] != schedule.GPipe.String() {
		return lab.At(errors.New("want gpipe first, that of the tables"), "schedules")
	}
	if len(g.Spec.Checkpoints) == 0 || g.Spec.Checkpoints[0] != schedule.Always.String() {
		return lab.At(errors.New("want always first, that of the tables"), "checkpoints")
	}
	return nil
}

func (g *gpipeTables) Planned(string) (list []lab.PlannedRun) {
	for _, t := range g.tables {
		for _, run := range t.Planned() {
			list = append(list, lab.PlannedRun{Path: []string{"schedules"}, Run: run.Run})
		}
	}
	return list
}

// tableCell is a schedule in a cell of a table.
type tableCell struct {
	gpipeTable
	network *cells.Network
	lab.Cell
	schedule string
}

func (c tableCell) String() string {
	name := fmt.Sprintf("%s/%s/K=%d/M=%d/%s", c.name, c.network.ID, c.K, c.M, c.schedule)
	return lab.AtRates(name, c.network.Accelerator, c.network.Change)
}

// runs reports whether there is such a schedule: DualPipeV wants two micro-batches a device.
func (c tableCell) runs() bool {
	_, err := schedule.Place(c.schedule, c.K, 0, c.M)
	return err == nil
}

// rows are the cells of a profile, with all schedules of each.
func (g *gpipeTables) rows(name string) (rows [][]tableCell, err error) {
	p, err := lab.ProfileOf(g.Spec.Profiles, name)
	if err != nil {
		return nil, err
	}
	for _, t := range g.tables {
		for _, n := range t.Networks {
			for _, at := range t.Cells() {
				if at.K > p.Most {
					continue
				}
				var row []tableCell
				for _, s := range g.Spec.Schedules {
					row = append(row, tableCell{t, n, at, s})
				}
				rows = append(rows, row)
			}
		}
	}
	return rows, nil
}

// filledStep is a step that fills the memory. Nothing in it depends on the machine.
type filledStep struct {
	Micro   int           `json:"micro"` // examples of a micro-batch
	Fits    bool          `json:"fits"`
	Peak    int64         `json:"peak_bytes"` // of the fullest device
	Seconds float64       `json:"seconds"`
	Idle    timeline.Idle `json:"idle"` // the mean over devices
}

// filledModes is a cell, by checkpoint mode.
type filledModes map[string]filledStep

func (g *gpipeTables) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	rows, err := g.rows(log.Key.Profile)
	if err != nil {
		return err
	}
	var jobs []lab.Job
	for _, row := range rows {
		for _, c := range row {
			if c.runs() {
				jobs = append(jobs, lab.Job{Sample: c.String(), Make: func(ctx context.Context) (any, string, error) {
					made, err := g.simulate(ctx, c)
					return made, c.String(), err
				}})
			}
		}
	}
	return lab.MakeMissing(ctx, g.ID(), log, p, jobs)
}

// simulate fills the memory in every checkpoint mode. The pieces are cut by what layers cost
// at the tables' mini-batch.
func (g *gpipeTables) simulate(ctx context.Context, c tableCell) (filledModes, error) {
	place, err := schedule.Place(c.schedule, c.K, 0, c.M)
	if err != nil {
		return nil, err
	}
	fail := func(err error) error { return fmt.Errorf("%v: %w", c, err) }
	made := filledModes{}
	for _, mode := range g.Spec.Checkpoints {
		m, err := cells.NewModeller(c.network, false)
		if err != nil {
			return nil, fail(err)
		}
		m.Order = train.Setup{
			Schedule: lab.Named(schedule.Parse, c.schedule), Chunks: place.Stages() / place.Devices,
			Checkpoint: lab.Named(schedule.ParseCheckpoint, mode),
		}
		known := c.network.Batch / c.M
		sizes, err := m.Cut(ctx, c.Conventions.Cuts[0], place.Stages(), known)
		if err != nil {
			return nil, fail(err)
		}
		step, err := m.Filled(ctx, sizes, c.M, known, c.Conventions.Most/c.M)
		if err != nil {
			return nil, fail(err)
		}
		made[mode] = filledStep{step.Micro, step.Fits, step.Peak, step.Early, step.Idle}
	}
	return made, nil
}

// throughput is in examples per second.
func (r filledStep) throughput(c tableCell) float64 { return float64(r.Micro*c.M) / r.Seconds }

// best is the mode with most throughput among those that fit, or, if none does, that which
// lacks least memory.
func (g *gpipeTables) best(s filledModes, c tableCell) (mode string) {
	for _, name := range g.Spec.Checkpoints {
		was, is := s[mode], s[name]
		switch {
		case mode == "", is.Fits && !was.Fits, is.Fits && is.throughput(c) > was.throughput(c), !is.Fits && !was.Fits && is.Peak < was.Peak:
			mode = name
		}
	}
	return mode
}

func (g *gpipeTables) Report(log, _ *records.Log) (*lab.Report, error) {
	rows, err := g.rows(log.Key.Profile)
	if err != nil {
		return nil, err
	}
	table := &lab.Table{ID: g.ID(), Title: g.Title(), Caption: []string{
		"Throughput relative to GPipe's in the table's base cell (re-materialised), of the paper's networks on its accelerators, as modelled in Tables 2 and 3 under their default convention. Each schedule has the accelerator's memory, fills it with the largest micro-batch that fits, and re-materialises everything or nothing, whichever is faster. GPipe, as in the paper: everything is re-materialised. With two chunks on each device, interleaved and the V-shaped schedules have pieces half as large, of whole layers. Asterisk: not even one example fits. Fastest: of all that fit, and its throughput over that of GPipe as in the paper.",
		"Source of the paper's values: " + g.Spec.Source + ".",
	}}
	table.Texts("table", "network")
	table.Numbers("K", "M", "paper", "gpipe, as in the paper")
	table.Numbers(g.Spec.Schedules...)
	table.Texts("fastest")
	table.Numbers("fastest / gpipe")
	var bases = map[*cells.Network]float64{}
	for _, row := range rows {
		samples := make([]filledModes, len(row))
		for i, c := range row {
			if !c.runs() {
				continue
			}
			if err := log.Get(c.String(), &samples[i]); err != nil {
				return nil, err
			}
		}
		first := row[0]
		own := samples[0][g.Spec.Checkpoints[0]].throughput(first)
		if first.Cell == first.Base {
			bases[first.network] = own
		}
		base := bases[first.network]
		fastest, most := lab.Absent.Text, 0.0
		values := []any{first.name, first.network.Name, first.K, first.M, first.network.Paper.Of(first.Cell).Value, lab.Fixed(own/base, 2)}
		for i, c := range row {
			if samples[i] == nil {
				values = append(values, lab.Absent)
				continue
			}
			r := samples[i][g.best(samples[i], c)]
			at := r.throughput(c) / base
			value := lab.Fixed(at, 2)
			if r.Fits && at > most {
				fastest, most = c.schedule, at
			} else if !r.Fits {
				value = lab.Joined("%v *", value)
			}
			values = append(values, value)
		}
		gain := lab.Absent
		if most > 0 {
			gain = lab.Fixed(most*base/own, 2)
		}
		table.Add(append(values, fastest, gain)...)
	}
	r := &lab.Report{Tables: []*lab.Table{table}}
	r.Files, err = plot.Files(g.ID(), g.Title(), plot.TableBars{
		Panel: "network", Group: "K", Y: "throughput relative to the base", Across: "paper", Bars: append([]string{"gpipe, as in the paper"}, g.Spec.Schedules...),
	}.Panels(g.largest(table)))
	return r, err
}

// largest are the table's rows of the largest M.
func (g *gpipeTables) largest(t *lab.Table) *lab.Table {
	micro := func(row []lab.Value) float64 { return row[t.Column("M")].Numbers[0] }
	most := 0.0
	for _, row := range t.Rows {
		most = max(most, micro(row))
	}
	out := *t
	out.Rows = slices.DeleteFunc(slices.Clone(t.Rows), func(row []lab.Value) bool { return micro(row) < most })
	return &out
}
