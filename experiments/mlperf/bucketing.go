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
	"gpipebench/lab/trained"
	"gpipebench/nn"
	"gpipebench/train"
)

// bucketingSpec is spec.yaml.
type bucketingSpec struct {
	lab.Head `yaml:",inline"`
	Setup    lab.SetupSpec  `yaml:"setup"`
	Ways     []bucketingWay `yaml:"ways"`
	OneHost  string         `yaml:"one_host" want:"name"`
	Paper    lab.Verbatim   `yaml:"paper"`
	Replicas []int          `yaml:"replicas" want:"1..65536"`
	Trained  []string       `yaml:"trained" want:"name"`

	Profiles map[string]bucketingProfile `yaml:"profiles"`
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
	if b.way(b.Spec.OneHost) == nil {
		return lab.At(fmt.Errorf("no way %q", b.Spec.OneHost), "one_host")
	}
	for i, name := range b.Spec.Trained {
		if b.way(name) == nil {
			return lab.At(fmt.Errorf("no way %q", name), "trained", fmt.Sprint(i))
		}
	}
	if len(b.Spec.Trained) == 0 || len(b.Spec.Replicas) == 0 {
		return lab.At(errors.New("want ways to train and numbers of replicas"))
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
	}
	return nil
}

func (b *bucketing) way(name string) *bucketingWay {
	for i := range b.Spec.Ways {
		if b.Spec.Ways[i].Name == name {
			return &b.Spec.Ways[i]
		}
	}
	return nil
}

// arms are the trainings of a profile. All of one seed see the same pairs in an epoch.
func (b *bucketing) arms(p bucketingProfile) (all []trained.Arm) {
	for _, name := range b.Spec.Trained {
		all = append(all, trained.Arm{Name: name, Training: func(seed uint64) train.Training {
			t := p.Training.Training("synthetic-translation", b.setup, seed)
			t.Config = b.way(name).of(p.Data.Config())
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
func bucketingEpochOf(w bucketingWay) string   { return "epoch/" + w.Name }
func bucketingTrainedOn(w bucketingWay) string { return "trained-on/" + w.Name }

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
		counting(bucketingEpochOf(w), c.Seed, func() (datasets.Source, error) { return datasets.NewMultilingual(c) }, p.Counted.Batch, b.Spec.Replicas)
	}
	for _, a := range b.arms(p) {
		t := a.Training(p.Seeds[0])
		counting(bucketingTrainedOn(*b.way(a.Name)), p.Seeds[0], t.Source, t.Batch, nil)
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

func (b *bucketing) Report(log, _ *records.Log) (*lab.Report, error) {
	p, err := lab.ProfileOf(b.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	epoch, err := b.epochTable(log, p)
	if err != nil {
		return nil, err
	}
	trained, panel, err := b.trainedTable(log, p)
	if err != nil {
		return nil, err
	}
	r := &lab.Report{Tables: []*lab.Table{epoch, trained}}
	bars := plot.TableBars{Panel: "replicas", Group: "way", Y: "% of positions", Bars: []string{"padding and waiting"}}.Panels(epoch)
	r.Files, err = plot.Figure(b, lab.N(len(p.Seeds), "seed"), r.Tables, append(bars, panel))
	return r, err
}

// bucketingPart is a share that is not in a whole.
func bucketingPart(of, whole int64) float64 { return 1 - float64(of)/float64(whole) }

func (b *bucketing) epochTable(log *records.Log, p bucketingProfile) (*lab.Table, error) {
	t := &lab.Table{ID: b.ID(), Title: b.Title(), Caption: []string{
		fmt.Sprintf("An epoch of %d pairs of the invented language in mini-batches of %d. Positions are places for tokens, of both sides; a replica's part of a mini-batch is padded to its own longest sentences, and a step takes as long as the part with the most positions.", p.Counted.Pairs, p.Counted.Batch),
		"Padding: of all positions of the parts. Imbalance: positions of the largest part over those of the mean part. Padding and waiting: what no token is computed in, of a step's time on all replicas. Steps: their time over that of the first row's with as many replicas. Against one host: the same over that of the row with one host and the same window. Shape: padding in the shapes of compiled programs.",
	}}
	t.Texts("way")
	t.Numbers("window", "hosts", "replicas", "padding", "imbalance", "padding and waiting", "steps", "against one host", "paper, up to", "padding, shape")
	all := map[string]bucketingFigures{}
	for _, w := range b.Spec.Ways {
		var f bucketingFigures
		if err := log.Get(bucketingEpochOf(w), &f); err != nil {
			return nil, err
		}
		all[w.Name] = f
	}
	for _, w := range b.Spec.Ways {
		f, window := all[w.Name], any(lab.Absent)
		if w.Window > 0 {
			window = w.Window
		}
		for _, r := range b.Spec.Replicas {
			over := func(base bucketingFigures) lab.Value {
				return lab.Fixed(float64(f.Slowest[r])/float64(f.Tokens)*float64(base.Tokens)/float64(base.Slowest[r]), 3)
			}
			against, paper := lab.Absent, lab.Absent
			if w.Hosts > 1 {
				against = over(all[b.Spec.OneHost])
			}
			if w.Apart && b.Spec.Paper != "" {
				paper = lab.Value{Text: fmt.Sprintf("+%s%%", b.Spec.Paper), Numbers: []float64{1 + b.Spec.Paper.Number()/100}}
			}
			waste := bucketingPart(f.Tokens, f.Slowest[r])
			t.Add(w.Name, window, max(w.Hosts, 1), r, lab.Percent(bucketingPart(f.Tokens, f.Parts[r]), 1), lab.Fixed(float64(f.Slowest[r])/float64(f.Parts[r]), 3),
				lab.Percent(waste, 1), over(all[b.Spec.Ways[0].Name]), against, paper, lab.Percent(bucketingPart(f.Tokens, f.Shaped), 1))
		}
	}
	return t, nil
}

// bucketingMade are a way's trainings.
type bucketingMade struct {
	bucketingFigures
	epochs    []float64 // of each seed; what is not reached counts as all epochs
	positions []float64 // that these have
	reached   int
	params    int64
}

func (b *bucketing) trainedTable(log *records.Log, p bucketingProfile) (*lab.Table, plot.Axes, error) {
	dots := &plot.DotPanel{Title: "epochs to the accuracy", Y: "epochs", Zero: true}
	var all []*bucketingMade
	for _, a := range b.arms(p) {
		m := &bucketingMade{}
		if err := log.Get(bucketingTrainedOn(*b.way(a.Name)), &m.bucketingFigures); err != nil {
			return nil, nil, err
		}
		for _, seed := range p.Seeds {
			var r bucketingTrained
			if err := log.Get(a.Sample(seed), &r); err != nil {
				return nil, nil, err
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
		all = append(all, m)
		dots.Add(a.Name, m.epochs)
	}
	t := &lab.Table{ID: b.ID() + "-epochs", Title: "Bucketing: epochs to an accuracy against padding", Caption: []string{
		fmt.Sprintf("%v, %d parameters, trained in mini-batches of %d of %d pairs until %g%% of the held-out targets are ranked first, looked for after every epoch, at most %d. Means over %d seeds; an epoch has the same pairs in every row.",
			p.Training.Model, all[0].params, p.Training.Batch, p.Data.Pairs, p.Accuracy, p.Epochs, len(p.Seeds)),
		"Padding: of the positions of mini-batches padded to their longest sentences. Positions: of all epochs up to the accuracy, in millions; ratios to the first row are paired by seed, geometric means with their 95% interval.",
	}}
	t.Texts("way")
	t.Numbers("reached", "padding", "epochs", "deviation", "epochs / first", "positions, millions", "positions / first")
	for i, m := range all {
		against := func(own, base []float64) lab.Value {
			if i == 0 {
				return lab.Absent
			}
			return lab.GeometricMean(own, base, 3)
		}
		t.Add(b.Spec.Trained[i], lab.Joined("%v of %v", m.reached, len(p.Seeds)), lab.Percent(bucketingPart(m.Tokens, m.Longest), 1),
			lab.Mean(m.epochs, 1), lab.SD(m.epochs, 1), against(m.epochs, all[0].epochs), lab.Fixed(stats.Sampled(m.positions).Mean/1e6, 2), against(m.positions, all[0].positions))
		if m.reached < len(p.Seeds) {
			t.Notes = []string{"A training that has not reached the accuracy counts as one with all epochs, which is too few."}
		}
	}
	return t, dots, nil
}
