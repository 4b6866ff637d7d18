package trained

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/internal/kernel/exactmath"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/nn"
	"gpipebench/train"
)

// Watch says when the training of a translator collapses, and how its predictions are looked at. One that
// collapses, or in which a value is not finite, ends there, and that is its outcome.
type Watch struct {
	Nats     float64 `yaml:"nats" want:">0..1000"`    // above the least loss so far
	Steps    int     `yaml:"steps" want:"1..1000000"` // in a row
	Every    int     `yaml:"every"`                   // steps between looks
	Examples int     `yaml:"examples"`                // held-out pairs of the first language to look at, at most a mini-batch
	Peaky    float64 `yaml:"peaky" want:">0..0.9999"` // the probability from which on a prediction is
}

// Watched is what was seen of a training.
type Watched struct {
	Collapsed int    `json:"collapsed_at_step,omitempty"` // the first step of those above the least loss; 0: it did not
	EndedBy   string `json:"ended_by,omitempty"`          // a value that is not finite, in the step after the last; "": none
	// Norm is the largest norm of a gradient over the median of all.
	Norm  float64 `json:"largest_norm_over_median"`
	Looks []look  `json:"looks"`
}

// look is what is seen of predictions, of the same pairs each time and without dropout.
type look struct {
	Step    int     `json:"step"`
	Peaky   float64 `json:"peaky"`         // share of predictions
	Largest float64 `json:"largest_logit"` // magnitude, after a clip
	Clipped float64 `json:"clipped"`       // share of logits at the clip; 0 without one
}

// Check wants looks.
func (w *Watched) Check() error {
	if len(w.Looks) == 0 || w.EndedBy != "" && w.Collapsed == 0 {
		return errors.New("no looks at predictions, or no step of a value that is not finite")
	}
	return nil
}

// collapse is the first of as many steps in a row, up to the last one, whose losses are above the least
// before them by more than allowed; 0: there are none.
func (w Watch) collapse(losses []float64) int {
	least, above := math.Inf(1), 0
	for i, loss := range losses {
		if loss <= least+w.Nats {
			above = 0
		} else if above++; above == w.Steps {
			return i + 2 - w.Steps
		}
		least = min(least, loss)
	}
	return 0
}

var errCollapsed = errors.New("the training has collapsed")

// train trains to the end or the collapse, and evaluates the weights that there are then. After a value
// that is not finite the held-out loss is a guesser's.
func (w Watch) train(ctx context.Context, t train.Training) (*Trial, error) {
	start := time.Now()
	l, err := t.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	pairs := l.Source.(*datasets.Translation)
	batch := w.batch(pairs, t.Batch)
	r := &Trial{Watched: &Watched{}}
	var soFar struct {
		Losses  []float64 `json:"losses"`
		Norms   []float64 `json:"norms"`
		Targets int       `json:"targets"`
		Looks   []look    `json:"looks"`
	}
	err = l.Run(ctx, train.Hooks{
		Report: &soFar,
		At: func(done int) error {
			if done%w.Every != 0 && done < l.Steps || len(soFar.Looks) > 0 && soFar.Looks[len(soFar.Looks)-1].Step == done {
				return nil
			}
			at, err := w.look(ctx, l.Trainer, batch, t.Model.ClipLogits)
			if err == nil {
				at.Step = done
				soFar.Looks = append(soFar.Looks, at)
			}
			return err
		},
		After: func(step *train.TrainStep) error {
			soFar.Losses, soFar.Norms = append(soFar.Losses, step.Loss), append(soFar.Norms, step.GradNorm)
			soFar.Targets += step.Count
			if r.Collapsed = w.collapse(soFar.Losses); r.Collapsed > 0 {
				return errCollapsed
			}
			return nil
		},
	})
	var bad *gpipe.NonFiniteError
	switch {
	case errors.As(err, &bad):
		r.EndedBy, r.Collapsed = bad.Error(), len(soFar.Losses)+1
	case err != nil && !errors.Is(err, errCollapsed):
		return nil, err
	}
	r.learnt(soFar.Losses)
	r.Learnt, r.Looks = soFar.Targets, soFar.Looks
	if len(soFar.Norms) > 0 {
		r.Norm = slices.Max(soFar.Norms) / stats.Median(soFar.Norms)
	}
	if err := w.evaluate(ctx, l, r); err != nil {
		return nil, err
	}
	r.Seconds = l.Earlier() + time.Since(start).Seconds()
	return r, nil
}

// batch has the pairs whose predictions are looked at: the first of those held out of the first language
// whose targets are no longer than those of training, for which a pipeline that translates is opened.
func (w Watch) batch(pairs *datasets.Translation, most int) nn.Batch {
	longest := pairs.LongestTarget()
	held := slices.DeleteFunc(slices.Clone(pairs.Pairs(0, datasets.HeldOut)), func(p datasets.Pair) bool {
		return len(p.Target) > longest
	})
	b := pairs.Collate(held[:min(w.Examples, most, len(held))])
	b.Inputs[2], b.Targets[0] = shortened(b.Inputs[2], longest), shortened(b.Targets[0], longest)
	return b
}

// shortened has the first columns of a matrix of numbers.
func shortened(t nn.Tensor, columns int) nn.Tensor {
	rows, width := t.Shape[0], t.Shape[1]
	if width <= columns {
		return t
	}
	short := nn.Tensor{Shape: []int{rows, columns}}
	for i := range rows {
		short.I32 = append(short.I32, t.I32[i*width:i*width+columns]...)
	}
	return short
}

// evaluate sets what is held out, without translations.
func (w Watch) evaluate(ctx context.Context, l *train.Loop, r *Trial) error {
	e, err := l.Evaluate(ctx)
	var bad *gpipe.NonFiniteError
	switch {
	case errors.As(err, &bad) || err == nil && (math.IsNaN(e.Loss) || math.IsInf(e.Loss, 0)):
		e = guessed(l.Source)
	case err != nil:
		return err
	}
	r.outcome(l, e)
	return nil
}

// guessed is the score of a guesser, to which all outcomes are equally likely.
func guessed(s datasets.Source) *train.Evaluation {
	likely := 1 / float64(s.Vocab())
	e := &train.Evaluation{Accuracy: likely, Loss: -exactmath.Log(likely)}
	if pairs, ok := s.(*datasets.Translation); ok {
		for _, l := range pairs.Languages() {
			e.Languages = append(e.Languages, train.LanguageScore{
				Name: l.Name, Train: l.Train, Dropped: l.Dropped, Share: l.Share, Loss: e.Loss, Accuracy: likely, ChrF: new(float64), Smoothed: new(float64),
			})
		}
	}
	return e
}

// look examines the predictions of a batch's targets.
func (w Watch) look(ctx context.Context, trainer *gpipe.Trainer, b nn.Batch, clip float64) (at look, err error) {
	out, err := trainer.Predict(ctx, b.Inputs...)
	if err != nil {
		return at, err
	}
	vocab := out[0].Shape[2]
	peaky, clipped, targets := 0, 0, 0
	for i, target := range b.Targets[0].I32 {
		if target < 0 {
			continue
		}
		logits := out[0].F32[i*vocab : (i+1)*vocab]
		most := float64(slices.Max(logits))
		sum := 0.0
		for _, x := range logits {
			sum += exactmath.Exp(float64(x) - most)
			magnitude := math.Abs(float64(x))
			at.Largest = max(at.Largest, magnitude)
			if clip > 0 && magnitude >= clip {
				clipped++
			}
		}
		targets++
		if 1/sum >= w.Peaky {
			peaky++
		}
	}
	at.Peaky, at.Clipped = float64(peaky)/float64(targets), float64(clipped)/float64(targets*vocab)
	return at, nil
}

// seen are values of what was seen of an arm's trainings, by seed; nil: nothing was.
func (t Trials) seen(of func(*Watched) float64) (all []float64) {
	for _, r := range t.Runs {
		if r.Watched == nil {
			return nil
		}
		all = append(all, of(r.Watched))
	}
	return all
}

// mostPeaky is the largest share of peaky predictions at a look.
func mostPeaky(w *Watched) float64 {
	return slices.MaxFunc(w.Looks, func(a, b look) int { return cmp.Compare(a.Peaky, b.Peaky) }).Peaky
}

// clippedBefore is the largest share of clipped logits at looks before a collapse.
func clippedBefore(w *Watched) float64 {
	largest := 0.0
	for _, at := range w.Looks {
		if w.Collapsed == 0 || at.Step < w.Collapsed {
			largest = max(largest, at.Clipped)
		}
	}
	return largest
}

// largestNorm is the largest norm of a gradient over the median; infinite where a step had no finite one.
func largestNorm(w *Watched) float64 {
	if w.EndedBy != "" {
		return math.Inf(1)
	}
	return w.Norm
}

// watched are what was seen of a training, by the names of scores.
var watched = map[string]func(*Watched) float64{
	"collapsed":   func(w *Watched) float64 { return float64(min(w.Collapsed, 1)) },
	"norm":        largestNorm,
	"peaky":       mostPeaky,
	"clipped":     clippedBefore,
	"first logit": func(w *Watched) float64 { return w.Looks[0].Largest },
}

// collapses is how many trainings collapsed, and onset when, in the median.
func (t Trials) collapses() (n, onset lab.Value) {
	steps := slices.DeleteFunc(t.seen(func(w *Watched) float64 { return float64(w.Collapsed) }), func(step float64) bool { return step == 0 })
	n, onset = lab.Joined("%v of %v", len(steps), len(t.Runs)), lab.Absent
	if len(steps) > 0 {
		onset = lab.Fixed(stats.Median(steps), 0)
	}
	return n, onset
}

// checkWatch wants translators, whose predictions are looked at.
func (f *Frame) checkWatch(p Size) error {
	if f.Watch != nil && (p.Data == nil || f.Whole || p.Pace.Evaluations > 0) {
		return errors.New("want data of translators, records of outcomes, and no best weights, where trainings are watched")
	}
	return nil
}
