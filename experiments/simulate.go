package experiments

import (
	"context"
	"fmt"

	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// Simulating is one training step of a network on modelled accelerators.
type Simulating struct {
	Model       Model
	Setup       Setup  // its Device, Threads, MemoryCap and Link are the accelerator's
	Accelerator string // one of gpipe.Accelerators
	Batch       int
	Optimizer   string
	DType       graph.DType // of activations
}

// Simulation is that step. The first four keys are the ones that other programs
// rely on.
type Simulation struct {
	StepSeconds       float64           `json:"step_seconds"`
	ExamplesPerSecond float64           `json:"examples_per_second"`
	BubbleFraction    float64           `json:"bubble_fraction"` // of the step, as the breakdown defines it
	Devices           []SimulatedDevice `json:"devices"`

	ClassicBubble float64   `json:"classic_bubble"` // (K-1)/(M+K-1)
	Breakdown     Breakdown `json:"breakdown"`
	Params        int64     `json:"params"`
	Partition     []int     `json:"partition"`
	Note          string    `json:"partition_note,omitempty"`
	Accelerator   string    `json:"accelerator"`
	Fits          bool      `json:"fits"` // every device's peak is within its capacity

	Timeline *timeline.Timeline `json:"-"`
}

// SimulatedDevice is one modelled device.
type SimulatedDevice struct {
	ParamBytes      int64   `json:"param_bytes"` // with the optimiser's state
	ActivationBytes int64   `json:"activation_bytes"`
	PeakBytes       int64   `json:"peak_bytes"`
	BusySeconds     float64 `json:"busy_seconds"`
	GradientBytes   int64   `json:"gradient_bytes"`
	CapacityBytes   int64   `json:"capacity_bytes"`
}

// Breakdown is where a step's time goes, in seconds averaged over devices. It
// adds up to the step.
type Breakdown struct {
	Computation   float64 `json:"computation"`
	Recompute     float64 `json:"recompute"`
	Bubble        float64 `json:"bubble"`
	Imbalance     float64 `json:"imbalance"`
	Communication float64 `json:"communication"`
	Setup         float64 `json:"setup"`
	Barrier       float64 `json:"barrier"`
	Update        float64 `json:"update"`
}

func newBreakdown(p timeline.Parts) Breakdown {
	return Breakdown{p.Computation, p.Recompute, p.Bubble, p.Imbalance, p.Communication, p.Setup, p.Barrier, p.Update}
}

// ParseDType reads the dtype of a simulation's activations.
func ParseDType(s string) (graph.DType, error) {
	switch s {
	case "bf16":
		return graph.BF16, nil
	case "f32":
		return graph.F32, nil
	}
	return 0, fmt.Errorf("unknown dtype %q: want bf16 or f32", s)
}

// Run simulates.
func (s Simulating) Run(ctx context.Context) (*Simulation, error) {
	layers, err := s.Model.Build()
	if err != nil {
		return nil, err
	}
	optimizer, err := ParseOptimizer(s.Optimizer)
	if err != nil {
		return nil, usage(err)
	}
	accelerator, err := gpipe.AcceleratorNamed(s.Accelerator)
	if err != nil {
		return nil, usage(err)
	}
	if s.Setup.Cost == Time {
		return nil, usagef("layers cannot be timed on a modelled device: want cost flops or memory")
	}
	loss, err := s.Model.Loss(0)
	if err != nil {
		return nil, err
	}
	in := s.Model.Input(s.Batch)
	p, err := s.Setup.pipeline(ctx, layers, loss, in)
	if err != nil {
		return nil, err
	}
	p.Devices = []gpipe.Device{accelerator.Device()}
	p.Optimizer = optimizer
	sim, err := p.Simulate(in, s.DType)
	if err != nil {
		return nil, err
	}
	r := &Simulation{
		StepSeconds: sim.Seconds, ExamplesPerSecond: float64(s.Batch) / sim.Seconds,
		BubbleFraction: sim.Parts.Bubble / sim.Seconds,
		ClassicBubble:  schedule.Bubble(s.Setup.Partitions, s.Setup.MicroBatches),
		Breakdown:      newBreakdown(sim.Parts),
		Params:         nn.CountParams(layers),
		Partition:      sim.Sizes, Note: sim.Note, Accelerator: accelerator.Name,
		Fits:     true,
		Timeline: sim.Timeline,
	}
	for _, d := range sim.Devices {
		r.Devices = append(r.Devices, SimulatedDevice{
			ParamBytes: d.ParamBytes, ActivationBytes: d.ActivationBytes, PeakBytes: d.PeakBytes,
			BusySeconds: d.BusySeconds, GradientBytes: d.GradientBytes, CapacityBytes: d.Capacity,
		})
		r.Fits = r.Fits && d.Fits()
	}
	return r, nil
}

// Accelerators lists the names that Simulating.Accelerator may have.
func Accelerators() []string {
	list, err := gpipe.Accelerators()
	if err != nil {
		panic(err) // a file that is part of the program
	}
	var names []string
	for _, a := range list {
		names = append(names, a.Name)
	}
	return names
}
