package datasets

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
)

// pairIn returns example i of a batch as a trainer reads it: its source without
// padding, and its targets. It checks everything that the contract says.
func pairIn(t *testing.T, b nn.Batch, i int) (source, target []int32) {
	t.Helper()
	one := b.Slice(i, i+1)
	ids, length, in, out := one.Inputs[0].I32, int(one.Inputs[1].I32[0]), one.Inputs[2].I32, one.Targets[0].I32
	for k, id := range ids {
		testkit.Equal(t, id == Pad, k >= length, "source %v of length %d", ids, length)
	}
	target = out
	if n := slices.Index(out, -1); n >= 0 {
		target = out[:n]
	}
	if len(target) == 0 || in[0] != Begin || !slices.Equal(in[1:len(target)], target[:len(target)-1]) {
		t.Fatalf("inputs %v for targets %v", in, out)
	}
	for k := len(target); k < len(out); k++ {
		if in[k] != Pad || out[k] != -1 {
			t.Fatalf("inputs %v for targets %v", in, out)
		}
	}
	return ids[:length], target
}

// key returns a pair as a string, for counting.
func key(source, target []int32) string { return fmt.Sprint(source, target) }

// pass counts the pairs of batches from <= i < to, and checks their shapes and
// counts.
func pass(t *testing.T, s *Translation, split Split, from, to, examples int) map[string]int {
	t.Helper()
	seen := map[string]int{}
	for i := from; i < to; i++ {
		b := mustBatch(t, s, split, i, examples)
		shape := Shape{b.Inputs[0].Shape[1], b.Inputs[2].Shape[1]}
		if !slices.Contains(s.Shapes(), shape) || b.Targets[0].Shape[1] != shape.Target {
			t.Fatalf("batch of shape %v, targets %v", shape, b.Targets[0].Shape)
		}
		count := 0
		for e := range b.Examples() {
			source, target := pairIn(t, b, e)
			seen[key(source, target)]++
			count += len(target)
		}
		testkit.Equal(t, b.Count, count, "count")
		if n := b.Examples(); n != examples && (i != to-1 || n != s.examples(split)%examples) {
			t.Fatalf("batch %d of %d has %d examples of %d", i, to, n, examples)
		}
	}
	return seen
}

// keys counts a language's pairs.
func keys(pairs []Pair) map[string]int {
	out := map[string]int{}
	for _, p := range pairs {
		out[key(p.Source, p.Target)]++
	}
	return out
}

func TestTranslationHeldOutPass(t *testing.T) {
	s := testkit.Must(NewMultilingual(smallTask()))(t)
	want := map[string]int{}
	for l := range s.Languages() {
		for k, n := range keys(s.Pairs(l, HeldOut)) {
			want[k] += n
		}
	}
	for _, examples := range []int{1, 7, 16, 80, 1000} {
		n := s.Batches(HeldOut, examples)
		testkit.Equal(t, n, ceilDiv(80, examples), "held-out batches of %d", examples)
		testkit.EqualDeep(t, pass(t, s, HeldOut, 0, n, examples), want, "batches of %d: another set of held-out pairs", examples)
	}
}

// At temperature 1 every epoch has every pair once. Otherwise each language has
// its part, and passes through all its pairs before it begins again.
func TestTranslationEpochs(t *testing.T) {
	for _, temperature := range []float64{1, 0, math.Inf(1)} {
		c := smallTask()
		c.Translation.Temperature = temperature
		s := testkit.Must(NewMultilingual(c))(t)
		orders := map[string]bool{}
		total := map[string]int{}
		const epochs = 4
		n := s.Batches(Train, 32)
		for e := range epochs {
			seen := pass(t, s, Train, e*n, (e+1)*n, 32)
			size := 0
			for k, times := range seen {
				total[k] += times
				size += times
			}
			testkit.Equal(t, size, s.epoch, "epoch")
			orders[fmt.Sprint(mustBatch(t, s, Train, e*n, 32))] = true
		}
		testkit.Equal(t, len(orders), epochs, "two epochs begin alike")
		for l := range s.Languages() {
			pairs := keys(s.Pairs(l, Train))
			drawn := 0
			part := s.parts[l] * epochs
			for k, times := range pairs {
				drawn += total[k]
				// A sentence that occurs several times in the corpus is several
				// pairs.
				least := part / s.languages[l].Train * times
				if total[k] < least || total[k] > least+times {
					t.Errorf("temperature %v, language %d: a pair came %d times, want %d to %d", temperature, l, total[k], least, least+times)
				}
			}
			testkit.Equal(t, drawn, part, "temperature %v, language %d: examples", temperature, l)
		}
	}
}

// Batches consist of pairs of similar length, are in no order of length, and
// mix languages.
func TestTranslationPadsLittle(t *testing.T) {
	s := testkit.Must(NewMultilingual(Config{}))(t)
	places, targets, alone, rises := 0, 0, 0, 0
	last := 0
	batches := s.Batches(Train, 128)
	language := map[string]int{}
	for l := range s.Languages() {
		for _, p := range s.Pairs(l, Train) {
			language[key(p.Source, p.Target)] = l
		}
	}
	for i := range batches {
		b := mustBatch(t, s, Train, i, 128)
		places += b.Examples() * b.Targets[0].Shape[1]
		targets += b.Count
		if b.Targets[0].Shape[1] > last {
			rises++
		}
		last = b.Targets[0].Shape[1]
		in := map[int]bool{}
		for e := range b.Examples() {
			in[language[key(pairIn(t, b, e))]] = true
		}
		if len(in) < 4 {
			alone++
		}
	}
	if ratio := float64(places) / float64(targets); ratio > 1.25 {
		t.Errorf("%v places for each target", ratio)
	}
	if alone > batches/20 || rises < batches/5 {
		t.Errorf("%d of %d batches with few languages, %d longer than the one before", alone, batches, rises)
	}
	c := Config{}
	c.Translation.Shapes = 1
	testkit.EqualAll(t, testkit.Must(NewMultilingual(c))(t).Shapes(), s.Shapes()[len(s.Shapes())-1:], "one shape, the largest")
}

// Pairs that are too long are dropped from training, and cut in the held-out
// split; the reference stays whole.
func TestTranslationLimit(t *testing.T) {
	c := smallTask()
	all := testkit.Must(NewMultilingual(c))(t)
	c.SeqLen = 9
	s := testkit.Must(NewMultilingual(c))(t)
	dropped := 0
	for l, x := range s.Languages() {
		if whole := all.Languages()[l]; x.Train+x.Dropped != whole.Train || x.HeldOut != whole.HeldOut {
			t.Errorf("%+v of %+v", x, whole)
		}
		dropped += x.Dropped
		kept := 0
		for _, p := range all.Pairs(l, Train) {
			if max(len(p.Source), len(p.Target)) > 9 {
				continue
			}
			testkit.EqualDeep(t, p, s.Pairs(l, Train)[kept], "pair %d", kept)
			kept++
		}
		for i, p := range all.Pairs(l, HeldOut) {
			q := s.Pairs(l, HeldOut)[i]
			if !slices.Equal(q.Source, p.Source[:min(9, len(p.Source))]) || !slices.Equal(q.Target, p.Target[:min(9, len(p.Target))]) ||
				q.TargetText != p.TargetText || q.SourceText != p.SourceText {
				t.Errorf("held-out %v, of %v", q, p)
			}
		}
	}
	if dropped == 0 {
		t.Error("none dropped")
	}
	testkit.Equal(t, s.Shapes()[len(s.Shapes())-1], (Shape{9, 9}), "largest shape")
	pass(t, s, Train, 0, s.Batches(Train, 16), 16)
	pass(t, s, HeldOut, 0, s.Batches(HeldOut, 16), 16)

	long := strings.Repeat(s.Pairs(0, Train)[0].SourceText+" ", 9)
	p := s.Encode(long, "")
	if len(p.Source) != 9 || !slices.Equal(p.Target, []int32{End}) || p.SourceText != long {
		t.Errorf("encoded %v", p)
	}
	p = s.Encode(s.Pairs(0, Train)[1].SourceText, s.Pairs(0, Train)[1].TargetText)
	testkit.EqualDeep(t, p, s.Pairs(0, Train)[1], "encoded")
}

func TestGroupsAndCollate(t *testing.T) {
	s := testkit.Must(NewMultilingual(smallTask()))(t)
	pairs := s.Pairs(1, HeldOut)
	groups := s.Groups(pairs, 8)
	var places []int
	last := 0
	for i, g := range groups {
		if len(g) != 8 && i != len(groups)-1 {
			t.Errorf("group %d of %d has %d pairs", i, len(groups), len(g))
		}
		var members []Pair
		for _, k := range g {
			members = append(members, pairs[k])
		}
		b := s.Collate(members)
		testkit.NoError(t, b.Check())
		for k := range members {
			if source, target := pairIn(t, b, k); key(source, target) != key(members[k].Source, members[k].Target) {
				t.Errorf("group %d: example %d is another", i, k)
			}
		}
		if b.Targets[0].Shape[1] < last {
			t.Error("groups do not get longer")
		}
		last = b.Targets[0].Shape[1]
		places = append(places, g...)
	}
	slices.Sort(places)
	for i, p := range places {
		testkit.Equal(t, i, p, "groups have places %v", places)
	}
	for _, bad := range [][]Pair{nil, {{Source: make([]int32, 100), Target: []int32{End}}}} {
		testkit.PanicsFirst(t, func() { s.Collate(bad) }, "datasets: Collate: ")
	}
}

func TestNoise(t *testing.T) {
	c := Config{Seed: 1, Multilingual: MultilingualConfig{Languages: 2, Pairs: 2000}}
	clean := testkit.Must(NewMultilingual(c))(t)
	c.Translation.Noise = 0.25
	noisy := testkit.Must(NewMultilingual(c))(t)
	tokens, other := 0, 0
	ids := map[int32]bool{}
	for l := range clean.Languages() {
		for i, p := range clean.Pairs(l, Train) {
			q := noisy.Pairs(l, Train)[i]
			if len(p.Target) != len(q.Target) || q.Target[len(q.Target)-1] != End || !slices.Equal(p.Source, q.Source) || p.TargetText != q.TargetText {
				t.Fatalf("%v became %v", p, q)
			}
			for k, id := range p.Target[:len(p.Target)-1] {
				tokens++
				if q.Target[k] != id {
					other++
					ids[q.Target[k]] = true
				}
			}
		}
		testkit.EqualDeep(t, clean.Pairs(l, HeldOut), noisy.Pairs(l, HeldOut), "held-out pairs are noisy")
	}
	testkit.Near(t, float64(other)/float64(tokens), 0.25, 0.01, "the share of tokens that are replaced")
	if len(ids) != noisy.Vocab()-int(firstPiece) || slices.ContainsFunc([]int32{Pad, Begin, End, Unknown}, func(id int32) bool { return ids[id] }) {
		t.Errorf("replaced by %d different tokens", len(ids))
	}
	testkit.EqualDeep(t, testkit.Must(NewMultilingual(c))(t).pairs, noisy.pairs, "noise differs from run to run")
}
