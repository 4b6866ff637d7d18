package gpipe

import (
	"fmt"
	"slices"

	"gpipebench/datasets"
	"gpipebench/lab"
	"gpipebench/lab/trained"
	"gpipebench/nn"
	"gpipebench/train"
)

// qualityArm is one way to train, which is repeated over seeds. The steps of its training, and
// with them the schedule of its rate, follow from the budget: see within.
type qualityArm struct {
	trained.Arm
	of     string  // the language; "": all
	tokens int     // target tokens
	warmUp float64 // part of the steps
	passes int     // over the pairs, at most; 0: as many as it takes
}

// networkArms train one network each for all languages.
func (q *quality) networkArms(p qualityProfile) (arms []qualityArm) {
	for _, n := range q.Spec.Networks {
		arms = append(arms, q.arm(p, n.Name, "", func(t *train.Training) { t.Model = q.scaled(n, t.Model) }))
	}
	return arms
}

// bilingualArms train the first network for one language each.
func (q *quality) bilingualArms(p qualityProfile) (arms []qualityArm) {
	for _, l := range p.Bilingual.Languages {
		arms = append(arms, q.bilingualArm(p, l, "bilingual "+l, func(*train.Training) {}))
	}
	return arms
}

func (q *quality) bilingualArm(p qualityProfile, language, name string, change func(*train.Training)) qualityArm {
	a := q.arm(p, name, language, func(t *train.Training) {
		if t.Data = p.Data.Source(language); p.Data.Invented != nil {
			t.Config.Multilingual.Only = 1 + p.Data.place(language)
		}
		if p.Bilingual.SourceVocab > 0 {
			t.Model.SourceVocab = p.Bilingual.SourceVocab
		}
		t.Model.Dropout = p.Bilingual.Dropout
		change(t)
	})
	a.passes = p.Bilingual.Passes
	return a
}

// batchArm trains the first network for the language of Table 5 with a mini-batch: with as
// many target tokens as every arm has or, if that is asked for, with as many steps as the
// largest mini-batch then has. With the profile's own mini-batch it is the bilingual arm.
func (q *quality) batchArm(p qualityProfile, b qualityBatch, sameSteps bool) qualityArm {
	pairs, language, largest := b.Times*p.SmallestBatch, p.Bilingual.Table5, q.Spec.Batches[len(q.Spec.Batches)-1]
	name := fmt.Sprintf("%s, mini-batches of %d", language, pairs)
	tokens := p.Tokens
	switch {
	case sameSteps && b != largest:
		name += ", fewer tokens"
		tokens = max(1, tokens/largest.Times*b.Times)
	case pairs == p.Training.Batch:
		name = "bilingual " + language
	}
	a := q.bilingualArm(p, language, name, func(t *train.Training) { t.Batch = pairs })
	a.tokens = tokens
	return a
}

// batchArms are those of Table 5 that are not among the bilingual ones.
func (q *quality) batchArms(p qualityProfile) (arms []qualityArm) {
	for _, sameSteps := range []bool{false, true} {
		for _, b := range q.Spec.Batches {
			a := q.batchArm(p, b, sameSteps)
			known := func(other qualityArm) bool { return other.Name == a.Name }
			if !slices.ContainsFunc(arms, known) && !slices.ContainsFunc(q.bilingualArms(p), known) {
				arms = append(arms, a)
			}
		}
	}
	return arms
}

// arms are all of a profile's.
func (q *quality) arms(p qualityProfile) []qualityArm {
	return slices.Concat(q.networkArms(p), q.bilingualArms(p), q.batchArms(p))
}

func (q *quality) arm(p qualityProfile, name, of string, change func(*train.Training)) qualityArm {
	return qualityArm{of: of, tokens: p.Tokens, warmUp: p.WarmUp, Arm: trained.Arm{Name: name, Training: func(seed uint64) train.Training {
		t := p.Training.Training(p.Data.Source(), q.setup, seed)
		t.Config = p.Data.config()
		change(&t)
		return t
	}}}
}

// Planned are the trainings with as few steps as have a schedule. Catalogs, which need not
// be here, are not opened.
func (q *quality) Planned(profile string) (list []lab.PlannedRun) {
	p := q.Spec.Profiles[profile]
	for _, a := range q.arms(p) {
		t := a.Training(p.Seeds[0])
		if t.Steps, t.LRSchedule = 2, a.schedule(2); p.Data.Invented == nil {
			t.Data = ""
		}
		list = append(list, lab.PlannedRun{Path: []string{"profiles", profile, "training"}, Run: t})
	}
	return list
}

// schedule is that of a training of so many steps.
func (a qualityArm) schedule(steps int) string {
	rising := min(max(1, int(a.warmUp*float64(steps))), steps-1)
	return fmt.Sprintf("warmup:%d,cosine:%d", rising, steps-rising)
}

// within sets a training's steps: as many as there are mini-batches until they have the
// target tokens of the budget, but no more than of the passes. It returns what these cost,
// about, in floating-point operations: three times a forward pass, of examples of the
// mini-batches' shapes.
func (a qualityArm) within(t *train.Training) (flops float64, err error) {
	open := *t // whose vocabularies are then those of the data
	s, err := open.Source()
	if err != nil {
		return 0, err
	}
	steps, tokens, positions := 0, 0, 0
	for ; steps < 2 || tokens < a.tokens && (a.passes == 0 || steps < a.passes*s.Batches(datasets.Train, t.Batch)); steps++ {
		b, err := s.Batch(datasets.Train, steps, t.Batch)
		if err != nil {
			return 0, err
		}
		tokens += b.Count
		positions += qualityPositionsIn(b)
	}
	t.Steps, t.LRSchedule = steps, a.schedule(steps)
	costs, err := train.FlopsOf(open.Model)
	for _, cost := range costs {
		flops += 3 * cost * float64(positions) / float64(2*open.Model.Seq)
	}
	return flops, err
}

// qualityPositionsIn counts the positions of both sides, padded ones included.
func qualityPositionsIn(b nn.Batch) int {
	return b.Examples() * (b.Inputs[0].Shape[1] + b.Inputs[2].Shape[1])
}
