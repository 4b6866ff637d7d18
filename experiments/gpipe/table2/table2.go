// Package table2 measures the Transformer's throughput by K and M (Table 2).
package table2

import (
	"embed"
	"errors"
	"fmt"
	"slices"

	"gpipebench/experiments/gpipe/table2/modelled"
	"gpipebench/gpipe"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/timed"
	"gpipebench/train"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "table2", Folder: folder, New: load}

// spec is spec.yaml.
type spec struct {
	timed.Spec[profile] `yaml:",inline"`
	lab.Grid            `yaml:",inline"`
	Batch               int    `yaml:"batch"`
	Schedule            string `yaml:"schedule" want:"schedule"`
	Checkpoint          string `yaml:"checkpoint" want:"checkpoint"`
	Late                bool   `yaml:"late_recompute"`
	cells.CutSpec       `yaml:",inline"`
	HostM               int            `yaml:"host_m" want:"1..65536"`
	Paper               lab.PaperCells `yaml:"paper"`
	PaperModel          train.Model    `yaml:"paper_model"`
}

type profile struct {
	timed.Profile `yaml:",inline"`
	Model         train.Model `yaml:"model"`
	Steps         map[int]int `yaml:"steps" want:"1..1000"` // in a round, by M
}

// table2 times training steps over a grid of K and M on emulated devices, and
// K = 1 and 2 on real ones.
type table2 struct {
	timed.Timed[spec, profile]
	Modelled modelled.Beside

	conventions train.Setup // without K, M and device
}

func load() (lab.Experiment, error) {
	beside, err := modelled.Network("transformer")
	t := &table2{Modelled: beside}
	t.Runs, t.Show, t.Also = t.runs, t.show, t.Spec.also
	t.Beside, t.Others = beside.Jobs, beside.Decides
	return t, err
}

func (t *table2) Resolve() *lab.Problem {
	t.conventions = t.Spec.CutSpec.Setup(lab.SetupSpec{Schedule: t.Spec.Schedule, Checkpoint: t.Spec.Checkpoint, Late: t.Spec.Late, Threads: 1}.Setup())
	if p := t.CheckRuns("batch"); p != nil {
		return p
	}
	if !slices.Contains(t.Spec.Cells(), lab.Cell{K: 2, M: t.Spec.HostM}) {
		return lab.At(errors.New("want one of m, and 2 among k: real cores are held against emulated ones"), "host_m")
	}
	return t.Spec.CheckPaper(t.Spec.Paper)
}

func (s *spec) also() []lab.PlannedRun {
	return []lab.PlannedRun{{Path: []string{"paper_model"}, Run: lab.ModelledRun{Model: s.PaperModel, Most: slices.Max(s.K)}}}
}

func runName(device gpipe.Kind, c lab.Cell) string {
	return fmt.Sprintf("%v/K=%d/M=%d", device, c.K, c.M)
}

// runs are the grid on emulated devices and, if there are two cores, one and
// two partitions on host devices.
func (t *table2) runs(p profile) (runs []timed.Run) {
	add := func(device gpipe.Kind, c lab.Cell, cores int) {
		s := t.setup(c)
		s.Device = device
		runs = append(runs, timed.Run{
			Name: runName(device, c), Bench: "device=" + runName(device, c), Steps: p.Steps[c.M], Cores: cores,
			Training: train.Training{Model: p.Model, Batch: t.Spec.Batch, Setup: s},
		})
	}
	for _, c := range t.Spec.Cells() {
		add(gpipe.Emulated, c, 1)
	}
	for _, k := range []int{1, 2} {
		add(gpipe.Host, lab.Cell{K: k, M: t.Spec.HostM}, 2)
	}
	return runs
}

// setup is a cell on emulated devices.
func (t *table2) setup(c lab.Cell) train.Setup {
	s := t.conventions
	s.Partitions, s.MicroBatches, s.Device = c.K, c.M, gpipe.Emulated
	return s
}
