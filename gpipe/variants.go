package gpipe

import (
	"errors"
	"slices"

	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/schedule"
	"gpipebench/nn/program"
)

// Variant has the settings on which programs and partitions do not depend.
type Variant struct {
	Schedule      schedule.Schedule
	Checkpoint    schedule.Checkpoint
	LateRecompute bool
	Device        Device // all of them; whether kernels pack (accelerator.Accelerator.Packing) is as in the pipeline
}

// Variant returns the pipeline's own settings.
func (p Pipeline) Variant() Variant {
	v := Variant{Schedule: p.Schedule, Checkpoint: p.Checkpoint, LateRecompute: p.LateRecompute}
	if len(p.Devices) > 0 {
		v.Device = p.Devices[0]
	}
	return v
}

// Compiled is a pipeline on modelled devices, cut and compiled, for any number of simulations, one at a time.
type Compiled struct {
	net *plan.Network
	in  Input
	how Modelling
}

// Compiled compiles the pipeline for simulations on one modelled device a stage.
func (p Pipeline) Compiled(in Input, how Modelling) (*Compiled, error) {
	n, err := p.modelled(in, how)
	if err != nil {
		return nil, err
	}
	return &Compiled{n, in, how}, nil
}

// Simulate is Pipeline.Simulate of a variant; brief as in Modelling.
func (c *Compiled) Simulate(v Variant, brief bool) (*Simulation, error) {
	n, how := *c.net, c.how
	how.Brief = brief
	otherwise := n.Tasks == nil && v.Schedule.Splits() != n.Schedule.Splits()
	if a := v.Device.Accelerator; a == nil || a.Packing != n.Devices[0].Accelerator.Packing || otherwise {
		return nil, errors.New("a variant with other packing of kernels, with other tasks for a backward function, or on no modelled device: want it compiled by itself")
	}
	n.Schedule, n.Checkpoint, n.LateRecompute = v.Schedule, v.Checkpoint, v.LateRecompute
	n.Devices = slices.Repeat([]Device{v.Device}, len(n.Devices))
	if err := n.Validate(c.in); err != nil {
		return nil, err
	}
	if err := n.Place(); err != nil {
		return nil, err
	}
	if !slices.Equal(n.OwnPlacement().Device, c.net.OwnPlacement().Device) {
		return nil, errors.New("a variant with other chunks on devices: want it compiled by itself")
	}
	return simulated(&n, how)
}

// Layers times every layer of a pipeline with one stage and one micro-batch on an accelerator.
func (c *Compiled) Layers(a *accelerator.Accelerator) []LayerEstimate {
	st := c.net.ProgramsFor(c.in.Examples, plan.Training)[0]
	layers := make(timedLayers, len(c.net.Layers))
	add := func(p *program.Program, to func(*layerTimings) *accelerator.Timing) {
		a.Timings(p, c.how.DType, func(layer int, t accelerator.Timing) { to(layers.at(layer)).Add(t) })
	}
	add(st.Forward, func(l *layerTimings) *accelerator.Timing { return &l.forward })
	add(st.Keep, func(l *layerTimings) *accelerator.Timing { return &l.recompute })
	add(st.Backward, func(l *layerTimings) *accelerator.Timing { return &l.backward })
	if st.Input != nil {
		add(st.Input, func(l *layerTimings) *accelerator.Timing { return &l.input })
		add(st.Weights, func(l *layerTimings) *accelerator.Timing { return &l.weights })
	}
	return layers.estimates(st.Saved)
}
