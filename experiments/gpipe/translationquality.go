package gpipe

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gpipebench/datasets"
	"gpipebench/lab"
	"gpipebench/lab/trained"
	"gpipebench/train"
)

// qualitySpec is spec.yaml.
type qualitySpec struct {
	lab.Head    `yaml:",inline"`
	Setup       lab.SetupSpec             `yaml:"setup"`
	Networks    []qualityNetwork          `yaml:"networks"` // the first is a profile's model
	Differences []qualityNetworkPair      `yaml:"differences" want:"optional"`
	Batches     []qualityBatch            `yaml:"batches"` // the first is the smallest
	Profiles    map[string]qualityProfile `yaml:"profiles"`
}

// qualityNetwork is one of the paper's, T(L, H, A). Ours are to the first of ours as the paper's
// are to the first of theirs.
type qualityNetwork struct {
	Name       string `yaml:"name" want:"name,key"`
	Parameters string `yaml:"parameters" want:"optional"`
	Layers     int    `yaml:"layers"`
	FF         int    `yaml:"ff"`
	Heads      int    `yaml:"heads"`
}

// qualityNetworkPair names two networks whose scores are compared by seed.
type qualityNetworkPair struct {
	Of string `yaml:"of" want:"name"`
	To string `yaml:"to" want:"name"`
}

func (d qualityNetworkPair) String() string { return d.Of + " - " + d.To }

// qualityBatch is a column of the paper's Table 5, and what stands for it here.
type qualityBatch struct {
	Paper string       `yaml:"paper"` // tokens
	BLEU  lab.Verbatim `yaml:"bleu"`
	NLL   lab.Verbatim `yaml:"nll"`
	Times int          `yaml:"times"` // the smallest batch
}

type qualityProfile struct {
	Expected        lab.Span `yaml:"expected" want:"shown"`
	trained.Seeding `yaml:",inline"`
	Data            qualityData `yaml:"data"`
	// Tokens is the budget: target tokens that a training has, to the mini-batch.
	Tokens int `yaml:"tokens"`
	// WarmUp is the part of a training's steps over which its rate rises; over the rest it
	// falls as a cosine.
	WarmUp        float64          `yaml:"warm_up" want:">0..0.9"`
	Bilingual     qualityBilingual `yaml:"bilingual"`
	SmallestBatch int              `yaml:"smallest_batch"` // pairs
	Training      lab.TrainingSpec `yaml:"training"`       // of the first network
}

// qualityData are the languages of a profile: those of programs' catalogs, or invented ones.
type qualityData struct {
	lab.SentencesSpec `yaml:",inline"`
	Temperature       float64 `yaml:"temperature" want:"1..1000"`
	Shapes            int     `yaml:"shapes" want:"0..64"` // of mini-batches, at most; 0: the source's default
	Ends              int     `yaml:"ends"`                // how many languages are high-resource, and how many low-resource
}

// qualityBilingual says how translators of one language are trained.
type qualityBilingual struct {
	Languages   []string `yaml:"languages"`
	Table5      string   `yaml:"table5"` // the one that is trained with all batches
	SourceVocab int      `yaml:"source_vocab" want:"0.."`
	Dropout     float64  `yaml:"dropout" want:"0..0.9"`
	Passes      int      `yaml:"passes"` // over the language's pairs, at most, whatever the budget
}

// quality trains translators of several sizes, of several languages, and with several
// mini-batches.
type quality struct {
	lab.Base[qualitySpec]
	setup train.Setup
}

func (q *quality) Resolve() *lab.Problem {
	q.setup = q.Spec.Setup.Setup()
	if err := trained.CheckSetup(q.setup); err != nil {
		return lab.At(err, "setup")
	}
	if len(q.Spec.Batches) < 2 {
		return lab.At(errors.New("want a smallest batch and something to compare"), "batches")
	}
	for i, b := range q.Spec.Batches {
		if i == 0 && b.Times != 1 || i > 0 && b.Times <= q.Spec.Batches[i-1].Times {
			return lab.At(errors.New("want 1 at first, then larger and larger"), "batches", fmt.Sprint(i), "times")
		}
	}
	for i, d := range q.Spec.Differences {
		for _, end := range []struct{ key, name string }{{"of", d.Of}, {"to", d.To}} {
			if q.network(end.name) < 0 {
				return lab.At(fmt.Errorf("no network %q", end.name), "differences", fmt.Sprint(i), end.key)
			}
		}
	}
	for _, name := range lab.Profiles {
		if p := q.checkProfile(q.Spec.Profiles[name]); p != nil {
			return p.In("profiles", name)
		}
	}
	return nil
}

func (q *quality) checkProfile(p qualityProfile) *lab.Problem {
	if problem := p.Data.check(p.Training.Model.Seq); problem != nil {
		return problem.In("data")
	}
	for i, l := range p.Bilingual.Languages {
		if p.Data.place(l) < 0 {
			return lab.At(fmt.Errorf("%q: want some of the languages: %s", l, strings.Join(p.Data.Names(), ", ")), "bilingual", "languages", fmt.Sprint(i))
		}
	}
	if problem := p.CheckSeeds(); problem != nil {
		return problem
	}
	m := p.Training.Model
	switch {
	case !slices.Contains(p.Bilingual.Languages, p.Bilingual.Table5):
		return lab.At(errors.New("want one of the bilingual languages"), "bilingual", "table5")
	case m.Name != train.Translator:
		return lab.At(fmt.Errorf("want %s", train.Translator), "training", "model", "name")
	case m.HeadDim < 1:
		return lab.At(errors.New("want 1 or more, as it stays where there are more heads"), "training", "model", "head_dim")
	case p.Training.Steps != 0:
		return lab.At(errors.New("want none, as they follow from tokens"), "training", "steps")
	case p.Training.LRSchedule != "":
		return lab.At(errors.New("want none, as it follows from warm_up"), "training", "lr_schedule")
	case p.SmallestBatch < q.setup.MicroBatches:
		return lab.At(fmt.Errorf("%d pairs: want %d or more, one for each micro-batch", p.SmallestBatch, q.setup.MicroBatches), "smallest_batch")
	case p.Training.Batch < q.setup.MicroBatches:
		return lab.At(fmt.Errorf("%d pairs: want %d or more, one for each micro-batch", p.Training.Batch, q.setup.MicroBatches), "training", "batch")
	}
	first := q.Spec.Networks[0]
	for _, n := range q.Spec.Networks {
		if m.FF*n.FF%first.FF != 0 || m.Heads*n.Heads%first.Heads != 0 {
			return lab.At(fmt.Errorf("%d, with %d heads: want sizes that grow by whole numbers to %s", m.FF, m.Heads, n.Name), "training", "model", "ff")
		}
	}
	return nil
}

// check refuses languages that cannot be.
func (d qualityData) check(seq int) *lab.Problem {
	if p := d.Check(seq); p != nil {
		return p
	}
	if 2*d.Ends > len(d.Names()) {
		return lab.At(fmt.Errorf("%d at either end of %d languages: want at most a half", d.Ends, len(d.Names())), "ends")
	}
	return nil
}

// place is a language's place among Names, -1 if it is none of them.
func (d qualityData) place(name string) int { return slices.Index(d.Names(), name) }

func (d qualityData) config() datasets.Config {
	c := d.Config()
	c.Translation.Temperature, c.Translation.Shapes = d.Temperature, d.Shapes
	return c
}

// network is a network's place in the spec, -1 if it is not there.
func (q *quality) network(name string) int {
	return slices.IndexFunc(q.Spec.Networks, func(n qualityNetwork) bool { return n.Name == name })
}

// scaled is a profile's model as a network of the spec has it.
func (q *quality) scaled(n qualityNetwork, m train.Model) train.Model {
	first := q.Spec.Networks[0]
	m.Layers = max(1, int(math.Round(float64(m.Layers)*float64(n.Layers)/float64(first.Layers))))
	m.FF = m.FF * n.FF / first.FF
	m.Heads = m.Heads * n.Heads / first.Heads
	return m
}

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

// batchArms are the arms of Table 5 that are not among the bilingual ones.
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

// schedule returns the learning rate schedule of a training with a number of steps.
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
		positions += b.Examples() * (b.Inputs[0].Shape[1] + b.Inputs[2].Shape[1]) // of both sides, padded ones included
	}
	t.Steps, t.LRSchedule = steps, a.schedule(steps)
	costs, err := train.FlopsOf(open.Model)
	for _, cost := range costs {
		flops += 3 * cost * float64(positions) / float64(2*open.Model.Seq)
	}
	return flops, err
}
