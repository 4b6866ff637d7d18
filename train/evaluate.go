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
	"gpipebench/internal/kernel/exactmath"
	"gpipebench/nn"
)

// Evaluation is a network's score on the held-out part of its source: without
// dropout, label smoothing, auxiliary head and L2, whatever it is trained with.
type Evaluation struct {
	Step         int     `json:"step"`
	Loss         float64 `json:"loss"`                 // nats per target
	Perplexity   float64 `json:"perplexity,omitempty"` // "Infinity" where the loss is above 709.78 nats
	BitsPerToken float64 `json:"bits_per_token,omitempty"`
	BitsPerByte  float64 `json:"bits_per_byte,omitempty"` // of texts, whose tokens are bytes
	Accuracy     float64 `json:"accuracy"`
	Targets      int     `json:"targets"`
	Averaged     bool    `json:"averaged,omitempty"` // of the weights' average

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
	if e.Averaged {
		text += " with the averaged weights"
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
	e, err := l.Evaluate(ctx)
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
// have, of a network that was not loaded.
func (l *Loop) untrained() float64 {
	t := l.training
	if t.Load != "" || !slices.ContainsFunc(l.Pipeline.Layers, hasMovingAverages) {
		return 0
	}
	return exactmath.Pow(cmp.Or(t.Model.BNMomentum, 0.9), float64(l.Trainer.Steps()))
}

func (t *Training) closing(what string) {
	if t.Closing != nil {
		t.Closing(what)
	}
}

// Evaluate scores a network on all held-out batches, with the weights' average if
// there is one.
func (l *Loop) Evaluate(ctx context.Context) (e *Evaluation, err error) {
	t := l.training
	if l.together() {
		ctx = context.WithoutCancel(ctx)
	}
	err = t.averaged(l.Trainer, func() error {
		e, err = t.evaluate(ctx, l.Trainer, l.Source)
		return err
	})
	if e != nil {
		e.Averaged = t.EMA != 0
	}
	return e, err
}

// averaged runs f with the weights' average in their place, if there is one.
func (t *Training) averaged(trainer *gpipe.Trainer, f func() error) error {
	if t.EMA == 0 {
		return f()
	}
	return trainer.Averaged(f)
}

// evaluate scores the weights that are in place.
func (t *Training) evaluate(ctx context.Context, trainer *gpipe.Trainer, s datasets.Source) (*Evaluation, error) {
	if pairs, ok := s.(*datasets.Translation); ok {
		return t.evaluatePairs(ctx, trainer, pairs)
	}
	sum := tally{classes: s.Vocab()}
	for i := range s.Batches(datasets.HeldOut, t.Batch) {
		b, err := s.Batch(datasets.HeldOut, i, t.Batch)
		if err != nil {
			return nil, err
		}
		if err := sum.add(ctx, trainer, t.Padded(b)); err != nil {
			return nil, err
		}
	}
	if sum.targets == 0 {
		return nil, fmt.Errorf("%s: nothing held out to evaluate on", s.Name())
	}
	e := sum.evaluation(trainer.Steps())
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

func (t *tally) evaluation(step int) *Evaluation {
	e := &Evaluation{Step: step, Targets: t.targets}
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
