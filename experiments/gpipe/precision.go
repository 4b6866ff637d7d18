package gpipe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/lab/shown"
	"gpipebench/lab/trained"
	"gpipebench/train"
)

// precision trains in float32 and with bfloat16 activations, as its kind does, and looks at what
// of the gradients is lost on the way. Nothing else of the kind sees a gradient, which is what these
// lines are for.
type precision struct {
	trained.Experiment[precisionSpec]
}

type precisionSpec struct {
	// At are the parts of a float32 training after which its weights are differentiated in both types.
	At []float64 `yaml:"gradients_at" want:"0..1"`
	// Smaller divides the loss a second time: the loss as it is then counts as the scaled one.
	Smaller int `yaml:"smaller" want:"2..1048576"`
}

// lostGradients counts elements of the gradients of parameters, over all places of a training.
type lostGradients struct {
	Elements int64      `json:"elements"`
	AsIs     lostCounts `json:"as_is"`
	Smaller  lostCounts `json:"smaller"` // of the smaller loss
}

// lostCounts counts elements that are 0, or infinite or no number, with bfloat16 activations and not in
// float32; and those whose float32 value float16 has as 0 or infinity, which are fewer than a training
// with float16 activations would lose.
type lostCounts struct {
	Zero     int64 `json:"zero"`
	Infinite int64 `json:"infinite"`
	Float16  int64 `json:"float16"`
}

// Half of float16's smallest number, and what is halfway from its largest to the next power of 2.
const float16Zero, float16Infinite = 0x1p-25, 65520

// add counts an element that has one value in float32 and another with bfloat16 activations.
func (c *lostCounts) add(wide, narrow float32) {
	size := math.Abs(float64(wide))
	switch {
	case size == 0:
		return
	case narrow == 0:
		c.Zero++
	case math.IsInf(float64(narrow), 0) || narrow != narrow:
		c.Infinite++
	}
	if size <= float16Zero || size >= float16Infinite {
		c.Float16++
	}
}

func newPrecision() (lab.Experiment, error) {
	x := &precision{}
	x.Samples = func(size trained.Size, log *records.Log) (any, error) { return x.lost(size, log) }
	x.Values = func(r *trained.Reporting, at trained.Row) shown.Values {
		losses, _ := r.Samples.(map[string][]*lostGradients)
		v := shown.Values{}
		for name, of := range map[string]func(*lostGradients) lostCounts{
			"":         func(l *lostGradients) lostCounts { return l.AsIs },
			"_smaller": func(l *lostGradients) lostCounts { return l.Smaller },
		} {
			var some lostCounts
			var all int64
			for _, l := range losses[at.Own.ArmSpec.Name] {
				own := of(l)
				some = lostCounts{some.Zero + own.Zero, some.Infinite + own.Infinite, some.Float16 + own.Float16}
				all += l.Elements
			}
			for lost, n := range map[string]int64{"zero": some.Zero, "infinite": some.Infinite, "float16": some.Float16} {
				v[lost+name] = lab.Joined("%v of %v", n, all)
			}
		}
		return v
	}
	return x, nil
}

func (x *precision) Resolve() *lab.Problem {
	for i, p := range x.Spec.Pairs {
		of, to := x.Spec.Named(p.Of), x.Spec.Named(p.To)
		if of < 0 || to < 0 || x.Spec.Arms[of].Setup.DType == x.Spec.Arms[to].Setup.DType {
			return lab.At(errors.New("want two arms with activations of different types"), "pairs", fmt.Sprint(i))
		}
	}
	return x.Experiment.Resolve()
}

func lostSample(pair trained.PairSpec, seed uint64) string {
	return fmt.Sprintf("gradients/%s/seed%d", pair.Of, seed)
}

func (x *precision) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	size, err := lab.ProfileOf(x.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	var jobs []lab.Job
	for _, pair := range x.Spec.Pairs {
		of := func(arm string, seed uint64) train.Training {
			return x.Spec.Training(size, x.Spec.Arms[x.Spec.Named(arm)], seed)
		}
		for _, seed := range size.Seeds {
			jobs = append(jobs, lab.Making(lostSample(pair, seed), seed, func(ctx context.Context) (*lostGradients, error) {
				return x.Spec.Own.compare(ctx, of(pair.To, seed), of(pair.Of, seed))
			}))
		}
	}
	if err := lab.MakeMissing(ctx, x.ID(), log, p, jobs); err != nil {
		return err
	}
	return x.Experiment.Measure(ctx, log, p)
}

// compare trains in float32, and differentiates with the weights of each place in both types.
func (s precisionSpec) compare(ctx context.Context, wide, narrow train.Training) (*lostGradients, error) {
	dir, err := os.MkdirTemp("", "precision-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	in, err := wide.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	as, err := narrow.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer as.Close()
	var places []int
	for _, part := range s.At {
		places = append(places, int(math.Round(part*float64(in.Steps))))
	}
	lost := &lostGradients{}
	return lost, in.Run(ctx, train.Hooks{At: func(done int) error {
		if !slices.Contains(places, done) {
			return nil
		}
		weights := filepath.Join(dir, "weights")
		if err := in.Trainer.Save(weights, nil); err != nil {
			return err
		}
		if _, err := as.Trainer.LoadPart(weights); err != nil {
			return err
		}
		for divisor, counts := range map[int]*lostCounts{1: &lost.AsIs, s.Smaller: &lost.Smaller} {
			b, err := in.Source.Batch(datasets.Train, done, wide.Batch)
			if err != nil {
				return err
			}
			b.Count *= divisor
			if _, err := in.Trainer.Differentiate(ctx, b); err != nil {
				return err
			}
			_, err = as.Trainer.Differentiate(ctx, b)
			_, infinite := errors.AsType[*gpipe.NonFiniteError](err)
			if err != nil && !infinite {
				return err
			}
			others := as.Trainer.Gradients() // none if one is not finite: then all count as such
			for i, g := range in.Trainer.Gradients() {
				if divisor == 1 {
					lost.Elements += int64(len(g.Data))
				}
				for j, v := range g.Data {
					if infinite {
						counts.add(v, float32(math.Inf(1)))
					} else {
						counts.add(v, others[i].Data[j])
					}
				}
			}
		}
		return nil
	}})
}

// lost reads what each pair's bfloat16 arm has lost, seed by seed.
func (x *precision) lost(size trained.Size, log *records.Log) (map[string][]*lostGradients, error) {
	all := map[string][]*lostGradients{}
	for _, pair := range x.Spec.Pairs {
		for _, seed := range size.Seeds {
			l := &lostGradients{}
			if err := log.Get(lostSample(pair, seed), l); err != nil {
				return nil, err
			}
			all[pair.Of] = append(all[pair.Of], l)
		}
	}
	return all, nil
}

// Scores are, beside the kind's, shares of the gradients in percent: "lost" and "lost, smaller loss".
func (x *precision) Scores(log *records.Log) (lab.Scores, error) {
	size, err := lab.ProfileOf(x.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	scores, err := x.Experiment.Scores(log)
	if err != nil {
		return nil, err
	}
	lost, err := x.lost(size, log)
	if err != nil {
		return nil, err
	}
	for arm, seeds := range lost {
		var asIs, smaller []float64
		for _, l := range seeds {
			share := func(c lostCounts) float64 { return 100 * float64(c.Zero+c.Infinite) / float64(l.Elements) }
			asIs, smaller = append(asIs, share(l.AsIs)), append(smaller, share(l.Smaller))
		}
		scores.Put(arm, "lost", asIs)
		scores.Put(arm, "lost, smaller loss", smaller)
	}
	return scores, nil
}
