package gpipe

import (
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
)

func must[T any](value T, err error) func(t testing.TB, what ...any) T {
	return testkit.Must(value, err)
}

func noError(t testing.TB, err error) {
	t.Helper()
	testkit.NoError(t, err)
}

// opened is a trainer for mini-batches to train on, which is closed at the test's end.
func opened(t testing.TB, p Pipeline, in Input) *Trainer {
	t.Helper()
	tr := must(p.Open(in))(t)
	t.Cleanup(func() { tr.Close() })
	return tr
}

// openForAll opens a pipeline to train on, evaluate and predict mini-batches of
// one kind.
func openForAll(p Pipeline, in Input) (*Trainer, error) {
	p.Evaluating, p.Predicting = in, in
	return p.Open(in)
}

// openedForAll is opened for a pipeline that evaluates and predicts as well.
func openedForAll(t testing.TB, p Pipeline, in Input) *Trainer {
	t.Helper()
	p.Evaluating, p.Predicting = in, in
	return opened(t, p, in)
}

// stepped is the result of a step that does not fail.
func stepped(t testing.TB, tr *Trainer, b nn.Batch) *Result {
	t.Helper()
	return must(tr.Step(t.Context(), b))(t)
}
