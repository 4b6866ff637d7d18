package mlperf

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gpipebench/datasets"
	"gpipebench/internal/progress"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/lab/shown"
	"gpipebench/lab/trained"
	"gpipebench/nn"
	"gpipebench/train"
)

// bucketingSpec is spec.yaml.
type bucketingSpec struct {
	shown.Profiled[bucketingProfile] `yaml:",inline"`
	Setup                            lab.SetupSpec  `yaml:"setup"`
	Ways                             []bucketingWay `yaml:"ways"`
	OneHost                          string         `yaml:"one_host" want:"name"`
	Paper                            lab.Verbatim   `yaml:"paper"`
	Replicas                         []int          `yaml:"replicas" want:"1..65536"`
	Trained                          []string       `yaml:"trained" want:"name"`
}

// bucketingWay says which pairs share a mini-batch: see datasets.TranslationConfig.
type bucketingWay struct {
	Name   string `yaml:"name" want:"name,key"`
	Window int    `yaml:"window" want:"0.."`
	Hosts  int    `yaml:"hosts" want:"0.."`
	Apart  bool   `yaml:"apart"`
}

// of returns a source's configuration with the way's.
func (w bucketingWay) of(c datasets.Config) datasets.Config {
	c.Translation.Window, c.Translation.Hosts, c.Translation.Apart = w.Window, w.Hosts, w.Apart
	return c
}

type bucketingProfile struct {
	Expected lab.Span `yaml:"expected" want:"shown"`
	Counted  struct { // an epoch without a training
		lab.PairsSpec `yaml:",inline"`
		Batch         int `yaml:"batch" want:"1..65536"`
	} `yaml:"counted"`
	Seeds    []uint64         `yaml:"seeds"`
	Data     lab.PairsSpec    `yaml:"data"`
	Accuracy float64          `yaml:"accuracy" want:">0..100"` // percent of the held-out targets
	Epochs   int              `yaml:"epochs" want:"1..100000"` // at most
	Training lab.TrainingSpec `yaml:"training"`
}

// bucketing counts epochs' mini-batches, and trains with them.
type bucketing struct {
	lab.Base[bucketingSpec]
	setup train.Setup
}

func (b *bucketing) Resolve() *lab.Problem {
	b.setup = b.Spec.Setup.Setup()
	if err := trained.CheckSetup(b.setup); err != nil {
		return lab.At(err, "setup")
	}
	for i, w := range b.Spec.Ways {
		if err := w.of(datasets.Config{}).Validate(); err != nil {
			return lab.At(err, "ways", fmt.Sprint(i))
		}
	}
	if b.way(b.Spec.OneHost) < 0 {
		return lab.At(fmt.Errorf("no way %q", b.Spec.OneHost), "one_host")
	}
	for i, name := range b.Spec.Trained {
		if b.way(name) < 0 {
			return lab.At(fmt.Errorf("no way %q", name), "trained", fmt.Sprint(i))
		}
	}
	for _, name := range lab.Profiles {
		p := b.Spec.Profiles[name]
		at := []string{"profiles", name}
		switch {
		case slices.ContainsFunc(b.Spec.Replicas, func(r int) bool { return p.Counted.Batch%r != 0 }):
			return lab.At(fmt.Errorf("want a multiple of all replicas, %v", b.Spec.Replicas), append(at, "counted", "batch")...)
		case p.Counted.Pairs < p.Counted.Batch:
			return lab.At(fmt.Errorf("want %d or more, those of a mini-batch", p.Counted.Batch), append(at, "counted", "pairs")...)
		case p.Training.Steps != 0:
			return lab.At(errors.New("want none, as they follow from epochs"), append(at, "training", "steps")...)
		}
		if p := b.Spec.CheckForms(b.data(p)); p != nil {
			return p
		}
	}
	return nil
}

func (b *bucketing) way(name string) int {
	return slices.IndexFunc(b.Spec.Ways, func(w bucketingWay) bool { return w.Name == name })
}

// arms are the trainings of a profile. All of one seed see the same pairs in an epoch.
func (b *bucketing) arms(p bucketingProfile) (all []trained.Arm) {
	for _, name := range b.Spec.Trained {
		all = append(all, trained.Arm{Name: name, Training: func(seed uint64) train.Training {
			t := p.Training.Training("synthetic-translation", b.setup, seed)
			t.Config = b.Spec.Ways[b.way(name)].of(p.Data.Config())
			t.Epochs = p.Epochs
			return t
		}})
	}
	return all
}

func (b *bucketing) Planned(profile string) []lab.PlannedRun {
	p := b.Spec.Profiles[profile]
	return trained.PlannedArms(profile, b.arms(p), p.Seeds)
}

// bucketingFigures has the figures of an epoch's full mini-batches. Positions are places for tokens of both
// sides, which a recurrent layer passes through, padding included.
type bucketingFigures struct {
	Batches int   `json:"batches"`
	Tokens  int64 `json:"tokens"`
	Longest int64 `json:"longest"` // positions, each mini-batch padded to its longest sentences
	Shaped  int64 `json:"shaped"`  // padded to the shape of its program
	// Parts and Slowest are by number of replicas: positions of all parts, each padded to its own
	// longest sentences; and of the part with most in each step, times the replicas.
	Parts   map[int]int64 `json:"parts"`
	Slowest map[int]int64 `json:"slowest"`
}

// Check requires tokens, and no fewer positions the more is padded.
func (f *bucketingFigures) Check() error {
	if f.Batches < 1 || f.Tokens < 1 || f.Longest < f.Tokens || f.Shaped < f.Longest {
		return fmt.Errorf("%d tokens of %d mini-batches in %d and %d positions", f.Tokens, f.Batches, f.Longest, f.Shaped)
	}
	for r, slowest := range f.Slowest {
		if parts := f.Parts[r]; parts < f.Tokens || slowest < parts || f.Longest < slowest {
			return fmt.Errorf("%d replicas: %d positions, of the slowest %d", r, parts, slowest)
		}
	}
	return nil
}

// count adds a mini-batch.
func (f *bucketingFigures) count(b nn.Batch, replicas []int) {
	n, targets := b.Examples(), b.Targets[0]
	source := func(i int) int { return int(b.Inputs[1].I32[i]) }
	target := func(i int) int {
		row := targets.I32[i*targets.Shape[1] : (i+1)*targets.Shape[1]]
		if end := slices.Index(row, -1); end >= 0 {
			return end
		}
		return len(row)
	}
	positions := func(from, to int) int64 {
		s, t := 0, 0
		for i := from; i < to; i++ {
			s, t = max(s, source(i)), max(t, target(i))
		}
		return int64(to-from) * int64(s+t)
	}
	for i := range n {
		f.Tokens += int64(source(i) + target(i))
	}
	f.Batches++
	f.Longest += positions(0, n)
	f.Shaped += int64(n) * int64(b.Inputs[0].Shape[1]+targets.Shape[1])
	for _, r := range replicas {
		most := int64(0)
		for i := range r {
			part := positions(n*i/r, n*(i+1)/r)
			f.Parts[r] += part
			most = max(most, part)
		}
		f.Slowest[r] += int64(r) * most
	}
}

// bucketingCounted are the figures of the full mini-batches of a source's first epoch.
func bucketingCounted(s datasets.Source, batch int, replicas []int) (*bucketingFigures, error) {
	f := &bucketingFigures{Parts: map[int]int64{}, Slowest: map[int]int64{}}
	for i := range s.Batches(datasets.Train, batch) {
		b, err := s.Batch(datasets.Train, i, batch)
		if err != nil {
			return nil, err
		}
		if b.Examples() == batch {
			f.count(b, replicas)
		}
	}
	return f, nil
}

// Samples of figures: of an epoch, and of one of the trainings' with the first seed.
func bucketingEpochOf(way string) string   { return "epoch/" + way }
func bucketingTrainedOn(way string) string { return "trained-on/" + way }

func (b *bucketing) Measure(ctx context.Context, log *records.Log, progress progress.Progress) error {
	p, err := lab.ProfileOf(b.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	var jobs []lab.Job
	counting := func(sample string, seed uint64, open func() (datasets.Source, error), batch int, replicas []int) {
		jobs = append(jobs, lab.Making(sample, seed, func(context.Context) (*bucketingFigures, error) {
			s, err := open()
			if err != nil {
				return nil, err
			}
			return bucketingCounted(s, batch, replicas)
		}))
	}
	for _, w := range b.Spec.Ways {
		c := w.of(p.Counted.Config())
		c.Seed = b.Spec.Seed
		counting(bucketingEpochOf(w.Name), c.Seed, func() (datasets.Source, error) { return datasets.NewMultilingual(c) }, p.Counted.Batch, b.Spec.Replicas)
	}
	for _, a := range b.arms(p) {
		t := a.Training(p.Seeds[0])
		counting(bucketingTrainedOn(a.Name), p.Seeds[0], t.Source, t.Batch, nil)
	}
	if err := lab.MakeMissing(ctx, b.ID(), log, progress, jobs); err != nil {
		return err
	}
	return trained.Each(ctx, b.ID(), b.arms(p), p.Seeds, log, progress, func(ctx context.Context, t train.Training) (any, string, error) {
		r, err := trained.Until(ctx, t, p.Accuracy)
		if err != nil {
			return nil, "", err
		}
		return &bucketingTrained{*r.Reached, r.LastLoss, r.SHA256, r.Params, r.Seconds}, r.Reached.String(), nil
	})
}

// bucketingTrained is how a training ended, as these records have it.
type bucketingTrained struct {
	trained.Reached
	LastLoss float64 `json:"last_loss"`
	SHA256   string  `json:"weights_sha256"`
	Params   int64   `json:"params"`
	Seconds  float64 `json:"seconds"`
}

// Check requires an evaluation for each epoch and the weights' hash.
func (r *bucketingTrained) Check() error {
	return errors.Join(r.Reached.Check(), records.CheckHash("weights_sha256", r.SHA256))
}

// data is what the templates of the spec's words have.
func (b *bucketing) data(p bucketingProfile) map[string]any { return map[string]any{"Profile": p} }

// Report has a row for each way and number of replicas, and one for each way that is trained.
func (b *bucketing) Report(log, _ *records.Log) (*lab.Report, error) {
	p, err := lab.ProfileOf(b.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	counted := map[string]bucketingFigures{}
	for _, w := range b.Spec.Ways {
		var f bucketingFigures
		if err := log.Get(bucketingEpochOf(w.Name), &f); err != nil {
			return nil, err
		}
		counted[w.Name] = f
	}
	rows := shown.Rows{}
	first, alone := counted[b.Spec.Ways[0].Name], counted[b.Spec.OneHost]
	for _, w := range b.Spec.Ways {
		f, paper := counted[w.Name], lab.Absent
		if w.Apart && b.Spec.Paper != "" {
			paper = lab.Value{Text: fmt.Sprintf("+%s%%", b.Spec.Paper), Numbers: []float64{1 + b.Spec.Paper.Number()/100}}
		}
		for _, r := range b.Spec.Replicas {
			rows[""] = append(rows[""], shown.Values{
				"way": w.Name, "window": w.Window, "hosts": max(w.Hosts, 1), "replicas": r, "paper": paper,
				"tokens": f.Tokens, "parts": f.Parts[r], "slowest": f.Slowest[r], "shaped": f.Shaped,
				"first_tokens": first.Tokens, "first_slowest": first.Slowest[r], "alone_tokens": alone.Tokens, "alone_slowest": alone.Slowest[r],
			})
		}
	}
	dots := &plot.DotPanel{Title: "epochs to the accuracy", Y: "epochs", Zero: true}
	var base bucketingMade
	for i, a := range b.arms(p) {
		m, err := b.made(log, p, a)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			base = m
		}
		dots.Add(a.Name, m.epochs)
		rows["epochs"] = append(rows["epochs"], shown.Values{
			"way": a.Name, "baseline": i == 0, "reached": lab.Joined("%v of %v", m.reached, len(p.Seeds)), "all": m.reached == len(p.Seeds), "params": m.params,
			"tokens": m.Tokens, "longest": m.Longest, "epochs": lab.Mean(m.epochs, 1), "deviation": lab.SD(m.epochs, 1), "positions": stats.Sampled(m.positions).Mean,
			"epochs_over": lab.GeometricMean(m.epochs, base.epochs, 3), "positions_over": lab.GeometricMean(m.positions, base.positions, 3),
		})
	}
	from := shown.Showing{ID: b.ID(), Title: b.Title(), Data: b.data(p), Rows: rows}
	return b.Spec.Spec.Report(b, lab.N(len(p.Seeds), "seed"), from, dots)
}

// bucketingMade are a way's trainings.
type bucketingMade struct {
	bucketingFigures
	epochs    []float64 // of each seed; what is not reached counts as all epochs
	positions []float64 // that these have
	reached   int
	params    int64
}

func (b *bucketing) made(log *records.Log, p bucketingProfile, a trained.Arm) (m bucketingMade, err error) {
	if err := log.Get(bucketingTrainedOn(a.Name), &m.bucketingFigures); err != nil {
		return m, err
	}
	for _, seed := range p.Seeds {
		var r bucketingTrained
		if err := log.Get(a.Sample(seed), &r); err != nil {
			return m, err
		}
		epochs := p.Epochs
		if r.Epochs > 0 {
			epochs = r.Epochs
			m.reached++
		}
		m.params = r.Params
		m.epochs = append(m.epochs, float64(epochs))
		m.positions = append(m.positions, float64(epochs)*float64(m.Longest))
	}
	return m, nil
}
