package trained

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/lab"
	"gpipebench/train"
)

// Reached is how a training ended that ends with the epoch after which it has reached a held-out
// accuracy, or with its schedule.
type Reached struct {
	Epochs     int       `json:"epochs,omitempty"` // to the accuracy; 0: it was not reached
	Of         int       `json:"of,omitempty"`     // epochs of the schedule; 0: of records that do not say it
	Accuracies []float64 `json:"accuracies"`       // on what is held out, after each epoch
	NonFinite  string    `json:"non_finite,omitempty"`
}

// Check requires an evaluation for each epoch.
func (r *Reached) Check() error {
	if r.Epochs != 0 && r.Epochs != len(r.Accuracies) {
		return fmt.Errorf("%d epochs and %d evaluations", r.Epochs, len(r.Accuracies))
	}
	if r.NonFinite == "" && len(r.Accuracies) == 0 {
		return errors.New("no evaluations")
	}
	return nil
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

// cost is what pilots are compared by: the epochs, or else more than any training has that reaches
// the accuracy, and less the nearer it came.
func (r *Reached) cost() float64 {
	if r.Epochs > 0 {
		return float64(r.Epochs)
	}
	return 10*float64(r.Of) - slices.Max(append([]float64{0}, r.Accuracies...))
}

// errReached ends a training.
var errReached = errors.New("the accuracy is reached")

// Until trains up to an accuracy, in percent, which is looked for after every epoch.
func Until(ctx context.Context, t train.Training, accuracy float64) (*Trial, error) {
	start := time.Now()
	l, err := t.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	every := l.Source.Batches(datasets.Train, t.Batch)
	r := &Trial{Reached: &Reached{}}
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
			r.Reached.Accuracies = append(r.Reached.Accuracies, score.Accuracy)
			r.Accuracy, r.HeldOut, r.Targets = score.Accuracy, score.Loss, score.Targets
			if 100*score.Accuracy < accuracy {
				return nil
			}
			r.Reached.Epochs = done / every
			return errReached
		},
	})
	var bad *gpipe.NonFiniteError
	switch {
	case errors.As(err, &bad):
		e := guessed(l.Source)
		r.Reached.NonFinite, r.Accuracy, r.HeldOut = bad.Error(), e.Accuracy, e.Loss
	case err != nil && !errors.Is(err, errReached):
		return nil, err
	}
	r.Reached.Of = l.Steps / every
	r.network(l)
	r.Seconds = l.Earlier() + time.Since(start).Seconds()
	return r, nil
}

// epochs are those to the accuracy, by seed; of a training that has not reached it those of its schedule,
// which are too few. Nil: a record has none.
func (t Trials) epochs() (all []float64) {
	for _, r := range t.Runs {
		switch {
		case r.Reached == nil:
			return nil
		case r.Reached.Epochs > 0:
			all = append(all, float64(r.Reached.Epochs))
		default:
			all = append(all, float64(r.Reached.Of))
		}
	}
	return all
}

// reached counts the trainings that have reached the accuracy.
func (t Trials) reached() (n int) {
	for _, r := range t.Runs {
		if r.Reached != nil && r.Reached.Epochs > 0 {
			n++
		}
	}
	return n
}

// epochsCell is the mean, with a sign where it is a lower bound.
func (t Trials) epochsCell() lab.Value {
	v := lab.Mean(t.epochs(), 1)
	if t.reached() < len(t.Runs) {
		v.Text = "> " + v.Text
	}
	return v
}
