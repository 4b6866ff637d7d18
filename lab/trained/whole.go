package trained

import (
	"context"
	"errors"
	"time"

	"gpipebench/lab/records"
	"gpipebench/train"
)

// Whole is a training with everything that train reports of it.
type Whole struct {
	Seconds float64 `json:"seconds"` // that it took on this machine
	*train.Result
}

// Check reports what a record of a training's outcome lacks: steps, an evaluation,
// a hash.
func (w *Whole) Check() error {
	switch r := w.Result; {
	case r == nil:
		return errors.New("no training")
	case len(r.Losses) == 0:
		return errors.New("no losses")
	case r.Eval == nil:
		return errors.New("no evaluation")
	}
	return records.CheckHash("weights_sha256", w.WeightsSHA256)
}

// train trains to the end, and goes on where it was stopped before.
func (w *Whole) train(ctx context.Context, t train.Training, onStep func(train.TrainStep)) (err error) {
	start := time.Now()
	if w.Result, err = t.Run(ctx, onStep); err != nil {
		return err
	}
	w.Seconds = w.Earlier + time.Since(start).Seconds()
	return nil
}
