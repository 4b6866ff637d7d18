package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/nn"
)

// compare runs a step of both sides from the same weights on the same images.
// The loss must be the same but for rounding, which batch norms over few pixels
// magnify some thousand times. (The second step's loss is chaos: PyTorch's two
// memory formats differ by a few per cent.)
func (n network) compare(variant string) (note string, err error) {
	dir, err := os.MkdirTemp("", "compare")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	weights := filepath.Join(dir, "weights.safetensors")
	params, loss, err := n.firstStep(weights)
	if err != nil {
		return "", err
	}
	them, err := n.pytorch(1, 0, "1", variant, "--weights", weights)
	switch {
	case err != nil:
		return "", err
	case params != them.Params:
		return "", fmt.Errorf("PyTorch's model has %d parameters, ours %d", them.Params, params)
	case !(math.Abs(loss-them.Losses[0]) < 1e-3*loss):
		return "", fmt.Errorf("the first step's loss is %v in PyTorch, ours %v", them.Losses[0], loss)
	}
	return fmt.Sprintf("both %d parameters; from the same weights the first step's loss is %.5f, PyTorch's %.5f", params, loss, them.Losses[0]), nil
}

// firstStep writes a network's initial weights to a file, and returns its parameters
// and the loss of one step.
func (n network) firstStep(weights string) (params int64, loss float64, err error) {
	layers, err := n.model.Build()
	if err != nil {
		return 0, 0, err
	}
	batch := n.images()
	t, err := gpipe.Pipeline{Layers: layers, Loss: nn.CrossEntropy{}, Checkpoint: schedule.Never, Numerics: gpipe.Numerics{Optimizer: nn.SGD{}, LR: nn.ConstantLR(0.01), Seed: 1}}.Open(gpipe.InputOf(batch))
	if err != nil {
		return 0, 0, err
	}
	defer t.Close()
	if err := t.Save(weights, nil); err != nil {
		return 0, 0, err
	}
	r, err := t.Step(context.Background(), batch)
	if err != nil {
		return 0, 0, err
	}
	return nn.CountParams(layers), r.Loss, nil
}

// images returns a mini-batch of functions of places, the same as in
// bench/peers/pytorch_images.py.
func (n network) images() nn.Batch {
	images := make([]float32, n.batch*n.model.Image*n.model.Image*3)
	for i := range images {
		images[i] = float32(float64(uint32(i)*2654435761)/(1<<31) - 1)
	}
	targets := make([]int32, n.batch)
	for i := range targets {
		targets[i] = int32(i * 31 % n.model.Classes)
	}
	return nn.Batch{
		Inputs:  []nn.Tensor{{Shape: []int{n.batch, n.model.Image, n.model.Image, 3}, F32: images}},
		Targets: []nn.Tensor{{Shape: []int{n.batch}, I32: targets}},
		Count:   n.batch,
	}
}
