package gpipe

import (
	"context"
	"errors"
	"fmt"
	"math"

	"gpipebench/gpipe"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/lab/trained"
	"gpipebench/nn"
	"gpipebench/train"
)

// delayedReduction compares a network that reduces images at its first convolution with the same
// one that does so at its last ones. Its kind trains them; that it also says what both hold, here
// and at the paper's scale, is what these lines are for: nothing else of this kind counts memory.
type delayedReduction struct {
	trained.Experiment[delayedSpec]
}

type delayedSpec struct {
	Paper      lab.Verbatim `yaml:"paper"` // times the activation memory
	PaperModel train.Model  `yaml:"paper_model"`
}

// delayedFootprint is what both networks plan to hold, early and late.
type delayedFootprint struct {
	Kept [2]int64 `json:"kept"` // activations of the training as it is run
	// Of one image at the paper's scale, by shapes.
	PaperParams [2]int64 `json:"paper_params"`
	PaperSaved  [2]int64 `json:"paper_saved"`
	PaperFLOPs  [2]int64 `json:"paper_flops"`
}

const delayedMemory = "memory" // the sample

func newDelayedReduction() (lab.Experiment, error) {
	d := &delayedReduction{}
	d.Samples = func(_ trained.Size, log *records.Log) (any, error) {
		m := &delayedFootprint{}
		return m, log.Get(delayedMemory, m)
	}
	word := func(head string, cell func(m *delayedFootprint, i int) any) trained.Word {
		return trained.Word{Head: head, Cell: func(r *trained.Reporting, at trained.Row) any {
			return cell(r.Samples.(*delayedFootprint), r.Named(at.Own.ArmSpec.Name))
		}}
	}
	ratio := func(head string, of func(m *delayedFootprint) [2]int64) trained.Word {
		return word(head, func(m *delayedFootprint, i int) any {
			if i == 0 {
				return 1
			}
			return lab.Fixed(times(of(m)), 2)
		})
	}
	d.Words = map[string]trained.Word{
		"planned":          word("planned activation memory", func(m *delayedFootprint, i int) any { return lab.Bytes(m.Kept[i]) }),
		"planned-ratio":    ratio("ratio", func(m *delayedFootprint) [2]int64 { return m.Kept }),
		"paper":            word("paper", func(_ *delayedFootprint, i int) any { return [2]any{1, d.Spec.Own.Paper}[i] }),
		"paper-parameters": word("parameters", func(m *delayedFootprint, i int) any { return m.PaperParams[i] }),
		"kept":             word("activations kept", func(m *delayedFootprint, i int) any { return lab.Bytes(m.PaperSaved[i]) }),
		"kept-ratio":       ratio("ratio", func(m *delayedFootprint) [2]int64 { return m.PaperSaved }),
		"flops":            word("GFLOP forward", func(m *delayedFootprint, i int) any { return lab.Fixed(float64(m.PaperFLOPs[i])/1e9, 2) }),
		"flops-ratio":      ratio("ratio of FLOPs", func(m *delayedFootprint) [2]int64 { return m.PaperFLOPs }),
	}
	d.Panels = map[string]trained.Panel{"bill": func(r *trained.Reporting, p trained.PanelSpec) []plot.Axes {
		return []plot.Axes{d.bill(r.Samples.(*delayedFootprint), p.Title)}
	}}
	return d, nil
}

func times(of [2]int64) float64 { return float64(of[1]) / float64(of[0]) }

func (d *delayedReduction) Resolve() *lab.Problem {
	switch {
	case d.Spec.Own.PaperModel.Name != train.AmoebaNet:
		return lab.At(fmt.Errorf("want %s", train.AmoebaNet), "paper_model")
	case len(d.Spec.Arms) != 2:
		return lab.At(errors.New("want two, early and late"), "arms")
	}
	return d.Experiment.Resolve()
}

// paperModel is an arm's network at the paper's scale.
func (d *delayedReduction) paperModel(a trained.ArmSpec) train.Model {
	m := d.Spec.Own.PaperModel
	m.Delayed = a.Training.Model.Delayed
	return m
}

func (d *delayedReduction) Planned(profile string) []lab.PlannedRun {
	list := d.Experiment.Planned(profile)
	for _, a := range d.Spec.Arms {
		own := d.Spec.Training(d.Spec.Profiles[profile], a, 1).Model // planned without its images
		list = append(list, lab.PlannedRun{Path: []string{"paper_model"}, Run: lab.ModelledRun{Model: d.paperModel(a), Most: 1}},
			lab.PlannedRun{Path: []string{"profiles", profile, "training", "model"}, Run: lab.ModelledRun{Model: own, Most: 1}})
	}
	return list
}

func (d *delayedReduction) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	size, err := lab.ProfileOf(d.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	if !log.Has(delayedMemory) {
		m, err := d.memory(ctx, size)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", d.ID(), delayedMemory, err)
		}
		if err := log.Add(delayedMemory, d.Spec.Seed, m); err != nil {
			return err
		}
	}
	return d.Experiment.Measure(ctx, log, p)
}

func (d *delayedReduction) memory(ctx context.Context, size trained.Size) (*delayedFootprint, error) {
	m := &delayedFootprint{}
	for i, a := range d.Spec.Arms {
		var err error
		if m.Kept[i], err = plannedActivations(ctx, d.Spec.Training(size, a, d.Spec.Seed)); err != nil {
			return nil, err
		}
		model := d.paperModel(a)
		layers, err := model.Build()
		if err != nil {
			return nil, err
		}
		seen, err := gpipe.Pipeline{Layers: layers, Loss: nn.CrossEntropy{}}.Describe(model.Input(1))
		if err != nil {
			return nil, err
		}
		m.PaperParams[i] = seen.Params
		for _, l := range seen.Layers {
			m.PaperSaved[i] += l.SavedBytes
			m.PaperFLOPs[i] += l.FLOPs
		}
	}
	return m, nil
}

// plannedActivations is what a network's devices plan to hold beside parameters, gradients and the
// optimiser's state, in bytes.
func plannedActivations(ctx context.Context, t train.Training) (bytes int64, err error) {
	l, err := new(train.Timing).Open(ctx, t)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	for _, plan := range l.Trainer.Plans() {
		for _, c := range []gpipe.Category{gpipe.Boundary, gpipe.Residuals, gpipe.Workspace} {
			bytes += plan.Bytes[c]
		}
	}
	return bytes, nil
}

func (d *delayedReduction) Report(log, reference *records.Log) (*lab.Report, error) {
	report, err := d.Experiment.Report(log, reference)
	if err != nil {
		return nil, err
	}
	for _, t := range report.Tables {
		if of := t.Column("parameters"); of >= 0 && t.Rows[0][of].Text != t.Rows[1][of].Text {
			report.Verdict = fmt.Errorf("%s: the two networks have different numbers of parameters", d.ID())
		}
	}
	return report, nil
}

// bill is what late reduction costs.
func (d *delayedReduction) bill(m *delayedFootprint, title string) *plot.BarPanel {
	none := math.NaN()
	return &plot.BarPanel{
		Title: title, Y: "ratio", Names: []string{"parameters", "activations", "forward FLOPs"},
		Series: []plot.BarSeries{
			{Name: "paper", Values: []float64{1, d.Spec.Own.Paper.Number(), none}},
			{Name: "modelled from shapes, the paper's scale", Values: []float64{times(m.PaperParams), times(m.PaperSaved), times(m.PaperFLOPs)}},
			{Name: "planned memory of what is trained here", Values: []float64{none, times(m.Kept), none}},
		},
	}
}
