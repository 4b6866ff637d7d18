package transformer

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
	"gpipebench/nn/philox"
)

// chain is a predictor after whose token a comes a+1 (of 5) with probability 3/4, and
// token 0 with the rest; it has a sixth token, which is most probable and must not be
// chosen. It gives the logits of a row at a time.
func chain() Predictor {
	return func(_ context.Context, each func(int, []nn.Tensor) error, inputs ...nn.Tensor) error {
		ids := inputs[0]
		n, width := ids.Shape[0], ids.Shape[1]
		for i := range n {
			out := nn.Tensor{Shape: []int{1, width, 6}, F32: make([]float32, width*6)}
			for at := range width {
				logits := out.F32[at*6 : (at+1)*6]
				for token := range logits {
					logits[token] = -30
				}
				next := (ids.I32[i*width+at] + 1) % 5
				logits[0] = float32(math.Log(1.0 / 4))
				logits[next] = float32(math.Log(3.0 / 4))
				logits[5] = 10
			}
			if err := each(i, []nn.Tensor{out}); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestContinue(t *testing.T) {
	g := Generation{SeqLen: 3, Vocab: 5}
	texts := [][]int32{{1, 2, 3, 4}, {2}, {0}}
	stream := func() *philox.Stream { return philox.NewStream(philox.KeyOf(1, "test"), 0) }
	const tokens = 4000
	found := testkit.Must(g.Continue(t.Context(), chain(), texts, tokens, []*philox.Stream{nil, nil, stream()}))(t)
	if !slices.Equal(found[0][:6], []int32{0, 1, 2, 3, 4, 0}) || !slices.Equal(found[1][:4], []int32{3, 4, 0, 1}) || len(found[0]) != tokens {
		t.Errorf("greedy: %v and %v, %d tokens", found[0][:6], found[1][:4], len(found[0]))
	}
	// What is sampled goes on with probability 3/4; after 4, which 0 follows in any
	// case, it cannot be seen.
	before, on, seen := int32(0), 0, 0
	for _, token := range found[2] {
		if before != 4 {
			seen++
			if token == before+1 {
				on++
			} else if token != 0 {
				t.Fatalf("%d after %d, which has no probability", token, before)
			}
		}
		before = token
	}
	testkit.Near(t, float64(on)/float64(seen), 0.75, 4*math.Sqrt(0.75*0.25/float64(seen)), "goes on with frequency")
	alone := testkit.Must(g.Continue(t.Context(), chain(), texts[2:], tokens, []*philox.Stream{stream()}))(t)
	testkit.EqualAll(t, alone[0], found[2], "alone")
}

func TestContinueRefuses(t *testing.T) {
	nan := func(_ context.Context, each func(int, []nn.Tensor) error, inputs ...nn.Tensor) error {
		return each(0, []nn.Tensor{{Shape: []int{1, 2, 3}, F32: slices.Repeat([]float32{float32(math.NaN())}, 6)}})
	}
	broken := fmt.Errorf("broken")
	for _, c := range []struct {
		text    []int32
		predict Predictor
		want    string
	}{
		{nil, nan, "text 0 is empty"},
		{[]int32{1}, nan, "token 0: the logit of 0 is NaN"},
		{[]int32{1}, chain(), "want logits (1, 2, 7 or more)"},
		{[]int32{1}, func(context.Context, func(int, []nn.Tensor) error, ...nn.Tensor) error { return broken }, "broken"},
	} {
		vocab := 3
		if strings.Contains(c.want, "7") {
			vocab = 7
		}
		testkit.Refused(Generation{SeqLen: 2, Vocab: vocab}.Continue(t.Context(), c.predict, [][]int32{c.text}, 1, []*philox.Stream{nil}))(t, c.want)
	}
}
