package nn

import "gpipebench/nn/graph"

// PoolConfig describes a pool over images (N, H, W, C).
type PoolConfig struct {
	Kernel  [2]int  // height, width
	Stride  [2]int  // zeros: 1
	Padding Padding // zero: Valid; padded pixels take no part
}

// Pool is a max or an average pool.
type Pool struct {
	name   string
	config PoolConfig
	window graph.Window
	max    bool
}

// NewMaxPool returns a layer that computes the largest value of each window.
func NewMaxPool(name string, c PoolConfig) *Pool {
	return &Pool{name, c, newWindow("max pool", name, c.Kernel, c.Stride), true}
}

// NewAvgPool returns a layer that computes the mean of each window's pixels
// inside the image.
func NewAvgPool(name string, c PoolConfig) *Pool {
	return &Pool{name, c, newWindow("average pool", name, c.Kernel, c.Stride), false}
}

func (p *Pool) Name() string { return p.name }

func (p *Pool) Params() []*Param { return nil }

// Forward takes images (N, H, W, C) and returns (N, H', W', C).
func (p *Pool) Forward(t *Trace, in ...*graph.Node) []*graph.Node {
	WantTuple("pool", p.name, in, 1)
	wantImages("pool", p.name, in[0])
	w := p.config.Padding.of(p.window, in[0])
	if p.max {
		return []*graph.Node{t.MaxPool(in[0], w)}
	}
	return []*graph.Node{t.AvgPool(in[0], w)}
}

// GlobalAvgPool is the mean over all pixels: (N, H, W, C) becomes (N, C).
type GlobalAvgPool struct{ name string }

// NewGlobalAvgPool returns a global average pool.
func NewGlobalAvgPool(name string) *GlobalAvgPool { return &GlobalAvgPool{name} }

func (p *GlobalAvgPool) Name() string { return p.name }

func (p *GlobalAvgPool) Params() []*Param { return nil }

// Forward takes images (N, H, W, C) and returns (N, C).
func (p *GlobalAvgPool) Forward(t *Trace, in ...*graph.Node) []*graph.Node {
	WantTuple("global average pool", p.name, in, 1)
	wantImages("global average pool", p.name, in[0])
	return []*graph.Node{t.GlobalAvgPool(in[0])}
}
