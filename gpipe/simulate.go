package gpipe

import (
	"errors"

	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/nn/graph"
)

// Simulation is a step on modelled devices: the same programs, schedules, plans
// and clock as on real ones, with a roofline's times.
type Simulation struct {
	Sizes    []int // layers of each partition
	Note     string
	Seconds  float64
	Timeline *timeline.Timeline
	Parts    timeline.Parts // the step's breakdown
	Devices  []DeviceEstimate
}

// DeviceEstimate is one modelled device.
type DeviceEstimate struct {
	ParamBytes      int64   // parameters and optimiser state, as the paper counts (12 bytes a parameter for two slots)
	GradientBytes   int64   // float32 accumulators
	ActivationBytes int64   // boundary stash, residuals and workspace in the activations' dtype
	PeakBytes       int64   // all of these
	Capacity        int64   // of the accelerator
	BusySeconds     float64 // F, R and B
}

// Fits tells whether the plan fits the accelerator's memory.
func (d DeviceEstimate) Fits() bool { return d.PeakBytes <= d.Capacity }

// Simulate plans the pipeline and runs one step on the virtual clock.
// Activations are of dtype dt; parameters, gradients and optimiser state are
// float32. A plan that exceeds a capacity is no error: see Fits.
func (p Pipeline) Simulate(in Input, dt graph.DType) (*Simulation, error) {
	n, err := p.network(in)
	if err != nil {
		return nil, err
	}
	if n.Devices[0].Kind != Modelled {
		return nil, errors.New("simulation runs on modelled devices only")
	}
	micro := MicroBatchSizes(in.Examples, n.MicroBatches)
	lists, err := schedule.Build(n.Schedule, n.Partitions, len(micro), n.Checkpoint, n.LateRecompute)
	if err != nil {
		return nil, err
	}
	times := Times{Lists: lists, Link: n.Devices[0].Link, Boundary: func(stage, m int) int64 {
		return n.planned(micro[m]).boundaryBytes(stage) * dt.Bytes() / floatBytes
	}}
	s := &Simulation{Sizes: n.sizes, Note: n.note}
	for k := range n.Partitions {
		plan, err := n.plan(k)
		if err != nil {
			return nil, err
		}
		est := DeviceEstimate{
			ParamBytes:    plan.Bytes[Parameters] + plan.Bytes[OptimizerState],
			GradientBytes: plan.Bytes[Gradients],
			Capacity:      n.Devices[k].Capacity,
		}
		for _, c := range []Category{Boundary, Residuals, Workspace} {
			est.ActivationBytes += plan.Bytes[c] * dt.Bytes() / floatBytes
		}
		est.PeakBytes = est.ParamBytes + est.GradientBytes + est.ActivationBytes
		s.Devices = append(s.Devices, est)
		times.Stages = append(times.Stages, n.model(k, micro, plan, dt))
	}
	if s.Timeline, err = timeline.Replay(lists, times.Costs()); err != nil {
		return nil, err
	}
	if s.Parts, err = timeline.Breakdown(lists, times.Costs()); err != nil {
		return nil, err
	}
	s.Seconds = s.Timeline.Span()
	for k := range s.Devices {
		s.Devices[k].BusySeconds = s.Timeline.Busy(k)
	}
	return s, nil
}

// model times stage k's tasks by the roofline.
func (n *network) model(k int, micro []int, plan *Plan, dt graph.DType) StageTimes {
	a := n.Devices[k].Accelerator
	t := newStageTimes(len(micro))
	for m, size := range micro {
		if m > 0 && size == micro[m-1] {
			t.F[m], t.R[m], t.B[m] = t.F[m-1], t.R[m-1], t.B[m-1]
			continue
		}
		st := n.planned(size)[k]
		t.F[m] = a.seconds(st.Forward, dt)
		t.R[m] = a.seconds(st.Keep, dt)
		t.B[m] = a.seconds(st.Backward, dt)
	}
	// The gradients are cleared; then everything is read, and all but the gradients written.
	t.Setup = float64(plan.Bytes[Gradients]) / a.Bandwidth
	t.Update = float64(2*(plan.Bytes[Parameters]+plan.Bytes[OptimizerState])+plan.Bytes[Gradients]) / a.Bandwidth
	return *t
}
