package op

import "fmt"

// Window describes how a convolution's or a pool's kernel moves over images (N,
// H, W, C). Output (oh, ow) covers the pixels (oh*SH+kh-Top, ow*SW+kw-Left) for
// 0 <= kh < KH, 0 <= kw < KW.
type Window struct {
	KH, KW int // the kernel's height and width, at least 1
	SH, SW int // strides, at least 1
	// Padding beyond the image's edges, in pixels. A negative one crops: the
	// second convolution of a factorised reduction has Top = Left = -1, which
	// shifts its input by one pixel.
	Top, Bottom, Left, Right int
}

// Square is a k x k window without padding.
func Square(k, stride int) Window { return Window{KH: k, KW: k, SH: stride, SW: stride} }

// Padded pads all edges by p pixels.
func (w Window) Padded(p int) Window {
	w.Top, w.Bottom, w.Left, w.Right = p, p, p, p
	return w
}

// Same pads images of the given size as TensorFlow's SAME does: the output has
// ceil(size/stride) pixels, and the necessary padding is halved, with the odd
// pixel at the bottom and on the right.
func (w Window) Same(height, width int) Window {
	half := func(size, k, s int) (before, after int) {
		total := max(((size+s-1)/s-1)*s+k-size, 0)
		return total / 2, total - total/2
	}
	w.Top, w.Bottom = half(height, w.KH, w.SH)
	w.Left, w.Right = half(width, w.KW, w.SW)
	return w
}

// Out returns the output size for images of the given size, below 1 if the
// kernel does not fit.
func (w Window) Out(height, width int) (oh, ow int) {
	out := func(size, k, s int) int {
		if size < k {
			return 0
		}
		return (size-k)/s + 1
	}
	return out(height+w.Top+w.Bottom, w.KH, w.SH), out(width+w.Left+w.Right, w.KW, w.SW)
}

func (w Window) String() string {
	return fmt.Sprintf("%dx%d stride %dx%d padding %d,%d,%d,%d", w.KH, w.KW, w.SH, w.SW, w.Top, w.Bottom, w.Left, w.Right)
}

// Dilated returns the window that the taps of w's kernel span if each is the given number of
// pixels from the next.
func (w Window) Dilated(pixels int) Window {
	w.KH, w.KW = (w.KH-1)*pixels+1, (w.KW-1)*pixels+1
	return w
}

// Conv2D is a two-dimensional convolution (in fact a cross-correlation, as is
// the custom) of channels-last images: x (N, H, W, C) and w (KH, KW, C, O) give
// (N, OH, OW, O).
type Conv2D struct{ Window }

// ConvInputGrad returns dx (N, H, W, C) from dy and w.
type ConvInputGrad struct {
	Window
	H, W int
}

// ConvWeightGrad adds to dw (KH, KW, C, O) from x and dy: one chain over
// examples, rows and columns, ascending.
type ConvWeightGrad struct{ Window }

// Depthwise is a depthwise convolution of channels-last images: each channel
// of x (N, H, W, C) with its own kernel of w (KH, KW, C) gives (N, OH, OW, C).
// A separable convolution is one of these and a 1x1 convolution after it.
type Depthwise struct {
	Window
	Dilation int // pixels from one tap of the kernel to the next, at least 1
}

func (o Depthwise) String() string {
	if o.Dilation == 1 {
		return o.Window.String()
	}
	return fmt.Sprintf("%v dilation %d", o.Window, o.Dilation)
}

// DepthwiseInputGrad returns dx (N, H, W, C) from dy and w.
type DepthwiseInputGrad struct {
	Of   Depthwise
	H, W int
}

func (o DepthwiseInputGrad) String() string { return o.Of.String() }

// DepthwiseWeightGrad adds to dw (KH, KW, C) from x and dy: one chain over
// examples, rows and columns, ascending.
type DepthwiseWeightGrad struct{ Of Depthwise }

func (o DepthwiseWeightGrad) String() string { return o.Of.String() }

// MaxPool is the largest pixel of each window, channel by channel; positions
// outside the image take no part.
type MaxPool struct{ Window }

// MaxPoolGrad takes dy, x, y. The first of equal maxima gets the gradient.
type MaxPoolGrad struct{ Window }

// AvgPool is the mean of each window's pixels inside the image; padding does
// not count.
type AvgPool struct{ Window }

// AvgPoolGrad returns dx (N, H, W, C) from dy.
type AvgPoolGrad struct {
	Window
	H, W int
}

// GlobalAvgPool is the mean over all pixels: x (N, H, W, C) becomes (N, C).
type GlobalAvgPool struct{}

// GlobalAvgPoolGrad returns dx (N, H, W, C) from dy (N, C).
type GlobalAvgPoolGrad struct{ H, W int }
