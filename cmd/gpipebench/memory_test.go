package main

import (
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn/graph"
	"gpipebench/simulate"
	"gpipebench/train"
)

// A picture of memory has the capacity where it is within sight of what is used.
func TestMemoryCapacity(t *testing.T) {
	model := train.Model{Name: "transformer-lm", Layers: 4, Dim: 64, FF: 128, Heads: 2, Vocab: 100, Seq: 16}
	simulating := simulate.Simulating{Model: model, Accelerator: "tpuv3", DType: graph.F32, Optimizer: "adam", Batch: 8, Setup: train.Setup{Partitions: 2, MicroBatches: 4}}
	r := testkit.Must(simulating.Run(t.Context()))(t)
	testkit.Equal(t, len(memoryPanel(r).Levels), 0, "levels of a capacity of gigabytes in a picture of %d bytes", r.Devices[0].PeakBytes)
	peak := max(r.Devices[0].PeakBytes, r.Devices[1].PeakBytes)
	for i := range r.Devices {
		r.Devices[i].Capacity = 2 * peak
	}
	if p := memoryPanel(r); len(p.Levels) != 1 || p.Levels[0].Y != float64(2*peak)/(1<<20) {
		t.Errorf("levels %v, want a capacity of %d", p.Levels, 2*peak)
	}
}
