package train

import (
	"cmp"
	"slices"
	"strings"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/internal/failure"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/philox"
)

// kind is what networks take and learn from, the same for all of them that do:
// tokens, pairs or images.
type kind interface {
	flags() string                                                               // the command's, besides the networks' own
	input(m Model, examples int) gpipe.Input                                     // see Model.Input
	random(m Model, examples int, seed uint64) (func() (nn.Batch, error), error) // see Model.Random
	open(t *Training) (datasets.Source, error)                                   // see Training.Source
}

// openData opens data. Its error is misuse unless the data are files.
func openData(spec string, c datasets.Config) (datasets.Source, error) {
	s, err := datasets.Open(spec, c)
	if err != nil && !datasets.NamesFiles(spec) {
		err = failure.Usage(err)
	}
	return s, err
}

// tokens are texts as sequences of tokens, each predicted from those before it.
type tokens struct{}

func (tokens) flags() string { return "vocab seq generate" }

func (tokens) input(m Model, examples int) gpipe.Input {
	ids := graph.Type{Shape: graph.Shape{m.Seq}, DType: graph.I32}
	return gpipe.Input{Examples: examples, Inputs: []graph.Type{ids}, Targets: []graph.Type{ids}}
}

// random is a batch of the synthetic language, with a number of successors that divides
// the vocabulary.
func (tokens) random(m Model, examples int, seed uint64) (func() (nn.Batch, error), error) {
	successors := 2
	for _, n := range []int{4, 5, 3} {
		if m.Vocab%n == 0 {
			successors = n
			break
		}
	}
	config := datasets.Config{SeqLen: m.Seq, Seed: seed, Synthetic: datasets.SyntheticConfig{Vocab: m.Vocab, Successors: successors}}
	if err := config.Validate(); err != nil {
		return nil, failure.Usage(err)
	}
	return func() (nn.Batch, error) {
		source, err := datasets.NewSynthetic(config)
		if err != nil {
			return nn.Batch{}, err
		}
		return source.Batch(datasets.Train, 0, examples)
	}, nil
}

func (tokens) open(t *Training) (datasets.Source, error) {
	config := t.Config
	config.SeqLen, config.Seed, config.Synthetic.Vocab = t.Model.Seq, t.Seed, t.Model.Vocab
	s, err := t.openTokens(config)
	if err != nil {
		return nil, err
	}
	if _, ok := s.(*datasets.Translation); ok {
		return nil, failure.Usagef("%s has pairs of sentences, which %s does not take: want synthetic or text:FILE, or the model %s", s.Name(), t.Model.Name, Translator)
	}
	return s, t.settleVocab(s)
}

// openTokens opens data with tokens.
func (t *Training) openTokens(c datasets.Config) (datasets.Source, error) {
	s, err := openData(t.Data, c)
	if err != nil {
		return nil, err
	}
	if _, ok := s.(*datasets.ImageSet); ok {
		return nil, failure.Usagef("%s has images, which %s does not take: want %s", s.Name(), t.Model.Name, strings.Join(imageModels(), ", "))
	}
	return s, nil
}

func (t *Training) settleVocab(s datasets.Source) error {
	switch {
	case t.Model.Vocab == 0:
		t.Model.Vocab = s.Vocab()
	case t.Model.Vocab < s.Vocab():
		return failure.Usagef("a vocabulary of %d for %s: want %d or more, the values that its tokens take", t.Model.Vocab, s.Name(), s.Vocab())
	}
	return nil
}

// pairs are sentences and their translations: see datasets.Translation.
type pairs struct{}

func (pairs) flags() string {
	return "vocab seq translations languages pairs temperature bucket-window input-hosts target-noise"
}

func (pairs) input(m Model, examples int) gpipe.Input {
	ids := graph.Type{Shape: graph.Shape{m.Seq}, DType: graph.I32}
	return gpipe.Input{
		Examples: examples, Inputs: []graph.Type{ids, {Shape: graph.Shape{}, DType: graph.I32}, ids}, Targets: []graph.Type{ids},
	}
}

// random is a batch of random tokens without padding.
func (pairs) random(m Model, examples int, seed uint64) (func() (nn.Batch, error), error) {
	if m.Vocab < 1 || m.Seq < 1 {
		return nil, failure.Usagef("a mini-batch of %d examples of %d tokens out of %d: want 1 or more", examples, m.Seq, m.Vocab)
	}
	return func() (nn.Batch, error) {
		random := philox.NewStream(philox.KeyOf(seed, "experiments/pairs"), 0)
		ids := func(vocab int) nn.Tensor {
			t := nn.Tensor{Shape: []int{examples, m.Seq}, I32: make([]int32, examples*m.Seq)}
			for i := range t.I32 {
				t.I32[i] = int32(random.Intn(vocab))
			}
			return t
		}
		lengths := nn.Tensor{Shape: []int{examples}, I32: slices.Repeat([]int32{int32(m.Seq)}, examples)}
		return nn.Batch{
			Inputs:  []nn.Tensor{ids(cmp.Or(m.SourceVocab, m.Vocab)), lengths, ids(m.Vocab)},
			Targets: []nn.Tensor{ids(m.Vocab)}, Count: examples * m.Seq,
		}, nil
	}, nil
}

// open sets the vocabularies, and the shapes of mini-batches.
func (pairs) open(t *Training) (datasets.Source, error) {
	config := t.Config
	config.SeqLen, config.Seed = t.Model.Seq, t.Seed
	config.Translation.Vocab, config.Translation.Shared = t.Model.Vocab, t.Model.Tied == "all"
	if !config.Translation.Shared && datasets.NamesFiles(t.Data) { // whose vocabularies are learnt
		config.Translation.SourceVocab = t.Model.SourceVocab
	}
	if err := config.Validate(); err != nil {
		return nil, failure.Usage(err)
	}
	s, err := t.openTokens(config)
	if err != nil {
		return nil, err
	}
	from, ok := s.(*datasets.Translation)
	switch {
	case !ok:
		return nil, failure.Usagef("%s has no pairs of sentences, which %s takes: want synthetic-translation, parallel:SRC,TGT or gettext:DIR", s.Name(), t.Model.Name)
	case t.Batch < 1:
		return nil, failure.Usagef("a mini-batch of %d examples: want 1 or more", t.Batch)
	}
	t.Model.SourceVocab = from.SourceVocab()
	t.input = gpipe.InputOf(from.Largest(1))
	t.input.Examples = t.Batch
	t.predicting = gpipe.Input{Examples: t.Batch, Inputs: slices.Clone(t.input.Inputs)}
	t.predicting.Inputs[2].Shape = graph.Shape{from.LongestTarget()}
	if t.Model.Tied == "all" || datasets.NamesFiles(t.Data) { // whose vocabularies are learnt
		t.Model.Vocab = s.Vocab()
	}
	return s, t.settleVocab(s)
}
