package ssd

import (
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// detector is a pipeline layer that makes a map and runs its heads.
type detector struct {
	name         string
	grow         []nn.Layer
	classes, box *nn.Conv2D
	last         bool // no other map is made of this one
}

// detector builds the layer of a map that is made of one with the given channels.
func (c Config) detector(name string, in int, m featureMap, last bool) nn.Layer {
	conv := func(name string, in, out, kernel, stride int, padding nn.Padding) *nn.Conv2D {
		return nn.NewConv2D(name, nn.Conv2DConfig{
			In: in, Out: out, Kernel: [2]int{kernel, kernel}, Stride: [2]int{stride, stride}, Padding: padding,
			Bias: true, Init: nn.GlorotUniform(), // the reference's xavier_uniform_
		})
	}
	d := &detector{
		name:    name,
		classes: conv("classes", m.channels, m.boxes*c.Classes, 3, 1, nn.Pad(1)),
		box:     conv("box", m.channels, m.boxes*4, 3, 1, nn.Pad(1)),
		last:    last,
	}
	if m.squeeze > 0 {
		padding := nn.Valid
		if m.stride > 1 {
			padding = nn.Pad(1)
		}
		d.grow = []nn.Layer{
			conv("squeeze", in, m.squeeze, 1, 1, nn.Valid), nn.NewActivation("", nn.ReLU),
			conv("conv", m.squeeze, m.channels, 3, m.stride, padding), nn.NewActivation("", nn.ReLU),
		}
	}
	return d
}

func (d *detector) Name() string { return d.name }

func (d *detector) Params() (all []*nn.Param) {
	for _, l := range d.grow {
		all = append(all, l.Params()...)
	}
	return append(append(all, d.classes.Params()...), d.box.Params()...)
}

// Forward takes what earlier heads found, and the map before as the last tensor. It
// returns what all heads so far have found, classes (n, h, w, boxes x classes) and
// offsets (n, h, w, boxes x 4) of each, followed by its own map if another one is made
// of it.
func (d *detector) Forward(t *nn.Trace, in ...*graph.Node) []*graph.Node {
	found, x := in[:len(in)-1], in[len(in)-1:]
	for _, l := range d.grow {
		x = l.Forward(t, x...)
	}
	out := append(append([]*graph.Node{}, found...), d.classes.Forward(t, x[0])[0], d.box.Forward(t, x[0])[0])
	if d.last {
		return out
	}
	return append(out, x[0])
}
