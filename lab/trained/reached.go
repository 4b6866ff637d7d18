package trained

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/lab/records"
	"gpipebench/nn"
	"gpipebench/train"
)

// Reached is a training that ends with the epoch after which it has reached a held-out
// accuracy, or with its schedule.
type Reached struct {
	Epochs     int       `json:"epochs,omitempty"` // to the accuracy; 0: it was not reached
	Accuracies []float64 `json:"accuracies"`       // on what is held out, after each epoch
	LastLoss   float64   `json:"last_loss"`
	NonFinite  string    `json:"non_finite,omitempty"` // what ended it before
	SHA256     string    `json:"weights_sha256"`
	Params     int64     `json:"params"`
	Seconds    float64   `json:"seconds"`
}

// Check requires an evaluation for each epoch and the weights' hash.
func (r *Reached) Check() error {
	if r.Epochs != 0 && r.Epochs != len(r.Accuracies) {
		return fmt.Errorf("%d epochs and %d evaluations", r.Epochs, len(r.Accuracies))
	}
	if r.NonFinite == "" && len(r.Accuracies) == 0 {
		return errors.New("no evaluations")
	}
	return records.CheckHash("weights_sha256", r.SHA256)
}

func (r *Reached) String() string {
	switch {
	case r.Epochs > 0:
		return fmt.Sprintf("reached after %d epochs", r.Epochs)
	case r.NonFinite != "":
		return "not reached: " + r.NonFinite
	}
	return fmt.Sprintf("not reached, %.1f%% at the end", 100*r.Accuracies[len(r.Accuracies)-1])
}

// errReached ends a training.
var errReached = errors.New("the accuracy is reached")

// Until trains up to an accuracy, in percent, which is looked for after every epoch.
func Until(ctx context.Context, t train.Training, accuracy float64) (*Reached, error) {
	start := time.Now()
	l, err := t.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	every := l.Source.Batches(datasets.Train, t.Batch)
	r := &Reached{Params: nn.CountParams(l.Pipeline.Layers)}
	err = l.Run(ctx, train.Hooks{
		Report: r,
		After: func(step *train.TrainStep) error {
			r.LastLoss = step.Loss
			return nil
		},
		At: func(done int) error {
			if done == 0 || done%every != 0 {
				return nil
			}
			score, err := l.Evaluate(ctx)
			if err != nil {
				return err
			}
			r.Accuracies = append(r.Accuracies, score.Accuracy)
			if 100*score.Accuracy < accuracy {
				return nil
			}
			r.Epochs = done / every
			return errReached
		},
	})
	var bad *gpipe.NonFiniteError
	switch {
	case errors.As(err, &bad):
		r.NonFinite = bad.Error()
	case err != nil && !errors.Is(err, errReached):
		return nil, err
	}
	r.SHA256 = l.Trainer.Hash()
	r.Seconds = l.Earlier() + time.Since(start).Seconds()
	return r, nil
}
