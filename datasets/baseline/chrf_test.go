package baseline

import (
	"math"
	"testing"

	"gpipebench/internal/testkit"
)

// f2 is chrF of the means of precision and recall, in percent.
func f2(precision, recall float64) float64 {
	return 100 * 5 * precision * recall / (4*precision + recall)
}

// All values are computed by hand from sacrebleu's definition.
func TestChrFByHand(t *testing.T) {
	for _, c := range []struct {
		name  string
		pairs []string // translation, reference, ...
		want  float64
	}{
		{"itself", []string{"the cat", "the cat"}, 100},
		{"white space", []string{" th\te c\nat", "thecat"}, 100},
		{"nothing", nil, 0},
		{"nothing translated", []string{"", "abc"}, 0},
		{"no reference", []string{"abc", ""}, 0},
		{"nothing in common", []string{"abc", "xyz"}, 0},
		{"case", []string{"ABC", "abc"}, 0},
		// Lengths 1 to 3 only. 1-grams: a, b of abx and abc, 2 of 3; 2-grams: ab of 2; 3-grams: 0
		// of 1. P = R = (2/3 + 1/2 + 0)/3 = 7/18, and so is F.
		{"a letter", []string{"abx", "abc"}, 100 * 7.0 / 18},
		// a counts once, as in the reference: P1 = 1/3, R1 = 1/2; aa is not in ab: P2 = 0 of 2, R2 =
		// 0 of 1. The reference has no 3-gram: length 3 has no part. P = 1/6, R = 1/4.
		{"clipping", []string{"aaa", "ab"}, f2(1.0/6, 1.0/4)},
		// P = 1 at lengths 1 to 3. R1 = 3/4, R2 = 2/3, R3 = 1/2; the translation has no 4-gram.
		{"short", []string{"abc", "abcd"}, f2(1, (3.0/4+2.0/3+1.0/2)/3)},
		// The same the other way round: recall weighs more, and so this scores more.
		{"long", []string{"abcd", "abc"}, f2((3.0/4+2.0/3+1.0/2)/3, 1)},
		// Characters, not bytes: é is one and matches no part of è. P1 = R1 = 1/2, P2 = R2 = 0.
		{"characters", []string{"aé", "aè"}, 25},
		// Seven letters have two 6-grams; n-grams of 7 do not count. The last letter is another: 6 of
		// 7, 5 of 6, 4 of 5, 3 of 4, 2 of 3, 1 of 2.
		{"six", []string{"abcdefx", "abcdefg"}, 100 * (6.0/7 + 5.0/6 + 4.0/5 + 3.0/4 + 2.0/3 + 1.0/2) / 6},
		// Counts are added before the divisions: 1-grams 1 of 1 + 0 of 2, 2-grams 0 of 1. A mean of
		// the sentences' scores would be 50.
		{"corpus", []string{"a", "a", "xy", "bc"}, 100 * (1.0/3 + 0) / 2},
		// The first reference has no 2-gram, so that of its translation does not count: P1 = (1 + 2)
		// of (2 + 2), P2 = 1 of 1, R1 = 3 of 3, R2 = 1 of 1.
		{"a reference too short", []string{"ax", "a", "bc", "bc"}, f2((3.0/4+1)/2, 1)},
	} {
		var all, parts ChrF
		for i := 0; i < len(c.pairs); i += 2 {
			var one ChrF
			one.Add(c.pairs[i], c.pairs[i+1])
			parts.AddAll(one)
			all.Add(c.pairs[i], c.pairs[i+1])
		}
		if got := all.Score(); !(math.Abs(got-c.want) < 1e-9) { // also rejects NaN
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		testkit.Equal(t, parts, all, "%s: sentences give", c.name)
	}
}
