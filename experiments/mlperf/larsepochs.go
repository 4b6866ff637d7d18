package mlperf

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gpipebench/datasets"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/lab/trained"
	"gpipebench/nn"
	"gpipebench/train"
)

// epochsSpec is spec.yaml.
type epochsSpec struct {
	lab.Head `yaml:",inline"`
	Setup    lab.SetupSpec `yaml:"setup"`
	// Statistics is over how many examples batch norm takes its statistics, whatever the
	// mini-batch: a micro-batch.
	Statistics     int     `yaml:"statistics" want:"2..65536"`
	Trust          float64 `yaml:"trust" want:">0..1"`
	L2             float64 `yaml:"l2"`
	LabelSmoothing float64 `yaml:"label_smoothing"`

	Ways []epochsWay `yaml:"ways"` // Table 1; the first is also that of Figure 8

	Reference []epochsPublished `yaml:"reference" want:"shown"`
	Logged    []epochsPublished `yaml:"logged" want:"shown"`

	Profiles map[string]epochsProfile `yaml:"profiles"`
}

// epochsWay is a row of Table 1: a form of LARS, and the settings of it that pilots try.
type epochsWay struct {
	Name      string    `yaml:"name" want:"name,key"`
	Optimizer string    `yaml:"optimizer" want:"optimizer"`
	Momenta   []float64 `yaml:"momenta" want:">0..0.999"`
	WarmUps   []float64 `yaml:"warm_ups" want:">0..0.9"` // parts of the schedule
	Rates     []float64 `yaml:"rates" want:">0..1000"`   // over that of the profile, see arm
	Paper     struct {
		Rate     lab.Verbatim `yaml:"rate"`
		WarmUp   lab.Verbatim `yaml:"warm_up"` // epochs
		Momentum lab.Verbatim `yaml:"momentum"`
		Epochs   lab.Verbatim `yaml:"epochs"`
	} `yaml:"paper" want:"shown"`
}

// epochsPublished is how many epochs ResNet-50 takes with a mini-batch.
type epochsPublished struct {
	Batch  int          `yaml:"batch" want:"1..16777216,key"`
	Epochs lab.Verbatim `yaml:"epochs"`
}

type epochsProfile struct {
	Expected lab.Span    `yaml:"expected" want:"shown"`
	Pilots   []uint64    `yaml:"pilots"` // seeds
	Seeds    []uint64    `yaml:"seeds"`  // others than the pilots'
	Model    train.Model `yaml:"model"`
	Images   struct {
		datasets.SyntheticImagesConfig `yaml:",inline"`
		datasets.ImageConfig           `yaml:",inline"`
	} `yaml:"images"`
	Accuracy float64 `yaml:"accuracy" want:">0..100"` // percent of the held-out images
	Batches  []int   `yaml:"batches" want:"2..1048576"`
	Rate     float64 `yaml:"rate" want:">0..1e6"`     // with the first of Batches
	Epochs   []int   `yaml:"epochs" want:"1..100000"` // of schedules that pilots try
}

// epochs makes pilots, and with the settings that they choose trainings of other seeds.
type epochs struct {
	lab.Base[epochsSpec]
	setup train.Setup
}

func (e *epochs) Resolve() *lab.Problem {
	e.setup = e.Spec.Setup.Setup()
	if err := trained.CheckSetup(e.setup); err != nil {
		return lab.At(err, "setup")
	}
	if e.Spec.Setup.M != 0 {
		return lab.At(errors.New("want none, as micro-batches are those of statistics"), "setup", "m")
	}
	for i, w := range e.Spec.Ways {
		if i > 0 && w.tried() != e.Spec.Ways[0].tried() {
			return lab.At(fmt.Errorf("%d settings besides the schedule's length: want %d, as many as the first's", w.tried(), e.Spec.Ways[0].tried()), "ways", fmt.Sprint(i))
		}
		if o, err := train.ParseOptimizer(w.Optimizer); err != nil || !epochsIsLARS(o) {
			return lab.At(errors.New("want lars or lars-unscaled, without settings"), "ways", fmt.Sprint(i), "optimizer")
		}
	}
	for _, list := range []string{"reference", "logged"} {
		points := map[string][]epochsPublished{"reference": e.Spec.Reference, "logged": e.Spec.Logged}[list]
		if len(points) < 2 || !slices.IsSortedFunc(points, func(a, b epochsPublished) int { return a.Batch - b.Batch }) {
			return lab.At(errors.New("want two or more, the smallest mini-batch first"), list)
		}
	}
	for _, name := range lab.Profiles {
		if p := e.checkProfile(e.Spec.Profiles[name]); p != nil {
			return p.In("profiles", name)
		}
	}
	return nil
}

// epochsIsLARS reports whether an optimiser is LARS as MLPerf has it.
func epochsIsLARS(o nn.Optimizer) bool { return o == nn.LARS{} || o == nn.LARS{Unscaled: true} }

func (e *epochs) checkProfile(p epochsProfile) *lab.Problem {
	for i, b := range p.Batches {
		at := []string{"batches", fmt.Sprint(i)}
		switch {
		case i > 0 && b <= p.Batches[i-1]:
			return lab.At(errors.New("want larger and larger ones"), at...)
		case b%e.Spec.Statistics != 0:
			return lab.At(fmt.Errorf("want a multiple of statistics, %d", e.Spec.Statistics), at...)
		case p.Images.Train < b || p.Images.Train%b != 0:
			return lab.At(fmt.Errorf("want a divisor of the %d training images, so that an epoch has whole steps", p.Images.Train), at...)
		}
	}
	switch {
	case !p.Model.Images():
		return lab.At(errors.New("want a network for images"), "model", "name")
	case slices.ContainsFunc(p.Pilots, func(s uint64) bool { return slices.Contains(p.Seeds, s) }):
		return lab.At(errors.New("want other seeds than the pilots'"), "seeds")
	case !slices.IsSorted(p.Epochs):
		return lab.At(errors.New("want the shortest schedule first"), "epochs")
	}
	return nil
}

// tried is how many settings pilots try with a schedule of one length.
func (w epochsWay) tried() int { return len(w.Momenta) * len(w.WarmUps) * len(w.Rates) }

// epochsSettings are what pilots choose.
type epochsSettings struct {
	Epochs   int // of the schedule, with which a training ends
	WarmUp   float64
	Momentum float64
	Rate     float64
}

// epochsEntry is a way with a mini-batch, for which settings are chosen.
type epochsEntry struct {
	epochsWay
	batch int
	grid  []epochsSettings
}

// entry returns a way's with a mini-batch. The rate grows with the root of the
// mini-batch, roughly as those of the submissions do (10 at 4,096, 25 at 16,384, 31.2 to 33
// at 32,768).
func (p epochsProfile) entry(w epochsWay, batch int) epochsEntry {
	n := epochsEntry{epochsWay: w, batch: batch}
	for _, epochs := range p.Epochs {
		for _, warm := range w.WarmUps {
			for _, momentum := range w.Momenta {
				for _, rate := range w.Rates {
					n.grid = append(n.grid, epochsSettings{epochs, warm, momentum, p.Rate * rate * math.Sqrt(float64(batch)/float64(p.Batches[0]))})
				}
			}
		}
	}
	return n
}

// curve has the first way with every mini-batch.
func (e *epochs) curve(p epochsProfile) (entries []epochsEntry) {
	for _, b := range p.Batches {
		entries = append(entries, p.entry(e.Spec.Ways[0], b))
	}
	return entries
}

// others has the other ways with a mini-batch.
func (e *epochs) others(p epochsProfile, batch int) (entries []epochsEntry) {
	for _, w := range e.Spec.Ways[1:] {
		entries = append(entries, p.entry(w, batch))
	}
	return entries
}

// arm is an entry with settings.
func (e *epochs) arm(p epochsProfile, n epochsEntry, s epochsSettings) trained.Arm {
	return trained.Arm{
		Name: fmt.Sprintf("%s/batch=%d/epochs=%d/warm-up=%g/momentum=%g/lr=%.6g", n.Name, n.batch, s.Epochs, s.WarmUp, s.Momentum, s.Rate),
		Training: func(seed uint64) train.Training {
			t := train.Training{
				Model: p.Model, Data: "synthetic", Config: datasets.Config{Images: p.Images.ImageConfig, SyntheticImages: p.Images.SyntheticImagesConfig},
				Setup: e.setup, Batch: n.batch, Steps: s.Epochs * (p.Images.Train / n.batch), Seed: seed,
				Optimizer: fmt.Sprintf("%s:momentum=%g:trust=%g", n.Optimizer, s.Momentum, e.Spec.Trust), LR: s.Rate,
				L2: e.Spec.L2, LabelSmoothing: e.Spec.LabelSmoothing,
			}
			t.Setup.MicroBatches = n.batch / e.Spec.Statistics
			// The warm-up's last step is the decay's first, and no step has a rate of 0.
			rising := max(1, int(math.Round(s.WarmUp*float64(t.Steps))))
			t.LRSchedule = fmt.Sprintf("warmup:%d,polynomial:2:%d", rising, t.Steps-rising+1)
			return t
		},
	}
}

// Planned are trainings with the shortest and the longest schedule of each entry.
func (e *epochs) Planned(name string) (list []lab.PlannedRun) {
	p := e.Spec.Profiles[name]
	for _, n := range slices.Concat(e.curve(p), e.others(p, p.Batches[len(p.Batches)-1])) {
		for _, s := range []epochsSettings{n.grid[0], n.grid[len(n.grid)-1]} {
			list = append(list, lab.PlannedRun{Path: []string{"profiles", name, "model"}, Run: e.arm(p, n, s).Training(p.Seeds[0])})
		}
	}
	return list
}

func (e *epochs) Measure(ctx context.Context, log *records.Log, progress progress.Progress) error {
	p, err := lab.ProfileOf(e.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	each := func(arms []trained.Arm, seeds []uint64) error {
		return trained.Each(ctx, e.ID(), arms, seeds, log, progress, func(ctx context.Context, t train.Training) (any, string, error) {
			r, err := trained.Until(ctx, t, p.Accuracy)
			if err != nil {
				return nil, "", err
			}
			return r, r.String(), nil
		})
	}
	pilots := func(entries []epochsEntry) error {
		var arms []trained.Arm
		for _, n := range entries {
			for _, s := range n.grid {
				arms = append(arms, e.arm(p, n, s))
			}
		}
		return each(arms, p.Pilots)
	}
	if err := pilots(e.curve(p)); err != nil {
		return err
	}
	curve, largest, err := e.converging(p, log)
	if err != nil {
		return err
	}
	if err := pilots(e.others(p, largest.batch)); err != nil {
		return err
	}
	others, err := e.beside(p, log, largest.batch)
	if err != nil {
		return err
	}
	var arms []trained.Arm
	for _, c := range slices.Concat(curve, others) {
		if c.best >= 0 {
			arms = append(arms, e.arm(p, c.epochsEntry, c.grid[c.best]))
		}
	}
	return each(arms, p.Seeds)
}

// epochsChoice is an entry with what the pilots made of it.
type epochsChoice struct {
	epochsEntry
	pilots [][]*trained.Reached // by settings and pilot
	best   int                  // of the settings; -1: with none all pilots reach the accuracy
}

// chosen reads the pilots of entries, and chooses: of the settings with which all pilots
// reach the accuracy, those with the fewest epochs on average; the first of equals.
func (e *epochs) chosen(p epochsProfile, log *records.Log, entries []epochsEntry) (all []epochsChoice, err error) {
	for _, n := range entries {
		c := epochsChoice{epochsEntry: n, best: -1}
		fewest := 0
		for i, s := range n.grid {
			runs, err := epochsRead(log, e.arm(p, n, s), p.Pilots)
			if err != nil {
				return nil, err
			}
			c.pilots = append(c.pilots, runs)
			sum, reached := 0, 0
			for _, r := range runs {
				sum += r.Epochs
				if r.Epochs > 0 {
					reached++
				}
			}
			if reached == len(runs) && (c.best < 0 || sum < fewest) {
				c.best, fewest = i, sum
			}
		}
		all = append(all, c)
	}
	return all, nil
}

// converging returns the choices of the curve, and that of the largest mini-batch with
// which the pilots converge.
func (e *epochs) converging(p epochsProfile, log *records.Log) (curve []epochsChoice, largest epochsChoice, err error) {
	if curve, err = e.chosen(p, log, e.curve(p)); err != nil {
		return nil, largest, err
	}
	for _, c := range slices.Backward(curve) {
		if c.best >= 0 {
			return curve, c, nil
		}
	}
	return nil, largest, fmt.Errorf("%s, profile %s: no pilot of any mini-batch reaches %g%%: want a lower accuracy, or other rates", e.ID(), log.Key.Profile, p.Accuracy)
}

// beside returns the choices of the other ways with a mini-batch. One whose pilots do not all
// reach the accuracy with any settings has those that come nearest, since how often it then
// fails says something as well: most pilots that reach it, then the highest accuracies.
func (e *epochs) beside(p epochsProfile, log *records.Log, batch int) ([]epochsChoice, error) {
	all, err := e.chosen(p, log, e.others(p, batch))
	for i := range all {
		if all[i].best < 0 {
			all[i].best = all[i].nearest()
		}
	}
	return all, err
}

func (c epochsChoice) nearest() (best int) {
	var most float64
	for i, runs := range c.pilots {
		var near float64
		for _, r := range runs {
			if r.Epochs > 0 {
				near += 2 // more than any accuracy
			}
			if len(r.Accuracies) > 0 { // of 0 to 1
				near += slices.Max(r.Accuracies) / float64(len(runs))
			}
		}
		if near > most {
			best, most = i, near
		}
	}
	return best
}

func epochsRead(log *records.Log, a trained.Arm, seeds []uint64) (runs []*trained.Reached, err error) {
	for _, seed := range seeds {
		r := &trained.Reached{}
		if err := log.Get(a.Sample(seed), r); err != nil {
			return nil, err
		}
		runs = append(runs, r)
	}
	return runs, nil
}
