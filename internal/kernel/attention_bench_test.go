package kernel

import (
	"fmt"
	"testing"
)

// A head of a small model, where q, k and v are side by side in one projection,
// and long sequences.
var attentionBenchShapes = []AttentionShape{
	{Queries: 128, Keys: 128, HeadDim: 32, QStride: 768, KStride: 768, VStride: 768, OStride: 256, Causal: true, Valid: 128, Scale: 0.177},
	{Queries: 128, Keys: 128, HeadDim: 32, QStride: 768, KStride: 768, VStride: 768, OStride: 256, Valid: 128, Scale: 0.177},
	{Queries: 1024, Keys: 1024, HeadDim: 64, QStride: 64, KStride: 64, VStride: 64, OStride: 64, Valid: 1024, Scale: 0.125},
	{Queries: 1024, Keys: 1024, HeadDim: 64, QStride: 1536, KStride: 1536, VStride: 1536, OStride: 512, Causal: true, Valid: 1024, Scale: 0.125},
}

// flops counts two per multiply-add, only for the keys that queries see.
func (s AttentionShape) flops(products int) float64 {
	pairs := 0
	for i := range s.Queries {
		pairs += s.sees(i)
	}
	return 2 * float64(products*pairs*s.HeadDim)
}

func (s AttentionShape) benchName() string {
	return fmt.Sprintf("T=%d/dh=%d/stride=%d/causal=%t", s.Queries, s.HeadDim, s.QStride, s.Causal)
}

func BenchmarkAttention(b *testing.B) {
	for _, s := range attentionBenchShapes {
		b.Run(s.benchName(), func(b *testing.B) {
			q, k, v := randomFloats(1, s.Queries*s.QStride), randomFloats(1, s.Keys*s.KStride), randomFloats(1, s.Keys*s.VStride)
			o, lse := make([]float32, s.Queries*s.OStride), make([]float32, s.Queries)
			scratch := make([]float32, s.Scratch())
			for b.Loop() {
				Attention(s, o, lse, q, k, v, scratch)
			}
			b.ReportMetric(s.flops(2)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}

func BenchmarkAttentionGrad(b *testing.B) {
	for _, s := range attentionBenchShapes {
		b.Run(s.benchName(), func(b *testing.B) {
			q, k, v := randomFloats(1, s.Queries*s.QStride), randomFloats(1, s.Keys*s.KStride), randomFloats(1, s.Keys*s.VStride)
			dq, dk, dv := randomFloats(1, s.Queries*s.QStride), randomFloats(1, s.Keys*s.KStride), randomFloats(1, s.Keys*s.VStride)
			o, do, lse := make([]float32, s.Queries*s.OStride), randomFloats(1, s.Queries*s.OStride), make([]float32, s.Queries)
			scratch := make([]float32, max(s.GradScratch(), s.Scratch()))
			Attention(s, o, lse, q, k, v, scratch)
			for b.Loop() {
				AttentionGrad(s, dq, dk, dv, do, q, k, v, o, lse, scratch)
			}
			b.ReportMetric(s.flops(5)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}
