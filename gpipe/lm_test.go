package gpipe

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"testing"

	"gpipebench/models/llama"
	"gpipebench/models/transformer"
	"gpipebench/nn"
	"gpipebench/nn/philox"
)

// lm is a small language model and a way to run it.
type lm struct {
	model  transformer.Config
	llama  *llama.Config // the network instead, of the model's vocabulary, length, tying and cut; nil: none
	batch  int
	ragged bool // sequences of different lengths, padded
	smooth float32
	steps  int // 0 means 3
}

// small has all that the arithmetic contract is about: dropout, tied softmax, norm
// clipping, label smoothing, masked targets.
var small = lm{
	model: transformer.Config{Layers: 6, Dim: 16, FeedForward: 24, Heads: 2, Vocab: 19, SeqLen: 7, Dropout: 0.2, Tied: true, ClipLogits: 4},
	batch: 9, ragged: true, smooth: 0.1,
}

// smallLlama has heads of keys that several heads of queries share.
var smallLlama = lm{
	model: transformer.Config{Vocab: 19, SeqLen: 7, Tied: true},
	llama: &llama.Config{Layers: 6, Dim: 16, FeedForward: 20, Heads: 6, KVHeads: 2, HeadDim: 4, RopeTheta: 50},
	batch: 9, ragged: true, smooth: 0.1,
}

// cut is the pipeline, cut also inside of layers if it is fine.
func (l lm) cut(t testing.TB, fine bool) Pipeline {
	l.model.Fine = fine
	return l.pipeline(t)
}

func (l lm) pipeline(t testing.TB) Pipeline {
	var layers []nn.Layer
	if l.llama != nil {
		c := *l.llama
		c.Vocab, c.SeqLen, c.Tied, c.Fine = l.model.Vocab, l.model.SeqLen, l.model.Tied, l.model.Fine
		layers = must(llama.New(c))(t)
	} else {
		layers = must(transformer.LM(l.model))(t)
	}
	return Pipeline{
		Layers: layers, Loss: nn.CrossEntropy{Smoothing: l.smooth},
		Numerics: Numerics{Seed: 42, Optimizer: nn.Adam{}, LR: nn.ConstantLR(0.01), ClipNorm: 0.5, L2: 1e-3},
	}
}

// data is mini-batch i of random tokens.
func (l lm) data(i int) nn.Batch {
	r := philox.NewStream(philox.KeyOf(7, "data"), uint64(i))
	n, t := l.batch, l.model.SeqLen
	ids, targets := make([]int32, n*t), make([]int32, n*t)
	count := 0
	for e := range n {
		length := t
		if l.ragged {
			length = 1 + r.Intn(t)
		}
		for j := range t {
			ids[e*t+j] = int32(r.Intn(l.model.Vocab))
			targets[e*t+j] = -1
			if j < length {
				targets[e*t+j] = int32(r.Intn(l.model.Vocab))
				count++
			}
		}
	}
	return nn.Batch{
		Inputs:  []nn.Tensor{{Shape: []int{n, t}, I32: ids}},
		Targets: []nn.Tensor{{Shape: []int{n, t}, I32: targets}},
		Count:   count,
	}
}

// outcome is what must not depend on the way a network is run.
type outcome struct {
	hash, before, initial string
	losses                string // with counts and norms of gradients
	tallies               string // of batch norms, as the last step left them
	averages              string // the hash of the weights' averages, if they are kept
}

// train runs l's steps on p.
func (l lm) train(t testing.TB, p Pipeline) outcome {
	t.Helper()
	steps := l.steps
	if steps == 0 {
		steps = 3
	}
	return train(t, p, steps, l.data)
}

// train runs steps on p, or windows of as many, checking every guarantee that holds for any run.
func train(t testing.TB, p Pipeline, steps int, data func(i int) nn.Batch) outcome {
	t.Helper()
	tr := opened(t, p, InputOf(data(0)))
	o := outcome{initial: tr.Hash()}
	for tr.Steps() < steps {
		o.before = tr.Hash()
		if p.Window > 0 {
			o.losses += reported(windowed(t, tr, data)...)
			continue
		}
		r := stepped(t, tr, data(tr.Steps()))
		checkTimeline(t, r)
		o.losses += reported(r)
	}
	o.hash, o.tallies = tr.Hash(), talliesOf(tr)
	checkMemory(t, tr)
	if p.EMA.Kept() {
		noError(t, tr.Averaged(func() error { o.averages = tr.Hash(); return nil }))
	}
	return o
}

// reported is what results have that must not depend on the way.
func reported(all ...*Result) (text string) {
	for _, r := range all {
		text += fmt.Sprintf("%.17g %d %.12g ", r.Loss, r.Count, r.GradNorm)
	}
	return text
}

// talliesOf is a digest of batch norms' tallies, which are in float64.
func talliesOf(tr *Trainer) string {
	byPath := map[string][]float64{}
	for _, d := range tr.devices {
		for _, m := range d.moving {
			byPath[tr.net.Paths[m.Mean]] = m.tally
		}
	}
	digest := sha256.New()
	for _, path := range slices.Sorted(maps.Keys(byPath)) {
		fmt.Fprintln(digest, path, byPath[path])
	}
	return hex.EncodeToString(digest.Sum(nil))
}

// changes checks that training changes the weights: equal outcomes would prove
// nothing otherwise.
func (o outcome) changes(t testing.TB) {
	t.Helper()
	if o.hash == o.initial || o.hash == o.before {
		t.Fatalf("training changes nothing: initial %s, before the last step %s, after it %s", o.initial, o.before, o.hash)
	}
}
