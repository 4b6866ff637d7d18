package workload

import (
	"cmp"
	"fmt"

	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// ConvNet is a network for images in which no example sees another, so that its
// bits do not depend on M either: there is no batch norm. It is not among
// Models, as nothing else is to be learned from it.
const ConvNet = "convnet"

// buildConvNet makes Layers residual blocks of Filters channels, with every kind
// of convolution and pool that the papers' networks have.
func (m Model) buildConvNet() ([]nn.Layer, error) {
	if m.Layers < 1 || m.Filters < 1 || m.Classes < 1 {
		return nil, fmt.Errorf("%s of %d layers, %d filters and %d classes: want 1 or more of each", ConvNet, m.Layers, m.Filters, m.Classes)
	}
	channels := cmp.Or(m.Channels, 3)
	layers := []nn.Layer{nn.Sequential("stem", newConv("conv", channels, m.Filters, 3, 3))}
	for i := range m.Layers {
		b := &convBlock{
			wide:   newConv("wide", m.Filters, m.Filters, 3, 3),
			row:    newConv("row", m.Filters, m.Filters, 1, 7),
			column: newConv("column", m.Filters, m.Filters, 7, 1),
			fit:    newConv("fit", 2*m.Filters, m.Filters, 1, 1),
			drop:   nn.NewDropPath("drop-path", float32(m.DropPath)),
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
		nn.NewDropout("dropout", float32(m.Dropout)),
		nn.NewDense("", nn.DenseConfig{In: m.Filters, Out: m.Classes}),
	)), nil
}

// newConv draws from less than He's deviation, since no norm keeps sums in check.
func newConv(name string, in, out, height, width int) *nn.Conv2D {
	return nn.NewConv2D(name, nn.Conv2DConfig{
		In: in, Out: out, Kernel: [2]int{height, width}, Padding: nn.Same, Bias: true, Init: nn.Scaled(nn.HeNormal(), 0.5),
	})
}

// convBlock is x + a branch that brings together a 3x3 convolution and a 1x7 and
// a 7x1 one, and perhaps a pool behind it.
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
