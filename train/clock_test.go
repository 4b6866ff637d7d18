package train

import (
	"math"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/testkit"
)

// After a training every device's time is divided: what it does and the causes for which
// it idles are the step. What it does is what its events cover, on host devices by the
// wall clock; on emulated ones the step is the one that is reported.
func TestDeviceTimes(t *testing.T) {
	for _, device := range []gpipe.Kind{gpipe.Host, gpipe.Emulated} {
		for _, s := range []Setup{
			{Schedule: schedule.OneFOneB},
			{Schedule: schedule.ZBH1, Checkpoint: schedule.Never},
			{Schedule: schedule.Interleaved, Chunks: 2},
		} {
			s.Partitions, s.MicroBatches, s.Device, s.Threads = 2, 4, device, 1
			training := Training{
				Model: Model{Name: LanguageModel, Layers: 4, Dim: 16, FF: 32, Heads: 2, Vocab: 16, Seq: 8}, Data: "synthetic",
				Batch: 8, Steps: 1, Optimizer: "adam", LR: 0.001, ClipNorm: 1, Setup: s,
			}
			r := testkit.Must(training.Run(t.Context(), nil))(t)
			if len(r.Devices) != 2 {
				t.Fatalf("%v, %v: %d devices", device, s.Schedule, len(r.Devices))
			}
			for k, d := range r.Devices {
				if near := 1e-9 * d.Step; math.Abs(d.Busy+d.Idle.Sum()-d.Step) > near || !(d.Idle.Sum() > 0) || math.Abs(d.Step-r.StepSeconds) > near {
					t.Errorf("%v, %v, device %d: %+v of a step of %v s", device, s.Schedule, k, d, r.StepSeconds)
				}
				if device == gpipe.Emulated { // whose events are another step's than the medians
					continue
				}
				busy := 0.0
				for _, e := range r.LastStep.Events {
					if e.At.Stage == k && e.Kind.OnDevice() && e.Kind != timeline.Barrier {
						busy += e.Seconds()
					}
				}
				testkit.Near(t, d.Busy, busy, 1e-9*d.Step, "%v, device %d: busy, by its events", s.Schedule, k)
			}
		}
	}
}
