package gpipe

import (
	"math"
	"testing"

	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/timeline"
	"gpipebench/models/ssd"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// spatialSSD models SSD with images of 64 pixels, changed by change.
func spatialSSD(t *testing.T, parts int, change func(*accelerator.Accelerator)) SpatialEstimate {
	t.Helper()
	c := ssd.Config{Width: 8, Classes: 5, Image: 64}
	layers, err := ssd.New(c)
	if err != nil {
		t.Fatal(err)
	}
	a := &accelerator.Accelerator{Name: "test", F32: 1e12, Memory: 1 << 40, Bandwidth: 1e11, Lanes: 1, Overhead: 1e-6, Link: timeline.Link{Bandwidth: 1e10, Latency: 1e-6}}
	if change != nil {
		change(a)
	}
	p := Pipeline{Layers: layers, Loss: ssd.Loss{}, Partitions: 1, MicroBatches: 1, Optimizer: nn.SGD{}, Devices: []Device{DeviceOf(a)}}
	in := Input{Examples: 4, Inputs: []graph.Type{c.Input()}, Targets: []graph.Type{{Shape: graph.Shape{}, DType: graph.I32}}}
	e, err := p.ModelSpatial(in, parts, Modelling{DType: graph.F32})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// One part takes what the layers' model says, and loses nothing. Links that take no time
// leave no transfers, and without starts of operations only rows that some part has more.
func TestModelSpatial(t *testing.T) {
	one := spatialSSD(t, 1, nil)
	if one != (SpatialEstimate{Even: one.Even}) {
		t.Errorf("one part: %+v", one)
	}
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
		free := spatialSSD(t, parts, func(a *accelerator.Accelerator) { a.Link = timeline.Link{} })
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
	if e := spatialSSD(t, 4, func(a *accelerator.Accelerator) { a.Link = timeline.Link{} }); e.Turns <= 0 || e.Turns >= 3./16*one.Even {
		t.Errorf("turns: %+v", e)
	}
	if _, err := (Pipeline{}).ModelSpatial(Input{}, 0, Modelling{}); err == nil {
		t.Error("no parts: no error")
	}
}
