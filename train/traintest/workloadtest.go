// Package traintest has small trainings for tests.
package traintest

import (
	"gpipebench/train"
)

// TinyTraining trains a network of two layers on the synthetic language.
func TinyTraining() train.Training {
	return train.Training{
		Model: train.Model{Name: train.LanguageModel, Layers: 2, Dim: 16, FF: 32, Heads: 2, Seq: 8},
		Data:  "synthetic", Batch: 4, Steps: 2, Seed: 1, Optimizer: "adam", LR: 0.01, LRSchedule: "constant",
		Setup: train.Setup{Partitions: 2, MicroBatches: 2},
	}
}

// TinyImages trains a ResNet whose last blocks see one pixel an example.
func TinyImages() train.Training {
	t := TinyTraining()
	t.Model = train.Model{Name: "resnet50", Width: 4, Image: 32}
	t.Steps, t.Epochs = 0, 1
	t.Config.SyntheticImages.Train, t.Config.SyntheticImages.HeldOut = 8, 8
	return t
}
