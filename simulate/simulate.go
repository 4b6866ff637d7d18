// Package simulate answers from shapes alone: it describes, simulates and plans
// pipelines on modelled accelerators, and calibrates a model of this machine.
package simulate

import (
	"cmp"
	"context"
	"fmt"

	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/failure"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/train"
)

// Simulating is one training step of a network on modelled accelerators.
type Simulating struct {
	Model          train.Model
	Setup          train.Setup    // its Device, Threads and Link are the accelerator's, its MemoryCap too unless it is above 0; its cost of time is the modelled one
	Accelerator    string         // one of accelerator.All, or a file of one
	AllReduce      reduction.Kind // of replicas' gradients
	Torus          [2]int         // replicas' links, X x Y; zero: flat
	Batch          int
	Optimizer      string
	DType          graph.DType // of activations
	Accounting     gpipe.Accounting
	KeepScores     bool                           // attention keeps its probabilities
	Peak           bool                           // everything runs at its peak, whatever the accelerator's file has of efficiencies
	Change         func(*accelerator.Accelerator) // of the accelerator, after the others; nil: none
	Fused          Switch                         // whether the accelerator's compiler fuses
	Tiled          Switch                         // whether activations move padded to its lanes
	gpipe.Parallel                                // T, ZeRO, recomputation, precision, and the cluster; zero: GPipe's

	Tokens float64 // to train on, of networks for images examples; 0: not known
}

// Switch is on, off, or what an accelerator's file says: the zero value.
type Switch string

// ParseSwitch reads on, off and file.
func ParseSwitch(s string) (Switch, error) {
	switch s {
	case "on", "off":
		return Switch(s), nil
	case "file":
		return "", nil
	}
	return "", fmt.Errorf("want on, off or file")
}

func (s Switch) set(b *bool) {
	if s != "" {
		*b = s == "on"
	}
}

// Simulation is that step. The first four keys are the ones that other programs
// rely on.
type Simulation struct {
	StepSeconds       float64           `json:"step_seconds"`
	ExamplesPerSecond float64           `json:"examples_per_second"`
	BubbleFraction    float64           `json:"bubble_fraction"` // of the step, as the breakdown defines it
	Devices           []SimulatedDevice `json:"devices"`

	Metrics
	Replicas      int         `json:"replicas"`
	Groups        int         `json:"groups"`
	Window        int         `json:"window,omitempty"`   // mini-batches between two drains; none: the pipeline drains after each
	Spatial       int         `json:"spatial,omitempty"`  // parts of images, each with an accelerator; none: one
	Scope         string      `json:"bn_scope,omitempty"` // of batch norm's statistics; none: each replica's own
	ReduceSeconds float64     `json:"all_reduce_seconds"` // of the stage that takes longest
	UpdateSeconds float64     `json:"update_seconds"`     // the same
	ClassicBubble float64     `json:"classic_bubble"`     // (K-1)/(M+K-1), with M of all mini-batches between two drains
	Breakdown     clock.Parts `json:"breakdown"`
	Params        int64       `json:"params"`
	Partition     []int       `json:"partition"`
	Placement     []int       `json:"placement,omitempty"` // the device of each, where devices have several
	Note          string      `json:"partition_note,omitempty"`
	Accelerator   string      `json:"accelerator"`
	DType         string      `json:"dtype"`
	Accounting    string      `json:"accounting"`
	Fused         bool        `json:"fused"` // element-wise operations
	Tiled         bool        `json:"tiled"` // activations move padded
	Peak          bool        `json:"peak"`  // everything runs at its peak
	Fits          bool        `json:"fits"`  // every device's peak is within its capacity

	Parts gpipe.StepParts `json:"parts,omitzero"` // what a step's seconds consist of

	Step *gpipe.Simulation `json:"-"` // of which all that is
}

// Fullest is the peak of the device that holds most, in bytes.
func (s *Simulation) Fullest() (peak int64) {
	for _, d := range s.Devices {
		peak = max(peak, d.PeakBytes)
	}
	return peak
}

// SimulatedDevice is one modelled device.
type SimulatedDevice struct {
	gpipe.DeviceEstimate
	Fits       bool   `json:"fits"`
	FirstLayer string `json:"first_layer"`
	LastLayer  string `json:"last_layer"` // of its last chunk
	// Idle is what the device waits of a step, by cause, in seconds.
	Idle timeline.Idle `json:"idle"`
}

// Modelling says how the simulation counts.
func (s Simulating) Modelling() gpipe.Modelling {
	return gpipe.Modelling{DType: s.DType, Accounting: s.Accounting, KeepScores: s.KeepScores, Parallel: s.Parallel}
}

// accelerator returns the one that Accelerator names, with the switches set.
func (s Simulating) accelerator() (*accelerator.Accelerator, error) {
	a, err := accelerator.Named(s.Accelerator)
	if err != nil && accelerator.NamesFile(s.Accelerator) {
		return nil, err
	}
	if err != nil {
		return nil, failure.Usage(err)
	}
	s.Fused.set(&a.Fused)
	s.Tiled.set(&a.Tiled)
	a.Memory = cmp.Or(s.Setup.MemoryCap, a.Memory)
	if s.Peak {
		accelerator.AtPeak(a)
	}
	if s.Change != nil {
		s.Change(a)
	}
	return a, nil
}

// Device is one of the accelerator's kind.
func (s Simulating) Device() (gpipe.Device, error) {
	a, err := s.accelerator()
	if err != nil {
		return gpipe.Device{}, err
	}
	return gpipe.DeviceOf(a), nil
}

// Pipeline describes the run on the accelerator.
func (s Simulating) Pipeline(ctx context.Context, in gpipe.Input) (p gpipe.Pipeline, err error) {
	s.Model.Parts = nn.Parts{Count: s.Tensor, Sequence: s.SequenceParallel}
	layers, err := s.Model.Build()
	if err != nil {
		return p, err
	}
	optimizer, err := train.ParseOptimizer(s.Optimizer)
	if err != nil {
		return p, failure.Usage(err)
	}
	accelerator, err := s.accelerator()
	if err != nil {
		return p, err
	}
	loss, err := s.Model.Loss(0)
	if err != nil {
		return p, err
	}
	setup, share := s.Setup, in
	modelled := setup.Cost == train.Time
	if modelled {
		setup.Cost = train.FLOPs
	}
	if s.Parallel.Used() { // one replica stands for all
		setup.Replicas, setup.Groups, setup.ShardUpdate = 1, 1, false
		share.Examples = max(in.Examples/max(s.Setup.Replicas, 1), 1)
		if s.Setup.Replicas > 1 && setup.MicroBatches > share.Examples {
			return p, failure.Usagef("%d micro-batches of a replica's %d examples: want at most one micro-batch an example", setup.MicroBatches, share.Examples)
		}
	}
	if p, err = setup.Pipeline(ctx, layers, loss, share); err != nil {
		return p, err
	}
	p.Devices = []gpipe.Device{gpipe.DeviceOf(accelerator)}
	p.Optimizer = optimizer
	p.AllReduce = gpipe.AllReduce{Kind: s.AllReduce, Torus: s.Torus, Link: accelerator.Link}
	if accelerator.Far.Devices > 0 {
		p.AllReduce.Link = accelerator.Far.Link
	}
	if err := p.Validate(share); err != nil {
		return p, failure.Usage(err)
	}
	p.Replicas, p.Groups, p.ShardUpdate = s.Setup.Replicas, s.Setup.Groups, s.Setup.ShardUpdate
	if err := p.CheckParallel(in, s.Modelling()); err != nil {
		return p, failure.Usage(err)
	}
	if modelled && p.Balance == nil && p.Partitions > 1 {
		estimates, err := p.ModelLayers(in, s.Modelling())
		if err != nil {
			return p, err
		}
		p.Costs = gpipe.LayerSeconds(estimates, p.Checkpoint)
	}
	return p, nil
}

// Run simulates.
func (s Simulating) Run(ctx context.Context) (*Simulation, error) {
	all, err := s.Each(ctx, s.Recompute)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// Each simulates with each recomputation in place of Recompute; on a cluster layers are compiled once.
func (s Simulating) Each(ctx context.Context, of ...gpipe.Recompute) (all []*Simulation, err error) {
	in := s.Model.Input(s.Batch)
	p, err := s.Pipeline(ctx, in)
	if err != nil {
		return nil, err
	}
	whole, err := s.whole(p, in)
	if err != nil {
		return nil, err
	}
	costs := &gpipe.Costs{}
	for _, s.Recompute = range of {
		how := s.Modelling()
		how.Costs = costs
		sim, err := p.Simulate(in, how)
		if err != nil {
			return nil, err
		}
		all = append(all, s.outcome(p, sim, whole))
	}
	return all, nil
}

// whole describes the whole network, of which a pipeline may have one of T parts.
func (s Simulating) whole(p gpipe.Pipeline, in gpipe.Input) (*gpipe.Description, error) {
	s.Model.Parts = nn.Parts{}
	layers, err := s.Model.Build()
	if err != nil {
		return nil, err
	}
	return gpipe.Pipeline{Layers: layers, Loss: p.Loss}.Counted(in)
}

// atPeak reports whether neither shares of an accelerator's peaks nor times on it were measured.
func atPeak(a *accelerator.Accelerator) bool {
	return len(a.Efficiencies) == 0 && len(a.Ops) == 0 && len(a.Shapes) == 0
}

// outcome returns what is reported of a simulation.
func (s Simulating) outcome(p gpipe.Pipeline, sim *gpipe.Simulation, whole *gpipe.Description) *Simulation {
	devices := max(p.Replicas, 1) * p.Partitions * max(p.Spatial, 1) * max(s.Tensor, 1)
	window := sim.Window
	r := &Simulation{
		StepSeconds: sim.Seconds / float64(window), ExamplesPerSecond: float64(s.Batch*window) / sim.Seconds,
		BubbleFraction: sim.Parts.Bubble / sim.Seconds,
		ClassicBubble:  schedule.Bubble(p.Partitions, p.MicroBatches*window),
		Breakdown:      sim.Parts.Over(float64(window)),
		Window:         p.Window,
		Replicas:       max(p.Replicas, 1), Groups: max(p.Groups, p.Replicas, 1),
		ReduceSeconds: sim.ReduceSeconds, UpdateSeconds: sim.UpdateSeconds,
		Params:    whole.Params,
		Partition: sim.Sizes, Note: sim.Note, Accelerator: p.Devices[0].Accelerator.Name,
		DType: s.DType.String(), Accounting: s.Accounting.String(),
		Fused: p.Devices[0].Accelerator.Fused, Tiled: p.Devices[0].Accelerator.Tiled,
		Peak:  atPeak(p.Devices[0].Accelerator),
		Fits:  true,
		Parts: sim.Step, Step: sim,
		Metrics: s.work(p, whole).metrics(sim.Seconds/float64(window), s.Batch, devices, sim.Sizes, sim.Recomputed),
	}
	if p.Spatial > 1 {
		r.Spatial = p.Spatial
	}
	if p.BatchNormScope != gpipe.ReplicaScope {
		r.Scope = p.BatchNormScope.String()
	}
	idle := sim.Timeline.Causes()
	placed := sim.Placement.Or(len(sim.Sizes))
	if !placed.IsStraight() {
		r.Placement = placed.Device
	}
	var first []int // layer of each piece
	for next, k := 0, 0; k < len(sim.Sizes); k++ {
		first = append(first, next)
		next += sim.Sizes[k]
	}
	for i, d := range sim.Devices { // of several kinds of replicas, one after another
		pieces := placed.Chunks()[i%placed.Devices]
		last := pieces[len(pieces)-1]
		var own timeline.Idle
		own.Add(idle[i], 1/float64(window))
		r.Devices = append(r.Devices, SimulatedDevice{d, d.Fits(), p.Layers[first[pieces[0]]].Name(), p.Layers[first[last]+sim.Sizes[last]-1].Name(), own})
		r.Fits = r.Fits && d.Fits()
	}
	return r
}
