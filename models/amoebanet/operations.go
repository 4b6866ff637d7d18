package amoebanet

import (
	"fmt"

	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// convolution describes a [unit]. Zeros mean a kernel of 1x1 and a stride of 1.
type convolution struct {
	In, Out int
	Kernel  [2]int
	Stride  int
	Padding nn.Padding // zero: none
	ReLU    bool       // after the batch norm, if nothing else reads its output
}

// unit is a convolution without bias and a batch norm. The ReLU before them is
// computed with their input, once for all its readers.
type unit struct {
	conv nn.Layer
	norm *nn.BatchNorm
}

// unit builds a unit whose parameters are name/weight, name/gamma and
// name/beta.
func (b *builder) unit(name string, c convolution) *unit {
	if c.Kernel == [2]int{} {
		c.Kernel = [2]int{1, 1}
	}
	return &unit{
		nn.NewConv2D(name, nn.Conv2DConfig{
			In: c.In, Out: c.Out, Kernel: c.Kernel, Stride: [2]int{c.Stride, c.Stride}, Padding: c.Padding,
		}),
		b.norm(name, c.Out, c.ReLU),
	}
}

// norm builds a batch norm. The moving variance is unbiased, as in [A]'s fused
// kernel and in [T].
func (b *builder) norm(name string, channels int, relu bool) *nn.BatchNorm {
	return nn.NewBatchNorm(name, nn.BatchNormConfig{
		Channels: channels, Eps: b.Eps, Momentum: b.Momentum, Unbiased: true, ReLU: relu,
	})
}

func (u *unit) Name() string { return u.conv.Name() }

func (u *unit) Params() []*nn.Param { return params(u.conv, u.norm) }

// Forward takes x after its ReLU.
func (u *unit) Forward(t *nn.Trace, in ...*graph.Node) []*graph.Node {
	return u.norm.Forward(t, u.conv.Forward(t, in...)...)
}

func (u *unit) apply(t *nn.Trace, x *graph.Node) *graph.Node { return u.Forward(t, x)[0] }

// chain is a sequence of units. The ReLUs between them are in their batch norms.
type chain struct {
	name  string
	units []*unit
}

// bottleneck3x3 is 1x1 to a quarter of the filters, 3x3, and 1x1 to all.
func (b *builder) bottleneck3x3(name string, in, filters, stride int) *chain {
	q := filters / 4
	return &chain{name, []*unit{
		b.unit(name+"/in", convolution{In: in, Out: q, ReLU: true}),
		b.unit(name+"/3x3", convolution{In: q, Out: q, Kernel: [2]int{3, 3}, Stride: stride, Padding: nn.Same, ReLU: true}),
		b.unit(name+"/out", convolution{In: q, Out: filters}),
	}}
}

// bottleneck1x7 is 1x1 to a quarter of the filters, 1x7, 7x1, and 1x1 to all.
func (b *builder) bottleneck1x7(name string, filters int) *chain {
	q := filters / 4
	return &chain{name, []*unit{
		b.unit(name+"/in", convolution{In: filters, Out: q, ReLU: true}),
		b.unit(name+"/1x7", convolution{In: q, Out: q, Kernel: [2]int{1, 7}, Padding: nn.Same, ReLU: true}),
		b.unit(name+"/7x1", convolution{In: q, Out: q, Kernel: [2]int{7, 1}, Padding: nn.Same, ReLU: true}),
		b.unit(name+"/out", convolution{In: q, Out: filters}),
	}}
}

// separable is two separable convolutions of kernel x kernel, whose taps are
// dilation pixels apart. The first has the stride.
func (b *builder) separable(name string, in, filters, kernel, stride, dilation int) *chain {
	c := &chain{name: name}
	for i := range 2 {
		part := fmt.Sprintf("%s/%d", name, i+1)
		c.units = append(c.units, &unit{
			nn.NewSeparable(part, nn.SeparableConfig{
				In: in, Out: filters, Kernel: [2]int{kernel, kernel}, Stride: [2]int{stride, stride}, Dilation: dilation, Padding: nn.Same,
			}),
			b.norm(part, filters, i == 0),
		})
		in, stride = filters, 1
	}
	return c
}

func (c *chain) Name() string { return c.name }

func (c *chain) Params() (all []*nn.Param) {
	for _, u := range c.units {
		all = append(all, u.Params()...)
	}
	return all
}

// Forward takes x after its ReLU.
func (c *chain) Forward(t *nn.Trace, in ...*graph.Node) []*graph.Node {
	for _, u := range c.units {
		in = u.Forward(t, in...)
	}
	return in
}

func (c *chain) apply(t *nn.Trace, x *graph.Node) *graph.Node { return c.Forward(t, x)[0] }

// factorizedReduction reduces an image to 1/stride of its size by two 1x1
// convolutions, each to half of the channels. The second reads the image
// shifted by one pixel, so that the skipped pixels are read as well. A batch
// norm follows.
type factorizedReduction struct {
	name  string
	paths [2]*nn.Conv2D
	norm  *nn.BatchNorm
}

func (b *builder) factorized(name string, in, out, stride int) *factorizedReduction {
	c := nn.Conv2DConfig{In: in, Out: out / 2, Kernel: [2]int{1, 1}, Stride: [2]int{stride, stride}}
	shifted := c
	shifted.Padding = nn.Pads(-1, 1, -1, 1)
	return &factorizedReduction{
		name,
		[2]*nn.Conv2D{nn.NewConv2D(name+"/path1", c), nn.NewConv2D(name+"/path2", shifted)},
		b.norm(name, out, false),
	}
}

func (f *factorizedReduction) Name() string { return f.name }

func (f *factorizedReduction) Params() []*nn.Param { return params(f.paths[0], f.paths[1], f.norm) }

// Forward takes x after its ReLU.
func (f *factorizedReduction) Forward(t *nn.Trace, in ...*graph.Node) []*graph.Node {
	path1, path2 := f.paths[0].Forward(t, in...)[0], f.paths[1].Forward(t, in...)[0]
	return f.norm.Forward(t, t.Concat(path1, path2))
}

func maxPool(t *nn.Trace, x *graph.Node, size, stride int) *graph.Node {
	w := graph.Square(size, stride)
	return t.MaxPool(x, w.Same(x.Shape[1], x.Shape[2]))
}

// avgPool is 3x3 with stride 1. Pixels outside the image do not count.
func avgPool(t *nn.Trace, x *graph.Node) *graph.Node {
	return t.AvgPool(x, graph.Square(3, 1).Same(x.Shape[1], x.Shape[2]))
}
