package densify

import (
	"context"
	"errors"
	"fmt"

	"gpipebench/datasets"
	"gpipebench/internal/progress"
	"gpipebench/internal/stats"
	"gpipebench/internal/units"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/lab/trained"
	"gpipebench/train"
)

// accuracySpec is spec.yaml.
type accuracySpec struct {
	lab.Head `yaml:",inline"`
	Setup    lab.SetupSpec              `yaml:"setup"`
	Batches  []accuracyBatch            `yaml:"batches"` // the others are compared with the first
	Margin   float64                    `yaml:"margin" want:"0..100,shown"`
	Profiles map[string]accuracyProfile `yaml:"profiles"`
}

// accuracyBatch is a global mini-batch, and the paper's that it stands for.
type accuracyBatch struct {
	Name  string `yaml:"name" want:"name,key"`
	Paper int    `yaml:"paper" want:"0..1e9"` // tokens; 0: none of the paper's
	Pairs int    `yaml:"pairs" want:"1..65536"`
}

type accuracyProfile struct {
	Expected        lab.Span `yaml:"expected" want:"shown"`
	trained.Seeding `yaml:",inline"`
	// Either one language of programs' catalogs, in a directory as make corpus makes it, or
	// an invented one.
	Catalogs string                       `yaml:"catalogs" want:"optional,shown"`
	Language string                       `yaml:"language" want:"optional"`
	Invented *datasets.MultilingualConfig `yaml:"invented"`
	HeldOut  int                          `yaml:"held_out"` // pairs
	// Examples are those that a training sees, to the mini-batch.
	Examples int `yaml:"examples" want:"2..1e9"`
	// WarmUp is the part of a training's steps over which its rate rises; over the rest it
	// falls as a cosine.
	WarmUp   float64          `yaml:"warm_up" want:">0..0.9"`
	Training lab.TrainingSpec `yaml:"training"`
}

// accuracy trains over seeds.
type accuracy struct {
	lab.Base[accuracySpec]
	setup train.Setup
}

func (a *accuracy) Resolve() *lab.Problem {
	a.setup = a.Spec.Setup.Setup()
	if err := trained.CheckSetup(a.setup); err != nil {
		return lab.At(err, "setup")
	}
	for i, b := range a.Spec.Batches {
		if i > 0 && b.Pairs <= a.Spec.Batches[i-1].Pairs {
			return lab.At(errors.New("want larger and larger ones"), "batches", fmt.Sprint(i), "pairs")
		}
	}
	if len(a.Spec.Batches) < 2 {
		return lab.At(errors.New("want one to compare with, and others"), "batches")
	}
	for _, name := range lab.Profiles {
		if p := a.checkProfile(a.Spec.Profiles[name]); p != nil {
			return p.In("profiles", name)
		}
	}
	return nil
}

func (a *accuracy) checkProfile(p accuracyProfile) *lab.Problem {
	t := p.Training
	switch {
	case t.Model.Name != train.Translator:
		return lab.At(fmt.Errorf("want %s", train.Translator), "training", "model", "name")
	case t.Model.Tied != "all":
		return lab.At(errors.New("want all: the paper's is one table"), "training", "model", "tied")
	case t.Steps != 0 || t.LRSchedule != "":
		return lab.At(errors.New("want no steps or lr_schedule, as they follow from examples and warm_up"), "training")
	case t.Batch != a.Spec.Batches[0].Pairs:
		return lab.At(fmt.Errorf("want %d, the first of batches", a.Spec.Batches[0].Pairs), "training", "batch")
	case a.steps(p, a.Spec.Batches[len(a.Spec.Batches)-1]) < 2:
		return lab.At(errors.New("want two mini-batches or more of the largest"), "examples")
	case a.Spec.Batches[0].Pairs < a.setup.MicroBatches:
		return lab.At(fmt.Errorf("the smallest mini-batch has fewer examples than there are micro-batches, %d", a.setup.MicroBatches), "training")
	case p.Invented != nil && p.Invented.Languages != 1:
		return lab.At(errors.New("want 1"), "invented", "languages")
	}
	if problem := p.CheckSeeds(); problem != nil {
		return problem
	}
	return p.sentences().Check(t.Model.Seq)
}

// sentences are those of one language.
func (p accuracyProfile) sentences() lab.SentencesSpec {
	s := lab.SentencesSpec{Catalogs: p.Catalogs, Invented: p.Invented, HeldOut: p.HeldOut}
	if p.Language != "" {
		s.Languages = []string{p.Language}
	}
	return s
}

// steps are as many as have a profile's examples.
func (a *accuracy) steps(p accuracyProfile, b accuracyBatch) int { return p.Examples / b.Pairs }

// arms are a training for each mini-batch.
func (a *accuracy) arms(p accuracyProfile) (arms []trained.Arm) {
	for _, b := range a.Spec.Batches {
		arms = append(arms, trained.Arm{Name: b.Name, Training: func(seed uint64) train.Training {
			t := p.Training.Training(p.sentences().Source(), a.setup, seed)
			t.Config, t.Batch, t.Steps = p.sentences().Config(), b.Pairs, a.steps(p, b)
			rising := min(max(1, int(p.WarmUp*float64(t.Steps))), t.Steps-1)
			t.LRSchedule = fmt.Sprintf("warmup:%d,cosine:%d", rising, t.Steps-rising)
			return t
		}})
	}
	return arms
}

// Planned are the trainings. Catalogs, which need not be here, are not opened.
func (a *accuracy) Planned(name string) []lab.PlannedRun {
	p := a.Spec.Profiles[name]
	list := trained.PlannedArms(name, a.arms(p), p.AllSeeds())
	for i := range list {
		if t, ok := list[i].Run.(train.Training); ok && p.Catalogs != "" {
			t.Data = ""
			list[i].Run = t
		}
	}
	return list
}

func (a *accuracy) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	profile, err := lab.ProfileOf(a.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	return trained.Run(ctx, a.ID(), a.arms(profile), profile.AllSeeds(), log, p)
}

// accuracyScores are an arm's, by seed: BLEU, and nats for each token that is held out.
func accuracyScores(t trained.Trials) (bleu, nats []float64) {
	for _, r := range t.Runs {
		bleu, nats = append(bleu, r.Languages[0].BLEU), append(nats, r.HeldOut)
	}
	return bleu, nats
}

// read reads a log's trainings, each of which has translated one language.
func (a *accuracy) read(log *records.Log) (accuracyProfile, []trained.Trials, error) {
	p, err := lab.ProfileOf(a.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return p, nil, err
	}
	all, err := trained.Read(log, a.arms(p), p.AllSeeds())
	if err != nil {
		return p, nil, err
	}
	for _, t := range all {
		for i, r := range t.Runs {
			if len(r.Languages) != 1 {
				return p, nil, log.Strange(t.Sample(p.AllSeeds()[i]), fmt.Errorf("%d languages: want 1", len(r.Languages)))
			}
		}
	}
	return p, all, nil
}

func (a *accuracy) Report(log, reference *records.Log) (*lab.Report, error) {
	p, all, err := a.read(log)
	if err != nil {
		return nil, err
	}
	var before []trained.Trials
	if reference != nil {
		if _, before, err = a.read(reference); err != nil {
			before = nil // of another spec
		}
	}
	t := a.table(p, all)
	if reference != nil {
		accuracyAddReference(t, lab.ReferenceName(log, reference)+" BLEU", before)
	}
	report := &lab.Report{Tables: []*lab.Table{t, a.runs(p, all)}}
	dots := &plot.DotPanel{Title: "mini-batches, with as many examples", Y: "BLEU"}
	for i, b := range a.Spec.Batches {
		bleu, _ := accuracyScores(all[i])
		dots.Add(fmt.Sprintf("%s\n%d pairs", b.Name, b.Pairs), bleu)
	}
	report.Files, err = plot.Files(a.ID(), a.Title(), []plot.Axes{dots})
	return report, err
}

// accuracyAddReference adds a column with the mean BLEU of a reference's mini-batches, if they are
// as many.
func accuracyAddReference(t *lab.Table, column string, before []trained.Trials) {
	t.Numbers(column)
	for i := range t.Rows {
		cell := lab.Absent
		if len(before) == len(t.Rows) {
			bleu, _ := accuracyScores(before[i])
			cell = lab.Mean(bleu, 2)
		}
		t.Rows[i] = append(t.Rows[i], cell)
	}
}

func (a *accuracy) table(p accuracyProfile, all []trained.Trials) *lab.Table {
	m := p.Training.Model
	from := "one invented language"
	if p.Catalogs != "" {
		from = p.Language + " to English, sentences of programs (gettext catalogs)"
	}
	t := &lab.Table{ID: a.ID(), Title: a.Title(), Caption: []string{
		fmt.Sprintf("%v, with one table for both sides and the softmax, %s; %s examples in every training, to the mini-batch; %s, its rate rising to %g over the first %s of the steps and then falling as a cosine, whatever the mini-batch. %d seeds, other than those by which the rate was chosen.",
			m, from, units.FormatCommas(int64(p.Examples)), p.Training.Optimizer, p.Training.LR, units.FormatShare(p.WarmUp, 1), len(p.AllSeeds())),
		fmt.Sprintf("BLEU of greedy translations of what is held out, and nats for each of its tokens. Differences to the first row are means over pairs of trainings with the same seed, with their 95%% intervals (Student's t). The paper calls its mini-batches comparable or slightly better; here that is: at most %g BLEU worse, fixed beforehand.", a.Spec.Margin),
	}}
	t.Texts("mini-batch")
	t.Numbers("paper: tokens", "pairs", "steps", "BLEU", "sd of BLEU", "nats per token", "sd of nats", "BLEU, difference", "nats, difference")
	t.Texts("comparable")
	first, firstNats := accuracyScores(all[0])
	for i, b := range a.Spec.Batches {
		bleu, nats := accuracyScores(all[i])
		paper := lab.Absent
		if b.Paper > 0 {
			paper = lab.Whole(int64(b.Paper), units.FormatCommas(int64(b.Paper)))
		}
		row := []any{b.Name, paper, b.Pairs, a.steps(p, b), lab.Mean(bleu, 2), lab.SD(bleu, 2), lab.Mean(nats, 4), lab.SD(nats, 4)}
		if i == 0 {
			t.Add(append(row, lab.Absent, lab.Absent, "-")...)
			continue
		}
		difference := stats.Pairs(bleu, first)
		t.Add(append(row, lab.Paired(difference, 2), lab.Paired(stats.Pairs(nats, firstNats), 4), a.comparable(difference, stats.Mean(first)))...)
	}
	t.Notes = p.SeedNotes()
	return t
}

// comparable says whether a mini-batch is as good as the first, which has so many BLEU, or
// not shown to be. Without translations there is nothing to compare.
func (a *accuracy) comparable(d stats.Paired, first float64) string {
	switch lo, hi, ok := d.Interval(0.95); {
	case !ok || first <= a.Spec.Margin:
		return "not shown"
	case lo >= -a.Spec.Margin:
		return "yes"
	case hi < -a.Spec.Margin:
		return "no"
	}
	return "not shown"
}

// runs has a row for each training.
func (a *accuracy) runs(p accuracyProfile, all []trained.Trials) *lab.Table {
	t := &lab.Table{ID: a.ID() + "-runs", Title: "Translation quality by global mini-batch: each training"}
	t.Texts("mini-batch")
	t.Numbers("seed", "parameters", "training pairs", "passes", "last loss", "held-out loss", "accuracy", "BLEU")
	t.Texts("SHA-256 of the weights")
	for i, b := range a.Spec.Batches {
		for j, r := range all[i].Runs {
			l := r.Languages[0]
			t.Add(b.Name, p.AllSeeds()[j], r.Params, l.Train, lab.Fixed(float64(a.steps(p, b)*b.Pairs)/float64(max(l.Train, 1)), 1),
				lab.Fixed(r.LastLoss, 4), lab.Fixed(r.HeldOut, 4), lab.Percent(r.Accuracy, 2), lab.Fixed(l.BLEU, 2), r.SHA256[:16])
		}
	}
	return t
}
