package gpipe

import (
	"math"
	"testing"

	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/testkit"
	"gpipebench/models/ssd"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// modelledSSD is SSD with images of 64 pixels on an accelerator that is changed by change.
func modelledSSD(t *testing.T, change func(*accelerator.Accelerator)) (Pipeline, Input) {
	t.Helper()
	c := ssd.Config{Width: 8, Classes: 5, Image: 64}
	layers := must(ssd.New(c))(t)
	a := &accelerator.Accelerator{Name: "test", F32: 1e12, BF16: 2e12, Memory: 1 << 40, Bandwidth: 1e11, Lanes: 1, Overhead: 1e-6, Link: clock.Link{Bandwidth: 1e10, Latency: 1e-6}}
	if change != nil {
		change(a)
	}
	p := Pipeline{Layers: layers, Loss: ssd.Loss{}, Partitions: 1, MicroBatches: 1, Numerics: Numerics{Optimizer: nn.SGD{}}, Devices: []Device{DeviceOf(a)}}
	in := Input{Examples: 4, Inputs: []graph.Type{{Shape: graph.Shape{c.Image, c.Image, 3}, DType: graph.F32}}, Targets: []graph.Type{{Shape: graph.Shape{}, DType: graph.I32}}}
	return p, in
}

// spatialSSD models it on parts.
func spatialSSD(t *testing.T, parts int, change func(*accelerator.Accelerator)) SpatialEstimate {
	t.Helper()
	p, in := modelledSSD(t, change)
	return must(p.ModelSpatial(in, parts, Modelling{DType: graph.F32}))(t)
}

// One part takes what the layers' model says, and loses nothing. Links that take no time
// leave no transfers, and without starts of operations only rows that some part has more.
func TestModelSpatial(t *testing.T) {
	one := spatialSSD(t, 1, nil)
	testkit.Equal(t, one, (SpatialEstimate{Even: one.Even}), "one part")
	for _, parts := range []int{2, 3, 4} {
		e := spatialSSD(t, parts, nil)
		if got := e.Even * float64(parts); math.Abs(got/one.Even-1) > 1e-12 {
			t.Errorf("%d parts: even share of %v, want %v", parts, got, one.Even)
		}
		if e.Halo <= 0 || e.Statistics <= 0 || e.Alone <= 0 || e.Sums <= 0 || e.Seconds() <= one.Even/float64(parts) {
			t.Errorf("%d parts: %+v", parts, e)
		}
		if small := e.Small > 0; small != (parts > 1) { // a map of one pixel
			t.Errorf("%d parts: %v s for small images", parts, e.Small)
		}
		free := spatialSSD(t, parts, func(a *accelerator.Accelerator) { a.Link = clock.Link{} })
		if free.Halo != 0 || free.Sums != 0 || free.Uneven != e.Uneven {
			t.Errorf("%d parts, links that take no time: %+v", parts, free)
		}
	}
	// 64 pixels halve to 4, so that two parts have as many rows of all maps but that of one pixel.
	none := spatialSSD(t, 2, func(a *accelerator.Accelerator) { a.Overhead, a.Bandwidth = 0, math.Inf(1) })
	if math.Abs(none.Uneven) > 1e-3*none.Even {
		t.Errorf("two parts of even rows, operations alone: %+v", none)
	}
	// Over links that take no time the last of four parts begins three of 4 x 4 beats after the first.
	if e := spatialSSD(t, 4, func(a *accelerator.Accelerator) { a.Link = clock.Link{} }); e.Turns <= 0 || e.Turns >= 3./16*one.Even {
		t.Errorf("turns: %+v", e)
	}
	testkit.Refused((Pipeline{}).ModelSpatial(Input{}, 0, Modelling{}))(t)
}

// TestSimulatedParts: a simulated step of stages in parts takes what the model of a micro-batch
// says, with turns, and the memory that the same pipeline has where it computes.
func TestSimulatedParts(t *testing.T) {
	p, in := modelledSSD(t, func(a *accelerator.Accelerator) { a.Packing = true })
	how := Modelling{DType: graph.F32, Accounting: FullAccounting}
	p.Checkpoint, p.Spatial = schedule.Never, 3
	simulated := func(p Pipeline, how Modelling) *Simulation {
		t.Helper()
		return must(p.Simulate(in, how))(t)
	}
	e := must(p.ModelSpatial(in, 3, how))(t)
	one := simulated(p, how)
	layers := must(p.ModelLayers(in, how))(t)
	var sum, tasks float64
	var residuals int64
	for _, l := range layers {
		sum += l.Recompute + l.Backward // the model's F keeps its residuals, as R does
		tasks += l.Forward + l.Backward
		residuals += l.Residual
	}
	if math.Abs(sum/e.InTurns()-1) > 1e-9 || residuals > one.Devices[0].ResidualBytes || float64(residuals) < 0.9*float64(one.Devices[0].ResidualBytes) {
		t.Errorf("layers of %v s with %d bytes of residuals, want %v s and %d", sum, residuals, e.InTurns(), one.Devices[0].ResidualBytes)
	}

	if got := one.Devices[0].BusySeconds; math.Abs(got/tasks-1) > 1e-9 || math.Abs(tasks/sum-1) > 0.01 {
		t.Errorf("F and B take %v s, want %v", got, tasks)
	}

	// A host that takes a second to start an operation.
	hosted, _ := modelledSSD(t, func(a *accelerator.Accelerator) {
		a.Kernels = &accelerator.Kernels{Processors: 1, Tiles: [][2]int{{64, 64}}, Cache: 1e12, Issue: 1}
	})
	hosted.Checkpoint, hosted.Spatial = schedule.Never, 3
	of := Together(must(hosted.ModelLayers(in, how))(t))
	if got := simulated(hosted, how).Devices[0].BusySeconds; got < 100 || got != math.Round(got) || math.Abs(got/(of.Forward+of.Backward)-1) > 0.1 {
		t.Errorf("tasks of more than 100 operations take %v s, want a second each, as layers' %v", got, of.Forward+of.Backward)
	}

	p.Partitions, p.MicroBatches, p.Checkpoint = 2, 2, schedule.Always
	s := simulated(p, how)
	if s.Seconds <= 0 || simulated(p, Modelling{DType: graph.BF16}).Devices[0].ActivationBytes > s.Devices[0].ActivationBytes*55/100 {
		t.Errorf("activations of bfloat16 take %d, of float32 %d bytes", simulated(p, Modelling{DType: graph.BF16}).Devices[0].ActivationBytes, s.Devices[0].ActivationBytes)
	}
	p.Devices = []Device{{}}
	tr := opened(t, p, in)
	for k, plan := range tr.Plans() {
		most := plan.Peak
		for _, part := range plan.Parts {
			most = max(most, part.Peak)
		}
		testkit.Equal(t, s.Devices[k].PeakBytes, most, "device %d: simulated with", k)
	}
}
