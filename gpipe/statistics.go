package gpipe

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"gpipebench/internal/kernel"
	"gpipebench/nn"
)

// Recomputed runs f with batch norm's statistics over some training mini-batches in the
// places of the moving averages: what f evaluates, predicts, hashes or saves has these.
// Unlike the averages, which lag behind the weights and are dominated by the last
// mini-batches, they are of the weights that are in place now, also within
// [Trainer.Averaged], and of all examples alike (Wu and Johnson 2021: Rethinking "Batch"
// in BatchNorm, section 3). With n_i values of a channel in micro-batch i, their mean
// mu_i and their biased variance v_i, and n the sum of n_i,
//
//	mean     = sum of n_i mu_i / n
//	variance = sum of n_i (v_i + (mu_i - mean)²) / n, or / (n-1) if the layer's is unbiased
//
// which is the mean and the variance of all values together, as the layer sees them in
// training: in the same micro-batches, and with the dropout and drop-path that the next
// step would have. Tallies are combined in float64, in the order of the mini-batches.
//
// Step, State, Restore and Load are errors meanwhile; after f the averages have the bits
// that they had before. It is an error if there are no mini-batches, or if the pipeline was
// opened for none to train on. All processes of a pipeline must call it with the same ones.
func (t *Trainer) Recomputed(ctx context.Context, batches iter.Seq2[nn.Batch, error], f func() error) error {
	if t.recomputed {
		return errors.New("batch norm's statistics are recomputed already")
	}
	type statistics struct {
		*moving
		total                      []float64 // the tally of all mini-batches
		formerMean, formerVariance []float32
	}
	var all []statistics
	for _, d := range t.devices {
		for i := range d.moving {
			m := &d.moving[i]
			all = append(all, statistics{m, make([]float64, len(m.tally)), slices.Clone(m.mean), slices.Clone(m.variance)})
		}
	}
	seen := false
	for b, err := range batches {
		if err != nil {
			return err
		}
		if _, err := t.train(ctx, true, b); err != nil {
			return fmt.Errorf("batch norm's statistics: %w", err)
		}
		seen = true
		for _, s := range all {
			kernel.CombineTallies(s.total, s.tally)
		}
	}
	if !seen {
		return errors.New("batch norm's statistics of no mini-batch: want one or more")
	}
	compared := t.compared
	t.recomputed, t.compared = true, -1
	defer func() { // after a panic of f, too
		for _, s := range all {
			copy(s.mean, s.formerMean)
			copy(s.variance, s.formerVariance)
		}
		t.recomputed, t.compared = false, compared
	}()
	for _, s := range all {
		kernel.MoveStatistics(s.mean, s.variance, s.total, 0, s.Unbiased)
	}
	return f()
}
