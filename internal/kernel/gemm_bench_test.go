package kernel

import (
	"fmt"
	"testing"
)

// BenchmarkGemm times squares, then the products of a Transformer's training
// step (2048 positions, width 256, feed-forward 1024, vocabulary 8192):
// outputs, gradients of inputs (n t) and of weights (t n +), and an attention
// head. bench/peers/openblas.c times the same products.
func BenchmarkGemm(b *testing.B) {
	shapes := []gemmShape{
		{m: 256, n: 256, k: 256}, {m: 512, n: 512, k: 512}, {m: 768, n: 768, k: 768}, {m: 1024, n: 1024, k: 1024},
	}
	for _, layer := range [][2]int{{256, 256}, {256, 768}, {256, 1024}, {1024, 256}, {256, 8192}} {
		in, out := layer[0], layer[1]
		shapes = append(shapes,
			gemmShape{m: 2048, n: out, k: in},
			gemmShape{m: 2048, n: in, k: out, transposeB: true},
			gemmShape{m: in, n: out, k: 2048, transposeA: true, accumulate: true})
	}
	shapes = append(shapes,
		gemmShape{m: 128, n: 128, k: 32, transposeB: true, align: 768},
		gemmShape{m: 128, n: 32, k: 128, align: 768},
		gemmShape{m: 128, n: 32, k: 128, transposeA: true, align: 768})
	for _, s := range shapes {
		b.Run(fmt.Sprintf("%v", s), func(b *testing.B) {
			c := newGemmCase(s)
			for b.Loop() {
				c.run()
			}
			b.ReportMetric(2e-9*float64(s.m)*float64(s.n)*float64(s.k)*float64(b.N)/b.Elapsed().Seconds(), "GFLOP/s")
		})
	}
}
