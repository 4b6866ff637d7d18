package graph

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

// infer returns Out for x, after checking w and x.
func (w Window) infer(op string, x *Node) (oh, ow int) {
	wantImages(op, x)
	if w.KH < 1 || w.KW < 1 || w.SH < 1 || w.SW < 1 {
		misuse(op, "window %s, want sizes and strides of at least 1", w)
	}
	oh, ow = w.Out(x.Shape[1], x.Shape[2])
	if oh < 1 || ow < 1 {
		misuse(op, "images %s are smaller than the window %s", x, w)
	}
	return oh, ow
}

func wantImages(op string, x *Node) {
	wantFloat(op, x)
	if len(x.Shape) != 4 {
		misuse(op, "input %s is not (N, H, W, C)", x)
	}
}
