package nn

import (
	"cmp"
	"path"

	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// DepthwiseConfig describes a depthwise convolution.
type DepthwiseConfig struct {
	Channels int         // at least 1
	Kernel   [2]int      // height, width
	Stride   [2]int      // of rows and columns; zeros: 1
	Dilation int         // pixels from one tap of the kernel to the next; 0: 1
	Padding  Padding     // zero: Valid
	Init     Initializer // of the weight; nil: HeNormal
}

// Depthwise is a convolution of images (N, H, W, C), each channel with its own
// kernel, without a bias.
type Depthwise struct {
	Weight *Param // (height, width, channels)

	named
	config DepthwiseConfig
	window op.Window
}

// NewDepthwise returns a depthwise convolution. Its parameter is name/weight.
func NewDepthwise(name string, c DepthwiseConfig) (l *Depthwise) {
	c.Dilation = cmp.Or(c.Dilation, 1)
	l = &Depthwise{named: named{name: name}, config: c}
	defer l.keep()
	wantPositive("depthwise", name, "Channels", c.Channels)
	wantPositive("depthwise", name, "Dilation", c.Dilation)
	l.window = newWindow("depthwise", name, c.Kernel, c.Stride)
	l.Weight = l.own("weight", Param{Shape: graph.Shape{c.Kernel[0], c.Kernel[1], c.Channels}, Init: orInit(c.Init, HeNormal())})
	return l
}

// Forward takes images (N, H, W, C) and returns (N, H', W', C).
func (d *Depthwise) Forward(t *Trace, in ...*graph.Node) []*graph.Node {
	WantTuple("depthwise", d.name, in, 1)
	wantImages("depthwise", d.name, in[0])
	wantWidth("depthwise", d.name, in[0], d.config.Channels)
	window := d.config.Padding.of(d.window.Dilated(d.config.Dilation), in[0]) // the op sets the kernel's size
	return []*graph.Node{t.Depthwise(in[0], t.Param(d.Weight), window, d.config.Dilation)}
}

// SeparableConfig describes a separable convolution.
type SeparableConfig struct {
	In, Out  int     // channels, at least 1
	Kernel   [2]int  // of the depthwise convolution: height, width
	Stride   [2]int  // of rows and columns; zeros: 1
	Dilation int     // pixels from one tap of the kernel to the next; 0: 1
	Padding  Padding // zero: Valid
}

// NewSeparable returns a depthwise convolution, which has stride and padding,
// and a 1x1 convolution after it (Chollet 2017, without an activation between
// them): images (N, H, W, in) become (N, H', W', out). The parameters are
// name/depthwise/weight and name/pointwise/weight.
func NewSeparable(name string, c SeparableConfig) (l Layer) {
	defer refused(&l, name)
	wantPositive("separable", name, "In", c.In)
	wantPositive("separable", name, "Out", c.Out)
	depthwise := NewDepthwise(path.Join(name, "depthwise"), DepthwiseConfig{
		Channels: c.In, Kernel: c.Kernel, Stride: c.Stride, Dilation: c.Dilation, Padding: c.Padding,
	})
	pointwise := NewConv2D(path.Join(name, "pointwise"), Conv2DConfig{In: c.In, Out: c.Out, Kernel: [2]int{1, 1}})
	return Func(name, func(t *Trace, in ...*graph.Node) []*graph.Node {
		return pointwise.Forward(t, depthwise.Forward(t, in...)...)
	}, ParamsOf(depthwise, pointwise)...)
}
