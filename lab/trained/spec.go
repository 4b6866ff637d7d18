package trained

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"gpipebench/datasets"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/lab/shown"
	"gpipebench/train"
)

// Spec is the spec of an experiment of this kind. Own are the fields of an experiment that
// stretches it; none: struct{}.
type Spec[Own any] struct {
	Frame `yaml:",inline"`
	Own   Own `yaml:",inline"`
}

// Frame is what all specs of this kind have.
type Frame struct {
	lab.Head `yaml:",inline"`
	// Margin is the largest mean difference of the metric that counts as none, and Level that of
	// the tests for equivalence.
	Margin float64 `yaml:"margin" want:">0..100,optional"`
	Level  float64 `yaml:"level" want:">0..0.499,optional"`
	Metric string  `yaml:"metric" want:"optional,shown"` // accuracy
	// Whole says that a training leaves all that train reports, losses included, and is made
	// with the spec's seed alone. Otherwise its outcome is kept, of each seed.
	Whole bool `yaml:"whole"`
	// Baselines says that what a copy of the source and a dictionary score is in the records, of
	// each seed's sentences.
	Baselines bool `yaml:"baselines"`
	// Watch ends trainings that collapse; none: they make all their steps.
	Watch *Watch `yaml:"watch"`
	// MicroBatch is how many examples every micro-batch has, over which batch norm takes its
	// statistics, whatever the mini-batch; 0: as many as the setup's M makes.
	MicroBatch int `yaml:"micro_batch" want:"0..65536"`
	// Within is how many nats above the held-out loss at the end of an arm's target count as having
	// reached it.
	Within float64       `yaml:"within" want:">0..100,optional"`
	Data   string        `yaml:"data" want:"data,optional"` // synthetic
	Setup  lab.SetupSpec `yaml:"setup"`
	Arms   []ArmSpec     `yaml:"arms"` // the first is the baseline

	Pairs      []PairSpec `yaml:"pairs" want:"shown,optional"` // compared beside the baseline
	shown.Spec `yaml:",inline"`
	Panels     []PanelSpec `yaml:"panels" want:"shown,optional"` // of the figure, after lines and bars

	Profiles map[string]Size `yaml:"profiles"`
}

func init() {
	lab.RegisterKind("trained", func() lab.Experiment { return &Experiment[struct{}]{} })
}

// ArmSpec is what an arm changes of the base: fields that are not 0.
type ArmSpec struct {
	Name     string   `yaml:"name" want:"name,key"`        // of its samples
	Label    string   `yaml:"label" want:"shown,optional"` // in tables; none: its name
	Axis     []string `yaml:"axis" want:"shown,optional"`  // in plots, lines; none: its name
	Paper    string   `yaml:"paper" want:"shown,optional"` // what the paper has in its place, as it is printed
	Data     string   `yaml:"data" want:"data,optional"`
	NoSource bool     `yaml:"no_source"`                    // of translators: they see none
	Only     int      `yaml:"only" want:"0..1000"`          // of translators: the one language that they see, from 1; 0: all
	Repeats  string   `yaml:"repeats" want:"name,optional"` // another arm, whose first steps it makes: it must end with the same weights
	Pace     *Pace    `yaml:"pace"`                         // none: the profile's
	Rate     *RateOf  `yaml:"rate"`                         // none: by pilots of its own, if there are any
	// PilotsTimes multiplies the rates of its pilots, of an optimiser that wants others; 0: 1.
	PilotsTimes float64 `yaml:"pilots_times" want:"0..1e6"`
	Target      string  `yaml:"target" want:"name,optional"` // an arm, it may be itself, whose loss its evaluations are held against; none: they are not
	Set         string  `yaml:"set" want:"name,optional"`    // of the profile's sets: the images that it sees; none: the base's
	// From is another arm, with whose weights of the same seed it begins, all but the last layer's. The
	// network is that arm's.
	From     string           `yaml:"from" want:"name,optional"`
	Setup    lab.SetupSpec    `yaml:"setup"`
	Training lab.TrainingSpec `yaml:"training" want:"partial"`
}

// PairSpec are two arms; the difference is Of less To.
type PairSpec struct {
	Of    string `yaml:"of" want:"name"`
	To    string `yaml:"to" want:"name"`
	Label string `yaml:"label"`
}

// PanelSpec is a panel of the plot.
type PanelSpec struct {
	Draw       string   `yaml:"draw"` // one of panels
	Rows       string   `yaml:"rows" want:"optional"`
	Arms       []string `yaml:"arms" want:"optional"` // of curves; none: all that see all languages
	Title      string   `yaml:"title" want:"optional"`
	Y          string   `yaml:"y" want:"optional"`
	Deviations string   `yaml:"deviations" want:"optional"` // names a band: two standard deviations about the baseline's mean
	Margin     bool     `yaml:"margin"`                     // a band
	Zero       bool     `yaml:"zero"`                       // is on the axis
}

// Size is a profile of an experiment: a training, of which arms may change more than in other
// profiles, and the seeds over which it is repeated.
type Size struct {
	Expected lab.Span `yaml:"expected" want:"shown"`
	// Seeds are those over which trainings are repeated: all that there will ever be. A seed that is added when results
	// are known is another design.
	Seeds  []uint64           `yaml:"seeds" want:"optional"`
	Pilots Pilots             `yaml:"pilots" want:"partial"`
	Data   *lab.SentencesSpec `yaml:"data"` // none: as the arms say
	Sets   map[string]SetSpec `yaml:"sets" want:"optional"`
	Pace   Pace               `yaml:"pace" want:"partial"`
	// Until is a held-out accuracy in percent; trainings end with the first epoch that reaches it. 0:
	// they go on to their end.
	Until    float64                     `yaml:"until" want:"0..100"`
	Training lab.TrainingSpec            `yaml:"training" want:"partial"`
	Arms     map[string]lab.TrainingSpec `yaml:"arms" want:"partial,optional"`
}

// Experiment is one of this kind. One that stretches it has samples and values of rows of its own.
type Experiment[Own any] struct {
	lab.Base[Spec[Own]]
	// Samples reads the experiment's own samples of a profile, for Reporting.Samples.
	Samples func(size Size, log *records.Log) (any, error)
	Values  func(*Reporting, Row) shown.Values
}

// Training returns an arm's training: what it changes in the base, and what a profile changes in it.
func (f *Frame) Training(p Size, a ArmSpec, seed uint64) train.Training {
	spec, setup := p.Training, f.Setup
	if of := f.Named(a.From); of >= 0 {
		change(&spec.Model, f.Arms[of].Training.Model)
		change(&spec.Model, p.Arms[a.From].Model)
	}
	change(&spec, a.Training)
	change(&spec, p.Arms[a.Name])
	change(&setup, a.Setup)
	t := spec.Training(cmp.Or(a.Data, f.Data, "synthetic"), setup.Setup(), seed)
	if p.Data != nil {
		t.Data, t.Config = p.Data.Source(), p.Data.Config(a.Only)
	}
	if set, ok := p.Sets[a.Set]; ok {
		set.into(&t)
	}
	p.pace(a).set(&t)
	if f.MicroBatch > 0 {
		t.Setup.MicroBatches = max(1, t.Batch/f.MicroBatch)
	}
	t.EmptySource = a.NoSource
	t.LoadPart, t.NewLast = a.From, a.From != "" // the file's name comes when there is one
	for _, o := range f.repeating(a) {
		t.HashAfter = f.Training(p, o, seed).Steps
	}
	return t
}

// change sets the fields of a struct that are not 0 in another one.
func change[T any](base *T, by T) { changeValue(reflect.ValueOf(base).Elem(), reflect.ValueOf(by)) }

func changeValue(base, by reflect.Value) {
	switch {
	case by.IsZero():
	case by.Kind() == reflect.Struct:
		for i := range by.NumField() {
			changeValue(base.Field(i), by.Field(i))
		}
	default:
		base.Set(by)
	}
}

func (x *Experiment[Own]) Resolve() *lab.Problem {
	f := &x.Spec.Frame
	if p := f.checkArms(); p != nil {
		return p
	}
	if d := f.Design; d != nil && f.Margin > 0 && d.Margin.Size != f.Margin {
		return lab.At(fmt.Errorf("want %g, the spec's margin", f.Margin), "design", "margin", "size")
	}
	for _, name := range lab.Profiles {
		if p := f.checkProfile(f.Profiles[name]); p != nil {
			return p.In("profiles", name)
		}
	}
	return x.checkShown()
}

func (f *Frame) checkArms() *lab.Problem {
	for i, a := range f.Arms {
		setup := f.Setup
		change(&setup, a.Setup)
		if err := CheckSetup(setup.Setup()); err != nil {
			return lab.At(err, "arms", fmt.Sprint(i))
		}
		if of := f.Named(a.Repeats); a.Repeats != "" && (of < 0 || f.Arms[of].Repeats != "" || !f.Whole) {
			return lab.At(errors.New("want an arm that repeats none, and whole records"), "arms", fmt.Sprint(i), "repeats")
		}
		if a.Target != "" && (f.Named(a.Target) < 0 || f.Within == 0 || f.Whole) {
			return lab.At(errors.New("want an arm, outcomes, and within"), "arms", fmt.Sprint(i), "target")
		}
		if err := f.checkFrom(a); err != nil {
			return lab.At(err, "arms", fmt.Sprint(i), "from")
		}
	}
	for i, a := range f.Arms {
		if r := a.Rate; r != nil && (f.Named(r.Of) < 0 || f.Arms[f.Named(r.Of)].Rate != nil) {
			return lab.At(errors.New("want an arm that has a rate of its own"), "arms", fmt.Sprint(i), "rate", "of")
		}
	}
	for i, p := range f.Pairs {
		for key, name := range map[string]string{"of": p.Of, "to": p.To} {
			if f.Named(name) < 0 {
				return lab.At(fmt.Errorf("no arm %q", name), "pairs", fmt.Sprint(i), key)
			}
		}
	}
	return nil
}

// Named is the number of an arm, -1 if there is none of that name.
func (f *Frame) Named(name string) int {
	return slices.IndexFunc(f.Arms, func(a ArmSpec) bool { return a.Name == name })
}

func (f *Frame) checkProfile(p Size) *lab.Problem {
	isPilot := func(seed uint64) bool { return slices.Contains(p.Pilots.Seeds, seed) }
	switch {
	case f.Whole && len(p.Seeds) > 0:
		return lab.At(errors.New("want none, as records are of whole trainings, with the spec's seed"), "seeds")
	case len(p.Pilots.Seeds) == 0 != (len(p.Pilots.Rates) == 0):
		return lab.At(errors.New("want seeds and rates, or neither"), "pilots")
	case slices.ContainsFunc(p.Seeds, isPilot):
		return lab.At(errors.New("want other seeds than the pilots'"), "seeds")
	case p.Pilots.Widen > 0 && len(p.Pilots.Rates) < 2:
		return lab.At(errors.New("want two rates or more to widen"), "pilots", "rates")
	case f.Baselines && (p.Data == nil || f.Whole):
		return lab.At(errors.New("baselines: want data of translators, and records of outcomes"), "data")
	}
	if err := f.checkWatch(p); err != nil {
		return lab.At(err, "data")
	}
	for name := range p.Arms {
		if f.Named(name) < 0 {
			return lab.At(errors.New("no such arm"), "arms", name)
		}
	}
	if problem := f.checkSets(p); problem != nil {
		return problem
	}
	for _, a := range f.Arms {
		if problem := p.pace(a).check(p.Training); problem != nil {
			return problem
		}
		if a.Only > 0 && (p.Data == nil || a.Only > len(p.Data.Names())) {
			return lab.At(fmt.Errorf("arm %s sees language %d alone, which is not among the data: want the data of as many languages", a.Name, a.Only), "data")
		}
	}
	var all []train.Training
	for _, a := range f.Arms {
		t := f.Training(p, a, 1)
		var lacks error
		switch {
		case t.Model.Name == "":
			lacks = errors.New("no model")
		case t.Batch < 1:
			lacks = errors.New("no batch")
		case f.MicroBatch > 0 && t.Batch%f.MicroBatch != 0:
			lacks = fmt.Errorf("mini-batches of %d in micro-batches of %d", t.Batch, f.MicroBatch)
		case t.Steps < 1:
			lacks = errors.New("no steps")
		case t.Optimizer == "":
			lacks = errors.New("no optimizer")
		case t.LR == 0 && len(p.Pilots.Rates) == 0:
			lacks = errors.New("no lr")
		case a.Rate != nil && len(p.Pilots.Rates) == 0:
			lacks = fmt.Errorf("no pilots, whose rate arm %s has a multiple of", a.Name)
		case a.Target != "" && (t.EvalEvery == 0 || t.Keep != train.KeepLast):
			lacks = fmt.Errorf("no eval_every, or other weights than the last, for arm %s, whose evaluations are held against a target", a.Name)
		case a.Repeats != "" && t.Steps > f.Training(p, f.Arms[f.Named(a.Repeats)], 1).Steps:
			lacks = fmt.Errorf("arm %s has more steps than %s, which it repeats", a.Name, a.Repeats)
		case a.Rate == nil && slices.ContainsFunc(all, func(o train.Training) bool { return reflect.DeepEqual(o, t) }):
			lacks = fmt.Errorf("arm %s is the same training as another one", a.Name)
		}
		if lacks != nil {
			return lab.At(fmt.Errorf("%w: want what arms lack or change", lacks), "training")
		}
		if parts := t.Setup.Replicas * t.Setup.MicroBatches; t.Setup.Replicas > 1 && t.Batch%parts != 0 {
			return lab.At(fmt.Errorf("want a multiple of %d, the micro-batches of arm %s", parts, a.Name), "training", "batch")
		}
		all = append(all, t)
		if p.Data != nil {
			if problem := p.Data.Check(t.Model.Seq); problem != nil {
				return problem.In("data")
			}
		}
	}
	if !f.Whole && len(p.Seeds) == 0 {
		return lab.At(errors.New("no seeds: want at least one"))
	}
	return nil
}

// checkShown refuses words of tables, texts and plots that mean nothing in some profile, by a report of trainings of
// which nothing is known.
func (x *Experiment[Own]) checkShown() *lab.Problem {
	f := &x.Spec.Frame
	if _, ok := metrics[f.Metric]; !ok {
		return lab.At(fmt.Errorf("unknown %q: want %v", f.Metric, slices.Sorted(maps.Keys(metrics))), "metric")
	}
	for _, name := range lab.Profiles {
		size := f.Profiles[name]
		if f.Metric == "epochs" && size.Until == 0 {
			return lab.At(errors.New("want an accuracy, until which trainings count their epochs"), "profiles", name, "until")
		}
		if ofTranslators(f.Metric) && size.Data == nil {
			return lab.At(errors.New("want data of translators in every profile"), "metric")
		}
		r := f.unknown(size, x.Values)
		reference := *r
		r.reference = &reference
		if p := f.Spec.Check(shown.Showing{Data: r.figures(), Reference: "reference", Rows: r.rows()}); p != nil {
			return p
		}
		for i, d := range f.Panels {
			panel, known := panels[d.Draw]
			switch {
			case !known:
				return lab.At(fmt.Errorf("unknown %q: want %v", d.Draw, slices.Sorted(maps.Keys(panels))), "panels", fmt.Sprint(i), "draw")
			case panel.whole != f.Whole, slices.Contains([]string{"bleu", "curves"}, d.Draw) && size.Data == nil:
				return lab.At(fmt.Errorf("%q: these records have none", d.Draw), "panels", fmt.Sprint(i), "draw")
			case d.Rows != "" && d.Rows != "arms" && d.Rows != "pairs":
				return lab.At(errors.New("want arms or pairs"), "panels", fmt.Sprint(i), "rows")
			case slices.ContainsFunc(d.Arms, func(name string) bool { return f.Named(name) < 0 }):
				return lab.At(errors.New("want names of arms"), "panels", fmt.Sprint(i), "arms")
			}
		}
	}
	return nil
}

// unknown is a report in the making whose trainings have all that records of a profile can have, with nothing in it.
func (f *Frame) unknown(size Size, own func(*Reporting, Row) shown.Values) *Reporting {
	r := &Reporting{Frame: f, Size: size, own: own, sets: map[string]*setContents{}}
	for name := range size.Sets {
		r.sets[name] = &setContents{}
	}
	var languages []train.LanguageScore
	baseline := datasets.Baseline{}
	if size.Data != nil {
		languages = make([]train.LanguageScore, len(size.Data.Names()))
		baseline.Languages = make([]float64, len(languages))
	}
	hash := strings.Repeat("0", sha256.Size*2)
	for _, a := range f.Arms {
		of := &Result{ArmSpec: a, Trials: Trials{Arm: f.arm(size, a, 0)}, Rates: size.Pilots.Rates, Pilots: size.Pilots.Rates}
		of.Setup = of.Arm.Training(f.Seed).Setup
		for range size.Seeds {
			run := &Trial{Languages: languages, Reached: &Reached{}}
			if f.Watch != nil {
				run.Watched = &Watched{Looks: []look{{}}}
			}
			of.Runs = append(of.Runs, run)
		}
		if f.Whole {
			of.whole = &wholeSample{Whole: Whole{Result: &train.Result{
				WeightsSHA256: hash, HashAfter: hash, Losses: []float64{0}, Eval: &train.Evaluation{BLEU: new(float64), Languages: languages},
				Yardsticks: make([]datasets.Yardstick, 1), Baselines: []datasets.Baseline{baseline, baseline},
			}}}
		}
		r.Results = append(r.Results, of)
	}
	for range size.Seeds {
		r.Without = append(r.Without, &withoutNetwork{Copy: baseline.Languages, Dictionary: baseline.Languages})
	}
	return r
}

// Planned lists a training of every arm. Files of data, which need not be here, are not opened.
func (x *Experiment[Own]) Planned(profile string) (list []lab.PlannedRun) {
	f, p := &x.Spec.Frame, x.Spec.Profiles[profile]
	for _, a := range f.Arms {
		t := f.Training(p, a, x.Spec.Seed)
		t.LoadPart, t.NewLast = "", false
		if len(p.Pilots.Rates) > 0 {
			t.LR = p.Pilots.Rates[0]
		}
		if a.Set != "" && t.Data != "synthetic" {
			t.Data, t.Model.Classes = "", 10 // is not read
		}
		if t.Data == lab.DocumentationSource {
			t.Data, t.Model.Vocab = "", cmp.Or(t.Model.Vocab, 256) // its tokens are bytes
		} else if p.Data != nil && p.Data.Catalogs != "" {
			t.Data = ""
		}
		list = append(list, lab.PlannedRun{Path: []string{"profiles", profile, "training"}, Run: t})
	}
	return list
}
