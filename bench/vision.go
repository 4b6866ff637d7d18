package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"gpipebench/experiments/stats"
	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/models/amoebanet"
	"gpipebench/models/resnet"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// vision is an image model of DESIGN's step row.
type vision struct {
	name   string
	batch  int
	image  int
	build  func(image int) ([]nn.Layer, error)
	params int64
	peer   []string // further flags of bench/peers/pytorch.py
}

const visionClasses = 1000

var visions = []vision{
	{"resnet101", 16, 64, func(image int) ([]nn.Layer, error) {
		return resnet.New(resnet.Config{Depth: 101, Classes: visionClasses, Image: image})
	}, 44_549_160, nil},
	{"amoebanetd", 4, 224, func(image int) ([]nn.Layer, error) {
		return amoebanet.New(amoebanet.Config{Layers: 6, Filters: 64, Classes: visionClasses, Image: image})
	}, 3_701_096, []string{"--layers", "6", "--filters", "64"}},
}

func visionNamed(name string) (vision, error) {
	for _, v := range visions {
		if v.name == name {
			return v, nil
		}
	}
	return vision{}, fmt.Errorf("no image model %q", name)
}

func (b *bench) resnet() error    { return b.visionStep("resnet101") }
func (b *bench) amoebanet() error { return b.visionStep("amoebanetd") }

// visionStep times training steps of an image model.
func (b *bench) visionStep(name string) error {
	v, err := visionNamed(name)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return b.steps([]string{self, "-step-of", name, "-steps", "4"}, v.pytorch("--steps", "4", "--warmup", "1"),
		func(variant string) (string, error) { return v.compare(self, variant) })
}

// pytorch is the model, and more, as flags of bench/peers/pytorch.py.
func (v vision) pytorch(more ...string) []string {
	flags := []string{"--model", v.name, "--batch", strconv.Itoa(v.batch), "--image", strconv.Itoa(v.image), "--classes", strconv.Itoa(visionClasses)}
	return slices.Concat(flags, v.peer, more)
}

// compare runs a step of both sides from the same weights on the same images.
// The loss must be the same but for rounding, which batch norms over few pixels
// magnify some thousand times. (The second step's loss is chaos: PyTorch's two
// memory formats differ by a few per cent.)
func (v vision) compare(self, variant string) (note string, err error) {
	dir, err := os.MkdirTemp("", "vision")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	weights := filepath.Join(dir, "weights.safetensors")
	us, err := runJSON(self, "-step-of", v.name, "-steps", "1", "-save", weights)
	if err != nil {
		return "", err
	}
	them, err := pytorch(v.pytorch("--threads", "1", "--variant", variant, "--steps", "1", "--warmup", "0", "--weights", weights)...)
	if err != nil {
		return "", err
	}
	if us.Params != them.Params {
		return "", fmt.Errorf("PyTorch's model has %d parameters, ours %d", them.Params, us.Params)
	}
	if d := math.Abs(us.Losses[0] - them.Losses[0]); !(d < 1e-3*us.Losses[0]) {
		return "", fmt.Errorf("the first step's loss is %v in PyTorch, ours %v", them.Losses[0], us.Losses[0])
	}
	return fmt.Sprintf("both %d parameters; from the same weights the first step's loss is %.5f, PyTorch's %.5f", us.Params, us.Losses[0], them.Losses[0]), nil
}

// stepOf times the steps of one image model in this process, after one that
// warms up, and prints JSON as bench/peers/pytorch.py does. Save is where the
// weights are written that it starts from; none if empty.
func stepOf(name string, threads, steps int, save string) error {
	v, err := visionNamed(name)
	if err != nil {
		return err
	}
	layers, err := v.build(v.image)
	if err != nil {
		return err
	}
	if n := nn.CountParams(layers); n != v.params {
		return fmt.Errorf("%s has %d parameters, want %d", name, n, v.params)
	}
	batch := v.data()
	p := gpipe.Pipeline{
		Layers: layers, Loss: nn.CrossEntropy{}, Checkpoint: schedule.Never,
		Devices:   []gpipe.Device{{Threads: threads}},
		Optimizer: nn.SGD{Momentum: 0.9}, LR: nn.ConstantLR(0.01), Seed: 1,
	}
	t, err := p.Open(gpipe.InputOf(batch))
	if err != nil {
		return err
	}
	defer t.Close()
	if save != "" {
		if err := t.Save(save, nil); err != nil {
			return err
		}
	}
	out := timed{Params: v.params}
	for i := range steps + 1 {
		start := time.Now()
		r, err := t.Step(context.Background(), batch)
		if err != nil {
			return err
		}
		if i > 0 {
			out.Step.All = append(out.Step.All, time.Since(start).Seconds())
		}
		out.Losses = append(out.Losses, r.Loss)
	}
	out.Step.Median = stats.Median(out.Step.All)
	return json.NewEncoder(os.Stdout).Encode(out)
}

// data is one mini-batch: functions of places, the same as in
// bench/peers/pytorch_images.py.
func (v vision) data() nn.Batch {
	images := make([]float32, v.batch*v.image*v.image*3)
	for i := range images {
		images[i] = float32(float64(uint32(i)*2654435761)/(1<<31) - 1)
	}
	targets := make([]int32, v.batch)
	for i := range targets {
		targets[i] = int32(i * 31 % visionClasses)
	}
	return nn.Batch{
		Inputs:  []nn.Tensor{{Shape: graph.Shape{v.batch, v.image, v.image, 3}, F32: images}},
		Targets: []nn.Tensor{{Shape: graph.Shape{v.batch}, I32: targets}},
		Count:   v.batch,
	}
}
