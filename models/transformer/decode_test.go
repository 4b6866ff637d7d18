package transformer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

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
	found, err := Decoding{Beam: 4, LengthPenalty: 0.6, MaxLen: 6, Rows: 8, Pad: 0, Begin: 1, End: 2}.Decode(
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

	rows  int   // of a prediction, at most
	calls []int // the predictions' rows
}

var toyDecoding = Decoding{MaxLen: 4, Rows: 1000, Pad: 0, Begin: 1, End: 2}

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
	if err := (nn.Batch{Inputs: in, Count: 1}).Check(); err != nil || len(in) != 3 || n > m.rows {
		m.t.Errorf("a prediction of %v of at most %d rows: %v", shapes(in), m.rows, err)
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
	m.t, m.rows = t, d.Rows
	ids, lengths := padded(sources)
	found := testkit.Must(d.Decode(t.Context(), inTwos(m.predict), ids, lengths))(t)
	if len(found) != len(sources) {
		t.Fatalf("%d hypotheses for %d sentences", len(found), len(sources))
	}
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

// softmax returns a row's logarithms of probabilities, by definition.
func softmax(x []float32) []float64 {
	var sum float64
	for _, v := range x {
		sum += math.Exp(float64(v))
	}
	p := make([]float64, len(x))
	for i, v := range x {
		p[i] = math.Log(math.Exp(float64(v)) / sum)
	}
	return p
}

// everything enumerates all hypotheses of a sentence: those that end within
// most tokens, and those of most tokens without an end.
func (m *toy) everything(d Decoding, source []int32) (all []Hypothesis) {
	var extend func(prefix []int32, logProb float64)
	extend = func(prefix []int32, logProb float64) {
		p := softmax(m.logits(source, prefix))
		for token := range int32(m.vocab) {
			h := Hypothesis{Tokens: append(slices.Clone(prefix), token), LogProb: logProb + p[token]}
			h.Score = h.LogProb / math.Pow((5+float64(len(h.Tokens)))/6, d.LengthPenalty)
			switch {
			case token == d.Pad || token == d.Begin:
			case token == d.End:
				h.Tokens, h.Ended = prefix, true
				all = append(all, h)
			case len(h.Tokens) == d.MaxLen:
				all = append(all, h)
			default:
				extend(h.Tokens, h.LogProb)
			}
		}
	}
	extend(nil, 0)
	return all
}

// bestOf returns the first hypothesis in Decoding's order; scores that differ
// only by rounding are equal.
func bestOf(d Decoding, all []Hypothesis) Hypothesis {
	whole := func(h Hypothesis) []int32 {
		if h.Ended {
			return append(slices.Clone(h.Tokens), d.End)
		}
		return h.Tokens
	}
	return slices.MinFunc(all, func(a, b Hypothesis) int {
		if math.Abs(a.Score-b.Score) > 1e-12 {
			return cmp.Compare(b.Score, a.Score)
		}
		return slices.Compare(whole(a), whole(b))
	})
}

func sameHypothesis(t *testing.T, got, want Hypothesis) {
	t.Helper()
	if !slices.Equal(got.Tokens, want.Tokens) || got.Ended != want.Ended ||
		math.Abs(got.LogProb-want.LogProb) > 1e-9 || math.Abs(got.Score-want.Score) > 1e-9 {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestTies: if probabilities are equal, the lower id at the first token that
// differs wins.
func TestTies(t *testing.T) {
	m := &toy{vocab: 6, coarse: true}
	found := map[string]bool{}
	for seed := range uint64(40) {
		m.seed, m.end = seed, -float32(seed%3)
		for _, alpha := range []float64{0, 1} {
			d := toyDecoding
			d.LengthPenalty, d.Beam = alpha, 256
			want := bestOf(d, m.everything(d, []int32{1}))
			sameHypothesis(t, m.decode(t, d, []int32{1})[0], want)
			found[fmt.Sprint(want.Tokens)] = true
		}
	}
	if len(found) < 5 {
		t.Errorf("only %d translations, want more kinds", len(found))
	}

	// If all tokens are equally probable, the end, 2, is the lowest allowed
	// one; if the end is another token, 3 is.
	flat := func(_ context.Context, in ...nn.Tensor) ([]nn.Tensor, error) {
		n, w := in[2].Shape[0], in[2].Shape[1]
		return []nn.Tensor{{Shape: []int{n, w, 6}, F32: make([]float32, n*w*6)}}, nil
	}
	ids, lengths := padded(sentences(1))
	for _, c := range []struct {
		end  int32
		beam int
		want []int32
	}{{2, 1, []int32{}}, {5, 1, []int32{2, 2, 2, 2}}, {2, 3, []int32{}}, {5, 2, []int32{2, 2, 2, 2}}} {
		d := toyDecoding
		d.End, d.Beam = c.end, c.beam
		found, err := d.Decode(t.Context(), inTwos(flat), ids, lengths)
		if err != nil || !slices.Equal(found[0].Tokens, c.want) {
			t.Errorf("end %d, beam %d: %v, %v, want %v", c.end, c.beam, found, err, c.want)
		}
	}
}

// TestTiesOfHypotheses: the same rule between hypotheses, by hand. Rules list
// the tokens that may follow a prefix, all equally probable; other prefixes
// allow 2 to 5.
func TestTiesOfHypotheses(t *testing.T) {
	for _, c := range []struct {
		name  string
		rules map[string][]int32
		beam  int
		want  []int32
	}{
		// [2 5] and [5] each have probability one half, and 5 is the end: the
		// search must not stop when it has found [5].
		{"of other lengths", map[string][]int32{"[]": {2, 5}, "[2]": {5}}, 2, []int32{2}},
		// The first round keeps [2] and [3], the second [2 2] and [2 3], not [3
		// 2], which is equally probable.
		{"of other parents", map[string][]int32{"[2 3]": {5}, "[3 2]": {5}}, 2, []int32{2, 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			predict := func(_ context.Context, in ...nn.Tensor) ([]nn.Tensor, error) {
				n, w := in[2].Shape[0], in[2].Shape[1]
				out := nn.Tensor{Shape: []int{n, w, 6}}
				for i := range n {
					for j := range w {
						x := slices.Repeat([]float32{-1e4}, 6)
						follow, ok := c.rules[fmt.Sprint(in[2].I32[i*w+1:i*w+1+j])]
						if !ok {
							follow = []int32{2, 3, 4, 5}
						}
						for _, token := range follow {
							x[token] = 0
						}
						out.F32 = append(out.F32, x...)
					}
				}
				return []nn.Tensor{out}, nil
			}
			d := toyDecoding
			d.End, d.Beam = 5, c.beam
			ids, lengths := padded(sentences(1))
			found, err := d.Decode(t.Context(), inTwos(predict), ids, lengths)
			if err != nil || !slices.Equal(found[0].Tokens, c.want) || !found[0].Ended {
				t.Errorf("%v, %v, want %v", found, err, c.want)
			}
		})
	}
}

// byTheBook is beam search of one sentence, in one piece and without an end
// before MaxLen: each round sorts all extensions.
func (m *toy) byTheBook(d Decoding, source []int32) Hypothesis {
	live := []Hypothesis{{}}
	var stopped []Hypothesis
	for range d.MaxLen {
		var all []Hypothesis
		for _, h := range live {
			p := softmax(m.logits(source, h.Tokens))
			for token := range int32(m.vocab) {
				if token != d.Pad && token != d.Begin {
					all = append(all, Hypothesis{Tokens: append(slices.Clone(h.Tokens), token), LogProb: h.LogProb + p[token]})
				}
			}
		}
		slices.SortFunc(all, func(a, b Hypothesis) int {
			return cmp.Or(cmp.Compare(b.LogProb, a.LogProb), slices.Compare(a.Tokens, b.Tokens))
		})
		live = nil
		for _, h := range all[:min(d.Beam, len(all))] {
			length := len(h.Tokens)
			h.Score = h.LogProb / math.Pow((5+float64(length))/6, d.LengthPenalty)
			if h.Tokens[length-1] == d.End {
				h.Tokens, h.Ended = h.Tokens[:length-1], true
			}
			if h.Ended || length == d.MaxLen {
				stopped = append(stopped, h)
			} else {
				live = append(live, h)
			}
		}
	}
	return bestOf(d, stopped)
}

// TestBeams: beams that drop something, compared with byTheBook. The result
// depends neither on the number of rows of a prediction nor on the other
// sentences.
func TestBeams(t *testing.T) {
	better := 0
	for seed := range uint64(12) {
		m := &toy{seed: seed, vocab: 8, end: float32(seed%3) - 1}
		sources := sentences(7)
		for _, beam := range []int{1, 2, 3, 5} {
			for _, alpha := range []float64{0, 0.7} {
				d := toyDecoding
				d.MaxLen, d.Beam, d.LengthPenalty = 6, beam, alpha
				want := m.decode(t, d, sources...)
				for i, source := range sources {
					sameHypothesis(t, want[i], m.byTheBook(d, source))
					greedy := d
					greedy.Beam = 1
					if alpha == 0 && want[i].LogProb > m.byTheBook(greedy, source).LogProb+1e-9 {
						better++
					}
				}
				for _, rows := range []int{1, 2, 3, 4, 7, 11} {
					d.Rows = rows
					testkit.Equal(t, gocmp.Diff(want, m.decode(t, d, sources...)), "", "beam %d, %d rows (-1000 +%d)", beam, rows, rows)
				}
				testkit.Equal(t, gocmp.Diff(want[4:5], m.decode(t, d, sources[4])), "", "beam %d, alone (-among others +alone)", beam)
				if d.Beam = 0; beam == 1 {
					testkit.Equal(t, gocmp.Diff(want, m.decode(t, d, sources...)), "", "the zero value is not greedy (-1 +0)")
				}
			}
		}
	}
	if better == 0 {
		t.Error("no beam found more than the greedy chain")
	}
}

// TestRowsAreUsed: predictions are as full as possible, and the next sentence
// takes the rows that become free.
func TestRowsAreUsed(t *testing.T) {
	m := &toy{vocab: 8, end: -20} // never ends
	d := toyDecoding
	d.Beam, d.Rows, d.MaxLen = 3, 7, 4
	m.decode(t, d, sentences(5)...)
	// Two sentences at a time, with one row each in the first round and three
	// afterwards.
	want := []int{2, 6, 6, 6, 2, 6, 6, 6, 1, 3, 3, 3}
	testkit.EqualAll(t, m.calls, want, "rows of the predictions")
	m.calls, d.Rows = nil, 2 // a beam does not fit
	m.decode(t, d, sentences(2)...)
	want = []int{1, 2, 1, 2, 1, 2, 1, 1, 2, 1, 2, 1, 2, 1}
	testkit.EqualAll(t, m.calls, want, "rows of the predictions")
	m.calls, d.Rows, m.end = nil, 6, 20 // ends at once
	m.decode(t, d, sentences(4)...)
	if want = []int{2, 2}; !slices.Equal(m.calls, want) {
		t.Errorf("rows of the predictions %v, want %v", m.calls, want)
	}
}

func TestDecodeRefuses(t *testing.T) {
	ids, lengths := padded(sentences(3))
	good := func() (Decoding, nn.Tensor, nn.Tensor, Predictor) {
		m := &toy{t: t, vocab: 6, rows: 1000}
		return toyDecoding, ids, lengths, inTwos(m.predict)
	}
	gives := func(out ...nn.Tensor) Predictor {
		return func(_ context.Context, each func(int, []nn.Tensor) error, _ ...nn.Tensor) error { return each(0, out) }
	}
	boom := errors.New("device 1 is on fire")
	for _, c := range []struct {
		want   string
		change func(d *Decoding, ids, lengths *nn.Tensor, p *Predictor)
	}{
		{"Beam is -1", func(d *Decoding, _, _ *nn.Tensor, _ *Predictor) { d.Beam = -1 }},
		{"LengthPenalty is -0.1", func(d *Decoding, _, _ *nn.Tensor, _ *Predictor) { d.LengthPenalty = -0.1 }},
		{"LengthPenalty is NaN", func(d *Decoding, _, _ *nn.Tensor, _ *Predictor) { d.LengthPenalty = math.NaN() }},
		{"MaxLen is 0", func(d *Decoding, _, _ *nn.Tensor, _ *Predictor) { d.MaxLen = 0 }},
		{"Rows is 0", func(d *Decoding, _, _ *nn.Tensor, _ *Predictor) { d.Rows = 0 }},
		{"Pad, Begin and End are 0, 2 and 2", func(d *Decoding, _, _ *nn.Tensor, _ *Predictor) { d.Begin = 2 }},
		{"Pad, Begin and End are -1, 1 and 2", func(d *Decoding, _, _ *nn.Tensor, _ *Predictor) { d.Pad = -1 }},
		{"the end is token 6 of a vocabulary of 6", func(d *Decoding, _, _ *nn.Tensor, _ *Predictor) { d.End = 6 }},
		{"input 1 has 1 examples", func(_ *Decoding, _, l *nn.Tensor, _ *Predictor) { l.Shape, l.I32 = []int{1}, l.I32[:1] }},
		{"want int32 ids (n, s) and lengths (n)", func(_ *Decoding, ids, _ *nn.Tensor, _ *Predictor) { ids.Shape = append(ids.Shape, 1) }},
		{"want int32 ids (n, s) and lengths (n)", func(_ *Decoding, ids, _ *nn.Tensor, _ *Predictor) {
			ids.I32, ids.F32 = nil, make([]float32, len(ids.I32))
		}},
		{"sentence 1 has length 0: want 1 to 4", func(_ *Decoding, _, l *nn.Tensor, _ *Predictor) { l.I32[1] = 0 }},
		{"sentence 2 has length 5: want 1 to 4", func(_ *Decoding, _, l *nn.Tensor, _ *Predictor) { l.I32[2] = 5 }},
		{"device 1 is on fire", func(_ *Decoding, _, _ *nn.Tensor, p *Predictor) {
			*p = func(context.Context, func(int, []nn.Tensor) error, ...nn.Tensor) error { return boom }
		}},
		{"the predictor gives [], want logits (3, 4, vocabulary)", func(_ *Decoding, _, _ *nn.Tensor, p *Predictor) { *p = gives() }},
		{"the predictor gives logits of 2 rows, want 3", func(_ *Decoding, _, _ *nn.Tensor, p *Predictor) {
			*p = gives(nn.Tensor{Shape: []int{2, 4, 3}, F32: make([]float32, 24)})
		}},
		{"the predictor gives [[3 5 2]], want", func(_ *Decoding, _, _ *nn.Tensor, p *Predictor) {
			*p = gives(nn.Tensor{Shape: []int{3, 5, 2}, F32: make([]float32, 30)})
		}},
		{"sentence 1, token 0: the logit of 3 is NaN", func(_ *Decoding, _, _ *nn.Tensor, p *Predictor) {
			x := make([]float32, 3*4*6)
			x[1*4*6+3] = float32(math.NaN())
			*p = gives(nn.Tensor{Shape: []int{3, 4, 6}, F32: x})
		}},
		{"sentence 0, token 0: the logit of 5 is -Inf", func(_ *Decoding, _, _ *nn.Tensor, p *Predictor) {
			x := make([]float32, 3*4*6)
			x[5] = float32(math.Inf(-1))
			*p = gives(nn.Tensor{Shape: []int{3, 4, 6}, F32: x})
		}},
	} {
		d, i, l, p := good()
		i.Shape, l.I32 = slices.Clone(i.Shape), slices.Clone(l.I32)
		c.change(&d, &i, &l, &p)
		found, err := d.Decode(t.Context(), p, i, l)
		if err == nil || !strings.HasPrefix(err.Error(), "decoding: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, %v: want an error with %s", found, err, c.want)
		}
		if strings.Contains(c.want, "fire") && !errors.Is(err, boom) {
			t.Errorf("%v does not wrap the predictor's", err)
		}
	}
	d, i, l, p := good()
	if _, err := d.Decode(t.Context(), p, i, l); err != nil {
		t.Error(err)
	}
}
