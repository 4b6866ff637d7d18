package nn_test

import (
	"fmt"
	"testing"

	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program/programtest"
)

// BenchmarkHoisting times a training step of a recurrent layer of 256 units over 32 steps,
// whose input's projection is before the loop or inside it, by batch (Kumar et al. 2019,
// section 3: with few examples the cell is bound by memory, and hoisting makes one product
// of all steps).
func BenchmarkHoisting(b *testing.B) {
	const steps, width = 32, 256
	for _, batch := range []int{1, 2, 4, 8, 16, 32} {
		for _, inside := range []bool{false, true} {
			form := "hoisted"
			if inside {
				form = "inside"
			}
			b.Run(fmt.Sprintf("batch=%d/%s", batch, form), func(b *testing.B) {
				r := programtest.CompileLayers(b, programtest.Network{
					Layers: []nn.Layer{nn.NewLSTM("lstm", nn.LSTMConfig{In: width, Hidden: width, Inside: inside})},
					In:     []graph.Type{programtest.Floats(batch, steps, width)},
				})
				r.Options.Poison = false
				fill(r.In(0), "x")
				fill(r.DOut(0), "dy")
				for b.Loop() {
					r.Keep()
					r.Backward()
				}
				b.ReportMetric(float64(batch)*float64(b.N)/b.Elapsed().Seconds(), "examples/s")
			})
		}
	}
}
