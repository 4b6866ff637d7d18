package datasets

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"testing"

	"gpipebench/internal/testkit"
)

// A golden sequence: changing the generator changes every recorded run, so it
// must be deliberate.
func TestSyntheticGolden(t *testing.T) {
	b := mustBatch(t, testkit.Must(NewSynthetic(Config{SeqLen: 12, Seed: 1}))(t), Train, 0, 1)
	want := []int32{43, 54, 31, 8, 59, 52, 47, 18, 12, 50, 40, 61}
	testkit.EqualAll(t, b.Inputs[0].I32, want, "first sequence")
	sum := sha256.New()
	for _, c := range languages {
		fmt.Fprintln(sum, mustBatch(t, testkit.Must(NewSynthetic(Config{SeqLen: 20, Seed: 2, Synthetic: c}))(t), Train, 0, 200).Inputs[0].I32)
	}
	testkit.Equal(t, fmt.Sprintf("%x", sum.Sum(nil)[:8]), "4a03b5ded1890b61", "digest")
}

func TestSyntheticHeldOutEnds(t *testing.T) {
	s := testkit.Must(NewSynthetic(Config{Synthetic: SyntheticConfig{HeldOut: 10}}))(t)
	testkit.Equal(t, s.Batches(HeldOut, 4), 3, "held-out batches")
	testkit.Equal(t, s.Batches(Train, 4), 0, "training batches, want 0: no end")
	testkit.Equal(t, mustBatch(t, s, HeldOut, 2, 4).Examples(), 2, "examples of the last held-out batch")
	for _, c := range []struct {
		split           Split
		index, examples int
		want            string
	}{
		{HeldOut, 3, 4, "synthetic: held-out batch 3 of 3"},
		{Train, -1, 4, "synthetic: training batch -1, want 0 or more"},
		{Train, 0, 0, "synthetic: batch of 0 examples, want 1 to 33554431"},
		{Train, 0, 1 << 40, "synthetic: batch of 1099511627776 examples, want 1 to 33554431"},
		{Train, math.MaxInt, 4, "synthetic: training batch 9223372036854775807 of 4 examples is out of range"},
		{2, 0, 4, "synthetic: split 2, want 0 (training) or 1 (held-out)"},
	} {
		_, err := s.Batch(c.split, c.index, c.examples)
		testkit.Equal(t, fmt.Sprint(err), c.want)
	}
}

func TestRaggedSequencesArePaddedPrefixes(t *testing.T) {
	const seqLen, n = 16, 64
	whole := mustBatch(t, testkit.Must(NewSynthetic(Config{SeqLen: seqLen}))(t), Train, 3, n)
	s := testkit.Must(NewSynthetic(Config{SeqLen: seqLen, Synthetic: SyntheticConfig{MinLen: 5}}))(t)
	ragged := mustBatch(t, s, Train, 3, n)
	lengths, count := map[int]int{}, 0
	for i := range n {
		in, out := ragged.Inputs[0].I32[i*seqLen:][:seqLen], ragged.Targets[0].I32[i*seqLen:][:seqLen]
		length := slices.Index(out, -1)
		if length < 0 {
			length = seqLen
		}
		lengths[length]++
		count += length
		for k := range seqLen {
			wantIn, wantOut := int32(0), int32(-1)
			if k < length {
				wantIn, wantOut = whole.Inputs[0].I32[i*seqLen+k], whole.Targets[0].I32[i*seqLen+k]
			}
			if in[k] != wantIn || out[k] != wantOut {
				t.Fatalf("example %d of length %d has (%d, %d) at %d, want (%d, %d)", i, length, in[k], out[k], k, wantIn, wantOut)
			}
		}
	}
	testkit.Equal(t, ragged.Count, count, "count")
	for length := range lengths {
		if length < 5 || length > seqLen {
			t.Errorf("a sequence of %d targets, want 5 to %d", length, seqLen)
		}
	}
	if len(lengths) < 10 {
		t.Errorf("only %d different lengths of 12 in %d sequences", len(lengths), n)
	}
}
