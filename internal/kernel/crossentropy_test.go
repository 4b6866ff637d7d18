package kernel

import (
	"math"
	"testing"

	"gpipebench/internal/testkit"
)

const testSmoothing = 0.1

// targetsOf returns targets below vocab for 16 rows, including some of padding.
func targetsOf(vocab int) []int32 {
	if t, ok := targetsByVocab[vocab]; ok {
		return t
	}
	t := make([]int32, 16)
	for r := range t {
		t[r] = int32(7 * r % vocab)
		if r%5 == 3 {
			t[r] = -1
		}
	}
	targetsByVocab[vocab] = t
	return t
}

var targetsByVocab = map[int][]int32{}

func crossEntropyKernels() []vectorKernel {
	row := operand{role: writes, layout: perRow}
	given := row
	given.role = reads
	const scale = 0.125
	// byEight calls f for every eight rows: there are targets for 16.
	byEight := func(c cut, f func(r, n int, targets []int32)) {
		for r := 0; r < c.rows; r += 8 {
			targets := targetsOf(c.cols)
			f(r, min(8, c.rows-r), targets[(c.row+r)%len(targets):])
		}
	}
	return []vectorKernel{
		{
			name: "CrossEntropy", byRow: true,
			operands: []operand{row, row, row, {role: reads}},
			call: func(o [][]float32, c cut) {
				byEight(c, func(r, n int, targets []int32) {
					CrossEntropy(o[0][r:], o[1][r:], o[2][r:], o[3][r*c.cols:], targets, n, c.cols, testSmoothing)
				})
			},
		},
		{
			name: "TargetRanks", byRow: true,
			operands: []operand{row, {role: reads}},
			call: func(o [][]float32, c cut) {
				byEight(c, func(r, n int, targets []int32) { TargetRanks(o[0][r:], o[1][r*c.cols:], targets, n, c.cols) })
			},
		},
		{
			name: "CrossEntropyGrad", byRow: true, aliases: []int{1},
			operands: []operand{{role: writes}, {role: reads}, given},
			call: func(o [][]float32, c cut) {
				byEight(c, func(r, n int, targets []int32) {
					CrossEntropyGrad(o[0][r*c.cols:], o[1][r*c.cols:], o[2][r:], targets, scale, n, c.cols, 0, c.cols, testSmoothing)
				})
			},
		},
	}
}

func TestCrossEntropyOfTiesAndLargeLogits(t *testing.T) {
	inf, tie := float32(math.Inf(1)), float32(math.Log(2+math.Exp(-4)))
	eachProfile(t, func(t *testing.T) {
		for _, c := range []struct {
			name          string
			z             []float32
			target        int32
			loss, correct float32
		}{
			{"first of a tie", []float32{1, 5, 5}, 1, tie, 1},
			{"second of a tie", []float32{1, 5, 5}, 2, tie, 0},
			{"large", []float32{1e4, -1e4}, 0, 0, 1},
			{"large and wrong", []float32{1e4, -1e4}, 1, 2e4, 0},
			{"masked class", []float32{0, -inf, 0}, 0, 0.6931472, 1},
		} {
			loss, correct, lse := []float32{0}, []float32{0}, []float32{0}
			CrossEntropy(loss, correct, lse, c.z, []int32{c.target}, 1, len(c.z), 0)
			if !closeTo(loss[0], float64(c.loss), 4, 1) || correct[0] != c.correct {
				t.Errorf("%s: loss %v, correct %v, want %v and %v", c.name, loss[0], correct[0], c.loss, c.correct)
			}
			rank := []float32{0}
			TargetRanks(rank, c.z, []int32{c.target}, 1, len(c.z))
			testkit.Equal(t, rank[0] == 0, c.correct == 1, "%s: rank %v is the first", c.name, rank[0])
		}
		loss, correct, lse := []float32{0}, []float32{0}, []float32{0}
		CrossEntropy(loss, correct, lse, []float32{1, float32(math.NaN()), 2}, []int32{2}, 1, 3, 0)
		if loss[0] == loss[0] {
			t.Errorf("loss of a row with NaN is %v", loss[0])
		}
	})
}

// Padded rows are set to zero whatever they contain.
func TestCrossEntropyGradOfPadding(t *testing.T) {
	eachProfile(t, func(t *testing.T) {
		z := []float32{1, float32(math.NaN()), 2}
		CrossEntropyGrad(z, z, []float32{0}, []int32{-1}, 1, 1, 3, 0, 3, testSmoothing)
		testkit.EqualAll(t, z, []float32{0, 0, 0})
	})
}

// A class with a NaN never comes after the target.
func TestTargetRanksOfNaN(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		z      []float32
		target int32
		want   float32
	}{{[]float32{1, nan, 2}, 2, 1}, {[]float32{nan, 1, nan}, 1, 2}, {[]float32{1, nan, 2}, 1, 2}, {[]float32{1, 2, nan}, -1, -1}} {
		rank := []float32{0}
		TargetRanks(rank, c.z, []int32{c.target}, 1, len(c.z))
		testkit.Equal(t, rank[0], c.want, "%v, target %d: rank", c.z, c.target)
	}
}
