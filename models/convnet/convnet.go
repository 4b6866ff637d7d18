// Package convnet builds a network for images without batch norm: no example
// affects another, so its bits do not depend on M either. It exists for tests
// of the same bits and for nothing else.
package convnet

import (
	"fmt"

	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// Config describes a network.
type Config struct {
	Layers   int     // residual blocks, 1 or more
	Filters  int     // channels of each block, 1 or more
	Channels int     // of the images, 1 or more
	Classes  int     // 1 or more
	DropPath float32 // rate at which blocks' branches are left out, in [0, 1)
	Dropout  float32 // rate before the classifier, in [0, 1)
}

// New returns a stem, the residual blocks and a classifier, with every kind of
// convolution and pool that the papers' networks have.
func New(c Config) ([]nn.Layer, error) {
	if c.Layers < 1 || c.Filters < 1 || c.Channels < 1 || c.Classes < 1 {
		return nil, fmt.Errorf("convnet of %d layers, %d filters, %d channels and %d classes: want 1 or more of each", c.Layers, c.Filters, c.Channels, c.Classes)
	}
	layers := []nn.Layer{nn.Sequential("stem", newConv("conv", c.Channels, c.Filters, 3, 3))}
	for i := range c.Layers {
		b := &convBlock{
			wide:   newConv("wide", c.Filters, c.Filters, 3, 3),
			row:    newConv("row", c.Filters, c.Filters, 1, 7),
			column: newConv("column", c.Filters, c.Filters, 7, 1),
			fit:    newConv("fit", 2*c.Filters, c.Filters, 1, 1),
			drop:   nn.NewDropPath("drop-path", c.DropPath),
		}
		switch i % 4 {
		case 1:
			b.pool = nn.NewMaxPool("pool", nn.PoolConfig{Kernel: [2]int{3, 3}, Stride: [2]int{2, 2}, Padding: nn.Same})
		case 3:
			b.pool = nn.NewAvgPool("pool", nn.PoolConfig{Kernel: [2]int{3, 3}, Stride: [2]int{2, 2}, Padding: nn.Same})
		}
		layers = append(layers, nn.Sequential(fmt.Sprint("block", i+1), b))
	}
	return append(layers, nn.Sequential("classifier",
		nn.NewGlobalAvgPool("pool"),
		nn.NewDropout("dropout", c.Dropout),
		nn.NewDense("", nn.DenseConfig{In: c.Filters, Out: c.Classes}),
	)), nil
}

// newConv returns a convolution whose weights are half as large as He's, since
// no norm limits the sums.
func newConv(name string, in, out, height, width int) *nn.Conv2D {
	return nn.NewConv2D(name, nn.Conv2DConfig{
		In: in, Out: out, Kernel: [2]int{height, width}, Padding: nn.Same, Bias: true, Init: nn.Scaled(nn.HeNormal(), 0.5),
	})
}

// convBlock is x + a branch that joins a 3x3 convolution and a 1x7 and a 7x1 one. A
// pool may follow.
type convBlock struct {
	wide, row, column, fit *nn.Conv2D
	drop                   *nn.DropPath
	pool                   *nn.Pool // nil: none
}

func (b *convBlock) Name() string { return "" } // its parts have names

func (b *convBlock) Params() (all []*nn.Param) {
	for _, c := range []*nn.Conv2D{b.wide, b.row, b.column, b.fit} {
		all = append(all, c.Params()...)
	}
	return all
}

func (b *convBlock) Forward(t *nn.Trace, in ...*graph.Node) []*graph.Node {
	wide := b.wide.Forward(t, in...)[0]
	long := b.column.Forward(t, b.row.Forward(t, in...)...)[0]
	branch := b.drop.Forward(t, b.fit.Forward(t, t.ReLU(t.Concat(wide, long)))...)[0]
	out := []*graph.Node{t.ReLU(t.Add(in[0], branch))}
	if b.pool != nil {
		out = b.pool.Forward(t, out...)
	}
	return out
}
