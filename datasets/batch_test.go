package datasets

import (
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
)

// Batches of sources must be such that the pipeline can slice them.
func TestSlicesAreViewsAndKeepTheCount(t *testing.T) {
	s := testkit.Must(NewSynthetic(Config{SeqLen: 8, Synthetic: SyntheticConfig{MinLen: 3}}))(t)
	b := mustBatch(t, s, Train, 0, 5)
	testkit.NoError(t, b.Check())
	micro := b.Slice(3, 5)
	testkit.NoError(t, micro.Check())
	if micro.Examples() != 2 || micro.Count != b.Count {
		t.Errorf("slice has %d examples and count %d, want 2 and the batch's %d", micro.Examples(), micro.Count, b.Count)
	}
	if &micro.Inputs[0].I32[0] != &b.Inputs[0].I32[3*8] || &micro.Targets[0].I32[0] != &b.Targets[0].I32[3*8] {
		t.Error("slice is a copy")
	}
	last := b.Targets[0].I32[2*8]
	_ = append(b.Slice(0, 2).Targets[0].I32, 99)
	testkit.Equal(t, b.Targets[0].I32[2*8], last, "an append to a slice reached the next example")
	f := nn.Batch{Inputs: []nn.Tensor{{Shape: []int{3, 2}, F32: []float32{0, 1, 2, 3, 4, 5}}}, Count: 3}
	if got := f.Slice(1, 2).Inputs[0]; got.F32[0] != 2 || len(got.F32) != 2 || got.I32 != nil {
		t.Errorf("slice of floats = %+v", got)
	}
}

func TestSliceOutOfRangePanics(t *testing.T) {
	b := mustBatch(t, testkit.Must(NewSynthetic(Config{}))(t), Train, 0, 2)
	for _, r := range [][2]int{{-1, 1}, {0, 3}, {1, 1}, {2, 1}} {
		testkit.PanicsFirst(t, func() { b.Slice(r[0], r[1]) }, "nn: Batch.Slice: ")
	}
}

func TestBatchCheck(t *testing.T) {
	ids := func(n int, shape ...int) nn.Tensor { return nn.Tensor{Shape: shape, I32: make([]int32, n)} }
	for _, c := range []struct {
		name string
		b    nn.Batch
		want string // "" for a good one
	}{
		{"good", nn.Batch{Inputs: []nn.Tensor{ids(6, 2, 3)}, Targets: []nn.Tensor{ids(2, 2)}, Count: 2}, ""},
		{"no target", nn.Batch{Inputs: []nn.Tensor{ids(6, 2, 3)}, Count: 2}, ""},
		{"no input", nn.Batch{Count: 1}, "no input"},
		{"no shape", nn.Batch{Inputs: []nn.Tensor{ids(1)}, Count: 1}, "input 0: no shape"},
		{"no data", nn.Batch{Inputs: []nn.Tensor{{Shape: []int{1}}}, Count: 1}, "exactly one"},
		{"both", nn.Batch{Inputs: []nn.Tensor{{Shape: []int{1}, F32: []float32{0}, I32: []int32{0}}}, Count: 1}, "exactly one"},
		{"too few", nn.Batch{Inputs: []nn.Tensor{ids(5, 2, 3)}, Count: 1}, "[2 3]"},
		{"too many", nn.Batch{Inputs: []nn.Tensor{ids(7, 2, 3)}, Count: 1}, "holds 6 elements, there are 7"},
		{"overflow", nn.Batch{Inputs: []nn.Tensor{ids(0, 1<<32, 1<<32)}, Count: 1}, "does not fit"},
		{"empty", nn.Batch{Inputs: []nn.Tensor{ids(0, 0, 3)}, Count: 1}, "below 1"},
		{"disagree", nn.Batch{Inputs: []nn.Tensor{ids(6, 2, 3)}, Targets: []nn.Tensor{ids(3, 3)}, Count: 1}, "target 0 has 3 examples where input 0 has 2"},
		{"count", nn.Batch{Inputs: []nn.Tensor{ids(6, 2, 3)}}, "count 0, want at least 1"},
	} {
		err := c.b.Check()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error %v, want %q in it", c.name, err, c.want)
		}
	}
}

// mustBatch returns a batch that has passed its check.
func mustBatch(t testing.TB, s Source, split Split, index, examples int) nn.Batch {
	t.Helper()
	b, err := s.Batch(split, index, examples)
	if err == nil {
		err = b.Check()
	}
	testkit.NoError(t, err)
	return b
}

// A padded batch has the examples of the batch, then zeros with masked targets, and its
// count.
func TestPad(t *testing.T) {
	b := mustBatch(t, testkit.Must(NewSynthetic(Config{SeqLen: 4}))(t), Train, 0, 2)
	f := nn.Batch{Inputs: []nn.Tensor{{Shape: []int{2, 2}, F32: []float32{1, 2, 3, 4}}}, Targets: []nn.Tensor{{Shape: []int{2}, I32: []int32{5, 6}}}, Count: 2}
	for _, b := range []nn.Batch{b, f} {
		p := b.Pad(5)
		if err := p.Check(); err != nil || p.Examples() != 5 || p.Count != b.Count {
			t.Errorf("%v: %d examples, count %d", err, p.Examples(), p.Count)
		}
		own, rest := p.Slice(0, 2), p.Slice(2, 5)
		testkit.EqualDeep(t, own, b, "the first examples are")
		for _, x := range append(rest.Inputs[0].F32, floats(rest.Inputs[0].I32)...) {
			testkit.Equal(t, x, 0, "padded with %v", rest.Inputs)
		}
		for _, target := range rest.Targets[0].I32 {
			testkit.Equal(t, target, -1, "targets padded with %v", rest.Targets)
		}
	}
	if same := f.Pad(2); &same.Inputs[0].F32[0] != &f.Inputs[0].F32[0] {
		t.Error("nothing to pad, and a copy")
	}
	testkit.Panics(t, func() { f.Pad(1) }, "Batch.Pad: 2 examples to 1")
	testkit.Panics(t, func() { nn.Batch{Inputs: f.Inputs, Targets: f.Inputs, Count: 2}.Pad(3) }, "float32 targets")
}

func floats(ids []int32) (all []float32) {
	for _, id := range ids {
		all = append(all, float32(id))
	}
	return all
}
