package train_test

import (
	"errors"
	"fmt"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/train"
	"gpipebench/train/traintest"
)

// Hooks are called at every position and after every step; an error of one ends
// the run, which another one goes on with as if it had not been ended.
func TestLoop(t *testing.T) {
	training := traintest.TinyTraining()
	training.Steps = 4
	l := testkit.Must(training.Open(t.Context()))(t)
	defer l.Close()
	enough := errors.New("enough")
	var calls []string
	var losses []float64
	hooks := train.Hooks{
		At: func(done int) error { calls = append(calls, fmt.Sprint("at ", done)); return nil },
		After: func(step *train.TrainStep) error {
			calls = append(calls, fmt.Sprintf("after %d/%d", step.Step, step.Steps))
			losses = append(losses, step.Loss)
			if len(losses) == 3 {
				return enough
			}
			return nil
		},
	}
	testkit.Is(t, l.Run(t.Context(), hooks), enough)
	testkit.NoError(t, l.Run(t.Context(), hooks))
	want := []string{"at 0", "after 1/4", "at 1", "after 2/4", "at 2", "after 3/4", "at 3", "after 4/4", "at 4"}
	testkit.EqualAll(t, calls, want)
	whole := testkit.Must(training.Run(t.Context(), nil))(t)
	testkit.Equal(t, l.Trainer.Hash(), whole.WeightsSHA256, "weights, and in one run")
	testkit.EqualAll(t, losses, whole.Losses, "losses, and in one run")
}
