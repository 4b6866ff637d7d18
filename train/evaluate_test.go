package train_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/internal/testkit"
	"gpipebench/nn"
	"gpipebench/train"
	"gpipebench/train/traintest"
)

// Replicas evaluate as one does, to the bit, with numbers of examples that they do not
// divide: of a mini-batch, of what is held out, and with more replicas than the last
// mini-batch has examples.
func TestEvaluationOverReplicas(t *testing.T) {
	lm := traintest.TinyTraining()
	lm.Config.Synthetic.HeldOut = 37
	images := traintest.TinyImages()
	images.Config.SyntheticImages.Train, images.Config.SyntheticImages.HeldOut = 17, 37
	images.Model.Image, images.Model.Classes = 64, 7
	pairs := traintest.TinyTraining()
	pairs.Model.Name, pairs.Data = train.Translator, "synthetic-translation"
	pairs.Model.Seq = 32
	pairs.Config.Translation.HeldOut = 37
	pairs.Config.Multilingual = datasets.MultilingualConfig{Languages: 2, Pairs: 100}
	for name, training := range map[string]train.Training{"language model": lm, "images": images, "translation": pairs} {
		for _, batch := range []int{8, 11, 17} {
			t.Run(fmt.Sprint(name, ", batch=", batch), func(t *testing.T) {
				var want string
				for r := 1; r <= 8; r++ {
					for _, kind := range []gpipe.Kind{gpipe.Host, gpipe.Emulated} {
						// Every number of replicas meets every size, and every kind of device both.
						if r > 1 && !testkit.IsDeep() && ((r+batch)%2 == int(kind) || testing.Short() && (r+batch)%3 != 0) {
							continue
						}
						run := training
						run.Batch, run.Setup.MicroBatches, run.Setup.Replicas, run.Setup.Device = batch, 1, r, kind
						got := evaluated(t, run)
						if want == "" {
							want = got
						}
						testkit.Equal(t, got, want, "R = %d, %v", r, kind)
					}
				}
			})
		}
	}
}

// evaluated is an evaluation of the initial weights.
func evaluated(t *testing.T, training train.Training) string {
	t.Helper()
	l := testkit.Must(training.Open(t.Context()))(t)
	defer l.Close()
	e := testkit.Must(l.Evaluate(t.Context()))(t)
	return string(testkit.Must(json.Marshal(e))(t))
}

// Recomputed statistics are of the first examples of the first epoch, 6 of which are a mini-batch
// of 4 and one of 2; they decide the evaluation, whatever the layout, and neither the weights nor
// what is saved of them. Saved weights are evaluated alike.
func TestRecomputedStatistics(t *testing.T) {
	base := traintest.TinyImages()
	base.Setup.Partitions, base.Setup.MicroBatches = 1, 1
	with := base
	with.RecomputeStatistics = 6
	with.Save = filepath.Join(t.TempDir(), "weights.safetensors")
	plain := testkit.Must(base.Run(t.Context(), nil))(t)
	got := testkit.Must(with.Run(t.Context(), nil))(t)
	if got.WeightsSHA256 != plain.WeightsSHA256 || got.Eval.Loss == plain.Eval.Loss || got.Eval.Recomputed != 6 || got.Untrained != 0 || plain.Untrained == 0 {
		t.Errorf("%s, %v, untrained %v; want weights %s, another evaluation than %v", got.WeightsSHA256, got.Eval, got.Untrained, plain.WeightsSHA256, plain.Eval)
	}
	if text := got.Eval.String(); !strings.HasSuffix(text, " with batch norm's statistics of 6 training examples") {
		t.Errorf("printed %q", text)
	}

	// Evaluated by hand.
	l := testkit.Must(base.Open(t.Context()))(t)
	defer l.Close()
	testkit.NoError(t, l.Run(t.Context(), train.Hooks{}))
	first := func(yield func(nn.Batch, error) bool) {
		for i, n := range []int{4, 2} {
			b, err := l.Source.Batch(datasets.Train, i, base.Batch)
			if b = b.Slice(0, n); !yield(nn.Batch{Inputs: b.Inputs, Targets: b.Targets, Count: n}, err) {
				return
			}
		}
	}
	var want *train.Evaluation
	err := l.Trainer.Recomputed(t.Context(), first, func() (err error) {
		want, err = l.Evaluate(t.Context())
		return err
	})
	testkit.NoError(t, err)
	testkit.Equal(t, got.Eval.Loss, want.Loss, "loss, and by hand")

	for name, change := range map[string]func(*train.Training){
		"K=3":            func(t *train.Training) { t.Setup.Partitions = 3 },
		"emulated":       func(t *train.Training) { t.Setup.Device = gpipe.Emulated },
		"saved weights":  func(t *train.Training) { t.Load, t.Steps, t.Epochs = with.Save, 0, 0 },
		"on the way too": func(t *train.Training) { t.EvalEvery = 1 },
	} {
		other := with
		other.Save = ""
		change(&other)
		r := testkit.Must(other.Run(t.Context(), nil))(t, "%s", name)
		testkit.Equal(t, r.WeightsSHA256, got.WeightsSHA256, "%s: weights", name)
		testkit.Equal(t, r.Eval.Loss, got.Eval.Loss, "%s: loss", name)
	}
}

// What statistics cannot be recomputed over is refused before the first step.
func TestRecomputedStatisticsRefused(t *testing.T) {
	for _, c := range []struct {
		training train.Training
		examples int
		want     string
	}{
		{traintest.TinyTraining(), 4, "statistics recomputed over 4 examples for transformer-lm, which has no batch norm: want 0"},
		{traintest.TinyImages(), -1, "statistics recomputed over -1 examples: want 0 or more"},
		{traintest.TinyImages(), 9, "statistics recomputed over 9 examples: want at most 8, those of an epoch"},
		{traintest.TinyImages(), 5, "statistics recomputed over 5 examples, of which the last mini-batch has 1, with 2 micro-batches: "},
	} {
		c.training.RecomputeStatistics = c.examples
		_, err := c.training.Open(t.Context())
		testkit.FailsFirst(t, err, c.want)
	}
}
