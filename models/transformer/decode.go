package transformer

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"gpipebench/internal/kernel/exactmath"
	"gpipebench/nn"
)

// Predictor runs a [Translation] model on source ids (n, s), source lengths (n)
// and target ids (n, t), shifted right. Its only output, the logits (n, t,
// vocabulary), is passed to each, some examples at a time, in any order, with
// the index of the first. The tensors need be valid only until each returns; an
// error of each ends the prediction. An example's logits must depend on that
// example only. PredictEach of gpipe's Trainer is a Predictor.
type Predictor func(ctx context.Context, each func(first int, outputs []nn.Tensor) error, inputs ...nn.Tensor) error

// Decoding finds translations by beam search (Sutskever et al. 2014, section
// 3.2), or greedily.
//
// A hypothesis is the beginning of a translation. In each round every
// hypothesis of a sentence is extended by every token, and the Beam most
// probable of the results are kept. Those that end or reach MaxLen tokens stop;
// the result is the stopped hypothesis with the highest Score. The search is
// over when no hypothesis is left, or when none can reach a higher Score any
// more.
//
// Ties are resolved by the lower token id at the first token that differs. Pad
// and Begin, which stand for no text, are never chosen.
//
// Nothing is cached between rounds: each runs encoder and decoder again over
// the source and the whole prefix, and computes the logits of all MaxLen
// positions, and uses one of them. A translation of n tokens takes n rounds.
type Decoding struct {
	Beam int // hypotheses per sentence, at least 1, which is greedy; 0: 1

	// LengthPenalty is alpha of Wu et al. 2016, section 7, at least 0: the
	// logarithm of the probability is divided by ((5+length)/6)^alpha, where
	// the length includes the end, so that a higher alpha prefers longer
	// translations. Their coverage penalty is left out, since it needs the
	// attention's weights. 0: none.
	LengthPenalty float64

	MaxLen int // most tokens of a translation, including the end, at least 1: t of each prediction
	Rows   int // most examples of a prediction, at least 1: the mini-batch that a trainer was opened for

	Pad, Begin, End int32 // three different tokens
}

// Hypothesis is a translation.
type Hypothesis struct {
	Tokens  []int32 // without Begin and End
	Ended   bool    // false: MaxLen tokens without an end
	LogProb float64 // natural logarithm of the probability of Tokens, and of End if it ended
	Score   float64 // LogProb over the length penalty
}

// Validate reports the first field that is out of range.
func (d Decoding) Validate() error {
	switch {
	case d.Beam < 0:
		return fmt.Errorf("decoding: Beam is %d, want at least 1 (0: 1)", d.Beam)
	case !(d.LengthPenalty >= 0) || math.IsInf(d.LengthPenalty, 0):
		return fmt.Errorf("decoding: LengthPenalty is %v, want at least 0 (0: none)", d.LengthPenalty)
	case d.MaxLen < 1:
		return fmt.Errorf("decoding: MaxLen is %d, want at least 1", d.MaxLen)
	case d.Rows < 1:
		return fmt.Errorf("decoding: Rows is %d, want at least 1", d.Rows)
	case min(d.Pad, d.Begin, d.End) < 0 || d.Pad == d.Begin || d.Begin == d.End || d.End == d.Pad:
		return fmt.Errorf("decoding: Pad, Begin and End are %d, %d and %d, want three different tokens", d.Pad, d.Begin, d.End)
	}
	return nil
}

// Decode translates any number of sentences: ids (n, s) int32 and lengths (n)
// int32, each from 1 to s. It returns the best hypothesis of each.
//
// As many sentences are searched at a time as have space for their beams in a
// prediction; when one is done, the next takes its place. A beam larger than
// Rows is split over several predictions. The results depend on none of that.
func (d Decoding) Decode(ctx context.Context, predict Predictor, ids, lengths nn.Tensor) ([]Hypothesis, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	if err := checkSources(ids, lengths); err != nil {
		return nil, fmt.Errorf("decoding: %w", err)
	}
	d.Beam = max(d.Beam, 1)
	n := ids.Shape[0]
	found := make([]Hypothesis, n)
	var running []*search
	for next := 0; ; {
		for ; next < n && len(running) < max(d.Rows/d.Beam, 1); next++ {
			running = append(running, &search{Decoding: d, sentence: next, live: []prefix{{}}})
		}
		if len(running) == 0 {
			return found, nil
		}
		var rows []row
		for _, s := range running {
			for i := range s.live {
				rows = append(rows, row{s.sentence, s.live[i].tokens})
			}
		}
		logits, err := d.run(ctx, predict, ids, lengths, rows)
		if err != nil {
			return nil, fmt.Errorf("decoding: %w", err)
		}
		for _, s := range running {
			n := len(s.live)
			if err := s.advance(logits[:n]); err != nil {
				return nil, fmt.Errorf("decoding: %w", err)
			}
			logits = logits[n:]
		}
		running = slices.DeleteFunc(running, func(s *search) bool {
			if s.done() {
				found[s.sentence] = s.best.hypothesis(d)
			}
			return s.done()
		})
	}
}

func checkSources(ids, lengths nn.Tensor) error {
	if err := (nn.Batch{Inputs: []nn.Tensor{ids, lengths}, Count: 1}).Check(); err != nil {
		return err
	}
	if ids.I32 == nil || lengths.I32 == nil || len(ids.Shape) != 2 || len(lengths.Shape) != 1 {
		return fmt.Errorf("sources of shapes %v and %v: want int32 ids (n, s) and lengths (n)", ids.Shape, lengths.Shape)
	}
	for i, l := range lengths.I32 {
		if l < 1 || int(l) > ids.Shape[1] {
			return fmt.Errorf("sentence %d has length %d: want 1 to %d", i, l, ids.Shape[1])
		}
	}
	return nil
}

// row is an example of a prediction: a sentence, and the beginning of its
// translation.
type row struct {
	sentence int
	prefix   []int32
}

// run predicts the next token of each row: it returns logits (vocabulary).
func (d Decoding) run(ctx context.Context, predict Predictor, ids, lengths nn.Tensor, rows []row) ([][]float32, error) {
	var next [][]float32
	for part := range slices.Chunk(rows, d.Rows) {
		given, own := 0, make([][]float32, len(part))
		if err := predict(ctx, func(first int, out []nn.Tensor) error {
			if first < 0 || len(out) != 1 || len(out[0].Shape) != 3 || first+out[0].Shape[0] > len(part) || out[0].Shape[1] != d.MaxLen ||
				len(out[0].F32) != out[0].Shape[0]*d.MaxLen*out[0].Shape[2] {
				return fmt.Errorf("the predictor gives %v, want logits (%d, %d, vocabulary), or of some of these rows", shapes(out), len(part), d.MaxLen)
			}
			vocab := out[0].Shape[2]
			if int(d.End) >= vocab {
				return fmt.Errorf("the end is token %d of a vocabulary of %d", d.End, vocab)
			}
			for i := range out[0].Shape[0] {
				if own[first+i] != nil {
					return fmt.Errorf("the predictor gives logits of row %d twice", first+i)
				}
				at := (i*d.MaxLen + len(part[first+i].prefix)) * vocab
				own[first+i] = slices.Clone(out[0].F32[at : at+vocab])
				given++
			}
			return nil
		}, d.inputs(ids, lengths, part)...); err != nil {
			return nil, err
		}
		if given < len(part) {
			return nil, fmt.Errorf("the predictor gives logits of %d rows, want %d", given, len(part))
		}
		next = append(next, own...)
	}
	return next, nil
}

// inputs returns the tensors of a prediction.
func (d Decoding) inputs(ids, lengths nn.Tensor, rows []row) []nn.Tensor {
	n, width := len(rows), ids.Shape[1]
	source, length, target := make([]int32, 0, n*width), make([]int32, 0, n), make([]int32, 0, n*d.MaxLen)
	for _, r := range rows {
		source = append(source, ids.I32[r.sentence*width:(r.sentence+1)*width]...)
		length = append(length, lengths.I32[r.sentence])
		target = append(append(target, d.Begin), r.prefix...)
		for range d.MaxLen - 1 - len(r.prefix) {
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

// search is the beam search of one sentence.
type search struct {
	Decoding
	sentence int
	live     []prefix // most probable first
	best     *prefix  // best of those that stopped
}

// prefix is a hypothesis within the search.
type prefix struct {
	tokens  []int32 // without Begin; with End as the last if it ended
	logProb float64
}

// candidate extends live hypothesis parent by a token.
type candidate struct {
	parent  int
	token   int32
	logProb float64
}

// advance extends the live hypotheses, given for each the logits (vocabulary)
// of its next token.
func (s *search) advance(logits [][]float32) error {
	var top []candidate // at most Beam, best first
	for i, h := range s.live {
		norm, err := logSumExp(logits[i])
		if err != nil {
			return fmt.Errorf("sentence %d, token %d: %w", s.sentence, len(h.tokens), err)
		}
		for token, x := range logits[i] {
			if token := int32(token); token != s.Pad && token != s.Begin {
				top = s.offer(top, candidate{i, token, h.logProb + (float64(x) - norm)})
			}
		}
	}
	parents := s.live
	s.live = nil
	for _, c := range top {
		h := prefix{append(slices.Clone(parents[c.parent].tokens), c.token), c.logProb}
		switch {
		case !s.ended(h) && len(h.tokens) < s.MaxLen:
			s.live = append(s.live, h)
		case s.best == nil || s.compare(h, *s.best) < 0:
			s.best = &h
		}
	}
	return nil
}

// offer inserts a candidate at its place among the Beam best.
func (s *search) offer(top []candidate, c candidate) []candidate {
	order := func(a, b candidate) int {
		if a.logProb != b.logProb {
			return cmp.Compare(b.logProb, a.logProb)
		}
		return cmp.Or(slices.Compare(s.live[a.parent].tokens, s.live[b.parent].tokens), cmp.Compare(a.token, b.token))
	}
	if len(top) == s.Beam {
		if order(c, top[len(top)-1]) > 0 {
			return top
		}
		top = top[:len(top)-1]
	}
	i, _ := slices.BinarySearchFunc(top, c, order)
	return slices.Insert(top, i, c)
}

// done reports whether no live hypothesis can become better than the best one
// that has stopped: its probability does not rise, and its length is at most
// MaxLen.
func (s *search) done() bool {
	return len(s.live) == 0 || s.best != nil && s.score(*s.best) > s.live[0].logProb/s.penalty(s.MaxLen)
}

// compare is negative if a is better.
func (s *search) compare(a, b prefix) int {
	return cmp.Or(cmp.Compare(s.score(b), s.score(a)), slices.Compare(a.tokens, b.tokens))
}

func (d Decoding) ended(h prefix) bool {
	return len(h.tokens) > 0 && h.tokens[len(h.tokens)-1] == d.End
}

func (d Decoding) score(h prefix) float64 { return h.logProb / d.penalty(len(h.tokens)) }

// penalty returns lp of Wu et al., equation 14.
func (d Decoding) penalty(length int) float64 {
	return exactmath.Pow(float64(5+length)/(5+1), d.LengthPenalty)
}

func (h prefix) hypothesis(d Decoding) Hypothesis {
	found := Hypothesis{Tokens: h.tokens, Ended: d.ended(h), LogProb: h.logProb, Score: d.score(h)}
	if found.Ended {
		found.Tokens = found.Tokens[:len(found.Tokens)-1]
	}
	return found
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
