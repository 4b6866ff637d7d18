package nn

import (
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// PoolConfig describes a pool over images (N, H, W, C).
type PoolConfig struct {
	Kernel  [2]int  // height, width
	Stride  [2]int  // zeros: 1
	Padding Padding // zero: Valid; padded pixels take no part
}

// NewMaxPool returns a layer that computes the largest value of each window of images:
// (N, H, W, C) becomes (N, H', W', C).
func NewMaxPool(name string, c PoolConfig) Layer {
	return newPool("max pool", name, c, (*Trace).MaxPool)
}

// NewAvgPool returns a layer that computes the mean of each window's pixels
// inside the image: (N, H, W, C) becomes (N, H', W', C).
func NewAvgPool(name string, c PoolConfig) Layer {
	return newPool("average pool", name, c, (*Trace).AvgPool)
}

func newPool(kind, name string, c PoolConfig, pool func(*Trace, *graph.Node, op.Window) *graph.Node) (l Layer) {
	defer refused(&l, name)
	window := newWindow(kind, name, c.Kernel, c.Stride)
	return unary("pool", name, func(t *Trace, x *graph.Node) *graph.Node {
		wantImages("pool", name, x)
		return pool(t, x, c.Padding.of(window, x))
	})
}

// NewGlobalAvgPool returns a layer that computes the mean over all pixels: (N, H, W, C)
// becomes (N, C).
func NewGlobalAvgPool(name string) Layer {
	return unary("global average pool", name, func(t *Trace, x *graph.Node) *graph.Node {
		wantImages("global average pool", name, x)
		return t.GlobalAvgPool(x)
	})
}
