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

// compare runs a step of both sides from the same weights on the same examples.
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
	most := 1e-5
	if n.model.Images() {
		most = 1e-3
	}
	them, err := n.pytorch(1, 0, "1", variant, "--weights", weights)
	switch {
	case err != nil:
		return "", err
	case params != them.Params:
		return "", fmt.Errorf("PyTorch's model has %d parameters, ours %d", them.Params, params)
	case !(math.Abs(loss-them.Losses[0]) < most*loss):
		return "", fmt.Errorf("the first step's loss is %v in PyTorch, ours %v", them.Losses[0], loss)
	}
	return fmt.Sprintf("both %d parameters; from the same weights the first step's loss is %.5f, PyTorch's %.5f", params, loss, them.Losses[0]), nil
}

// firstStep writes a network's initial weights to a file, and returns its parameters
// and the loss of one step.
func (n network) firstStep(weights string) (params int64, loss float64, err error) {
	t, batch, err := n.open()
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
	layers, err := n.model.Build()
	return nn.CountParams(layers), r.Loss, err
}

// open returns a pipeline of one stage that keeps all activations, and its mini-batch.
func (n network) open() (*gpipe.Trainer, nn.Batch, error) {
	layers, err := n.model.Build()
	if err != nil {
		return nil, nn.Batch{}, err
	}
	batch := n.examples()
	t, err := gpipe.Pipeline{Layers: layers, Loss: nn.CrossEntropy{}, Checkpoint: schedule.Never, Numerics: gpipe.Numerics{Optimizer: nn.SGD{Momentum: 0.9}, LR: nn.ConstantLR(0.01), Seed: 1}}.Open(gpipe.InputOf(batch))
	return t, batch, err
}
