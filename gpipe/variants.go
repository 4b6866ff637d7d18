package gpipe

import (
	"slices"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/schedule"
)

// Variant has the settings on which programs and partitions do not depend.
type Variant struct {
	Schedule      schedule.Schedule
	Checkpoint    schedule.Checkpoint
	LateRecompute bool
	Link          clock.Link // of all devices
}

// Variant returns the pipeline's own settings.
func (p Pipeline) Variant() Variant {
	v := Variant{Schedule: p.Schedule, Checkpoint: p.Checkpoint, LateRecompute: p.LateRecompute}
	if len(p.Devices) > 0 {
		v.Link = p.Devices[0].Link
	}
	return v
}

// SimulateVariants is Simulate for each variant of a pipeline, with programs that are
// compiled once.
func (p Pipeline) SimulateVariants(in Input, how Modelling, variants ...Variant) ([]*Simulation, error) {
	n, err := p.modelled(in, how)
	if err != nil {
		return nil, err
	}
	var all []*Simulation
	n.Devices = slices.Clone(n.Devices)
	for _, v := range variants {
		n.Schedule, n.Checkpoint, n.LateRecompute = v.Schedule, v.Checkpoint, v.LateRecompute
		for i := range n.Devices {
			n.Devices[i].Link = v.Link
		}
		if err := n.Validate(in); err != nil {
			return nil, err
		}
		if err := n.Place(); err != nil {
			return nil, err
		}
		s, err := simulated(n, how)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}
