package gpipe

import (
	"fmt"
	"testing"

	"gpipebench/gpipe/schedule"
	"gpipebench/models/transformer"
	"gpipebench/nn"
)

// BenchmarkStep is the training step of the table of bench.
func BenchmarkStep(b *testing.B) {
	l := lm{model: transformer.Config{Layers: 6, Dim: 256, FeedForward: 1024, Heads: 8, Vocab: 8192, SeqLen: 128}, batch: 16}
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			p := l.pipeline(b)
			p.Checkpoint, p.ClipNorm, p.L2 = schedule.Never, 0, 0
			p.Optimizer, p.LR = nn.SGD{Momentum: 0.9}, nn.ConstantLR(0.01)
			p.Devices = []Device{{Threads: threads}}
			data := l.data(0)
			tr := must(p.Open(InputOf(data)))(b)
			defer tr.Close()
			d := must(p.Describe(InputOf(data)))(b)
			var flops int64
			for _, l := range d.Layers {
				flops += l.FLOPs
			}
			for b.Loop() {
				must(tr.Step(b.Context(), data))(b)
			}
			b.ReportMetric(3*float64(flops)*float64(l.batch)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}
