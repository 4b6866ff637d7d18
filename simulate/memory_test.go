package simulate

import (
	"testing"

	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/testkit"
	"gpipebench/nn/graph"
	"gpipebench/train"
)

// The staircase's highest step is the planned peak, its lowest what is always
// there, and what is kept for later grows with what is in flight.
func TestMemoryOverTime(t *testing.T) {
	for _, test := range []struct {
		schedule   schedule.Schedule
		checkpoint schedule.Checkpoint
		levels     []int // residual sets at most, by device
	}{
		{schedule.GPipe, schedule.Always, []int{1, 1}},
		{schedule.GPipe, schedule.Never, []int{4, 4}},
		{schedule.OneFOneB, schedule.Never, []int{2, 1}},
	} {
		s := Simulating{
			Model: train.Model{Name: "transformer-lm", Layers: 4, Dim: 64, FF: 128, Heads: 2, Vocab: 100, Seq: 16}, Accelerator: "tpuv3", DType: graph.F32, Optimizer: "adam", Batch: 8,
			Setup:      train.Setup{Partitions: 2, MicroBatches: 4, Schedule: test.schedule, Checkpoint: test.checkpoint},
			Accounting: gpipe.PaperAccounting,
		}
		r := testkit.Must(s.Run(t.Context()))(t)
		for k, corners := range r.Step.MemoryOverTime() {
			d := r.Devices[k]
			always := d.PeakBytes - d.ResidualBytes - d.WorkspaceBytes
			var peak int64
			levels := map[int64]bool{}
			for i, c := range corners {
				peak = max(peak, c.Bytes)
				if c.Bytes < always || i > 0 && c.Seconds < corners[i-1].Seconds {
					t.Errorf("%v %v, device %d, corner %d: %+v", test.schedule, test.checkpoint, k, i, c)
				}
				levels[c.Bytes] = true
			}
			testkit.Equal(t, d.PeakBytes, peak, "%v %v, device %d: highest %d, planned peak", test.schedule, test.checkpoint, k, peak)
			full := always + d.WorkspaceBytes + d.ResidualBytes
			for sets := 1; sets <= test.levels[k]; sets++ {
				want := full - d.ResidualBytes + d.ResidualBytes*int64(sets)/int64(test.levels[k])
				if !levels[want] {
					t.Errorf("%v %v, device %d: never at %d bytes, with %d of %d sets", test.schedule, test.checkpoint, k, want, sets, test.levels[k])
				}
			}
		}
	}
}

// A picture of memory has the capacity where it is within sight of what is used.
func TestMemoryCapacity(t *testing.T) {
	model := train.Model{Name: "transformer-lm", Layers: 4, Dim: 64, FF: 128, Heads: 2, Vocab: 100, Seq: 16}
	r := testkit.Must(Simulating{Model: model, Accelerator: "tpuv3", DType: graph.F32, Optimizer: "adam", Batch: 8, Setup: train.Setup{Partitions: 2, MicroBatches: 4}}.Run(t.Context()))(t)
	if p := r.memoryPanel(); len(p.Levels) != 0 {
		t.Errorf("the capacity of gigabytes is in a picture of %d bytes", r.Devices[0].PeakBytes)
	}
	peak := max(r.Devices[0].PeakBytes, r.Devices[1].PeakBytes)
	for i := range r.Devices {
		r.Devices[i].Capacity = 2 * peak
	}
	if p := r.memoryPanel(); len(p.Levels) != 1 || p.Levels[0].Y != float64(2*peak)/(1<<20) {
		t.Errorf("levels %v, want a capacity of %d", p.Levels, 2*peak)
	}
}
