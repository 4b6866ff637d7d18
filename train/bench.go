package train

import (
	"context"
	"slices"

	"gpipebench/gpipe"
	"gpipebench/internal/failure"
	"gpipebench/internal/machine"
	"gpipebench/internal/stats"
	"gpipebench/nn"
)

// Benching times training steps: SGD with momentum 0.9, no dropout, all steps on
// one mini-batch of random tokens or images.
type Benching struct {
	Model  Model
	Setup  Setup
	Batch  int
	Steps  int // timed
	WarmUp int // run before them and discarded
	Seed   uint64
	ByOp   bool // time every kernel of the timed steps as well

	// Processes are those that run the steps together. Nil: this one runs them alone.
	Processes *Processes

	Notice func(what string) // called with a reason for long times, if it is not nil
}

// Bench is what the steps took. Other programs rely on the first three keys.
type Bench struct {
	StepSeconds StepSeconds `json:"step_seconds"`
	PeakBytes   []int64     `json:"peak_bytes"`    // planned, by device
	MaxRSSBytes int64       `json:"max_rss_bytes"` // of the process; 0 if unknown

	ExamplesPerSecond float64    `json:"examples_per_second"`
	ClosedForm        float64    `json:"closed_form_seconds"`
	Discarded         int        `json:"discarded_steps"`
	Partition         []int      `json:"partition"`
	Placement         []int      `json:"placement,omitempty"` // the device of each, where devices have several
	Note              string     `json:"partition_note,omitempty"`
	Device            string     `json:"device"`
	Threads           int        `json:"threads"`
	KernelProfile     string     `json:"kernel_profile"`
	DType             string     `json:"dtype,omitempty"` // of activations; none: f32
	HighWaterBytes    []int64    `json:"high_water_bytes"`
	Parts             *PartBytes `json:"parts,omitempty"` // with images or operations divided over parts
	// Devices say where each one's time goes in a step.
	Devices []DeviceTime `json:"devices"`

	ByOp      *ByOp     `json:"by_op,omitempty"`     // if it was asked for
	Processes []Process `json:"processes,omitempty"` // that ran the steps together; none: one
	// Traffic is what the processes sent each other in a step.
	Traffic []Travelled `json:"traffic,omitempty"`
}

// StepSeconds are the times of steps.
type StepSeconds struct {
	Median float64   `json:"median"`
	Min    float64   `json:"min"`
	All    []float64 `json:"all"`
}

// MaxBenchSteps bounds the times that are kept.
const MaxBenchSteps = 1 << 24

// Run benchmarks.
func (b Benching) Run(ctx context.Context, onStep func(step int, seconds float64)) (r *Bench, err error) {
	defer func() { err = b.Processes.Leave(err) }()
	if b.Steps < 1 || b.WarmUp < 0 || b.Steps > MaxBenchSteps || b.WarmUp > MaxBenchSteps {
		return nil, failure.Usagef("%d steps after %d to warm up: want 1 to %d after 0 to %d", b.Steps, b.WarmUp, MaxBenchSteps, MaxBenchSteps)
	}
	b.Model.Dropout, b.Model.DropPath = 0, 0
	t := Training{
		Model: b.Model, Data: "synthetic", Setup: b.Setup, Batch: b.Batch, Steps: b.Steps + b.WarmUp,
		Seed: b.Seed, Optimizer: "momentum", LR: 0.01, LRSchedule: "constant",
		Processes: b.Processes,
	}
	if b.ByOp && b.Processes != nil {
		return nil, failure.Usagef("times by operation of several processes: want one process")
	}
	l, err := new(Timing).Open(ctx, t)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if slow := b.Setup.Crowded(); slow != "" && b.Notice != nil {
		b.Notice(slow)
	}
	r = &Bench{Discarded: b.WarmUp, Device: b.Setup.Device.String(), Threads: max(b.Setup.Threads, 1), KernelProfile: nn.KernelProfile(), DType: b.Setup.dtype()}
	r.Partition, r.Note = l.Trainer.Sizes()
	r.Placement = l.Trainer.Placement()
	clock := stepClock{batch: b.Batch}
	var profile *gpipe.Profile
	begin := func(done int) error {
		if b.ByOp && done == b.WarmUp {
			profile = l.Trainer.Profile()
		}
		return nil
	}
	err = l.Run(ctx, Hooks{At: begin, After: func(step *TrainStep) error {
		if step.Step > b.WarmUp {
			r.StepSeconds.All = append(r.StepSeconds.All, step.Seconds)
			clock.add(step.Result)
		}
		if onStep != nil {
			onStep(step.Step-b.WarmUp, step.Seconds)
		}
		return nil
	}})
	if err != nil {
		return nil, err
	}
	r.StepSeconds.Median = stats.Median(r.StepSeconds.All)
	r.StepSeconds.Min = slices.Min(r.StepSeconds.All)
	r.ExamplesPerSecond = float64(b.Batch) / r.StepSeconds.Median
	step, err := clock.read(b.Setup)
	if err != nil {
		return nil, err
	}
	r.ClosedForm, r.Devices = step.closedForm, step.devices
	r.PeakBytes, r.HighWaterBytes = l.Memory()
	r.Parts = l.Parts(clock.latest())
	r.MaxRSSBytes = machine.MaxRSS()
	if r.Processes, err = b.Processes.gather(ctx, l.Trainer, l.Pipeline.Transport); err != nil {
		return nil, err
	}
	r.Traffic = b.Processes.traffic(clock.last, l.Pipeline.Transport)
	if b.ByOp {
		r.ByOp, err = byOp(ctx, profile, b.Setup)
	}
	return r, err
}
