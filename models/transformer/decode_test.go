package transformer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
	"gpipebench/nn/philox"
)

// A predictor is any function; this one translates by spelling backwards. Its
// tokens are 0 for padding, 1 for begin, 2 for end, and letters from 3.
func ExampleDecoding() {
	backwards := func(_ context.Context, each func(first int, outputs []nn.Tensor) error, in ...nn.Tensor) error {
		const vocab = 10
		source, lengths, target := in[0], in[1], in[2]
		n, s, t := source.Shape[0], source.Shape[1], target.Shape[1]
		logits := make([]float32, n*t*vocab)
		for i := range n {
			for j := range t {
				next := int32(2)
				if left := int(lengths.I32[i]) - j; left > 0 {
					next = source.I32[i*s+left-1]
				}
				logits[(i*t+j)*vocab+int(next)] = 5
			}
		}
		return each(0, []nn.Tensor{{Shape: []int{n, t, vocab}, F32: logits}})
	}
	found, err := Decoding{MaxLen: 6, Pad: 0, Begin: 1, End: 2}.Decode(
		context.Background(), backwards,
		nn.Tensor{Shape: []int{2, 4}, I32: []int32{3, 4, 5, 6, 9, 8, 0, 0}},
		nn.Tensor{Shape: []int{2}, I32: []int32{4, 2}},
	)
	if err != nil {
		fmt.Println(err)
	}
	for _, h := range found {
		fmt.Println(h.Tokens, h.Ended)
	}
	// Output:
	// [6 5 4 3] true
	// [8 9] true
}

// toy is a model that depends on everything a model may: an example's source up
// to its length, and the target's tokens up to the position. They are the key
// from which its logits are drawn. Coarse logits make many ties.
type toy struct {
	t      *testing.T
	seed   uint64
	vocab  int
	coarse bool
	end    float32 // added to the end's logit

	calls []int // the predictions' rows
}

var toyDecoding = Decoding{MaxLen: 4, Pad: 0, Begin: 1, End: 2}

// logits returns those of the token after a prefix.
func (m *toy) logits(source, prefix []int32) []float32 {
	r := philox.NewStream(philox.KeyOf(m.seed, fmt.Sprint(source, prefix)), 0)
	x := make([]float32, m.vocab)
	for i := range x {
		if m.coarse {
			x[i] = float32(r.Intn(2))
		} else {
			x[i] = 3 * float32(r.Normal())
		}
	}
	x[2] += m.end
	return x
}

// inTwos makes a predictor of a function: it passes two rows at a time and
// overwrites them after each call.
func inTwos(predict func(ctx context.Context, in ...nn.Tensor) ([]nn.Tensor, error)) Predictor {
	return func(ctx context.Context, each func(first int, outputs []nn.Tensor) error, in ...nn.Tensor) error {
		out, err := predict(ctx, in...)
		if err != nil || len(out) == 0 {
			return errors.Join(err, each(0, out))
		}
		n, row := out[0].Shape[0], len(out[0].F32)/out[0].Shape[0]
		for from := 0; from < n; from += 2 {
			to := min(from+2, n)
			some := nn.Tensor{Shape: append([]int{to - from}, out[0].Shape[1:]...), F32: out[0].F32[from*row : to*row]}
			if err := each(from, []nn.Tensor{some}); err != nil {
				return err
			}
			for i := range some.F32 {
				some.F32[i] = float32(math.NaN())
			}
		}
		return nil
	}
}

func (m *toy) predict(_ context.Context, in ...nn.Tensor) ([]nn.Tensor, error) {
	source, lengths, target := in[0], in[1], in[2]
	n, s, t := source.Shape[0], source.Shape[1], target.Shape[1]
	m.calls = append(m.calls, n)
	if err := (nn.Batch{Inputs: in, Count: 1}).Check(); err != nil || len(in) != 3 {
		m.t.Errorf("a prediction of %v: %v", shapes(in), err)
	}
	out := nn.Tensor{Shape: []int{n, t, m.vocab}}
	for i := range n {
		ids := target.I32[i*t : (i+1)*t]
		used := slices.Index(append(slices.Clone(ids), 0), 0)
		if ids[0] != 1 || slices.Contains(ids[1:], 1) || slices.Contains(ids, 2) || slices.ContainsFunc(ids[used:], func(id int32) bool { return id != 0 }) {
			m.t.Errorf("target ids %v: want 1, tokens, then 0", ids)
		}
		for j := range t {
			if length := int(lengths.I32[i]); j < used {
				out.F32 = append(out.F32, m.logits(source.I32[i*s:i*s+length], ids[1:j+1])...)
			} else { // positions after the prefix must not be read
				out.F32 = append(out.F32, slices.Repeat([]float32{float32(math.NaN())}, m.vocab)...)
			}
		}
	}
	return []nn.Tensor{out}, nil
}

func (m *toy) decode(t *testing.T, d Decoding, sources ...[]int32) []Hypothesis {
	t.Helper()
	m.t = t
	ids, lengths := padded(sources)
	found := testkit.Must(d.Decode(t.Context(), inTwos(m.predict), ids, lengths))(t)
	testkit.Equal(t, len(found), len(sources), "hypotheses")
	return found
}

// padded joins sentences into a tensor; the padding after them changes nothing.
func padded(sources [][]int32) (ids, lengths nn.Tensor) {
	width := 0
	for _, s := range sources {
		width = max(width, len(s)+1)
	}
	ids.Shape, lengths.Shape = []int{len(sources), width}, []int{len(sources)}
	for i, s := range sources {
		ids.I32 = append(ids.I32, s...)
		ids.I32 = append(ids.I32, slices.Repeat([]int32{int32(i)}, width-len(s))...)
		lengths.I32 = append(lengths.I32, int32(len(s)))
	}
	return ids, lengths
}

// sentences returns n different sources.
func sentences(n int) (all [][]int32) {
	for i := range n {
		s := []int32{int32(i)}
		for j := range i % 4 {
			s = append(s, int32(i*j%7))
		}
		all = append(all, s)
	}
	return all
}

// byTheBook extends one sentence by the most probable token, the lowest of several.
func (m *toy) byTheBook(d Decoding, source []int32) (h Hypothesis) {
	for len(h.Tokens) < d.MaxLen {
		logits := m.logits(source, h.Tokens)[2:] // without padding and begin
		token := int32(2 + slices.Index(logits, slices.Max(logits)))
		if token == d.End {
			h.Ended = true
			break
		}
		h.Tokens = append(h.Tokens, token)
	}
	return h
}

// TestGreedy: translations are those by the book, of other sentences whatever else is translated, with
// ties and without; a prediction has a row for each sentence that has not ended.
func TestGreedy(t *testing.T) {
	d := toyDecoding
	d.MaxLen = 6
	lengths := map[int]bool{}
	for seed := range uint64(40) {
		m := &toy{seed: seed, vocab: 8, coarse: seed%2 == 0, end: float32(seed%3) - 1}
		sources := sentences(7)
		found := m.decode(t, d, sources...)
		running := make([]int, d.MaxLen)
		for i, source := range sources {
			testkit.EqualDeep(t, found[i], m.byTheBook(d, source), "seed %d, sentence %d", seed, i)
			lengths[len(found[i].Tokens)] = true
			for round := range min(len(found[i].Tokens)+1, d.MaxLen) {
				running[round]++
			}
		}
		testkit.EqualAll(t, m.calls, slices.DeleteFunc(running, func(n int) bool { return n == 0 }), "rows of the predictions")
		testkit.EqualDeep(t, m.decode(t, d, sources[4])[0], found[4], "seed %d: alone", seed)
	}
	if len(lengths) < 5 {
		t.Errorf("translations of lengths %v, want more kinds", lengths)
	}
	// If all tokens are equally probable, the end, 2, is the lowest allowed
	// one; if the end is another token, 3 is.
	flat := func(_ context.Context, in ...nn.Tensor) ([]nn.Tensor, error) {
		n, w := in[2].Shape[0], in[2].Shape[1]
		return []nn.Tensor{{Shape: []int{n, w, 6}, F32: make([]float32, n*w*6)}}, nil
	}
	ids, lens := padded(sentences(1))
	for end, want := range map[int32][]int32{2: nil, 5: {2, 2, 2, 2}} {
		d := toyDecoding
		d.End = end
		found := testkit.Must(d.Decode(t.Context(), inTwos(flat), ids, lens))(t)
		testkit.EqualAll(t, found[0].Tokens, want, "end %d", end)
	}
}

func TestDecodeRefuses(t *testing.T) {
	ids, lengths := padded(sentences(3))
	gives := func(out ...nn.Tensor) Predictor {
		return func(_ context.Context, each func(int, []nn.Tensor) error, _ ...nn.Tensor) error { return each(0, out) }
	}
	broken := func(at int, x float64) nn.Tensor {
		logits := make([]float32, 3*4*6)
		logits[at] = float32(x)
		return nn.Tensor{Shape: []int{3, 4, 6}, F32: logits}
	}
	boom := errors.New("device 1 is on fire")
	for want, p := range map[string]Predictor{
		"device 1 is on fire": func(context.Context, func(int, []nn.Tensor) error, ...nn.Tensor) error { return boom },
		"the predictor gives [], want logits (3, 4, vocabulary)": gives(),
		"the predictor gives no logits of row 2":                 gives(nn.Tensor{Shape: []int{2, 4, 3}, F32: make([]float32, 24)}),
		"the predictor gives [[3 5 2]], want":                    gives(nn.Tensor{Shape: []int{3, 5, 2}, F32: make([]float32, 30)}),
		"sentence 1, token 0: the logit of 3 is NaN":             gives(broken(1*4*6+3, math.NaN())),
		"sentence 0, token 0: the logit of 5 is -Inf":            gives(broken(5, math.Inf(-1))),
	} {
		_, err := toyDecoding.Decode(t.Context(), p, ids, lengths)
		testkit.FailsFirst(t, err, "decoding: ", want)
		testkit.Equal(t, errors.Is(err, boom), strings.Contains(want, "fire"), "the predictor's own error: %v", err)
	}
}
