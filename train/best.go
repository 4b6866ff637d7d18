package train

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"gopkg.in/yaml.v3"

	"gpipebench/datasets"
	"gpipebench/internal/failure"
	"gpipebench/internal/units"
	"gpipebench/nn"
)

// Keep says with which weights a training ends.
type Keep string

const (
	KeepLast Keep = ""     // those after the last step
	KeepBest Keep = "best" // those with the least loss on the development set
)

// ParseKeep reads last (also "") and best.
func ParseKeep(s string) (Keep, error) {
	switch s {
	case "", "last":
		return KeepLast, nil
	case string(KeepBest):
		return KeepBest, nil
	}
	return "", fmt.Errorf("unknown weights to keep %q: want last or best", s)
}

func (k *Keep) UnmarshalYAML(n *yaml.Node) (err error) {
	*k, err = ParseKeep(n.Value)
	return err
}

// part is a part of what is held out. Where the best weights are kept, the development set, by
// which they are chosen, has the mini-batches at even places, but of images and of each language's
// pairs those at even places; the final evaluation, and translations, are of the others.
type part uint8

const (
	whole part = iota
	development
	test
)

// has reports whether what is at a place is of the part.
func (p part) has(place int) bool { return p == whole || place%2 == int(p-development) }

// images returns a mini-batch of images, the first at a place, without the targets of other parts: images
// of folders come class by class, so mini-batches are of some classes alone.
func (p part) images(b nn.Batch, first int) nn.Batch {
	classes := slices.Clone(b.Targets[0].I32)
	b.Targets = []nn.Tensor{{Shape: b.Targets[0].Shape, I32: classes}}
	for i := range classes {
		if !p.has(first + i) {
			classes[i] = -1
			b.Count--
		}
	}
	return b
}

// pairs returns the part's held-out pairs of a language.
func (p part) pairs(s *datasets.Translation, language int) (some []datasets.Pair) {
	for i, pair := range s.Pairs(language, datasets.HeldOut) {
		if p.has(i) {
			some = append(some, pair)
		}
	}
	return some
}

// final is the part that a training is evaluated on at its end.
func (t *Training) final() part {
	if t.Keep == KeepBest {
		return test
	}
	return whole
}

// Best is the evaluation with the least loss so far.
type Best struct {
	Step int     `json:"step"` // after which it was made; 0: there was none with a finite loss
	Loss float64 `json:"development_loss"`
}

// best keeps the weights with the least development loss in a file, which is in the directory of
// snapshots, if there is one, and otherwise the training's own, or a temporary one. Snapshots have
// copies of it: only the process that wrote it reads it. Nil: the last weights are kept.
type best struct {
	Best
	file      string
	temporary bool        // the file, with its directory
	seen      *Evaluation // the newest
	lost      error       // why the file does not have the weights of Best; nil: it has
	taken     bool        // the weights of Best are in place
}

// checkBest refuses, of a training of some steps, what would only show at the first evaluation.
func (t *Training) checkBest(s datasets.Source, steps int) error {
	if t.Keep != KeepBest {
		return nil
	}
	least := s.Batches(datasets.HeldOut, t.Batch)
	switch s := s.(type) {
	case *datasets.ImageSet:
		least = s.Examples(datasets.HeldOut)
	case *datasets.Translation:
		least = math.MaxInt
		for _, language := range s.Languages() {
			least = min(least, language.HeldOut)
		}
	}
	switch {
	case t.EvalEvery == 0 || t.EvalEvery >= steps:
		return failure.Usagef("keeping the best weights of %s with an evaluation every %d: want two evaluations or more, or the last weights",
			units.Counted(steps, "step"), t.EvalEvery)
	case least < 2:
		return failure.Usagef("keeping the best weights by a development set, but only %d mini-batch, image or pair of a language is held out: "+
			"want 2 or more, half for the development set", least)
	}
	return nil
}

// prepareBest decides where the best weights are kept, if they are to be.
func (l *Loop) prepareBest() (err error) {
	t := l.training
	if t.Keep != KeepBest {
		return nil
	}
	dir := t.Snapshots.Dir
	l.best = &best{file: t.Save}
	if dir == "" && t.Save == "" {
		dir, err = os.MkdirTemp("", "best-weights-*")
		l.best.temporary = err == nil
	}
	if dir != "" {
		l.best.file = filepath.Join(dir, "best.safetensors")
	}
	return err
}

// Best is the evaluation whose weights are kept; nil: the last weights are.
func (l *Loop) Best() *Best {
	if l.best == nil {
		return nil
	}
	return &l.best.Best
}

// compareBest evaluates at a position, if an evaluation is due, and keeps the weights if there were
// none that were better. Equal ones stay.
func (l *Loop) compareBest(ctx context.Context, done int) error {
	b, t := l.best, l.training
	if b == nil || done == 0 || done%t.EvalEvery != 0 && done < l.Steps {
		return nil
	}
	e, err := l.Evaluate(ctx)
	if err != nil {
		return err
	}
	b.seen = e
	if math.IsNaN(e.Loss) || math.IsInf(e.Loss, 0) || b.Step > 0 && e.Loss >= b.Loss {
		return nil
	}
	b.Best = Best{done, e.Loss}
	if k := l.keeper; k != nil {
		k.writer.Wait() // it copies the file
	}
	if err = t.averaged(l.Trainer, func() error { return l.save(b.file) }); err != nil {
		err = fmt.Errorf("the best weights, those after step %d, are not written: %w", done, err)
		if b.lost == nil {
			t.notice(err.Error() + "; the training goes on, as there may be better ones")
		}
	}
	b.lost = err
	return nil
}

// resumeBest puts the best weights of a snapshot into the file. It changes those that are in place.
func (l *Loop) resumeBest(of Best, file string) error {
	l.best.Best = of
	if of.Step == 0 {
		return nil
	}
	if err := l.Trainer.Load(file); err != nil {
		return err
	}
	return l.save(l.best.file)
}

// endEarly makes a position the last if as many evaluations as the training has patience for were not
// better than the best.
func (l *Loop) endEarly(done int) {
	t := l.training
	if t.Patience > 0 && done > 0 && done%t.EvalEvery == 0 && done-l.best.Step >= t.Patience*t.EvalEvery {
		l.Steps = min(l.Steps, done)
	}
}

// takeBest puts the best weights in place after the last step.
func (l *Loop) takeBest() error {
	switch b := l.best; {
	case b == nil:
		return nil
	case b.Step == 0:
		return fmt.Errorf("no evaluation of %d steps has a finite loss, so no weights are the best", l.Steps)
	case b.lost != nil:
		return b.lost
	default:
		b.seen, b.taken = nil, true // it is of the last weights
		return l.Trainer.Load(b.file)
	}
}

// step is the number of steps after which the weights were that are in place.
func (l *Loop) step() int {
	if l.best != nil && l.best.taken {
		return l.best.Step
	}
	return l.Trainer.Steps()
}

// close removes a temporary file.
func (b *best) close() {
	if b != nil && b.temporary {
		os.RemoveAll(filepath.Dir(b.file))
	}
}
