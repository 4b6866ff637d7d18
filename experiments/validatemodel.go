package experiments

import (
	"context"
	"fmt"
	"math"

	"gpipebench/gpipe"
	"gpipebench/nn/graph"
)

// Validating holds a modelled host against emulated runs of the same networks.
type Validating struct {
	Calibrating
	// Accelerator is the file of a calibrated host; nil calibrates first.
	Accelerator string
	Steps       int // timed, of each run
}

// Validation is how well the model predicts.
type Validation struct {
	Machine Machine         `json:"machine"`
	Rows    []ValidationRow `json:"rows"`
}

// ValidationRow is one pipeline, emulated and modelled with the same partition.
type ValidationRow struct {
	Model           string  `json:"model"`
	K               int     `json:"k"`
	M               int     `json:"m"`
	Batch           int     `json:"batch"`
	Partition       []int   `json:"partition"`
	EmulatedSeconds float64 `json:"emulated_seconds"` // of a step whose tasks take the medians of their kinds
	ModelledSeconds float64 `json:"modelled_seconds"`
	Error           float64 `json:"error"` // modelled over emulated, less 1
	EmulatedPeak    []int64 `json:"emulated_peak_bytes"`
	ModelledPeak    []int64 `json:"modelled_peak_bytes"`
	HighWater       []int64 `json:"high_water_bytes"` // what the run reached
	Others          float64 `json:"others"`           // cores that other processes took meanwhile; -1: unknown
}

// SameMemory tells whether plan, run and model agree to the byte.
func (r ValidationRow) SameMemory() bool {
	for k, peak := range r.EmulatedPeak {
		if r.ModelledPeak[k] != peak || r.HighWater[k] != peak {
			return false
		}
	}
	return true
}

// validationRuns are networks of the paper's kinds, at this machine's scale.
var validationRuns = []calibrationProbe{
	{Model{Name: languageModel, Layers: 8, Dim: 256, FF: 1024, Heads: 8, Vocab: 2048, Seq: 128}, 16, 8, 0},
	{Model{Name: amoebaNet, Layers: 6, Filters: 32, Image: 96, Classes: 100}, 8, 4, 0},
	{Model{Name: "resnet101", Width: 32, Image: 64, Classes: 100}, 8, 4, 0},
}

// Run measures and predicts.
func (v Validating) Run(ctx context.Context, p Progress) (*Validation, error) {
	if v.Steps < 1 {
		return nil, usagef("%d steps: want 1 or more", v.Steps)
	}
	var host *gpipe.Accelerator
	var err error
	if v.Accelerator != "" {
		if host, err = gpipe.AcceleratorNamed(v.Accelerator); err != nil {
			return nil, usage(err)
		}
		if !host.Packing || host.F32 == 0 {
			return nil, usagef("%s is no calibrated host: want the file that calibrate writes", v.Accelerator)
		}
	} else if host, err = v.Calibrating.Run(ctx, p); err != nil {
		return nil, err
	}
	r := &Validation{Machine: ThisMachine()}
	p.Begin("emulated beside modelled", 3*len(validationRuns))
	defer p.End()
	for _, run := range validationRuns {
		for _, k := range []int{2, 4, 8} {
			run.k = k
			row, err := v.row(ctx, run, host)
			if err != nil {
				return nil, fmt.Errorf("%s, K=%d: %w", run.model.Name, k, err)
			}
			r.Rows = append(r.Rows, *row)
			p.Advance(fmt.Sprintf("%s K=%d", run.model.Name, k))
		}
	}
	return r, nil
}

func (v Validating) row(ctx context.Context, run calibrationProbe, host *gpipe.Accelerator) (*ValidationRow, error) {
	t := Training{
		Model: run.model, Setup: Setup{Partitions: run.k, MicroBatches: run.m, Device: gpipe.Emulated, Threads: max(v.Threads, 1)},
		Batch: run.batch, Seed: v.Seed, Optimizer: v.Optimizer, LR: 1e-4, LRSchedule: "constant",
	}
	trainer, p, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	defer trainer.Close()
	batch, err := timingBatch(run.model, run.batch, v.Seed)
	if err != nil {
		return nil, err
	}
	row := &ValidationRow{Model: run.model.String(), K: run.k, M: run.m, Batch: run.batch}
	var samples gpipe.Samples
	meter := startMeter()
	for step := range v.Steps + 1 {
		res, err := trainer.Step(ctx, batch)
		if err != nil {
			return nil, err
		}
		if step > 0 {
			samples.Add(res.Times)
		}
	}
	row.Others = meter.others()
	tl, err := samples.Median(gpipe.MicroBatchSizes(run.batch, run.m)).Replay()
	if err != nil {
		return nil, err
	}
	row.EmulatedSeconds = tl.Span()
	row.Partition, _ = trainer.Sizes()
	row.EmulatedPeak, row.HighWater = memoryOf(trainer)

	p.Balance = row.Partition
	p.Devices = []gpipe.Device{{Kind: gpipe.Modelled, Threads: max(v.Threads, 1), Accelerator: host, Capacity: host.Memory, Link: host.Link}}
	sim, err := p.Simulate(run.model.Input(run.batch), gpipe.Modelling{DType: graph.F32, Accounting: gpipe.FullAccounting})
	if err != nil {
		return nil, err
	}
	row.ModelledSeconds = sim.Seconds
	row.Error = sim.Seconds/row.EmulatedSeconds - 1
	for _, d := range sim.Devices {
		row.ModelledPeak = append(row.ModelledPeak, d.PeakBytes)
	}
	return row, nil
}

// ValidationGoal is how far a step's modelled time may be off.
const ValidationGoal = 0.10

// Table is the validation for people.
func (v *Validation) Table() *Table {
	t := &Table{
		ID: "validate-model", Title: "The model against emulated runs",
		Caption: []string{
			"Emulated: real arithmetic, each task timed alone, the schedule replayed with the medians. Modelled: the same programs by the roofline of the calibrated host. Same partitions; links free.",
			"Memory: the peaks of all devices as modelled, as planned and as reached.",
		},
		Columns: []Column{
			{Name: "network", Left: true}, {Name: "K"}, {Name: "M"}, {Name: "emulated"}, {Name: "modelled"}, {Name: "error"}, {Name: "memory", Left: true},
		},
	}
	worst, within, others := 0.0, 0, 0.0
	for _, r := range v.Rows {
		memory := "equal"
		if !r.SameMemory() {
			memory = fmt.Sprintf("modelled %v, planned %v, reached %v", r.ModelledPeak, r.EmulatedPeak, r.HighWater)
		}
		t.Add(r.Model, fmt.Sprint(r.K), fmt.Sprint(r.M), FormatSeconds(r.EmulatedSeconds), FormatSeconds(r.ModelledSeconds), fmt.Sprintf("%+.1f%%", 100*r.Error), memory)
		worst, others = max(worst, math.Abs(r.Error)), max(others, r.Others)
		if math.Abs(r.Error) <= ValidationGoal {
			within++
		}
	}
	t.Notes = []string{fmt.Sprintf("%d of %d within %.0f%%; the worst is off by %.1f%%.", within, len(v.Rows), 100*ValidationGoal, 100*worst)}
	if crowded(others, 1, v.Machine.Cores) {
		t.Notes = append(t.Notes, fmt.Sprintf("Other processes took up to %.1f of %d cores meanwhile: the emulated times are too long.", others, v.Machine.Cores))
	}
	return t
}
