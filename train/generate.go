package train

import (
	"context"
	"fmt"
	"strings"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/internal/failure"
	"gpipebench/models/transformer"
	"gpipebench/nn/philox"
)

// MaxGenerate is the most tokens of Training.Generate. Each takes a forward pass.
const MaxGenerate = 1 << 20

// Generated is what a language model goes on with after a prompt: text, or the tokens'
// numbers where these stand for none.
type Generated struct {
	Prompt  string `json:"prompt"` // where the held-out part begins: tokens of half an example
	Tokens  int    `json:"tokens"`
	Greedy  string `json:"greedy"`  // the most probable token each time
	Sampled string `json:"sampled"` // drawn with the network's probabilities and the training's seed
}

// generating makes the training's pipeline ready to generate, if it is to.
func (t *Training) generating() error {
	switch {
	case t.Generate < 0 || t.Generate > MaxGenerate:
		return failure.Usagef("%d tokens to generate: want 0 to %d", t.Generate, MaxGenerate)
	case t.Generate > 0 && t.Model.network().kind != kind(tokens{}):
		return failure.Usagef("%s generates no text: want %s or %s", t.Model.Name, LanguageModel, Llama)
	case t.Generate > 0:
		t.predicting = gpipe.Input{Examples: 2, Inputs: t.Model.Input(2).Inputs}
	}
	return nil
}

// generate goes on with the held-out part's beginning.
func (l *Loop) generate(ctx context.Context) (*Generated, error) {
	t := l.training
	b, err := l.Source.Batch(datasets.HeldOut, 0, 1)
	if err != nil {
		return nil, err
	}
	prompt := b.Inputs[0].I32[:max(1, t.Model.Seq/2)]
	text := numbers
	if _, ok := l.Source.(*datasets.Text); ok {
		text, prompt = written, b.Targets[0].I32[:max(1, t.Model.Seq/2)] // whose first input is trained on
	}
	var found [][]int32
	err = t.averaged(l.Trainer, func() error {
		random := philox.NewStream(philox.KeyOf(t.Seed, "experiments/generate"), 0)
		found, err = transformer.Generation{SeqLen: t.Model.Seq, Vocab: l.Source.Vocab()}.Continue(ctx, l.Trainer.PredictEach,
			[][]int32{prompt, prompt}, t.Generate, []*philox.Stream{nil, random})
		return err
	})
	if err != nil {
		return nil, err
	}
	return &Generated{text(prompt), t.Generate, text(found[0]), text(found[1])}, nil
}

// written returns tokens that are bytes.
func written(tokens []int32) string {
	var b strings.Builder
	for _, c := range tokens {
		b.WriteByte(byte(c))
	}
	return b.String()
}

// numbers returns tokens that stand for themselves.
func numbers(tokens []int32) string { return strings.Trim(fmt.Sprint(tokens), "[]") }
