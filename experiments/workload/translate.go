package workload

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/models/transformer"
	"gpipebench/nn"
	"gpipebench/nn/philox"
)

// LanguageScore is a translator's score on what is held out of one language.
type LanguageScore struct {
	Name     string  `json:"name"`
	Train    int     `json:"train"` // pairs to train on
	HeldOut  int     `json:"held_out"`
	Dropped  int     `json:"dropped,omitempty"` // pairs that are too long to train on
	Share    float64 `json:"share"`             // of an epoch's examples
	Targets  int     `json:"targets"`
	Loss     float64 `json:"loss"` // nats per target
	Accuracy float64 `json:"accuracy"`
	BLEU     float64 `json:"bleu"`
	Brevity  float64 `json:"brevity_penalty"`
	Unended  int     `json:"unended,omitempty"` // translations without an end within the longest length
}

// Baseline is what a translation without a network scores, by BLEU.
type Baseline struct {
	Name      string    `json:"name"`
	BLEU      float64   `json:"bleu"`
	Languages []float64 `json:"languages"`
}

func baselines(s *datasets.Translation) []Baseline {
	var out []Baseline
	for _, from := range s.Baselines() {
		b := Baseline{Name: from.Name}
		var all datasets.BLEU
		for _, score := range from.BLEU {
			b.Languages = append(b.Languages, score.Score())
			all.AddAll(score)
		}
		b.BLEU = all.Score()
		out = append(out, b)
	}
	return out
}

// namesFiles tells whether a specification of data names files that can be at
// fault, and is not wrong by itself.
func namesFiles(spec string) bool {
	kind, argument, _ := strings.Cut(spec, ":")
	switch kind {
	case "text", "cifar10", "cifar100", "mnist", "images":
		return argument != ""
	case "parallel":
		files := strings.Split(argument, ",")
		return len(files)%2 == 0 && !slices.Contains(files, "")
	}
	return false
}

// blind takes the sources out of a batch of pairs, if that is what is trained.
func (t *Training) blind(b nn.Batch) {
	if t.EmptySource {
		clear(b.Inputs[1].I32) // their lengths
	}
}

// evaluatePairs is evaluate, language by language.
func (t *Training) evaluatePairs(ctx context.Context, trainer *gpipe.Trainer, s *datasets.Translation) (*Evaluation, error) {
	var sum tally
	var languages []LanguageScore
	for i, l := range s.Languages() {
		var own tally
		for _, b := range t.heldOut(s, i) {
			batch := s.Collate(b)
			t.blind(batch)
			if err := own.add(ctx, trainer, batch); err != nil {
				return nil, err
			}
		}
		score := LanguageScore{Name: l.Name, Train: l.Train, HeldOut: l.HeldOut, Dropped: l.Dropped, Share: l.Share, Targets: own.targets}
		if own.targets > 0 {
			e := own.evaluation(0)
			score.Loss, score.Accuracy = e.Loss, e.Accuracy
		}
		languages = append(languages, score)
		sum.loss += own.loss
		sum.correct += own.correct
		sum.targets += own.targets
	}
	if sum.targets == 0 {
		return nil, fmt.Errorf("%s: nothing held out to evaluate on", s.Name())
	}
	e := sum.evaluation(trainer.Steps())
	e.Languages = languages
	return e, nil
}

// heldOut is a language's held-out pairs in mini-batches of like length.
func (t *Training) heldOut(s *datasets.Translation, language int) [][]datasets.Pair {
	pairs := s.Pairs(language, datasets.HeldOut)
	var batches [][]datasets.Pair
	for _, places := range s.Groups(pairs, t.Batch) {
		var b []datasets.Pair
		for _, i := range places {
			b = append(b, pairs[i])
		}
		batches = append(batches, b)
	}
	return batches
}

// Translate translates what is held out, with the weights that evaluate takes, and
// adds the scores to an evaluation.
func (t *Training) Translate(ctx context.Context, trainer *gpipe.Trainer, s *datasets.Translation, e *Evaluation) error {
	return t.averaged(trainer, func() error { return t.translateAsIs(ctx, trainer, s, e) })
}

// translateAsIs translates with the weights that are in place.
func (t *Training) translateAsIs(ctx context.Context, trainer *gpipe.Trainer, s *datasets.Translation, e *Evaluation) error {
	search := transformer.Decoding{
		Beam: t.Beam, MaxLen: s.LongestTarget(), Rows: t.Batch,
		Pad: datasets.Pad, Begin: datasets.Begin, End: datasets.End,
	}
	predict := func(ctx context.Context, each func(int, []nn.Tensor) error, inputs ...nn.Tensor) error {
		t.blind(nn.Batch{Inputs: inputs})
		return trainer.PredictEach(ctx, each, inputs...)
	}
	var all datasets.BLEU
	languages := slices.Clone(e.Languages) // an error leaves the evaluation as it is
	for i := range languages {
		l := &languages[i]
		var own datasets.BLEU
		for _, pairs := range t.heldOut(s, i) {
			b := s.Collate(pairs)
			found, err := search.Decode(ctx, predict, b.Inputs[0], b.Inputs[1])
			if err != nil {
				return err
			}
			for j, h := range found {
				own.Add(s.Target().Decode(h.Tokens), pairs[j].TargetText)
				if !h.Ended {
					l.Unended++
				}
			}
		}
		l.BLEU, l.Brevity = own.Score(), own.BrevityPenalty()
		all.AddAll(own)
	}
	score := all.Score()
	e.BLEU, e.Languages = &score, languages
	return nil
}

// randomPairs is a mini-batch for a translator, all of its tokens drawn and
// none of it padding.
func (m Model) randomPairs(examples int, seed uint64, index int) nn.Batch {
	random := philox.NewStream(philox.KeyOf(seed, "experiments/pairs"), uint64(index))
	ids := func(vocab int) nn.Tensor {
		t := nn.Tensor{Shape: []int{examples, m.Seq}, I32: make([]int32, examples*m.Seq)}
		for i := range t.I32 {
			t.I32[i] = int32(random.Intn(vocab))
		}
		return t
	}
	source, lengths := m.SourceVocab, nn.Tensor{Shape: []int{examples}, I32: slices.Repeat([]int32{int32(m.Seq)}, examples)}
	if source == 0 {
		source = m.Vocab
	}
	return nn.Batch{
		Inputs:  []nn.Tensor{ids(source), lengths, ids(m.Vocab)},
		Targets: []nn.Tensor{ids(m.Vocab)}, Count: examples * m.Seq,
	}
}
