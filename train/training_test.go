package train_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"gpipebench/gpipe/schedule"
	"gpipebench/internal/failure"
	"gpipebench/internal/testkit"
	"gpipebench/train"
	"gpipebench/train/traintest"
)

// The report before the first step does not change the training.
func TestAnnounce(t *testing.T) {
	told := traintest.TinyTraining()
	var steps int
	var expected time.Duration
	told.Announce = func(n int, d time.Duration) { steps, expected = n, d }
	r := testkit.Must(told.Run(t.Context(), func(train.TrainStep) {
		if steps != 2 || expected <= 0 {
			t.Errorf("%d steps in %v before the first step, want 2 in some time", steps, expected)
		}
	}))(t)
	silent := testkit.Must(traintest.TinyTraining().Run(t.Context(), nil))(t)
	testkit.Equal(t, r.WeightsSHA256, silent.WeightsSHA256, "weights")
	testkit.Equal(t, r.Eval.Loss, silent.Eval.Loss, "loss")
	testkit.EqualAll(t, r.HighWaterBytes, silent.HighWaterBytes, "memory")
}

// A training's operations are its forward passes' three or four times.
func TestFLOPs(t *testing.T) {
	training := traintest.TinyTraining()
	opened := training
	testkit.Must(opened.Source())(t) // which sets the vocabulary
	layers := testkit.Must(train.FlopsOf(opened.Model))(t)
	var example float64
	for _, f := range layers {
		example += f
	}
	for checkpoint, passes := range map[schedule.Checkpoint]float64{schedule.Always: 4, schedule.ExceptLast: 4, schedule.Never: 3} {
		training.Setup.Checkpoint = checkpoint
		got, want := testkit.Must(training.FLOPs())(t), passes*example*float64(training.Batch*training.Steps)
		if got != want || want == 0 {
			t.Errorf("%v: %v operations, want %v", checkpoint, got, want)
		}
	}
	training.Model.Heads = 3
	testkit.Refused(training.FLOPs())(t)
}

func TestAbsurdModels(t *testing.T) {
	for _, name := range append(train.Models(), train.ConvNet) {
		for what, change := range map[string]func(m *train.Model, n int){
			"layers":           func(m *train.Model, n int) { m.Layers = n },
			"dimensions":       func(m *train.Model, n int) { m.Dim = n },
			"feed-forward":     func(m *train.Model, n int) { m.FF = n },
			"heads":            func(m *train.Model, n int) { m.Heads = n },
			"vocabulary":       func(m *train.Model, n int) { m.Vocab = n },
			"tokens in an":     func(m *train.Model, n int) { m.Seq = n },
			"filters":          func(m *train.Model, n int) { m.Filters = n },
			"stem":             func(m *train.Model, n int) { m.Width = n },
			"pixels":           func(m *train.Model, n int) { m.Image = n },
			"channels of an i": func(m *train.Model, n int) { m.Channels = n },
			"classes":          func(m *train.Model, n int) { m.Classes = n },
		} {
			for _, n := range []int{1e9, 1e12, 1<<63 - 1} {
				m := train.Model{Name: name, Layers: 3, Dim: 16, FF: 16, Heads: 2, Vocab: 8, Seq: 8, Filters: 8, Classes: 2}
				change(&m, n)
				_, err := m.Build()
				var usage *failure.UsageError
				if !errors.As(err, &usage) || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), "want at most") {
					t.Errorf("%s with %d for %s: %v", name, n, what, err)
				}
			}
		}
	}
}
