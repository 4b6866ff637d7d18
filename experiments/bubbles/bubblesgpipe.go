package bubbles

import (
	"context"
	"fmt"
	"math"

	"gpipebench/experiments/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/shown"
	"gpipebench/train"
)

type gpipeTablesSpec struct {
	shown.Profiled[gpipeTablesProfile] `yaml:",inline"`
	Schedules                          []string `yaml:"schedules" want:"schedule,first=gpipe"`      // the tables show the first
	Checkpoints                        []string `yaml:"checkpoints" want:"checkpoint,first=always"` // the same
}

type gpipeTablesProfile struct {
	Expected lab.Span `yaml:"expected" want:"shown"`
	Most     int      `yaml:"most" want:"2..1024"` // devices
}

// gpipeTable is one of GPipe's.
type gpipeTable struct {
	name string
	*cells.Scale
}

func newGPipeTables() (lab.Experiment, error) {
	two, three, decides, err := gpipe.ModelledTables()
	if err != nil {
		return nil, err
	}
	return gpipeTables(decides, gpipeTable{"Table 2", two.Standard()}, gpipeTable{"Table 3", three.Standard()}).New()
}

// gpipeTables models GPipe's Tables 2 and 3 with the schedules that came after it. It needs code
// since its networks and their default convention come from other experiments, and since every
// schedule fills the memory, in each checkpoint mode.
func gpipeTables(decides func(profile string) string, tables ...gpipeTable) cells.Kind[gpipeTablesSpec, filledModes] {
	return cells.Kind[gpipeTablesSpec, filledModes]{
		Others: decides,
		Planned: func(*gpipeTablesSpec) (list []lab.PlannedRun) {
			for _, t := range tables {
				for _, run := range t.Planned() {
					list = append(list, lab.PlannedRun{Path: []string{"schedules"}, Run: run.Run})
				}
			}
			return list
		},
		Rows: func(s *gpipeTablesSpec, profile string) (rows []cells.Row[filledModes], err error) {
			for _, t := range tables {
				for _, n := range t.Networks {
					for _, at := range t.Cells() {
						if at.K <= s.Profiles[profile].Most {
							rows = append(rows, s.row(t, n, at))
						}
					}
				}
			}
			return rows, nil
		},
	}
}

// row is a cell of a table with all schedules.
func (s *gpipeTablesSpec) row(t gpipeTable, n *cells.Network, at lab.Cell) cells.Row[filledModes] {
	row := cells.Row[filledModes]{
		Has: shown.Values{
			"table": t.name, "network": n.Name, "K": at.K, "M": at.M, "paper": n.Paper.Of(at).Value.Number(),
			"group": fmt.Sprintf("K = %d", at.K), "largest": at.M == t.M[len(t.M)-1],
		},
		Reads: []cells.Cell[filledModes]{s.cell("base", tableCell{t, n, t.Base, s.Schedules[0]})},
		Also:  s.fastest,
	}
	for _, name := range s.Schedules {
		as := "of_" + shown.Word(name)
		row.Has[as+"_rate"], row.Has[as+"_fits"] = math.NaN(), true
		if _, err := schedule.Place(name, at.K, 0, at.M); err == nil { // DualPipeV wants two micro-batches a device
			row.Reads = append(row.Reads, s.cell(as, tableCell{t, n, at, name}))
		}
	}
	return row
}

// fastest adds which of the schedules that fit has most throughput, and how much.
func (s *gpipeTablesSpec) fastest(v shown.Values) {
	v["fastest"], v["most"] = lab.Absent.Text, 0.
	for _, name := range s.Schedules {
		as := "of_" + shown.Word(name)
		if rate := v[as+"_rate"].(float64); v[as+"_fits"].(bool) && rate > v["most"].(float64) {
			v["fastest"], v["most"] = name, rate
		}
	}
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

// cell has the throughput of the best mode, and of the first one.
func (s *gpipeTablesSpec) cell(as string, c tableCell) cells.Cell[filledModes] {
	return cells.Cell[filledModes]{
		As: as, Sample: c.String(), Make: func(ctx context.Context) (filledModes, error) { return s.simulate(ctx, c) },
		Values: func(made filledModes) shown.Values {
			best, first := made[s.best(made, c)], made[s.Checkpoints[0]]
			return shown.Values{"rate": best.throughput(c), "fits": best.Fits, "first": first.throughput(c), "first_fits": first.Fits}
		},
	}
}

// simulate fills the memory in every checkpoint mode. The pieces are cut by what layers cost
// at the tables' mini-batch.
func (s *gpipeTablesSpec) simulate(ctx context.Context, c tableCell) (filledModes, error) {
	place, err := schedule.Place(c.schedule, c.K, 0, c.M)
	if err != nil {
		return nil, err
	}
	made := filledModes{}
	for _, mode := range s.Checkpoints {
		m, err := cells.NewModeller(c.network, false, &train.Setup{
			Schedule: lab.Named(schedule.Parse, c.schedule), Chunks: place.Stages() / place.Devices,
			Checkpoint: lab.Named(schedule.ParseCheckpoint, mode),
		})
		if err != nil {
			return nil, err
		}
		known := c.network.Batch / c.M
		sizes, err := m.Cut(ctx, c.Conventions.Cuts[0].Setup(train.Setup{}), place.Stages(), known)
		if err != nil {
			return nil, err
		}
		step, err := m.Filled(ctx, sizes, c.M, known, c.Conventions.Most/c.M)
		if err != nil {
			return nil, err
		}
		made[mode] = filledStep{step.Micro, step.Fits, step.Peak, step.Early, step.Idle}
	}
	return made, nil
}

// throughput is in examples per second.
func (r filledStep) throughput(c tableCell) float64 { return float64(r.Micro*c.M) / r.Seconds }

// best is the mode with most throughput among those that fit, or, if none does, that which
// lacks least memory.
func (s *gpipeTablesSpec) best(made filledModes, c tableCell) (mode string) {
	for _, name := range s.Checkpoints {
		was, is := made[mode], made[name]
		switch {
		case mode == "", is.Fits && !was.Fits, is.Fits && is.throughput(c) > was.throughput(c), !is.Fits && !was.Fits && is.Peak < was.Peak:
			mode = name
		}
	}
	return mode
}
