package gpipe_test

import (
	"testing"

	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/schedule"
	"gpipebench/models/transformer"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// Variants simulated together give the same as each alone.
func TestSimulateVariants(t *testing.T) {
	layers, err := transformer.LM(transformer.Config{Layers: 4, Dim: 32, FeedForward: 64, Heads: 2, Vocab: 50, SeqLen: 8})
	if err != nil {
		t.Fatal(err)
	}
	a, err := accelerator.Named("p100")
	if err != nil {
		t.Fatal(err)
	}
	ids := graph.Type{Shape: graph.Shape{8}, DType: graph.I32}
	in := gpipe.Input{Examples: 8, Inputs: []graph.Type{ids}, Targets: []graph.Type{ids}}
	pipeline := func() gpipe.Pipeline {
		return gpipe.Pipeline{Layers: layers, Loss: nn.CrossEntropy{}, Partitions: 3, MicroBatches: 4, Devices: []gpipe.Device{gpipe.DeviceOf(a)}}
	}
	own := pipeline().Variant()
	variants := []gpipe.Variant{own, own, own, own, own, own} // the last one checks that nothing is left of those before
	variants[1].LateRecompute = true
	variants[2].Link = clock.Link{}
	variants[3].Checkpoint = schedule.Never
	variants[4].Schedule = schedule.OneFOneB
	got, err := pipeline().SimulateVariants(in, gpipe.Modelling{}, variants...)
	if err != nil {
		t.Fatal(err)
	}
	seconds := map[float64]bool{}
	for i, v := range variants {
		p := pipeline()
		p.Schedule, p.Checkpoint, p.LateRecompute, p.Devices[0].Link = v.Schedule, v.Checkpoint, v.LateRecompute, v.Link
		want, err := p.Simulate(in, gpipe.Modelling{})
		if err != nil {
			t.Fatal(err)
		}
		if got[i].Seconds != want.Seconds || got[i].Devices[1].PeakBytes != want.Devices[1].PeakBytes {
			t.Errorf("variant %d: %v s, %d bytes; want %v s, %d bytes", i, got[i].Seconds, got[i].Devices[1].PeakBytes, want.Seconds, want.Devices[1].PeakBytes)
		}
		seconds[got[i].Seconds] = true
	}
	if len(seconds) < 4 {
		t.Errorf("the variants take %v", seconds)
	}
	own.Schedule = 99
	if _, err := pipeline().SimulateVariants(in, gpipe.Modelling{}, own); err == nil {
		t.Error("no error for a schedule that is not there")
	}
}
