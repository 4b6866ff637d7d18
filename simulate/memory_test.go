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
