package amoebanet

import (
	"fmt"

	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// convolution describes a unit. Zeros mean a kernel of 1x1 and a stride of 1.
type convolution struct {
	In, Out int
	Kernel  [2]int
	Stride  int
	Padding nn.Padding // zero: none
	ReLU    bool       // after the batch norm, if nothing else reads its output
}

// unit builds a convolution without bias and a batch norm, whose parameters are
// name/weight, name/gamma and name/beta. The ReLU before them is computed with
// their input, once for all its readers.
func (b *builder) unit(name string, c convolution) nn.Layer {
	if c.Kernel == [2]int{} {
		c.Kernel = [2]int{1, 1}
	}
	return nn.Sequential(name,
		nn.NewConv2D(name, nn.Conv2DConfig{
			In: c.In, Out: c.Out, Kernel: c.Kernel, Stride: [2]int{c.Stride, c.Stride}, Padding: c.Padding,
		}),
		b.norm(name, c.Out, c.ReLU),
	)
}

// one is a unit of 1x1 that keeps a cell's filters.
func (b *builder) one(name string, c *cell) nn.Layer {
	return b.unit(name, convolution{In: c.filters, Out: c.filters})
}

// norm builds a batch norm, with [A]'s epsilon. The moving variance is unbiased,
// as in [A]'s fused kernel and in [T].
func (b *builder) norm(name string, channels int, relu bool) *nn.BatchNorm {
	return nn.NewBatchNorm(name, nn.BatchNormConfig{
		Channels: channels, Eps: 1e-3, Momentum: b.Momentum, Unbiased: true, ReLU: relu,
	})
}

// apply returns the only result of a layer of one input, which is x after its ReLU.
func apply(t *nn.Trace, l nn.Layer, x *graph.Node) *graph.Node { return l.Forward(t, x)[0] }

// bottleneck3x3 is 1x1 to a quarter of the filters, 3x3, and 1x1 to all. The ReLUs
// between units, here and below, are in their batch norms.
func (b *builder) bottleneck3x3(name string, in, filters, stride int) nn.Layer {
	q := filters / 4
	return nn.Sequential(name,
		b.unit(name+"/in", convolution{In: in, Out: q, ReLU: true}),
		b.unit(name+"/3x3", convolution{In: q, Out: q, Kernel: [2]int{3, 3}, Stride: stride, Padding: nn.Same, ReLU: true}),
		b.unit(name+"/out", convolution{In: q, Out: filters}),
	)
}

// bottleneck1x7 is 1x1 to a quarter of the filters, 1x7, 7x1, and 1x1 to all.
func (b *builder) bottleneck1x7(name string, filters int) nn.Layer {
	q := filters / 4
	return nn.Sequential(name,
		b.unit(name+"/in", convolution{In: filters, Out: q, ReLU: true}),
		b.unit(name+"/1x7", convolution{In: q, Out: q, Kernel: [2]int{1, 7}, Padding: nn.Same, ReLU: true}),
		b.unit(name+"/7x1", convolution{In: q, Out: q, Kernel: [2]int{7, 1}, Padding: nn.Same, ReLU: true}),
		b.unit(name+"/out", convolution{In: q, Out: filters}),
	)
}

// separable is two separable convolutions of kernel x kernel, whose taps are
// dilation pixels apart. The first has the stride.
func (b *builder) separable(name string, in, filters, kernel, stride, dilation int) nn.Layer {
	var parts []nn.Layer
	for i := range 2 {
		part := fmt.Sprintf("%s/%d", name, i+1)
		parts = append(parts, nn.NewSeparable(part, nn.SeparableConfig{
			In: in, Out: filters, Kernel: [2]int{kernel, kernel}, Stride: [2]int{stride, stride}, Dilation: dilation, Padding: nn.Same,
		}), b.norm(part, filters, i == 0))
		in, stride = filters, 1
	}
	return nn.Sequential(name, parts...)
}

// factorized reduces an image to 1/stride of its size by two 1x1
// convolutions, each to half of the channels. The second reads the image
// shifted by one pixel, so that the skipped pixels are read as well. A batch
// norm follows.
func (b *builder) factorized(name string, in, out, stride int) nn.Layer {
	c := nn.Conv2DConfig{In: in, Out: out / 2, Kernel: [2]int{1, 1}, Stride: [2]int{stride, stride}}
	shifted := c
	shifted.Padding = nn.Pads(-1, 1, -1, 1)
	path1, path2 := nn.NewConv2D(name+"/path1", c), nn.NewConv2D(name+"/path2", shifted)
	norm := b.norm(name, out, false)
	return nn.Func(name, func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
		return norm.Forward(t, t.Concat(apply(t, path1, in[0]), apply(t, path2, in[0])))
	}, nn.ParamsOf(path1, path2, norm)...)
}

func maxPool(t *nn.Trace, x *graph.Node, size, stride int) *graph.Node {
	w := op.Square(size, stride)
	return t.MaxPool(x, w.Same(x.Shape[1], x.Shape[2]))
}

// avgPool is 3x3 with stride 1. Pixels outside the image do not count.
func avgPool(t *nn.Trace, x *graph.Node) *graph.Node {
	return t.AvgPool(x, op.Square(3, 1).Same(x.Shape[1], x.Shape[2]))
}
