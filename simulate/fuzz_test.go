package simulate

import (
	"math"
	"strings"
	"testing"

	"gpipebench/nn/graph"
	"gpipebench/train"
)

// Whatever the sizes, a simulation is refused in one line, or nothing in it has
// overflowed.
func FuzzSimulate(f *testing.F) {
	f.Add(uint8(0), 2, 16, 32, 2, 8, 8, 8, 8, 2, 2, 4, false)
	f.Add(uint8(0), 3, 1<<20, 1<<22, 1<<10, 1<<20, 1<<20, 8, 8, 2, 2, 1<<24, true)
	f.Add(uint8(1), 2, 1<<20, 1<<20, 1, 1<<19, 1, 8, 8, 2, 1, 1<<19, false)
	f.Add(uint8(2), 3, 0, 0, 0, 0, 0, 1<<16, 1<<14, 1<<24, 2, 1<<24, false)
	f.Add(uint8(3), 3, 0, 0, 0, 0, 0, 1<<16, 1<<14, 1<<24, 4, 1<<30, false)
	f.Fuzz(func(t *testing.T, name uint8, layers, dim, ff, heads, vocab, seq, filters, image, classes, k, batch int, keep bool) {
		m := train.Model{
			Name: train.Models()[int(name)%len(train.Models())], Layers: layers % 7, Dim: dim, FF: ff, Heads: heads, Vocab: vocab, Seq: seq,
			Image: image, Classes: classes,
		}
		if m.Name == train.AmoebaNet {
			m.Filters = filters
		} else {
			m.Width = filters
		}
		s := Simulating{
			Model: m, Setup: train.Setup{Partitions: k, MicroBatches: k}, Batch: batch,
			Accelerator: "tpuv3", Optimizer: "adam", DType: graph.BF16, KeepScores: keep, Tiled: "on",
		}
		r, err := s.Run(t.Context())
		if err != nil {
			if text := err.Error(); strings.Contains(text, "\n") || strings.Contains(text, "costs -") {
				t.Errorf("%+v: %v", s, err)
			}
			return
		}
		if !(r.StepSeconds > 0) || math.IsInf(r.StepSeconds, 0) || r.Params < 1 {
			t.Errorf("%+v: a step of %v s, %d parameters", s, r.StepSeconds, r.Params)
		}
		for _, d := range r.Devices {
			if min(d.ParamBytes, d.ActivationBytes, d.PeakBytes, d.BoundaryBytes, d.ResidualBytes, d.WorkspaceBytes, d.GradientBytes) < 0 || !(d.BusySeconds > 0) {
				t.Errorf("%+v: %+v", s, d)
			}
		}
	})
}
