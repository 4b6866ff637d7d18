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
		block := newBlock(c)
		window := nn.PoolConfig{Kernel: [2]int{3, 3}, Stride: [2]int{2, 2}, Padding: nn.Same}
		switch i % 4 {
		case 1:
			block = append(block, nn.NewMaxPool("pool", window))
		case 3:
			block = append(block, nn.NewAvgPool("pool", window))
		}
		layers = append(layers, nn.Sequential(fmt.Sprint("block", i+1), block...))
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

// newBlock is x + a branch that joins a 3x3 convolution and a 1x7 and a 7x1 one.
func newBlock(c Config) []nn.Layer {
	wide := newConv("wide", c.Filters, c.Filters, 3, 3)
	row, column := newConv("row", c.Filters, c.Filters, 1, 7), newConv("column", c.Filters, c.Filters, 7, 1)
	fit, drop := newConv("fit", 2*c.Filters, c.Filters, 1, 1), nn.NewDropPath("drop-path", c.DropPath)
	return []nn.Layer{nn.Func("", func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
		short := wide.Forward(t, in...)[0]
		long := column.Forward(t, row.Forward(t, in...)...)[0]
		branch := drop.Forward(t, fit.Forward(t, t.ReLU(t.Concat(short, long)))...)[0]
		return []*graph.Node{t.ReLU(t.Add(in[0], branch))}
	}, nn.ParamsOf(wide, row, column, fit)...)}
}
