package ssd

import (
	"slices"

	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// detector builds a pipeline layer that makes a map, of one with the given channels, and
// runs its heads. It takes what earlier heads found, and the map before as the last
// tensor. It returns what all heads so far have found, classes (n, h, w, boxes x classes)
// and offsets (n, h, w, boxes x 4) of each, followed by its own map unless that is the
// last.
func (c Config) detector(name string, in int, m featureMap, last bool) nn.Layer {
	conv := func(name string, in, out, kernel, stride int, padding nn.Padding) *nn.Conv2D {
		return nn.NewConv2D(name, nn.Conv2DConfig{
			In: in, Out: out, Kernel: [2]int{kernel, kernel}, Stride: [2]int{stride, stride}, Padding: padding,
			Bias: true, Init: nn.GlorotUniform(), // the reference's xavier_uniform_
		})
	}
	grow := nn.Sequential("grow") // the first map is the backbone's output
	if m.squeeze > 0 {
		padding := nn.Valid
		if m.stride > 1 {
			padding = nn.Pad(1)
		}
		grow = nn.Sequential("grow",
			conv("squeeze", in, m.squeeze, 1, 1, nn.Valid), nn.NewActivation("", nn.ReLU),
			conv("conv", m.squeeze, m.channels, 3, m.stride, padding), nn.NewActivation("", nn.ReLU),
		)
	}
	classes, box := conv("classes", m.channels, m.boxes*c.Classes, 3, 1, nn.Pad(1)), conv("box", m.channels, m.boxes*4, 3, 1, nn.Pad(1))
	return nn.Func(name, func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
		x := grow.Forward(t, in[len(in)-1])[0]
		out := append(slices.Clone(in[:len(in)-1]), classes.Forward(t, x)[0], box.Forward(t, x)[0])
		if last {
			return out
		}
		return append(out, x)
	}, nn.ParamsOf(grow, classes, box)...)
}
