// Package golden has small trainings of every kind of network, and the SHA-256 of the weights that
// each ends with: the same on every processor and with every profile of kernels. They were
// computed with AVX-512; a change that must change one says so.
package golden

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/train"
)

// Training is one of the trainings.
type Training struct {
	Name string
	run  func(context.Context) (Outcome, error)
}

// Outcome is how a training ends.
type Outcome struct {
	SHA256 string  // of the weights, see gpipe.Trainer.Hash
	Loss   float64 // of the last step; with recomputed statistics, which no step has, on what is held out
}

func (o Outcome) String() string {
	return o.SHA256 + " " + strconv.FormatFloat(o.Loss, 'g', -1, 64)
}

// published has the trainings' outcomes, a line for each.
//
//go:embed testdata/published.txt
var published string

// Published is the outcome that a training should have, as its String; "": none was published.
func (t Training) Published() string {
	for line := range strings.Lines(published) {
		if name, outcome, _ := strings.Cut(strings.TrimSpace(line), " "); name == t.Name {
			return outcome
		}
	}
	return ""
}

// Run trains, in a tenth of a second or less with AVX-512.
func (t Training) Run(ctx context.Context) (Outcome, error) {
	o, err := t.run(ctx)
	if err != nil {
		return o, fmt.Errorf("golden training %s: %w", t.Name, err)
	}
	return o, nil
}

// Check runs all trainings, and calls say with a line for each. It fails if one has another outcome
// than was published.
func Check(ctx context.Context, say func(line string) error) error {
	var differ []string
	for _, t := range Trainings {
		o, err := t.Run(ctx)
		if err != nil {
			return err
		}
		says := "as published"
		if want := t.Published(); o.String() != want {
			differ = append(differ, t.Name)
			says = fmt.Sprintf("DIFFERS: published is %.8s", want)
			if strings.HasPrefix(want, o.SHA256) {
				says = fmt.Sprintf("the loss DIFFERS: %v", o)
			}
		}
		if err := say(fmt.Sprintf("%-14s %.8s  %s", t.Name, o.SHA256, says)); err != nil {
			return err
		}
	}
	if differ != nil {
		return fmt.Errorf("%d of %d golden trainings differ from what was published (%s), with %s kernels", len(differ), len(Trainings), strings.Join(differ, ", "), nn.KernelProfile())
	}
	return nil
}

// Trainings are all of them.
var Trainings = []Training{
	{"from-go", fromGo},
	named("lm", languageModel, func(*train.Training) {}),
	named("lm-bf16", languageModel, func(t *train.Training) { t.Setup.DType = graph.BF16 }),
	named("lm-groups", languageModel, func(t *train.Training) {
		t.Setup.Replicas, t.Setup.Groups = 2, 4
		t.Setup.MicroBatches = 1
		t.EMA = 0.9
	}),
	// Matrices beyond the kernels' cache blocks.
	named("lm-wide", languageModel, func(t *train.Training) {
		t.Model.Layers, t.Model.Dim, t.Model.FF, t.Model.Heads = 1, 288, 320, 3
		t.Optimizer, t.LR, t.LRSchedule = "momentum", 0.02, "warmup:1,cosine:2:0.1"
		t.Batch, t.Steps, t.Setup.MicroBatches = 2, 2, 2
	}),
	// Operations in parts: with one block the hash of lm, and with four another, whatever the parts are.
	named("lm-parts", languageModel, func(t *train.Training) { t.Setup.Tensor = 2 }),
	named("lm-blocks", languageModel, func(t *train.Training) { t.Setup.Tensor, t.Setup.Blocks = 2, 4 }),
	asynchronous(schedule.PipeDream, 1),
	asynchronous(schedule.PipeDreamVertical, 1),
	asynchronous(schedule.PipeDreamNoStash, 1),
	asynchronous(schedule.PipeDream2BW, 3),
	named("llama", languageModel, func(t *train.Training) {
		t.Model = train.Model{Name: train.Llama, Layers: 2, Dim: 48, FF: 130, Heads: 6, KVHeads: 2, HeadDim: 10, Vocab: 96, Seq: 20, Tied: "softmax"}
		t.Optimizer, t.LRSchedule = "adamw", "warmup:1,cosine:4:0.1"
	}),
	named("llama-bf16", languageModel, func(t *train.Training) {
		t.Model = train.Model{Name: train.Llama, Layers: 2, Dim: 48, FF: 130, Heads: 4, KVHeads: 1, Vocab: 96, Seq: 20, RopeTheta: 500_000}
		t.Setup.DType = graph.BF16
	}),
	named("translator", translation, func(t *train.Training) {
		t.Model.Name, t.Model.FF, t.Model.Heads, t.Model.Tied = train.Translator, 80, 4, "softmax"
		t.LabelSmoothing = 0.1
	}),
	named("final-norm", translation, func(t *train.Training) {
		t.Model.Name, t.Model.FF, t.Model.Heads, t.Model.Tied, t.Model.FinalNorm = train.Translator, 80, 4, "all", true
	}),
	named("gnmt", translation, func(t *train.Training) {
		t.Model.Name, t.Model.Layers, t.Model.Tied = train.GNMT, 3, "all"
		t.LRSchedule = "exponential:0.9:2:smooth"
	}),
	named("resnet", drawnImages, func(t *train.Training) {
		t.Model = train.Model{Name: "resnet50", Width: 8, Image: 32, Classes: 8}
		t.Optimizer, t.LR, t.LRSchedule, t.L2 = "nesterov", 0.02, "cosine:4", 1e-4
	}),
	named("statistics", drawnImages, func(t *train.Training) {
		t.Model = train.Model{Name: "resnet50", Width: 4, Image: 32, Classes: 8}
		t.Optimizer, t.LR, t.LRSchedule = "nesterov", 0.002, "constant"
		t.RecomputeStatistics = 14 // a mini-batch of 8 and one of 6
	}),
	named("lars", drawnImages, func(t *train.Training) {
		t.Model = train.Model{Name: "resnet50", Width: 4, Image: 32, Classes: 8, ZeroInit: true}
		t.Optimizer, t.LR, t.LRSchedule, t.L2 = "lars", 4, "warmup:2,polynomial:1.5:4", 1e-4
		t.LabelSmoothing = 0.1
	}),
	named("amoebanet-d", drawnImages, func(t *train.Training) {
		t.Model = train.Model{Name: train.AmoebaNet, Layers: 3, Filters: 8, Image: 33, Classes: 8, Aux: 0.4, DropPath: 0.3, Dropout: 0.5}
		t.Optimizer, t.LR, t.LRSchedule, t.ClipNorm = "rmsprop", 0.01, "exponential:0.97:2", 1
	}),
	named("amoebanet-b", drawnImages, func(t *train.Training) {
		t.Model = train.Model{Name: train.AmoebaNetB, Layers: 3, Filters: 16, Image: 33, Classes: 8}
		t.Optimizer, t.LR, t.LRSchedule = "sgd", 0.05, "constant"
	}),
	named("ssd", drawnImages, func(t *train.Training) {
		t.Model = train.Model{Name: train.Detector, Width: 4, Image: 64, Classes: 8}
		t.Optimizer, t.LR, t.LRSchedule = "adamw", 0.002, "cosine:4"
		t.Batch, t.Steps = 4, 2
	}),
}

// languageModel is a training with dropout and a clipped norm.
func languageModel() train.Training {
	return train.Training{
		Model: train.Model{Name: train.LanguageModel, Layers: 2, Dim: 48, FF: 160, Heads: 4, Vocab: 96, Seq: 20, Dropout: 0.1},
		Data:  "synthetic", Batch: 8, Steps: 4, Seed: 1,
		Optimizer: "adam", LR: 0.003, LRSchedule: "inverse-sqrt:2", ClipNorm: 0.5,
		Setup: train.Setup{Partitions: 2, MicroBatches: 3},
	}
}

// translation is a training on sentences of different lengths.
func translation() train.Training {
	t := languageModel()
	t.Model = train.Model{Layers: 2, Dim: 32, Seq: 24, Dropout: 0.1}
	t.Data = "synthetic-translation"
	t.Config.Multilingual = datasets.MultilingualConfig{Languages: 2, Pairs: 40, Nouns: 8}
	t.Config.Translation.HeldOut = 4
	return t
}

// drawnImages is a training with batch norm.
func drawnImages() train.Training {
	t := languageModel()
	t.ClipNorm, t.Setup.MicroBatches, t.Steps = 0, 2, 3
	t.Config.SyntheticImages = datasets.SyntheticImagesConfig{Train: 32, HeldOut: 8}
	return t
}

// named is one of the trainings that train has by name.
func named(name string, base func() train.Training, change func(*train.Training)) Training {
	return Training{name, func(ctx context.Context) (Outcome, error) {
		t := base()
		change(&t)
		l, err := t.Open(ctx)
		if err != nil {
			return Outcome{}, err
		}
		return run(ctx, l, t.RecomputeStatistics > 0)
	}}
}

// asynchronous is a training in a window of all its mini-batches, with a schedule that updates within it.
func asynchronous(s schedule.Schedule, micro int) Training {
	return named(s.String(), languageModel, func(t *train.Training) {
		t.ClipNorm = 0
		t.Setup.Schedule, t.Setup.Window, t.Setup.MicroBatches = s, t.Steps, micro
		if s == schedule.PipeDreamNoStash {
			t.Setup.Checkpoint = schedule.Never
		}
	})
}

// run trains, and closes the loop. The outcome's loss is the evaluation's if it is evaluated.
func run(ctx context.Context, l *train.Loop, evaluated bool) (o Outcome, err error) {
	defer l.Close()
	err = l.Run(ctx, train.Hooks{After: func(step *train.TrainStep) error {
		o.Loss = step.Loss
		return nil
	}})
	o.SHA256 = l.Trainer.Hash()
	if err != nil || !evaluated {
		return o, err
	}
	e, err := l.Evaluate(ctx)
	if err != nil {
		return o, err
	}
	o.Loss = e.Loss
	return o, nil
}

// fromGo is the program that README.md shows.
func fromGo(ctx context.Context) (o Outcome, err error) {
	batch := nn.Batch{
		Inputs:  []nn.Tensor{{Shape: []int{4, 2}, F32: []float32{0, 0, 0, 1, 1, 0, 1, 1}}},
		Targets: []nn.Tensor{{Shape: []int{4, 1}, F32: []float32{0, 1, 1, 0}}},
		Count:   4,
	}
	trainer, err := gpipe.Pipeline{
		Layers: []nn.Layer{
			nn.NewDense("hidden", nn.DenseConfig{In: 2, Out: 8, Activation: nn.Tanh}),
			nn.NewDense("out", nn.DenseConfig{In: 8, Out: 1}),
		},
		Loss:       nn.MeanSquaredError{},
		Partitions: 2, MicroBatches: 4,
		Numerics: gpipe.Numerics{Optimizer: nn.Adam{}, LR: nn.ConstantLR(0.05)},
	}.Open(gpipe.InputOf(batch))
	if err != nil {
		return o, err
	}
	defer trainer.Close()
	for range 101 {
		r, err := trainer.Step(ctx, batch)
		if err != nil {
			return o, err
		}
		o.Loss = r.Loss
	}
	o.SHA256 = trainer.Hash()
	return o, nil
}
