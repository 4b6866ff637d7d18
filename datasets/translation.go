package datasets

import (
	"fmt"
	"slices"
	"sync/atomic"

	"gpipebench/datasets/baseline"
	"gpipebench/internal/kernel/exactmath"
	"gpipebench/nn"
	"gpipebench/nn/philox"
)

// Translation is a source of sentence pairs in one or several languages with
// their translations into one. Its batches have three inputs and a target, all
// int32:
//
//	source ids      (N, S), each sentence followed by End, then Pad
//	source lengths  (N), End included
//	target ids      (N, T), shifted right: Begin, the sentence, then Pad
//	targets         (N, T): the sentence, End, then -1
//
// Count is the number of targets that are not -1, including End. Nothing in a
// batch names the language of a sentence: the target language is the same for
// all, and a source sentence shows its own.
//
// (S, T) is one of Shapes: pairs of similar length share a batch (how is up to
// TranslationConfig.Window). Within an epoch every batch is full except the
// last, which may have any shape.
//
// An epoch has as many examples as there are training pairs, but languages
// share it by temperature (see TranslationConfig.Temperature): each has a fixed
// part of every epoch and passes through its pairs again and again, each time
// in another order, so that no pair occurs twice before all others have
// occurred once. At temperature 1 an epoch has every pair once. Seed and epoch
// determine the batches and their contents.
//
// The held-out pass has each held-out pair of each language once, short ones
// first. To score languages separately, use Pairs, Groups and Collate.
type Translation struct {
	name           string
	source, target Vocabulary
	languages      []Language
	pairs          [2][][]Pair // by split and language
	shapes         []Shape
	parts          []int // examples of each language in an epoch
	epoch          int   // their sum
	heldOut        int   // pairs
	left           []string

	passes        []philox.Key // of each language
	within, among philox.Key   // orders within a shape, and among batches
	bucketing     bucketing

	last [2]atomic.Pointer[order] // the one computed last, by split
}

// Language is a source language of a Translation.
type Language struct {
	Name    string
	Train   int     // training pairs
	HeldOut int     // held-out pairs
	Dropped int     // pairs left out of training: a side is longer than Config.SeqLen
	Share   float64 // share of an epoch's examples
}

// Pair is a sentence and its translation.
type Pair struct {
	Source, Target         []int32 // ids, with End unless the pair was cut
	SourceText, TargetText string  // uncut: the reference for scores
}

// corpus is a language's pairs before they are encoded.
type corpus struct {
	name                 string
	source, target       []string // aligned
	sourceIDs, targetIDs [][]int32
	heldOut              int // the last ones
}

// newTranslation returns the source of encoded corpora. c has its defaults.
func newTranslation(name string, source, target Vocabulary, corpora []corpus, c Config) (*Translation, error) {
	t := &Translation{
		name:   name,
		source: source,
		target: target,
		within: philox.KeyOf(c.Seed, "datasets/translation/within"),
		among:  philox.KeyOf(c.Seed, "datasets/translation/among"),
		bucketing: bucketing{
			window: c.Translation.Window, hosts: c.Translation.Hosts, apart: c.Translation.Apart,
			key: philox.KeyOf(c.Seed, "datasets/translation/windows"),
		},
	}
	var sizes []Shape
	var trained []int
	for _, from := range corpora {
		l := Language{Name: from.name}
		var train, held []Pair
		for i := range from.source {
			p := Pair{from.sourceIDs[i], from.targetIDs[i], from.source[i], from.target[i]}
			fits := p.end(c.SeqLen)
			switch {
			case i >= len(from.source)-from.heldOut:
				held = append(held, p)
			case fits:
				train = append(train, p)
			default:
				l.Dropped++
				continue
			}
			sizes = append(sizes, Shape{len(p.Source), len(p.Target)})
		}
		if len(train) == 0 {
			return nil, fmt.Errorf("%s: %s: all %d training pairs are longer than %d tokens, want a longer sequence", name, printable(l.Name), l.Dropped, c.SeqLen)
		}
		l.Train, l.HeldOut = len(train), len(held)
		t.noise(train, l.Name, c)
		t.pairs[Train] = append(t.pairs[Train], train)
		t.pairs[HeldOut] = append(t.pairs[HeldOut], held)
		t.passes = append(t.passes, philox.KeyOf(c.Seed, "datasets/translation/pass/"+l.Name))
		t.languages = append(t.languages, l)
		t.heldOut += l.HeldOut
		trained = append(trained, l.Train)
		t.epoch += l.Train
	}
	t.shapes = shapesOf(sizes, c.Translation.Shapes)
	t.parts = quotas(trained, c.Translation.Temperature, t.epoch)
	for l := range t.languages {
		t.languages[l].Share = float64(t.parts[l]) / float64(t.epoch)
	}
	return t, nil
}

// end appends End to both sides. A side that would exceed limit is cut instead,
// and end returns false.
func (p *Pair) end(limit int) bool {
	fits := true
	for _, side := range []*[]int32{&p.Source, &p.Target} {
		ids := append((*side)[:len(*side):len(*side)], End)
		if len(ids) > limit {
			ids, fits = ids[:limit], false
		}
		*side = ids
	}
	return fits
}

// noise replaces target ids of training pairs at random, with the probability
// TranslationConfig.Noise. Texts are unchanged.
func (t *Translation) noise(pairs []Pair, language string, c Config) {
	if c.Translation.Noise == 0 {
		return
	}
	key := philox.KeyOf(c.Seed, "datasets/translation/noise/"+language)
	for i := range pairs {
		random := philox.NewStream(key, uint64(i))
		ids := pairs[i].Target
		for k := range ids[:len(ids)-1] {
			if random.Float64() < c.Translation.Noise {
				ids[k] = firstPiece + int32(random.Intn(t.target.Size()-int(firstPiece)))
			}
		}
	}
}

func (t *Translation) Name() string { return t.name }

// Vocab returns the size of the target's vocabulary.
func (t *Translation) Vocab() int { return t.target.Size() }

// SourceVocab returns the size of the source languages' vocabulary.
func (t *Translation) SourceVocab() int { return t.source.Size() }

// Source returns the vocabulary of all source languages.
func (t *Translation) Source() Vocabulary { return t.source }

// Target returns the target's vocabulary, which is identical to Source if they
// share one.
func (t *Translation) Target() Vocabulary { return t.target }

// Languages returns the source languages, in the order of the specification.
func (t *Translation) Languages() []Language { return slices.Clone(t.languages) }

// LeftOut returns the languages of gettext that have too few pairs, see
// OpenGettext.
func (t *Translation) LeftOut() []string { return slices.Clone(t.left) }

// Shapes returns the shapes of batches, each at least as large as the one before in
// both dimensions; no side is longer than Config.SeqLen.
func (t *Translation) Shapes() []Shape { return slices.Clone(t.shapes) }

// LongestTarget returns the maximum number of tokens of a training target,
// including End. Held-out targets may have more.
func (t *Translation) LongestTarget() int {
	most := 0
	for _, pairs := range t.pairs[Train] {
		for _, p := range pairs {
			most = max(most, len(p.Target))
		}
	}
	return most
}

// Pairs returns a language's pairs of a split, in the order of its corpus. They
// must not be changed.
func (t *Translation) Pairs(language int, split Split) []Pair { return t.pairs[split][language] }

// Encode makes a pair of any two texts; the target may be empty, as for a text
// to be translated. A pair longer than the largest shape is cut.
func (t *Translation) Encode(source, target string) Pair {
	p := Pair{t.source.Encode(source), t.target.Encode(target), source, target}
	largest := t.shapes[len(t.shapes)-1]
	p.end(max(largest.Source, largest.Target))
	p.Source = p.Source[:min(len(p.Source), largest.Source)]
	p.Target = p.Target[:min(len(p.Target), largest.Target)]
	return p
}

// Groups divides pairs into groups of similar length and of the given size (at
// least 1; the last may be smaller): indices into pairs, short ones first.
func (t *Translation) Groups(pairs []Pair, examples int) [][]int {
	places := make([]int, len(pairs))
	for i := range places {
		places[i] = i
	}
	return group(places, len(t.shapes), func(i int) int { return t.shapeOf(&pairs[i]) }, examples, keepOrder)
}

func keepOrder[T any](int, []T) {}

func (t *Translation) shapeOf(p *Pair) int { return shapeFor(t.shapes, len(p.Source), len(p.Target)) }

// Collate returns a batch of pairs, in their order, of the smallest shape that
// fits. The pairs are from this source, at least one.
func (t *Translation) Collate(pairs []Pair) nn.Batch {
	var need Shape
	for _, p := range pairs {
		need = need.union(Shape{len(p.Source), len(p.Target)})
	}
	k := shapeFor(t.shapes, need.Source, need.Target)
	if len(pairs) == 0 || k == len(t.shapes) {
		panic(fmt.Sprintf("datasets: Collate: %d pairs of up to %v tokens in shapes %v", len(pairs), need, t.shapes))
	}
	shape, n := t.shapes[k], len(pairs)
	ints := func(shape ...int) nn.Tensor {
		size := 1
		for _, d := range shape {
			size *= d
		}
		return nn.Tensor{Shape: shape, I32: make([]int32, size)}
	}
	source, lengths := ints(n, shape.Source), ints(n)
	inputs, targets := ints(n, shape.Target), ints(n, shape.Target)
	count := 0
	for i, p := range pairs {
		copy(source.I32[i*shape.Source:], p.Source)
		lengths.I32[i] = int32(len(p.Source))
		in, out := inputs.I32[i*shape.Target:(i+1)*shape.Target], targets.I32[i*shape.Target:(i+1)*shape.Target]
		in[0] = Begin
		copy(in[1:], p.Target[:len(p.Target)-1])
		for k := copy(out, p.Target); k < len(out); k++ {
			out[k] = -1
		}
		count += len(p.Target)
	}
	return nn.Batch{Inputs: []nn.Tensor{source, lengths, inputs}, Targets: []nn.Tensor{targets}, Count: count}
}

// Largest returns a batch of the largest shape, with sentences that are all
// Unknown.
func (t *Translation) Largest(examples int) nn.Batch {
	largest := t.shapes[len(t.shapes)-1]
	p := Pair{Source: slices.Repeat([]int32{Unknown}, largest.Source), Target: slices.Repeat([]int32{Unknown}, largest.Target)}
	return t.Collate(slices.Repeat([]Pair{p}, examples))
}

// Batches returns the number of batches of an epoch, or of the held-out pass.
func (t *Translation) Batches(split Split, examples int) int {
	return ceilDiv(t.examples(split), examples)
}

func (t *Translation) examples(split Split) int {
	if split == Train {
		return t.epoch
	}
	return t.heldOut
}

// Batch returns a batch of pairs of similar length.
func (t *Translation) Batch(split Split, index, examples int) (nn.Batch, error) {
	largest := t.shapes[len(t.shapes)-1]
	if err := checkBatch(split, index, examples, max(largest.Source, largest.Target)); err != nil {
		return nn.Batch{}, fmt.Errorf("%s: %w", t.name, err)
	}
	batches := t.Batches(split, examples)
	epoch, inEpoch := index/batches, index%batches
	if split == HeldOut && epoch > 0 {
		return nn.Batch{}, fmt.Errorf("%s: held-out batch %d of %d", t.name, index, batches)
	}
	picks := t.order(split, epoch, examples).batches[inEpoch]
	pairs := make([]Pair, len(picks))
	for i, p := range picks {
		pairs[i] = t.pairs[split][p.language][p.pair]
	}
	return t.Collate(pairs), nil
}

// order lists the pairs in the batches of a pass. It is a pure function of
// seed, split, epoch and examples; one is kept only because computing it takes
// a whole pass.
type order struct {
	epoch, examples int
	batches         [][]pick
}

// pick identifies a pair of a language.
type pick struct{ language, pair int32 }

func (t *Translation) order(split Split, epoch, examples int) *order {
	if o := t.last[split].Load(); o != nil && o.epoch == epoch && o.examples == examples {
		return o
	}
	o := &order{epoch: epoch, examples: examples}
	shapeOf := func(p pick) int { return t.shapeOf(&t.pairs[split][p.language][p.pair]) }
	switch {
	case split == HeldOut:
		o.batches = group(t.all(), len(t.shapes), shapeOf, examples, keepOrder)
	case t.bucketing.window > 0:
		o.batches = t.bucketing.batches(t.drawn(epoch), epoch, examples, func(p pick) Shape {
			of := &t.pairs[split][p.language][p.pair]
			return Shape{len(of.Source), len(of.Target)}
		})
	default:
		o.batches = group(t.drawn(epoch), len(t.shapes), shapeOf, examples, func(shape int, picks []pick) {
			mix(philox.NewStream(t.within, uint64(epoch)*uint64(len(t.shapes))+uint64(shape)), picks)
		})
		full := t.epoch / examples // a short batch stays the last
		mix(philox.NewStream(t.among, uint64(epoch)), o.batches[:full])
	}
	t.last[split].Store(o)
	return o
}

// drawn returns an epoch's part of every language's passes.
func (t *Translation) drawn(epoch int) []pick {
	picks := make([]pick, 0, t.epoch)
	for l, part := range t.parts {
		n := len(t.pairs[Train][l])
		for i := range part {
			// In 64 bits, with wrap-around, the same on every machine.
			draw := uint64(epoch)*uint64(part) + uint64(i)
			pass := newShuffle(n, t.passes[l], draw/uint64(n))
			picks = append(picks, pick{int32(l), int32(pass.at(int(draw % uint64(n))))})
		}
	}
	return picks
}

// all returns every held-out pair.
func (t *Translation) all() []pick {
	picks := make([]pick, 0, t.heldOut)
	for l, pairs := range t.pairs[HeldOut] {
		for i := range pairs {
			picks = append(picks, pick{int32(l), int32(i)})
		}
	}
	return picks
}

// mix puts items in a uniform random order (Fisher and Yates).
func mix[T any](random *philox.Stream, items []T) {
	for i := len(items) - 1; i > 0; i-- {
		j := random.Intn(i + 1)
		items[i], items[j] = items[j], items[i]
	}
}

// Yardsticks returns uniform guessing; see also Baselines.
func (t *Translation) Yardsticks() ([]Yardstick, error) {
	return []Yardstick{NewYardstick("uniform", exactmath.Log(float64(t.Vocab())))}, nil
}

// Baseline is what a translation without a network scores on the held-out pairs, by BLEU.
type Baseline struct {
	Name      string    `json:"name"`
	BLEU      float64   `json:"bleu"` // of all languages as one corpus
	Languages []float64 `json:"languages"`
}

// Baselines returns the translations that need no network: the source itself,
// and each language's dictionary. They take as long as reading the data.
func (t *Translation) Baselines() []Baseline {
	all := []Baseline{{Name: "copy of the source"}, {Name: "word-by-word dictionary"}}
	var sums [2]baseline.BLEU
	for l, held := range t.pairs[HeldOut] {
		d := baseline.LearnDictionary(func(yield func(string, string) bool) {
			for _, p := range t.pairs[Train][l] {
				if !yield(p.SourceText, p.TargetText) {
					return
				}
			}
		})
		for i, translate := range []func(string) string{func(source string) string { return source }, d.Translate} {
			var own baseline.BLEU
			for _, p := range held {
				own.Add(translate(p.SourceText), p.TargetText)
			}
			sums[i].AddAll(own)
			all[i].Languages, all[i].BLEU = append(all[i].Languages, own.Score()), sums[i].Score()
		}
	}
	return all
}
