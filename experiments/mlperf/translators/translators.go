// Package translators compares GNMT with a Transformer of as many parameters.
package translators

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gpipebench/gpipe"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/lab/trained"
	"gpipebench/train"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "gnmt-quality", Folder: folder, New: lab.New[translators], Untimed: true}

// spec is spec.yaml.
type spec struct {
	lab.Head `yaml:",inline"`
	Setup    lab.SetupSpec `yaml:"setup"`
	Margin   float64       `yaml:"margin" want:">0..100"`
	WarmUp   float64       `yaml:"warm_up" want:">0..0.9"`

	Profiles map[string]profile `yaml:"profiles"`
}

type profile struct {
	Expected        lab.Span `yaml:"expected" want:"shown"`
	Pilots          []uint64 `yaml:"pilots"` // seeds, other ones
	trained.Seeding `yaml:",inline"`
	Rates           []float64         `yaml:"rates" want:">0..1000"`
	Data            lab.SentencesSpec `yaml:"data"`
	Networks        []train.Model     `yaml:"networks"` // the Transformer first
	Batch           int               `yaml:"batch" want:"1..65536"`
	Steps           int               `yaml:"steps" want:"2..1000000"`
}

type translators struct {
	lab.Base[spec]
	setup train.Setup
}

var errPilot = errors.New("want other seeds than the pilots'")

// pilot reports whether a seed is one of the pilots'.
func (p profile) pilot(seed uint64) bool { return slices.Contains(p.Pilots, seed) }

func (x *translators) Resolve() *lab.Problem {
	x.setup = x.Spec.Setup.Setup()
	if err := trained.CheckSetup(x.setup); err != nil {
		return lab.At(err, "setup")
	}
	for _, name := range lab.Profiles {
		p := x.Spec.Profiles[name]
		at := []string{"profiles", name}
		switch {
		case len(p.Networks) != 2 || p.Networks[0].Name != train.Translator || p.Networks[1].Name != train.GNMT:
			return lab.At(fmt.Errorf("want %s and %s", train.Translator, train.GNMT), append(at, "networks")...)
		case slices.ContainsFunc(p.Seeds, p.pilot):
			return lab.At(errPilot, append(at, "seeds")...)
		case slices.ContainsFunc(p.Added, p.pilot):
			return lab.At(errPilot, append(at, "added_seeds")...)
		}
		if problem := p.CheckSeeds(); problem != nil {
			return problem.In(at...)
		}
		if problem := p.Data.Check(p.Networks[0].Seq); problem != nil {
			return problem.In(append(at, "data")...)
		}
	}
	return nil
}

// arm is a network with a rate.
func (x *translators) arm(p profile, network int, rate float64) trained.Arm {
	return trained.Arm{
		Name: fmt.Sprintf("%s/lr=%g", p.Networks[network].Name, rate),
		Training: func(seed uint64) train.Training {
			rising := max(1, int(math.Round(x.Spec.WarmUp*float64(p.Steps))))
			return train.Training{
				Model: p.Networks[network], Data: p.Data.Source(), Config: p.Data.Config(), Setup: x.setup,
				Batch: p.Batch, Steps: p.Steps, Seed: seed, Optimizer: "adam", ClipNorm: 1,
				LR: rate, LRSchedule: fmt.Sprintf("warmup:%d,cosine:%d", rising, p.Steps-rising),
			}
		},
	}
}

func (x *translators) grid(p profile, network int) (all []trained.Arm) {
	for _, rate := range p.Rates {
		all = append(all, x.arm(p, network, rate))
	}
	return all
}

// Planned has one training of each network. Catalogs, which need not be here, are not opened.
func (x *translators) Planned(profile string) (list []lab.PlannedRun) {
	p := x.Spec.Profiles[profile]
	for i := range p.Networks {
		t := x.arm(p, i, p.Rates[0]).Training(p.AllSeeds()[0])
		if p.Data.Catalogs != "" {
			t.Data = ""
		}
		list = append(list, lab.PlannedRun{Path: []string{"profiles", profile, "networks", fmt.Sprint(i)}, Run: t})
	}
	return list
}

// pilot is a trial that may also end with a loss that is not finite.
type pilot struct {
	*trained.Trial
	NonFinite string `json:"non_finite,omitempty"`
}

func (q *pilot) Check() error {
	if q.NonFinite != "" {
		return nil
	}
	if q.Trial == nil {
		return errors.New("no trial")
	}
	return q.Trial.Check()
}

// loss is that of what is held out.
func (q *pilot) loss() float64 {
	if q.NonFinite != "" {
		return math.Inf(1)
	}
	return q.HeldOut
}

func (x *translators) Measure(ctx context.Context, log *records.Log, progress progress.Progress) error {
	p, err := lab.ProfileOf(x.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	err = trained.Each(ctx, x.ID(), slices.Concat(x.grid(p, 0), x.grid(p, 1)), p.Pilots, log, progress, func(ctx context.Context, t train.Training) (any, string, error) {
		trial, err := trained.Train(ctx, t)
		var bad *gpipe.NonFiniteError
		switch {
		case errors.As(err, &bad):
			return &pilot{NonFinite: bad.Error()}, bad.Error(), nil
		case err != nil:
			return nil, "", err
		}
		return &pilot{Trial: trial}, fmt.Sprintf("held-out loss %.4f", trial.HeldOut), nil
	})
	if err != nil {
		return err
	}
	chosen, err := x.chosen(p, log)
	if err != nil {
		return err
	}
	return trained.Run(ctx, x.ID(), chosen, p.AllSeeds(), log, progress)
}

// chosen are both networks with the rates whose pilots have the least held-out loss on average,
// the first of equals.
func (x *translators) chosen(p profile, log *records.Log) (arms []trained.Arm, err error) {
	for i := range p.Networks {
		grid, losses, err := x.pilots(p, log, i)
		if err != nil {
			return nil, err
		}
		best := slices.Index(losses, slices.Min(losses))
		if math.IsInf(losses[best], 1) {
			return nil, fmt.Errorf("%s: no pilot of %s ends with a finite loss: want lower rates", x.ID(), p.Networks[i].Name)
		}
		arms = append(arms, grid[best])
	}
	return arms, nil
}

// pilots reads a network's: their mean held-out losses, by rate.
func (x *translators) pilots(p profile, log *records.Log, network int) (grid []trained.Arm, losses []float64, err error) {
	grid = x.grid(p, network)
	for _, a := range grid {
		sum := 0.0
		for _, seed := range p.Pilots {
			var q pilot
			if err := log.Get(a.Sample(seed), &q); err != nil {
				return nil, nil, err
			}
			sum += q.loss()
		}
		losses = append(losses, sum/float64(len(p.Pilots)))
	}
	return grid, losses, nil
}

// bleu is the mean over languages, of each seed.
func bleu(t trained.Trials) (all []float64) {
	for _, r := range t.Runs {
		sum := 0.0
		for _, l := range r.Languages {
			sum += l.BLEU
		}
		all = append(all, sum/float64(len(r.Languages)))
	}
	return all
}

// sentences says what is translated.
func sentences(s lab.SentencesSpec) string {
	if s.Invented != nil {
		return fmt.Sprintf("%d pairs of the invented language", s.Invented.Pairs)
	}
	return strings.Join(s.Languages, ", ") + " to English, sentences of programs (gettext catalogs)"
}

func (x *translators) Report(log, reference *records.Log) (*lab.Report, error) {
	p, err := lab.ProfileOf(x.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	all, err := x.read(p, log)
	if err != nil {
		return nil, err
	}
	t := &lab.Table{ID: x.ID(), Title: x.Title(), Caption: []string{
		fmt.Sprintf("%s, %d steps of %d pairs, the same for both networks; %d seeds, means. BLEU of greedy translations of what is held out.", sentences(p.Data), p.Steps, p.Batch, len(p.AllSeeds())),
		fmt.Sprintf("Difference: GNMT's BLEU less the Transformer's, paired by seed, with its 95%% interval. Equivalence: p value of a test of two one-sided hypotheses at a margin of %g BLEU, the smallest margin at which it would be shown, and the outcome at the level 0.05.", x.Spec.Margin),
	}}
	t.Texts("network")
	t.Numbers("parameters", "parameters / first", "rate", "accuracy", "held-out nats", "BLEU", "deviation", "difference", "equivalence", "smallest margin")
	t.Texts("outcome")
	var referred []trained.Trials
	if reference != nil {
		if of, ok := x.Spec.Profiles[reference.Key.Profile]; ok {
			referred, _ = x.read(of, reference)
		}
		t.Numbers("BLEU, " + lab.ReferenceName(log, reference))
	}
	dots := &plot.DotPanel{Title: "held-out translations", Y: "BLEU"}
	for i, of := range all {
		scores := bleu(of)
		var nats []float64
		for _, r := range of.Runs {
			nats = append(nats, r.HeldOut)
		}
		params, first := of.Runs[0].Params, all[0].Runs[0].Params
		row := []any{
			p.Networks[i].Name, lab.Whole(params, fmt.Sprint(params)), lab.Fixed(float64(params)/float64(first), 3), lab.Number("%g", of.Training(p.AllSeeds()[0]).LR),
			of.Accuracy()[0], lab.Mean(nats, 4), lab.Mean(scores, 2), lab.SD(scores, 2),
		}
		if i == 0 {
			row = append(row, lab.Absent, lab.Absent, lab.Absent, lab.Absent)
		} else {
			row = append(row, trained.Compare(scores, bleu(all[0]), x.Spec.Margin).Cells(0.05)...)
		}
		if reference != nil {
			cell := lab.Absent
			if i < len(referred) {
				cell = lab.Mean(bleu(referred[i]), 2)
			}
			row = append(row, cell)
		}
		t.Add(row...)
		dots.Add(p.Networks[i].Name, scores)
	}
	pilots := &lab.Table{ID: x.ID() + "-pilots", Title: "GNMT beside the Transformer: pilots", Caption: []string{
		fmt.Sprintf("Held-out loss in nats at the end, by learning rate, mean over seeds %v. The least is chosen.", p.Pilots),
	}}
	pilots.Texts("network")
	pilots.Numbers("rate", "held-out nats")
	pilots.Texts("chosen")
	for i := range p.Networks {
		_, losses, err := x.pilots(p, log, i)
		if err != nil {
			return nil, err
		}
		for j, loss := range losses {
			cell := lab.Absent
			if !math.IsInf(loss, 1) {
				cell = lab.Fixed(loss, 4)
			}
			pilots.Add(p.Networks[i].Name, lab.Number("%g", p.Rates[j]), cell, lab.YesOrNo(x.arm(p, i, p.Rates[j]).Name == all[i].Name))
		}
	}
	r := &lab.Report{Tables: []*lab.Table{t, pilots, trained.EachTable(x.ID()+"-runs", "GNMT beside the Transformer: each training", all, p.AllSeeds())}}
	t.Notes = p.SeedNotes()
	if reference != nil {
		t.Notes = append(t.Notes, lab.ReferenceNote(reference))
	}
	r.Files, err = plot.Files(x.ID(), x.Title(), []plot.Axes{dots})
	return r, err
}

func (x *translators) read(p profile, log *records.Log) ([]trained.Trials, error) {
	arms, err := x.chosen(p, log)
	if err != nil {
		return nil, err
	}
	return trained.Read(log, arms, p.AllSeeds())
}
