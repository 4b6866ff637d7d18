package experiments

import (
	"math"
	"slices"
	"strings"

	"gpipebench/gpipe"
	"gpipebench/models/transformer"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// Model is a network by name and scale.
type Model struct {
	Name   string `yaml:"name" json:"name"` // one of Models
	Layers int    `yaml:"layers" json:"layers"`
	Dim    int    `yaml:"dim" json:"dim"`
	FF     int    `yaml:"ff" json:"ff"`
	Heads  int    `yaml:"heads" json:"heads"`
	Vocab  int    `yaml:"vocab" json:"vocab"`
	Seq    int    `yaml:"seq" json:"seq"` // tokens of an example
	Tied   bool   `yaml:"tied" json:"tied"`
	Fine   bool   `yaml:"fine" json:"fine"` // cut also inside of layers

	Dropout    float64 `yaml:"dropout" json:"dropout"`
	ScaledInit bool    `yaml:"scaled_init" json:"scaled_init"`
	ClipLogits float64 `yaml:"clip_logits" json:"clip_logits"` // 0: not
}

var models = []string{"transformer-lm"}

// Models lists the names that Model.Name may have.
func Models() []string { return slices.Clone(models) }

// Build makes the model's layers.
func (m Model) Build() ([]nn.Layer, error) {
	if !slices.Contains(models, m.Name) {
		return nil, usagef("unknown model %q: want %s", m.Name, strings.Join(models, " or "))
	}
	layers, err := transformer.LM(transformer.Config{
		Layers: m.Layers, Dim: m.Dim, FeedForward: m.FF, Heads: m.Heads, Vocab: m.Vocab, SeqLen: m.Seq,
		Dropout: float32(m.Dropout), Tied: m.Tied, ScaledInit: m.ScaledInit, ClipLogits: float32(m.ClipLogits), Fine: m.Fine,
	})
	return layers, usage(err)
}

// Input is what the model takes in mini-batches of the given size: token ids,
// and as targets the next ones.
func (m Model) Input(examples int) gpipe.Input {
	tokens := []graph.Type{{Shape: graph.Shape{m.Seq}, DType: graph.I32}}
	return gpipe.Input{Examples: examples, Inputs: tokens, Targets: tokens}
}

// loss is the model's loss.
func loss(smoothing float64) (nn.Loss, error) {
	if !(smoothing >= 0 && smoothing < 1) {
		return nil, usagef("label smoothing of %v: want at least 0 and less than 1", smoothing)
	}
	return nn.CrossEntropy{Smoothing: float32(smoothing)}, nil
}

// perplexity is that of a mean loss in nats.
func perplexity(loss float64) float64 { return math.Exp(loss) }

// bits is a loss in nats as bits.
func bits(nats float64) float64 { return nats / math.Ln2 }
