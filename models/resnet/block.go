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
// y has another shape. The stride belongs to the first 3x3 convolution.
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
	for i, kernel := range kernels[:len(kernels)-1] {
		// The block's input is passed along with the branch's values.
		name := fmt.Sprintf("conv%d", i+1)
		layer := nn.Sequential(name, conv(name, kernel), c.norm(name, b.width, true))
		parts = append(parts, nn.Func(name, func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
			return append(layer.Forward(t, in[0]), in[len(in)-1])
		}, layer.Params()...))
	}
	parts = append(parts, c.merge(fmt.Sprintf("conv%d", len(kernels)), kernels[len(kernels)-1], b))
	return nn.Cut(c.Fine, b.name, parts...)
}

// merge is the end of a block's branch: its last convolution, to which the shortcut is
// added. It takes the branch and the block's input and returns the block's output.
func (c Config) merge(name string, kernel nn.Conv2DConfig, b block) nn.Layer {
	last := c.norm(name, kernel.Out, false)
	if c.ZeroInit {
		last = nn.NewBatchNorm(name, c.batchNorm(kernel.Out, false, nn.Zeros()))
	}
	end, shortcut := nn.Sequential(name, conv(name, kernel), last), nn.Sequential("shortcut") // the identity
	if b.stride > 1 || b.in != kernel.Out {
		shortcut = nn.Sequential("shortcut",
			conv("shortcut", nn.Conv2DConfig{In: b.in, Out: kernel.Out, Kernel: [2]int{1, 1}, Stride: [2]int{b.stride, b.stride}}),
			c.norm("shortcut", kernel.Out, false),
		)
	}
	return nn.Func(name, func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
		h := end.Forward(t, in[0])[0]
		return []*graph.Node{t.ReLU(t.Add(h, shortcut.Forward(t, in[1])[0]))}
	}, nn.ParamsOf(end, shortcut)...)
}

// conv builds a convolution, which parts of a stage can divide.
func conv(name string, c nn.Conv2DConfig) nn.Layer {
	c.ByChannels = true
	return nn.NewConv2D(name, c)
}

// norm builds the batch norm after the convolution of that name.
func (c Config) norm(name string, channels int, relu bool) *nn.BatchNorm {
	return nn.NewBatchNorm(name, c.batchNorm(channels, relu, nil))
}

// batchNorm has an unbiased moving variance, as in torchvision.
func (c Config) batchNorm(channels int, relu bool, init nn.Initializer) nn.BatchNormConfig {
	return nn.BatchNormConfig{Channels: channels, Momentum: c.Momentum, Unbiased: true, ReLU: relu, Init: init}
}
