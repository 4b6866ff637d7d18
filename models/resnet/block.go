package resnet

import (
	"fmt"

	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// expansion is the ratio of a block's output channels to those of its 3x3
// convolutions.
func (c Config) expansion() int {
	if c.Basic {
		return 1
	}
	return 4
}

// block is one bottleneck,
//
//	y = relu(bn(1x1(relu(bn(3x3(relu(bn(1x1(x)))))))) + shortcut(x))
//
// or one basic block,
//
//	y = relu(bn(3x3(relu(bn(3x3(x))))) + shortcut(x))
//
// whose shortcut is x itself, or a strided 1x1 convolution with a batch norm if
// y has another shape. The stride is that of the first 3x3 convolution.
type block struct {
	name      string
	in, width int
	stride    int
}

// block builds b as one pipeline layer or, if fine, as one for each of the
// branch's convolutions.
func (c Config) block(b block) []nn.Layer {
	out := c.expansion() * b.width
	kernels := []nn.Conv2DConfig{
		{In: b.in, Out: b.width, Kernel: [2]int{1, 1}},
		{In: b.width, Out: b.width, Kernel: [2]int{3, 3}, Stride: [2]int{b.stride, b.stride}, Padding: nn.Pad(1)},
		{In: b.width, Out: out, Kernel: [2]int{1, 1}},
	}
	if c.Basic {
		kernels = []nn.Conv2DConfig{
			{In: b.in, Out: b.width, Kernel: [2]int{3, 3}, Stride: [2]int{b.stride, b.stride}, Padding: nn.Pad(1)},
			{In: b.width, Out: out, Kernel: [2]int{3, 3}, Padding: nn.Pad(1)},
		}
	}
	var parts []nn.Layer
	for i, kernel := range kernels {
		name := fmt.Sprintf("conv%d", i+1)
		conv := nn.NewConv2D(name, kernel)
		if i < len(kernels)-1 {
			parts = append(parts, &branch{name, []nn.Layer{conv, c.norm(name, b.width, true)}})
			continue
		}
		last := c.norm(name, out, false)
		if c.ZeroInit {
			last = nn.NewBatchNorm(name, c.batchNorm(out, false, nn.Zeros()))
		}
		end := &merge{branch: branch{name, []nn.Layer{conv, last}}}
		if b.stride > 1 || b.in != out {
			end.shortcut = []nn.Layer{
				nn.NewConv2D("shortcut", nn.Conv2DConfig{In: b.in, Out: out, Kernel: [2]int{1, 1}, Stride: [2]int{b.stride, b.stride}}),
				c.norm("shortcut", out, false),
			}
		}
		parts = append(parts, end)
	}
	if !c.Fine {
		return []nn.Layer{nn.Sequential(b.name, parts...)}
	}
	for i, part := range parts {
		parts[i] = nn.Part(b.name, b.name+"/"+part.Name(), part)
	}
	return parts
}

// norm builds the batch norm after the convolution of that name.
func (c Config) norm(name string, channels int, relu bool) *nn.BatchNorm {
	return nn.NewBatchNorm(name, c.batchNorm(channels, relu, nil))
}

// batchNorm has an unbiased moving variance, as in torchvision.
func (c Config) batchNorm(channels int, relu bool, init nn.Initializer) nn.BatchNormConfig {
	return nn.BatchNormConfig{Channels: channels, Eps: c.Eps, Momentum: c.Momentum, Unbiased: true, ReLU: relu, Init: init}
}

// branch is a part of a block's branch; the block's input is passed along with
// it.
type branch struct {
	name   string
	layers []nn.Layer
}

func (b *branch) Name() string { return b.name }

func (b *branch) Params() []*nn.Param { return params(b.layers) }

// Forward takes the branch and the block's input, or only the latter at the
// block's beginning, and returns the branch's next value and the block's input.
func (b *branch) Forward(t *nn.Trace, in ...*graph.Node) []*graph.Node {
	return []*graph.Node{run(t, b.layers, in[0]), in[len(in)-1]}
}

// merge is the end of a block's branch, where the shortcut is added.
type merge struct {
	branch
	shortcut []nn.Layer // none: the identity
}

func (m *merge) Params() []*nn.Param { return append(m.branch.Params(), params(m.shortcut)...) }

// Forward takes the branch and the block's input and returns the block's
// output.
func (m *merge) Forward(t *nn.Trace, in ...*graph.Node) []*graph.Node {
	h := run(t, m.layers, in[0])
	return []*graph.Node{t.ReLU(t.Add(h, run(t, m.shortcut, in[1])))}
}

func run(t *nn.Trace, layers []nn.Layer, x *graph.Node) *graph.Node {
	for _, l := range layers {
		x = l.Forward(t, x)[0]
	}
	return x
}

func params(layers []nn.Layer) (all []*nn.Param) {
	for _, l := range layers {
		all = append(all, l.Params()...)
	}
	return all
}
