package trained

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gpipebench/internal/progress"
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

// Train trains to the end, and goes on where it was stopped before: see Kept. Id and sample
// name the training in progress and errors.
func (w *Whole) Train(ctx context.Context, id, sample string, t train.Training, log *records.Log, p progress.Progress) (err error) {
	p.Begin(id+", "+sample, t.Steps)
	defer p.End()
	start := time.Now()
	if w.Result, err = Kept(t, log, sample).Run(ctx, func(step train.TrainStep) { p.Advance(fmt.Sprintf("loss %.4f", step.Loss)) }); err != nil {
		return fmt.Errorf("%s, %s: %w", id, sample, err)
	}
	w.Seconds = w.Earlier + time.Since(start).Seconds()
	return nil
}
