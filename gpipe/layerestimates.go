package gpipe

import (
	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/schedule"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// LayerEstimate is the cost of one layer on a modelled device, for the largest
// micro-batch.
type LayerEstimate struct {
	Forward, Recompute, Backward float64 // seconds; the last layer includes the loss
	Input, Weights               float64 // the parts of Backward, if the schedule has it in two
	Residual                     int64   // bytes that its backward needs

	timings layerTimings // on a cluster, where the seconds of layers do not add up to those of a stage
}

// layerTimings are what the seconds of a layer, or of several, come from.
type layerTimings struct{ forward, recompute, backward, input, weights accelerator.Timing }

func (t layerTimings) estimate(residual int64) LayerEstimate {
	return LayerEstimate{
		Forward: t.forward.Seconds(), Recompute: t.recompute.Seconds(), Backward: t.backward.Seconds(),
		Input: t.input.Seconds(), Weights: t.weights.Seconds(), Residual: residual, timings: t,
	}
}

func (t *layerTimings) add(o layerTimings) {
	t.forward.Add(o.forward)
	t.recompute.Add(o.recompute)
	t.backward.Add(o.backward)
	t.input.Add(o.input)
	t.weights.Add(o.weights)
}

// Seconds is the time that a layer adds to a stage with re-materialisation.
func (l LayerEstimate) Seconds() float64 { return l.Forward + l.Recompute + l.Backward }

// Together returns what consecutive layers cost as one stage.
func Together(layers []LayerEstimate) (sum LayerEstimate) {
	for _, l := range layers {
		sum.Forward, sum.Recompute, sum.Backward = sum.Forward+l.Forward, sum.Recompute+l.Recompute, sum.Backward+l.Backward
		sum.Input, sum.Weights, sum.Residual = sum.Input+l.Input, sum.Weights+l.Weights, sum.Residual+l.Residual
		sum.timings.add(l.timings)
	}
	if sum.timings != (layerTimings{}) {
		return sum.timings.estimate(sum.Residual)
	}
	return sum
}

// LayerSeconds are the times of layers, as costs to cut by.
func LayerSeconds(layers []LayerEstimate) []float64 {
	costs := make([]float64, len(layers))
	for i, l := range layers {
		costs[i] = l.Seconds()
	}
	return costs
}

// onOne plans the whole network on the first of the modelled devices, for the examples of in
// as one micro-batch.
func (p Pipeline) onOne(in Input, how Modelling) (*plan.Network, error) {
	p.Partitions, p.Chunks, p.Balance, p.Costs = 1, 1, []int{len(p.Layers)}, nil
	p.Tasks, p.Placement = nil, schedule.Placement{} // which has one piece of the network
	p.Window = 0
	switch {
	case p.Schedule == schedule.Interleaved || p.Schedule.Asynchronous():
		p.Schedule = schedule.OneFOneB
	case p.Schedule >= schedule.ZBV:
		p.Schedule = schedule.ZBH1
	}
	p.Devices = p.Devices[:min(1, len(p.Devices))]
	p.Replicas, p.Groups, p.Spatial, p.MicroBatches, p.BatchNormScope = 1, 1, 1, 1, ReplicaScope
	return p.modelled(in, how)
}

// ModelLayers times every layer on the first of the modelled devices, or, if its images are
// divided over parts, on as many of them.
func (p Pipeline) ModelLayers(in Input, how Modelling) ([]LayerEstimate, error) {
	if how.Parallel.Used() {
		c, err := p.cluster(in, how)
		if err != nil {
			return nil, err
		}
		return c.estimates(), nil
	}
	for _, parts := range []int{max(p.Groups, p.Replicas, 1), max(p.MicroBatches, 1)} {
		in.Examples = (in.Examples + parts - 1) / parts
	}
	n, err := p.onOne(in, how)
	if err != nil {
		return nil, err
	}
	a, st := n.Devices[0].Accelerator, n.ProgramsFor(in.Examples, plan.Training)[0]
	layers := make([]LayerEstimate, len(n.Layers))
	if p.Spatial > 1 {
		return layers, p.modelParts(st, in.Examples, how.DType, layers)
	}
	add := func(p *program.Program, to func(*LayerEstimate) *float64) {
		a.Operations(p, how.DType, func(layer int, seconds float64) {
			*to(&layers[min(layer, len(layers)-1)]) += seconds
		})
	}
	add(st.Forward, func(l *LayerEstimate) *float64 { return &l.Forward })
	add(st.Keep, func(l *LayerEstimate) *float64 { return &l.Recompute })
	add(st.Backward, func(l *LayerEstimate) *float64 { return &l.Backward })
	if st.Input != nil {
		add(st.Input, func(l *LayerEstimate) *float64 { return &l.Input })
		add(st.Weights, func(l *LayerEstimate) *float64 { return &l.Weights })
	}
	for layer, floats := range st.Saved {
		layers[min(layer, len(layers)-1)].Residual += int64(floats) * plan.FloatBytes
	}
	return layers, nil
}

// modelParts is ModelLayers for a stage whose images are divided over the pipeline's parts.
func (p Pipeline) modelParts(st *program.Stage, examples int, dt graph.DType, layers []LayerEstimate) error {
	d := divided{p.Devices[0].Accelerator, dt, p.Spatial, examples}
	keep, backward := d.kept(st)
	layer := func(i int) *LayerEstimate { return &layers[min(i, len(layers)-1)] }
	add := func(p dividedProgram, to func(*LayerEstimate) *float64) {
		for i, e := range p.instrs {
			*to(layer(p.layers[i])) += e.InTurns()
		}
	}
	add(d.forward(st), func(l *LayerEstimate) *float64 { return &l.Forward })
	add(keep, func(l *LayerEstimate) *float64 { return &l.Recompute })
	add(backward, func(l *LayerEstimate) *float64 { return &l.Backward })
	first, err := st.Divide(p.Spatial, nil)
	if err != nil {
		return err
	}
	for i, floats := range first.Saved {
		layer(i).Residual += int64(floats) * plan.FloatBytes
	}
	return nil
}
