package gpipe

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpipebench/gpipe/schedule"
	"gpipebench/internal/testkit"
	"gpipebench/models/resnet"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/philox"
)

// TestPurposesG2: guarantee G2 for a pipeline that evaluates and predicts, with and
// without training: the planned bytes are the used bytes; the planned peak suffices
// as capacity, and one byte less is refused at once.
func TestPurposesG2(t *testing.T) {
	batch := smallTranslation.data(0)
	whole := InputOf(batch)
	predicted := whole
	predicted.Inputs = slices.Clone(whole.Inputs)
	predicted.Inputs[2].Shape = graph.Shape{smallTranslation.model.TargetLen + 3} // longer than any that it trains on
	for _, k := range []int{1, 2, 4} {
		for _, m := range []int{1, 4} {
			for _, checkpoint := range []schedule.Checkpoint{schedule.Always, schedule.ExceptLast, schedule.Never} {
				for _, in := range []Input{whole, {}} {
					what := fmt.Sprintf("K=%d, M=%d, %v, trains on %d", k, m, checkpoint, in.Examples)
					model := smallTranslation
					model.model.TargetLen += 3
					p := model.pipeline(t)
					p.Partitions, p.MicroBatches, p.Checkpoint = k, m, checkpoint
					p.Evaluating, p.Predicting = whole, predicted
					planned := must(p.Plans(in))(t, what)
					most := slices.MaxFunc(planned.Plans, func(a, b *Plan) int { return int(a.Peak - b.Peak) }).Peak
					p.Devices = []Device{{Capacity: most - 1}}
					var oom *OutOfMemoryError
					if tr, err := p.Open(in); !errors.As(err, &oom) {
						tr.Close()
						t.Errorf("%s: one byte short of %d: %v, want out of memory", what, most, err)
					}
					p.Devices = []Device{{Capacity: most}}
					tr := must(p.Open(in))(t, what)
					if in.Examples > 0 {
						must(tr.Step(t.Context(), batch))(t, what)
					}
					must(tr.Evaluate(t.Context(), batch))(t, what)
					must(tr.Predict(t.Context(), model.data(0).Inputs...))(t, what)
					checkMemory(t, tr)
					for i, plan := range tr.Plans() {
						if got := planned.Plans[i]; plan.Bytes != got.Bytes || in.Examples == 0 && plan.Bytes[Gradients]+plan.Bytes[OptimizerState]+plan.Bytes[Residuals] > 0 {
							t.Errorf("%s, device %d: %v, planned %v", what, i, plan.Bytes, got.Bytes)
						}
					}
					tr.Close()
				}
			}
		}
	}
}

// TestUndeclared: a call that a pipeline was not opened for is refused, with what
// would be accepted.
func TestUndeclared(t *testing.T) {
	b := small.data(0)
	for _, c := range []struct {
		in                    Input
		evaluates, predicts   Input
		step, evaluate, guess string
	}{
		{InputOf(b), Input{}, Input{}, "", "want its largest mini-batch in Pipeline.Evaluating", "want its largest mini-batch in Pipeline.Predicting"},
		{Input{}, InputOf(b), Input{}, "want its largest mini-batch in Open's Input", "", "Pipeline.Predicting"},
		{Input{}, Input{}, InputOf(b), "Open's Input", "Pipeline.Evaluating", ""},
		{InputOf(b), InputOf(b.Slice(0, 4)), InputOf(b.Slice(0, 4)), "", "a mini-batch of 9 examples: want at most 4", "a mini-batch of 9 examples: want at most 4"},
	} {
		p := small.pipeline(t)
		p.Evaluating, p.Predicting = c.evaluates, c.predicts
		tr := must(p.Open(c.in))(t)
		check := func(want string, err error) {
			t.Helper()
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%d, %d, %d examples: %v, want %q", c.in.Examples, c.evaluates.Examples, c.predicts.Examples, err, want)
			}
		}
		_, err := tr.Step(t.Context(), b)
		check(c.step, err)
		_, err = tr.Evaluate(t.Context(), b)
		check(c.evaluate, err)
		_, err = tr.Predict(t.Context(), b.Inputs...)
		check(c.guess, err)
		tr.Close()
	}
}

// TestSmallerFits: mini-batches of fewer or shorter examples fit into the plan for
// the largest, with the results of a pipeline that is opened for them.
func TestSmallerFits(t *testing.T) {
	testkit.NotRaced(t)
	random := philox.NewStream(philox.KeyOf(3, "smaller"), 0)
	for range 12 {
		large := smallTranslation
		large.batch = 6 + random.Intn(20)
		large.model.SourceLen, large.model.TargetLen = 8+random.Intn(12), 8+random.Intn(12)
		large.model.SourceVocab = 10 + random.Intn(60)
		large.model.FeedForward = 8 + random.Intn(60)
		p := large.pipeline(t)
		p.Partitions, p.MicroBatches = 1+random.Intn(4), 1+random.Intn(4)
		p.Checkpoint = []schedule.Checkpoint{schedule.Always, schedule.ExceptLast, schedule.Never}[random.Intn(3)]
		p.testing.poison = true
		whole := InputOf(large.data(0))
		tr := must(openForAll(p, whole))(t)
		for range 4 {
			less := large
			less.batch = p.MicroBatches + random.Intn(large.batch-p.MicroBatches)
			less.model.SourceLen, less.model.TargetLen = 1+random.Intn(large.model.SourceLen), 1+random.Intn(large.model.TargetLen)
			b := less.data(0)
			exact := openedForAll(t, p, InputOf(b))
			run := func(tr *Trainer) string {
				e := must(tr.Evaluate(t.Context(), b))(t)
				out := must(tr.Predict(t.Context(), b.Inputs...))(t)
				s := stepped(t, tr, b)
				return fmt.Sprint(e.Loss, out[0].F32, s.Loss, s.GradNorm)
			}
			fresh := must(openForAll(p, whole))(t)
			testkit.Equal(t, run(fresh), run(exact), "%d of %d examples of %v in a pipeline for %v: other results", less.batch, large.batch, b.Inputs[2].Shape, whole.Inputs)
			fresh.Close()
			stepped(t, tr, b)
		}
		stepped(t, tr, large.data(1))
		for k, plan := range tr.Plans() {
			if _, peak := tr.HighWater(k); peak > plan.Peak {
				t.Errorf("device %d used %d bytes of %d", k, peak, plan.Peak)
			}
		}
		tr.Close()
	}
}

// TestEvaluatesWhatCannotTrain: batch norm needs two values per channel for its
// statistics, and an evaluation computes no statistics.
func TestEvaluatesWhatCannotTrain(t *testing.T) {
	n := smallResNet
	n.size, n.layers = 32, func(bool) ([]nn.Layer, error) {
		return resnet.New(resnet.Config{Blocks: [4]int{1, 1, 1, 1}, Width: 4, Classes: imageClasses, Image: 32})
	}
	b := n.data(0)
	for _, m := range []int{1, b.Examples()} {
		p := n.pipeline(t, false)
		p.Partitions, p.MicroBatches = 3, m
		if _, err := p.Open(InputOf(b)); (err == nil) != (m == 1) || err != nil && !strings.Contains(err.Error(), "training wants at least 2") {
			t.Errorf("training with M=%d: %v", m, err)
		}
		p.Evaluating = InputOf(b)
		tr := opened(t, p, Input{})
		must(tr.Evaluate(t.Context(), b))(t)
	}
}
