package nn

import (
	"cmp"

	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// Padding says what surrounds images when a window passes over them. The zero
// value is Valid: nothing.
type Padding struct {
	same                     bool
	top, bottom, left, right int
}

// Valid pads nothing: windows stay inside the image.
var Valid Padding

// Same pads so that the output has ceil(size/stride) pixels, as TensorFlow's
// SAME does; an odd pixel goes to the bottom and to the right.
var Same = Padding{same: true}

// Pad pads all edges by p pixels.
func Pad(p int) Padding { return Pads(p, p, p, p) }

// Pads pads each edge by its own number of pixels; a negative one crops.
func Pads(top, bottom, left, right int) Padding {
	return Padding{top: top, bottom: bottom, left: left, right: right}
}

// of returns window w with the padding that p means for images x (N, H, W, C).
func (p Padding) of(w op.Window, x *graph.Node) op.Window {
	if p.same {
		return w.Same(x.Shape[1], x.Shape[2])
	}
	w.Top, w.Bottom, w.Left, w.Right = p.top, p.bottom, p.left, p.right
	return w
}

// Conv2DConfig describes a convolution.
type Conv2DConfig struct {
	In, Out int         // channels, at least 1
	Kernel  [2]int      // height, width
	Stride  [2]int      // of rows and columns; zeros: 1
	Padding Padding     // zero: Valid
	Bias    bool        // zero: none, as a batch norm follows
	Init    Initializer // of the weight; nil: HeNormal
	// ByChannels says that parts of a stage can divide the channels of the results, for which each needs all
	// channels of the images (program.Stage.Split).
	ByChannels bool
}

// Conv2D is a two-dimensional convolution of images (N, H, W, C).
type Conv2D struct {
	Weight *Param // (height, width, in, out)
	Bias   *Param // (out), or nil

	named
	config Conv2DConfig
	window op.Window
}

// NewConv2D returns a convolution. Its parameters are name/weight and, if there
// is a bias, name/bias.
func NewConv2D(name string, c Conv2DConfig) (l *Conv2D) {
	l = &Conv2D{named: named{name: name}, config: c}
	defer l.keep()
	wantPositive("conv2d", name, "In", c.In)
	wantPositive("conv2d", name, "Out", c.Out)
	l.window = newWindow("conv2d", name, c.Kernel, c.Stride)
	l.Weight = l.own("weight", Param{Shape: graph.Shape{c.Kernel[0], c.Kernel[1], c.In, c.Out}, Init: orInit(c.Init, HeNormal())})
	if c.Bias {
		l.Bias = l.own("bias", Param{Shape: graph.Shape{c.Out}, Init: Zeros(), NoDecay: true})
	}
	if c.ByChannels {
		l.Weight.Split = graph.Split{Axis: 3, Sections: 1, Units: c.Out}
		if c.Bias {
			l.Bias.Split = graph.Split{Sections: 1, Units: c.Out}
		}
	}
	return l
}

// Forward takes images (N, H, W, in) and returns (N, H', W', out).
func (v *Conv2D) Forward(t *Trace, in ...*graph.Node) []*graph.Node {
	WantTuple("conv2d", v.name, in, 1)
	wantImages("conv2d", v.name, in[0])
	wantWidth("conv2d", v.name, in[0], v.config.In)
	y := t.Conv2D(in[0], t.Param(v.Weight), v.config.Padding.of(v.window, in[0]))
	if v.Bias != nil {
		y = t.AddBias(y, t.Param(v.Bias))
	}
	return []*graph.Node{y}
}

// newWindow checks a kernel and a stride; a stride of 0 means 1.
func newWindow(kind, name string, kernel, stride [2]int) op.Window {
	for i, k := range kernel {
		wantPositive(kind, name, "Kernel", k)
		stride[i] = cmp.Or(stride[i], 1)
		wantPositive(kind, name, "Stride", stride[i])
	}
	return op.Window{KH: kernel[0], KW: kernel[1], SH: stride[0], SW: stride[1]}
}

func wantImages(kind, name string, x *graph.Node) {
	if len(x.Shape) != 4 {
		misuse(kind, name, "%s comes in, want images (N, H, W, C)", x)
	}
}
