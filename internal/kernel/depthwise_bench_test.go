package kernel

import (
	"fmt"
	"testing"
)

// BenchmarkDepthwise has the layers of AmoebaNet-B (6, 64) on 224 x 224 images,
// and counts taps outside the image like all others.
func BenchmarkDepthwise(b *testing.B) {
	for _, l := range []struct{ size, channels, kernel, stride int }{
		{56, 16, 3, 2}, {28, 64, 3, 1}, {28, 128, 5, 1}, {14, 128, 3, 1}, {7, 256, 3, 1},
	} {
		out := (l.size + l.stride - 1) / l.stride
		before := max((out-1)*l.stride+l.kernel-l.size, 0) / 2
		d := Depthwise{
			N: 4, H: l.size, W: l.size, C: l.channels, KH: l.kernel, KW: l.kernel, StrideH: l.stride, StrideW: l.stride,
			Dilation: 1, Top: before, Left: before, OH: out, OW: out,
		}
		c := newDepthwiseCase(d)
		y, dx := make([]float32, len(c.dy)), make([]float32, len(c.x))
		for name, f := range map[string]func(){
			"forward":     func() { DepthwiseForward(d, y, c.x, c.w, 0, d.N*d.OH) },
			"input-grad":  func() { DepthwiseGradInput(d, dx, c.dy, c.w, 0, d.N*d.H) },
			"weight-grad": func() { DepthwiseGradWeight(d, c.dw, c.x, c.dy, true, 0, d.KH, 0, d.C) },
		} {
			b.Run(fmt.Sprintf("%dx%d/%d/s%d/%d/%s", l.size, l.size, l.kernel, l.stride, l.channels, name), func(b *testing.B) {
				for b.Loop() {
					f()
				}
				b.ReportMetric(1e-9*2*float64(len(y)*l.kernel*l.kernel)*float64(b.N)/b.Elapsed().Seconds(), "GFLOP/s")
			})
		}
	}
}
