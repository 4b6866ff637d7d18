package main

import "gpipebench/nn"

// lenet is LeNet-5 (LeCun et al. 1998) for images of 12x12 pixels: two
// convolutions with pools, flattened into dense layers.
var lenet = network{
	name: "lenet",
	layers: func() []nn.Layer {
		conv := func(name string, in, out int) nn.Layer {
			return nn.Sequential(name,
				nn.NewConv2D("", nn.Conv2DConfig{In: in, Out: out, Kernel: [2]int{3, 3}, Bias: true}),
				nn.NewActivation("", nn.Tanh),
				nn.NewAvgPool("", nn.PoolConfig{Kernel: [2]int{2, 2}, Stride: [2]int{2, 2}}))
		}
		return []nn.Layer{
			conv("conv1", 1, 6), // (n, 12, 12, 1) -> (n, 5, 5, 6)
			conv("conv2", 6, 8), // -> (n, 1, 1, 8)
			nn.NewFlatten("flat"),
			nn.NewDense("dense", nn.DenseConfig{In: 8, Out: 12, Activation: nn.Tanh}),
			nn.NewDense("classes", nn.DenseConfig{In: 12, Out: 4}),
		}
	},
	loss:  nn.CrossEntropy{},
	batch: corners(12),
	rate:  0.02,
}

// corners has n images with a bright square in one of four corners, which is the
// class.
func corners(n int) nn.Batch {
	const size, square = 12, 5
	images, labels := nn.Tensor{Shape: []int{n, size, size, 1}}, nn.Tensor{Shape: []int{n}}
	for i := range n {
		class := i % 4
		top, left := class/2*(size-square)-i/8, class%2*(size-square)
		for y := range size {
			for x := range size {
				v := float32((3*x+5*y+i)%7) / 14
				if y >= top && y < top+square && x >= left && x < left+square {
					v++
				}
				images.F32 = append(images.F32, v)
			}
		}
		labels.I32 = append(labels.I32, int32(class))
	}
	return nn.Batch{Inputs: []nn.Tensor{images}, Targets: []nn.Tensor{labels}, Count: n}
}
