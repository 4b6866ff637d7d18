package main

import (
	"slices"
	"strconv"

	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/train"
)

// network is what a row of training steps is of, by the row's name.
type network struct {
	model         train.Model
	batch         int
	steps, warmUp int // of a process that is timed
	// trial is the steps of each trial by which PyTorch's variant is chosen; 0: four.
	trial int
	// like is the network of the same kind whose first step is compared with PyTorch's in
	// place of this one's, to which nothing but length is added.
	like string
}

var networks = map[string]network{
	"step": {
		model: train.Model{Name: train.LanguageModel, Layers: 6, Dim: 256, FF: 1024, Heads: 8, Seq: 128, Vocab: 8192},
		batch: 16, steps: 8, warmUp: 2,
	},
	"gpt2":       {model: gpt2(64), batch: 4, steps: 3, warmUp: 1, trial: 2},
	"gpt2-512":   {model: gpt2(512), batch: 4, steps: 1, warmUp: 1, trial: 1, like: "gpt2"},
	"smollm2":    {model: published("smollm2-135m", 64), batch: 4, steps: 3, warmUp: 1, trial: 2},
	"resnet50":   {model: train.Model{Name: "resnet50", Image: 224, Classes: 1000}, batch: 4, steps: 4, warmUp: 1, trial: 2},
	"resnet":     {model: train.Model{Name: "resnet101", Image: 64, Classes: 1000}, batch: 16, steps: 4, warmUp: 1},
	"amoebanet":  {model: train.Model{Name: train.AmoebaNet, Layers: 6, Filters: 64, Image: 224, Classes: 1000}, batch: 4, steps: 4, warmUp: 1},
	"translator": {model: train.Model{Name: train.GNMT, Layers: 4, Dim: 512, Vocab: 32000, Seq: 32}, batch: 16, steps: 3, warmUp: 1, trial: 2},
}

// gpt2 is GPT-2's smallest network (Radford et al. 2019, Table 2), but for its positions, which
// are sinusoids here and trained there.
func gpt2(seq int) train.Model {
	return train.Model{
		Name: train.LanguageModel, Layers: 12, Dim: 768, FF: 3072, Heads: 12, Seq: seq, Vocab: 50256,
		Tied: "softmax", GELU: true, FinalNorm: true,
	}
}

func published(name string, seq int) train.Model {
	m, ok := train.PublishedModel(name)
	if !ok {
		panic("bench: no network " + name)
	}
	m.Seq = seq
	return m
}

// flags describe the network to both programs.
func (n network) flags() []string {
	flags := append(n.model.Flags(), "--batch", strconv.Itoa(n.batch))
	if n.model.GELU {
		flags = append(flags, "--gelu")
	}
	if n.model.FinalNorm {
		flags = append(flags, "--final-norm")
	}
	return flags
}

// examples returns a mini-batch of functions of places, the same as in bench/peers/pytorch.py.
func (n network) examples() nn.Batch {
	of := n.model.Input(n.batch)
	b := nn.Batch{Count: n.batch}
	place := uint32(0) // among all tokens
	tensor := func(t graph.Type, of int) nn.Tensor {
		shape := slices.Concat([]int{n.batch}, t.Shape)
		values := n.batch * t.Shape.Elems()
		if t.DType == graph.F32 {
			x := make([]float32, values)
			for i := range x {
				x[i] = float32(float64(uint32(i)*2654435761)/(1<<31) - 1)
			}
			return nn.Tensor{Shape: shape, F32: x}
		}
		x := make([]int32, values)
		for i := range x {
			switch {
			case len(t.Shape) > 0:
				x[i] = int32(place * 2654435761 % uint32(of))
				place++
			case n.model.Images():
				x[i] = int32(i * 31 % of)
			default: // a length
				x[i] = int32(n.model.Seq)
			}
		}
		return nn.Tensor{Shape: shape, I32: x}
	}
	for _, t := range of.Inputs {
		b.Inputs = append(b.Inputs, tensor(t, n.model.Vocab))
	}
	for _, t := range of.Targets {
		b.Targets = append(b.Targets, tensor(t, max(n.model.Vocab, n.model.Classes)))
		b.Count *= t.Shape.Elems()
	}
	return b
}
