package train

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/internal/failure"
	"gpipebench/internal/kernel/exactmath"
	"gpipebench/nn"
)

// Evaluation is a network's score on the held-out part of its source: without
// dropout, label smoothing, auxiliary head and L2, whatever it is trained with.
type Evaluation struct {
	Step         int     `json:"step"`                 // after which its weights were
	Loss         float64 `json:"loss"`                 // nats per target
	Perplexity   float64 `json:"perplexity,omitempty"` // "Infinity" where the loss is above 709.78 nats
	BitsPerToken float64 `json:"bits_per_token,omitempty"`
	BitsPerByte  float64 `json:"bits_per_byte,omitempty"` // of texts, whose tokens are bytes
	Accuracy     float64 `json:"accuracy"`
	Targets      int     `json:"targets"`
	Development  bool    `json:"development,omitempty"`           // of the development set
	Averaged     bool    `json:"averaged,omitempty"`              // of the weights' average
	Recomputed   int     `json:"recomputed_statistics,omitempty"` // training examples that batch norm's statistics are of; 0: its moving averages

	// Of images, instead of perplexity and bits: the parts whose class was the
	// network's first guess (which is the accuracy), or among its first five, where
	// there are more classes than these.
	Top1 *float64 `json:"top1,omitempty"`
	Top5 *float64 `json:"top5,omitempty"`

	// Of translations, of all languages as one corpus; only at the end of a training.
	// Records from before there were any lack chrF and smoothed BLEU.
	BLEU      *float64        `json:"bleu,omitempty"`
	ChrF      *float64        `json:"chrf,omitempty"`          // see baseline.ChrF
	Smoothed  *float64        `json:"bleu_smoothed,omitempty"` // see baseline.BLEU
	Languages []LanguageScore `json:"languages,omitempty"`
}

func (e *Evaluation) String() string {
	measure := fmt.Sprintf("perplexity %.4g", e.Perplexity)
	if e.BitsPerByte > 0 {
		measure = fmt.Sprintf("%.4f bits per byte", e.BitsPerByte)
	}
	text := fmt.Sprintf("held-out loss %.4f, %s, accuracy %.2f%%", e.Loss, measure, 100*e.Accuracy)
	if e.Top1 != nil {
		text = fmt.Sprintf("held-out loss %.4f, top-1 %.2f%%", e.Loss, 100**e.Top1)
	}
	if e.Top5 != nil {
		text += fmt.Sprintf(", top-5 %.2f%%", 100**e.Top5)
	}
	if e.Development {
		text = "development" + strings.TrimPrefix(text, "held-out")
	}
	if e.Averaged {
		text += " with the averaged weights"
	}
	if e.Recomputed > 0 {
		text += fmt.Sprintf(" with batch norm's statistics of %d training examples", e.Recomputed)
	}
	if e.BLEU != nil {
		text += fmt.Sprintf(", BLEU %.2f", *e.BLEU)
	}
	if e.ChrF != nil {
		text += fmt.Sprintf(" (smoothed %.2f), chrF %.2f", *e.Smoothed, *e.ChrF)
	}
	return text
}

// Score evaluates a network and, of a translator, translates what is held out. It calls
// the training's Closing. If only translating fails, it returns the evaluation with the
// error.
func (l *Loop) Score(ctx context.Context) (*Evaluation, error) {
	t := l.training
	t.closing("evaluating on what is held out")
	e, err := l.evaluate(ctx, t.final())
	if err != nil {
		return nil, err
	}
	if pairs, ok := l.Source.(*datasets.Translation); ok {
		t.closing("translating what is held out")
		err = t.averaged(l.Trainer, func() error { return t.translate(ctx, l.Trainer, pairs, e) })
	}
	return e, err
}

// untrained returns how much of their initial values batch norm's moving averages still
// have, if it is evaluated with them; 0 if the network, or a part of it, was loaded.
func (l *Loop) untrained() float64 {
	t := l.training
	if t.Load != "" || t.LoadPart != "" || t.RecomputeStatistics > 0 || !slices.ContainsFunc(l.Pipeline.Layers, hasMovingAverages) {
		return 0
	}
	return exactmath.Pow(cmp.Or(t.Model.BNMomentum, 0.9), float64(l.step()))
}

func (t *Training) closing(what string) {
	if t.Closing != nil {
		t.Closing(what)
	}
}

// Evaluate scores a network on all held-out batches, with the weights' average if
// there is one, and with batch norm's statistics recomputed if they are to be. Where the best
// weights are kept, it does so on the development set.
func (l *Loop) Evaluate(ctx context.Context) (*Evaluation, error) {
	if l.training.Keep != KeepBest {
		return l.evaluate(ctx, whole)
	}
	if l.best != nil && l.best.seen != nil && l.best.seen.Step == l.Trainer.Steps() {
		return l.best.seen, nil
	}
	return l.evaluate(ctx, development)
}

// evaluate scores a network on a part of what is held out.
func (l *Loop) evaluate(ctx context.Context, of part) (e *Evaluation, err error) {
	t := l.training
	if l.together() {
		ctx = context.WithoutCancel(ctx)
	}
	err = t.averaged(l.Trainer, func() error {
		return l.recomputed(ctx, func() error {
			e, err = t.evaluate(ctx, l.Trainer, l.Source, of)
			return err
		})
	})
	if e != nil {
		e.Step, e.Averaged, e.Recomputed, e.Development = l.step(), t.EMA != 0, t.RecomputeStatistics, of == development
	}
	return e, err
}

// recomputed runs f with batch norm's statistics recomputed, if they are to be.
func (l *Loop) recomputed(ctx context.Context, f func() error) error {
	if l.training.RecomputeStatistics == 0 {
		return f()
	}
	return l.Trainer.Recomputed(ctx, l.statistics, f)
}

// statistics yields the mini-batches over which batch norm's statistics are recomputed; the last
// has the examples that are left.
func (l *Loop) statistics(yield func(nn.Batch, error) bool) {
	t := l.training
	for done := 0; done < t.RecomputeStatistics; done += t.Batch {
		b, err := l.batch(done / t.Batch)
		switch {
		case err != nil:
		case done > 0 && l.Trainer.StopAsked():
			err = errStop
		default:
			if left := t.RecomputeStatistics - done; left < b.Examples() {
				b = b.Slice(0, left)
				b.Count = left // of images, which are what networks with batch norm take
			}
		}
		if !yield(b, err) || err != nil {
			return
		}
	}
}

// prepareStatistics refuses, before the first step, to recompute statistics over more examples
// than an epoch has, or with a last mini-batch that is too short for batch norm.
func (l *Loop) prepareStatistics() error {
	t := l.training
	if t.RecomputeStatistics == 0 {
		return nil
	}
	last := (t.RecomputeStatistics - 1) / t.Batch // the last mini-batch's number
	if t.epochSteps > 0 {
		last = min(last, t.epochSteps-1)
	}
	b, err := l.batch(last)
	if err != nil {
		return err
	}
	if most := last*t.Batch + b.Examples(); t.RecomputeStatistics > most {
		return failure.Usagef("statistics recomputed over %d examples: want at most %d, those of an epoch", t.RecomputeStatistics, most)
	}
	b = b.Slice(0, t.RecomputeStatistics-last*t.Batch)
	if err := l.Trainer.Prepare(gpipe.InputOf(b)); err != nil {
		return failure.Usagef("statistics recomputed over %d examples, of which the last mini-batch has %d, with %d micro-batches: %w",
			t.RecomputeStatistics, b.Examples(), t.Setup.MicroBatches, err)
	}
	return nil
}

// averaged runs f with the weights' average in their place, if there is one.
func (t *Training) averaged(trainer *gpipe.Trainer, f func() error) error {
	if t.EMA == 0 {
		return f()
	}
	return trainer.Averaged(f)
}

// evaluate scores the weights that are in place.
func (t *Training) evaluate(ctx context.Context, trainer *gpipe.Trainer, s datasets.Source, of part) (*Evaluation, error) {
	if pairs, ok := s.(*datasets.Translation); ok {
		return t.evaluatePairs(ctx, trainer, pairs, of)
	}
	sum := tally{classes: s.Vocab()}
	_, images := s.(*datasets.ImageSet)
	for i := range s.Batches(datasets.HeldOut, t.Batch) {
		if !images && !of.has(i) {
			continue
		}
		b, err := s.Batch(datasets.HeldOut, i, t.Batch)
		if err != nil {
			return nil, err
		}
		if images {
			if b = of.images(b, i*t.Batch); b.Count == 0 {
				continue
			}
		}
		if err := sum.add(ctx, trainer, t.Padded(b)); err != nil {
			return nil, err
		}
	}
	if sum.targets == 0 {
		return nil, fmt.Errorf("%s: nothing held out to evaluate on", s.Name())
	}
	e := sum.evaluation()
	if strings.HasPrefix(s.Name(), "text:") {
		e.BitsPerByte = e.BitsPerToken
	}
	return e, nil
}

// Padded is a mini-batch of an evaluation that the replicas divide: the last one has
// masked examples of zeros behind its own, so that all replicas have as many and run the
// same program (Kumar et al. 2019, section 2). It has no more than those of the training,
// for which the pipeline is opened. The outcome is that without them, to the bit.
func (t *Training) Padded(b nn.Batch) nn.Batch {
	n, r := b.Examples(), max(t.Setup.Replicas, 1)
	return b.Pad(max(n, min((n+r-1)/r*r, t.Batch)))
}

// tally sums evaluations of mini-batches.
type tally struct {
	loss             float64
	correct, targets int
	five             int  // targets among the first five
	images           bool // it is of images
	classes          int  // of images
}

func (t *tally) add(ctx context.Context, trainer *gpipe.Trainer, b nn.Batch) error {
	r, err := trainer.Evaluate(ctx, b)
	if err != nil {
		return err
	}
	if trainer.StopAsked() {
		return errStop
	}
	t.loss += float64(r.Loss * float64(r.Count))
	t.correct += r.Correct
	t.targets += r.Count
	if r.Ranks != nil {
		t.five += r.Within(5)
		t.images = true
	}
	return nil
}

func (t *tally) evaluation() *Evaluation {
	e := &Evaluation{Targets: t.targets}
	e.Loss = t.loss / float64(t.targets)
	e.Accuracy = float64(t.correct) / float64(t.targets)
	if t.images {
		e.Top1 = &e.Accuracy
		if t.classes > 5 {
			five := float64(t.five) / float64(t.targets)
			e.Top5 = &five
		}
		return e
	}
	e.Perplexity = exactmath.Exp(e.Loss)
	e.BitsPerToken = e.Loss / math.Ln2
	return e
}
