package transformer

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gpipebench/nn"
)

// Predictor runs a [Translation] model on source ids (n, s), source lengths (n)
// and target ids (n, t), shifted right. Its only output, the logits (n, t,
// vocabulary), is passed to each, some examples at a time, in any order, with
// the index of the first. The tensors need be valid only until each returns; an
// error of each ends the prediction. An example's logits must depend on that
// example only. PredictEach of gpipe's Trainer is a Predictor.
type Predictor func(ctx context.Context, each func(first int, outputs []nn.Tensor) error, inputs ...nn.Tensor) error

// Decoding finds translations greedily: each token is the most probable one after those before
// it, the lowest of several. Pad and Begin, which stand for no text, are never chosen.
//
// Nothing is cached between tokens: each runs encoder and decoder again over the source and the
// whole prefix, and computes the logits of all MaxLen positions, and uses one of them.
type Decoding struct {
	MaxLen int // most tokens of a translation, including the end, at least 1: t of each prediction

	Pad, Begin, End int32 // three different tokens of the vocabulary
}

// Hypothesis is a translation.
type Hypothesis struct {
	Tokens []int32 // without Begin and End
	Ended  bool    // false: MaxLen tokens without an end
}

// Decode translates sentences: ids (n, s) int32 and lengths (n) int32, each from 1 to s. A prediction
// has a row for each that has not ended.
func (d Decoding) Decode(ctx context.Context, predict Predictor, ids, lengths nn.Tensor) ([]Hypothesis, error) {
	found := make([]Hypothesis, ids.Shape[0])
	var running []int // sentences
	for i := range found {
		running = append(running, i)
	}
	for len(running) > 0 {
		if err := d.extend(ctx, predict, ids, lengths, found, running); err != nil {
			return nil, fmt.Errorf("decoding: %w", err)
		}
		running = slices.DeleteFunc(running, func(i int) bool { return found[i].Ended || len(found[i].Tokens) == d.MaxLen })
	}
	return found, nil
}

// extend gives the translations of some sentences, which are of one length, another token.
func (d Decoding) extend(ctx context.Context, predict Predictor, ids, lengths nn.Tensor, found []Hypothesis, sentences []int) error {
	position := len(found[sentences[0]].Tokens)
	given := make([]bool, len(sentences))
	err := predict(ctx, func(first int, out []nn.Tensor) error {
		if first < 0 || len(out) != 1 || len(out[0].Shape) != 3 || first+out[0].Shape[0] > len(sentences) || out[0].Shape[1] != d.MaxLen ||
			len(out[0].F32) != out[0].Shape[0]*d.MaxLen*out[0].Shape[2] {
			return fmt.Errorf("the predictor gives %v, want logits (%d, %d, vocabulary), or of some of these rows", shapes(out), len(sentences), d.MaxLen)
		}
		vocab := out[0].Shape[2]
		for i := range out[0].Shape[0] {
			if given[first+i] {
				return fmt.Errorf("the predictor gives logits of row %d twice", first+i)
			}
			given[first+i] = true
			at := (i*d.MaxLen + position) * vocab
			token, err := d.choose(out[0].F32[at : at+vocab])
			if err != nil {
				return fmt.Errorf("sentence %d, token %d: %w", sentences[first+i], position, err)
			}
			h := &found[sentences[first+i]]
			if h.Ended = token == d.End; !h.Ended {
				h.Tokens = append(h.Tokens, token)
			}
		}
		return nil
	}, d.inputs(ids, lengths, found, sentences)...)
	if err == nil && slices.Contains(given, false) {
		err = fmt.Errorf("the predictor gives no logits of row %d", slices.Index(given, false))
	}
	return err
}

// choose returns the most probable token that stands for text, or the end.
func (d Decoding) choose(logits []float32) (int32, error) {
	best := d.End
	for token, x := range logits {
		if v := float64(x); math.IsNaN(v) || math.IsInf(v, 0) {
			return 0, fmt.Errorf("the logit of %d is %v", token, x)
		}
		if token := int32(token); token != d.Pad && token != d.Begin && (x > logits[best] || x == logits[best] && token < best) {
			best = token
		}
	}
	return best, nil
}

// inputs returns the tensors of a prediction.
func (d Decoding) inputs(ids, lengths nn.Tensor, found []Hypothesis, sentences []int) []nn.Tensor {
	n, width := len(sentences), ids.Shape[1]
	source, length, target := make([]int32, 0, n*width), make([]int32, 0, n), make([]int32, 0, n*d.MaxLen)
	for _, i := range sentences {
		source = append(source, ids.I32[i*width:(i+1)*width]...)
		length = append(length, lengths.I32[i])
		target = append(append(target, d.Begin), found[i].Tokens...)
		for range d.MaxLen - 1 - len(found[i].Tokens) {
			target = append(target, d.Pad)
		}
	}
	return []nn.Tensor{
		{Shape: []int{n, width}, I32: source}, {Shape: []int{n}, I32: length}, {Shape: []int{n, d.MaxLen}, I32: target},
	}
}

func shapes(ts []nn.Tensor) (all [][]int) {
	for _, t := range ts {
		all = append(all, t.Shape)
	}
	return all
}
