package kernel

import (
	"fmt"
	"sync"
	"testing"
)

// convLayers lists the layers of ResNet-101 on 64 x 64 images, then of
// AmoebaNet-D (6, 64): image, channels, kernel, stride.
func convLayers() []Window {
	var layers []Window
	add := func(n, size, c, kh, kw, stride, o int) {
		l := Window{N: n, H: size, W: size, C: c, KH: kh, KW: kw, StrideH: stride, StrideW: stride, O: o}
		l.OH, l.OW = (size+stride-1)/stride, (size+stride-1)/stride
		l.Top, l.Left = max((l.OH-1)*stride+kh-size, 0)/2, max((l.OW-1)*stride+kw-size, 0)/2
		layers = append(layers, l)
	}
	add(16, 64, 3, 7, 7, 2, 64)
	add(16, 16, 64, 3, 3, 1, 64)
	add(16, 16, 64, 1, 1, 1, 256)
	add(16, 16, 256, 1, 1, 1, 64)
	add(16, 16, 128, 3, 3, 2, 128)
	add(16, 16, 256, 1, 1, 2, 512)
	add(16, 8, 128, 3, 3, 1, 128)
	add(16, 8, 512, 1, 1, 1, 128)
	add(16, 4, 256, 3, 3, 1, 256)
	add(16, 4, 1024, 1, 1, 1, 256)
	add(16, 4, 256, 1, 1, 1, 1024)
	add(16, 2, 512, 3, 3, 1, 512)
	add(16, 2, 2048, 1, 1, 1, 512)
	add(4, 112, 3, 3, 3, 2, 32)
	add(4, 56, 8, 3, 3, 1, 8)
	add(4, 56, 64, 1, 1, 1, 16)
	add(4, 28, 64, 1, 1, 1, 16)
	add(4, 28, 16, 3, 3, 1, 16)
	add(4, 28, 16, 1, 7, 1, 16)
	add(4, 28, 16, 7, 1, 1, 16)
	add(4, 28, 16, 1, 1, 1, 64)
	add(4, 28, 32, 3, 3, 2, 32)
	add(4, 14, 128, 1, 1, 1, 32)
	add(4, 14, 32, 1, 7, 1, 32)
	add(4, 14, 32, 7, 1, 1, 32)
	add(4, 14, 64, 3, 3, 2, 64)
	add(4, 7, 256, 1, 1, 1, 64)
	add(4, 7, 64, 3, 3, 1, 64)
	add(4, 7, 64, 1, 7, 1, 64)
	add(4, 7, 64, 7, 1, 1, 64)
	return layers
}

func (c Window) layer() string {
	return fmt.Sprintf("%dx%dx%d/%dx%d/s%d/%d-%d", c.N, c.H, c.W, c.KH, c.KW, c.StrideH, c.C, c.O)
}

// BenchmarkConv counts taps outside the image like all others.
func BenchmarkConv(b *testing.B) {
	for _, layer := range convLayers() {
		for i, c := range convCases(layer) {
			if i == 2 {
				continue // the weight's gradient accumulates
			}
			for threads := 1; threads <= 2; threads++ {
				b.Run(fmt.Sprintf("%s/%s/threads=%d", layer.layer(), c.kind, threads), func(b *testing.B) {
					scratch := make([][]float32, threads)
					for part := range threads {
						scratch[part] = make([]float32, c.scratch(threads))
					}
					for b.Loop() {
						var others sync.WaitGroup
						for part := 1; part < threads; part++ {
							others.Go(func() { c.part(c.out, part, threads, scratch[part]) })
						}
						c.part(c.out, 0, threads, scratch[0])
						others.Wait()
					}
					flops := 2 * float64(c.N*c.OH*c.OW) * float64(c.KH*c.KW*c.C*c.O)
					b.ReportMetric(1e-9*flops*float64(b.N)/b.Elapsed().Seconds(), "GFLOP/s")
				})
			}
		}
	}
}
