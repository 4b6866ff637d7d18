package amoebanet

import (
	"strings"
	"testing"

	"gpipebench/models/internal/imageoracle"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program/programtest"
)

// TestCellsAgainstPyTorch: a cell of each kind after each kind, the last one of
// the delayed variant, the parts of the official stem that differ, and
// AmoebaNet-B's cells.
// PyTorch's own run in float32 is off by at most 5e-7 (amoebanet.py --float32).
func TestCellsAgainstPyTorch(t *testing.T) {
	oracle := programtest.ReadOracle(t, "testdata/cells.json")
	var config struct {
		Cells map[string]struct {
			Seed   int
			Inputs [][]int
			Names  []string
		}
	}
	oracle.Config(&config)
	for name, c := range config.Cells {
		t.Run(name, func(t *testing.T) {
			variant, layerName, ok := strings.Cut(name, "/")
			if !ok {
				variant, layerName = "", name
			}
			model := Config{Layers: 6, Filters: 16, Classes: 5, Image: 64}
			switch {
			case variant == "b":
				model.Cells = B
			case variant == "official":
				model.Layers, model.Filters, model.Official = 3, 32, true
			case variant == "delayed":
				model.Delayed = true
				if layerName == "normal3" {
					model.Layers = 3
				}
			}
			var layer nn.Layer
			for _, l := range build(t, model) {
				if l.Name() == layerName {
					layer = l
				}
			}
			var in []graph.Type
			for _, shape := range c.Inputs {
				in = append(in, programtest.Floats(shape...))
			}
			o := imageoracle.Oracle{Oracle: oracle, Prefix: name + ":", Seed: c.Seed, Tolerance: 3e-6, Gradient: 3e-6}
			o.Layer(t, layer, c.Names, in)
		})
	}
}

// TestTrainingAgainstPyTorch: two mini-batches of several micro-batches of a
// small model with its auxiliary head. PyTorch's own run in float32 is off by
// 6e-6, in gradients by 1.3e-5.
func TestTrainingAgainstPyTorch(t *testing.T) {
	for file, cells := range map[string]Cells{"training.json": D, "training_b.json": B} {
		t.Run(file, func(t *testing.T) {
			oracle := programtest.ReadOracle(t, "testdata/"+file)
			var c struct {
				imageoracle.Training
				Layers, Filters int
				AuxScale        float64 `json:"aux_scale"`
				AuxWeight       float32 `json:"aux_weight"`
			}
			oracle.Config(&c)
			layers := build(t, Config{
				Cells: cells, Layers: c.Layers, Filters: c.Filters, Classes: c.Classes, Image: c.Image,
				Aux: true, AuxScale: c.AuxScale, Momentum: c.Momentum,
			})
			o := imageoracle.Oracle{Oracle: oracle, Seed: c.Seed, Tolerance: 2e-5, Gradient: 4e-5}
			o.Training(t, c.Training, layers, nn.AuxiliaryLoss{CrossEntropy: nn.CrossEntropy{Smoothing: c.Smoothing}, Weight: c.AuxWeight})
		})
	}
}
