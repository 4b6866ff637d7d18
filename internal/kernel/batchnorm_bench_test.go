package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// images are the activations of AmoebaNet-D(6, 64) on 224x224 in batches of 4
// and of ResNet-101 on 64x64 in batches of 16: (N, H, W, C).
var images = [][4]int{
	{4, 56, 56, 8}, {4, 56, 56, 64}, {4, 28, 28, 64}, {4, 14, 14, 128}, {4, 7, 7, 256},
	{16, 32, 32, 64}, {16, 16, 16, 256}, {16, 8, 8, 512}, {16, 4, 4, 1024}, {16, 2, 2, 2048},
}

// eachImage runs benchmarks with one profile after the other; bytes is the
// least that a pass reads and writes.
func eachImage(b *testing.B, f func(b *testing.B, n, h, w, c int)) {
	before := vector
	defer func() { vector = before }()
	for _, s := range images {
		for _, table := range vectorTables() {
			vector = *table
			b.Run(fmt.Sprintf("size=%dx%dx%dx%d/profile=%s", s[0], s[1], s[2], s[3], table.profile), func(b *testing.B) {
				f(b, s[0], s[1], s[2], s[3])
			})
		}
	}
}

func BenchmarkBatchNorm(b *testing.B) {
	eachImage(b, func(b *testing.B, n, h, w, cols int) {
		rows := n * h * w
		k := newBatchNormCase(rows, cols, true)
		k.run()
		passes := func(name string, count int, f func()) {
			b.Run("step="+name, func(b *testing.B) {
				b.SetBytes(int64(4 * count * rows * cols))
				for b.Loop() {
					f()
				}
			})
		}
		chunks := NormChunks(rows)
		passes("moments", 1, func() { BatchNormMoments(k.moments, k.x, rows, cols, 0, chunks, 0, cols) })
		passes("stats", 1, func() { BatchNormStats(k.stats, k.moments, k.tally, rows, cols, testEps, 0, cols) })
		passes("forward", 2, func() { BatchNorm(k.y, k.x, nil, k.stats, k.gamma, k.beta, rows, cols, true) })
		passes("eval", 2, func() {
			BatchNormEval(k.y, k.x, nil, k.stats[:cols], k.stats[cols:], k.gamma, k.beta, rows, cols, testEps, true)
		})
		passes("gradsums", 2, func() {
			BatchNormGradSums(k.sums, k.dy, k.x, k.stats, k.gamma, k.beta, true, rows, cols, 0, chunks, 0, cols)
		})
		passes("totals", 1, func() { BatchNormGradTotals(k.totals, k.sums, rows, cols, 0, cols) })
		passes("grad", 3, func() {
			BatchNormGrad(k.dx, k.dy, k.x, nil, k.stats, k.totals, k.gamma, k.beta, true, rows, cols, rows)
		})
	})
}

func BenchmarkPool(b *testing.B) {
	eachImage(b, func(b *testing.B, n, h, w, c int) {
		for _, stride := range []int{1, 2} {
			p := Pool{N: n, H: h, W: w, C: c, KH: 3, KW: 3, StrideH: stride, StrideW: stride,
				Top: 1, Left: 1, OH: (h-1)/stride + 1, OW: (w-1)/stride + 1}
			random := rand.New(rand.NewPCG(1, 1))
			x, dy := normals(random, p.inputs()), normals(random, p.outputs())
			y, dx := make([]float32, p.outputs()), make([]float32, p.inputs())
			MaxPool(y, x, p, 0, p.N*p.OH)
			run := func(name string, elements int, f func()) {
				b.Run(fmt.Sprintf("stride=%d/pool=%s", stride, name), func(b *testing.B) {
					b.SetBytes(int64(4 * elements))
					for b.Loop() {
						f()
					}
				})
			}
			run("max", len(x)+len(y), func() { MaxPool(y, x, p, 0, p.N*p.OH) })
			run("maxgrad", 2*len(x)+2*len(y), func() { MaxPoolGrad(dx, dy, x, y, p, 0, p.N, 0, p.C) })
			run("avg", len(x)+len(y), func() { AvgPool(y, x, p, 0, p.N*p.OH) })
			run("avggrad", len(x)+len(y), func() { AvgPoolGrad(dx, dy, p, 0, p.N, 0, p.C) })
		}
	})
}

func BenchmarkCopyColumns(b *testing.B) {
	eachImage(b, func(b *testing.B, n, h, w, c int) {
		rows := n * h * w
		dst, src := make([]float32, rows*3*c), make([]float32, rows*c)
		b.SetBytes(int64(8 * rows * c))
		for b.Loop() {
			CopyColumns(dst[c:], 3*c, src, c, rows, c)
		}
	})
}
