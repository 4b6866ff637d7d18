package transformer

import (
	"context"
	"fmt"
	"math"

	"gpipebench/internal/kernel/exactmath"
	"gpipebench/nn"
	"gpipebench/nn/philox"
)

// Generation continues texts with a language model ([LM]), a token at a time. Nothing is
// cached: each token takes a forward pass over all positions, and uses one of them.
type Generation struct {
	SeqLen int // positions of the model: it sees the last SeqLen tokens, at least 1
	Vocab  int // tokens that may be chosen: 0 to Vocab-1, at most those of the model
}

// Continue returns tokens that follow each of some texts (at least a token each), the
// same number for all. A text's next token is drawn from its stream with the model's
// probabilities; with a nil stream it is the most probable one, the lowest of several.
// predict takes ids (texts, SeqLen) and gives logits (texts, SeqLen, vocabulary), as
// for [Decoding]. A text's tokens do not depend on the others.
func (g Generation) Continue(ctx context.Context, predict Predictor, texts [][]int32, tokens int, random []*philox.Stream) ([][]int32, error) {
	n := len(texts)
	all := make([][]int32, n)
	for i, text := range texts {
		if len(text) == 0 {
			return nil, fmt.Errorf("generation: text %d is empty: want a token or more", i)
		}
		all[i] = append(all[i], text...)
	}
	for range tokens {
		ids := nn.Tensor{Shape: []int{n, g.SeqLen}, I32: make([]int32, n*g.SeqLen)}
		last := make([]int, n) // position of each text's last token
		for i, text := range all {
			last[i] = copy(ids.I32[i*g.SeqLen:(i+1)*g.SeqLen], text[max(0, len(text)-g.SeqLen):]) - 1
		}
		if err := predict(ctx, func(first int, out []nn.Tensor) error {
			if len(out) != 1 || len(out[0].Shape) != 3 || out[0].Shape[1] != g.SeqLen || out[0].Shape[2] < g.Vocab || first+out[0].Shape[0] > n {
				return fmt.Errorf("generation: the predictor gives %v, want logits (%d, %d, %d or more)", shapes(out), n, g.SeqLen, g.Vocab)
			}
			vocab := out[0].Shape[2]
			for i := range out[0].Shape[0] {
				at := (i*g.SeqLen + last[first+i]) * vocab
				token, err := choose(out[0].F32[at:at+g.Vocab], random[first+i])
				if err != nil {
					return fmt.Errorf("generation: token %d: %w", len(all[first+i])-len(texts[first+i]), err)
				}
				all[first+i] = append(all[first+i], token)
			}
			return nil
		}, ids); err != nil {
			return nil, err
		}
	}
	for i := range all {
		all[i] = all[i][len(texts[i]):]
	}
	return all, nil
}

// choose returns a token by its logits.
func choose(logits []float32, random *philox.Stream) (int32, error) {
	norm, err := logSumExp(logits)
	if err != nil {
		return 0, err
	}
	best := 0
	if random == nil {
		for token, x := range logits {
			if x > logits[best] {
				best = token
			}
		}
		return int32(best), nil
	}
	left := random.Float64()
	for token, x := range logits {
		p := exactmath.Exp(float64(x) - norm)
		if left < p {
			return int32(token), nil
		}
		if left -= p; p > 0 {
			best = token // the last that has a probability, should rounding leave a rest
		}
	}
	return int32(best), nil
}

// logSumExp returns the difference between logits and logarithms of
// probabilities.
func logSumExp(x []float32) (float64, error) {
	most := math.Inf(-1)
	for token, v := range x {
		if v := float64(v); math.IsNaN(v) || math.IsInf(v, 0) {
			return 0, fmt.Errorf("the logit of %d is %v", token, v)
		}
		most = max(most, float64(v))
	}
	var sum float64
	for _, v := range x {
		sum += exactmath.Exp(float64(v) - most)
	}
	return most + exactmath.Log(sum), nil
}
