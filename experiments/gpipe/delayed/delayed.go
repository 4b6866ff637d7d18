// Package delayed compares AmoebaNets that reduce images early and late.
package delayed

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"math"

	"gpipebench/gpipe"
	"gpipebench/internal/progress"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/lab/trained"
	"gpipebench/nn"
	"gpipebench/train"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "delayed-reduction", Folder: folder, New: lab.New[delayed]}

// spec is spec.yaml.
type spec struct {
	lab.Head   `yaml:",inline"`
	Paper      lab.Verbatim               `yaml:"paper"` // times the activation memory
	PaperModel train.Model                `yaml:"paper_model"`
	Setup      lab.SetupSpec              `yaml:"setup"`
	Profiles   map[string]trained.Profile `yaml:"profiles"`
}

// delayed compares a network that reduces images at its first convolution with
// the same one that does so at its last ones.
type delayed struct {
	lab.Base[spec]
	setup train.Setup
}

func (d *delayed) Resolve() *lab.Problem {
	d.setup = d.Spec.Setup.Setup()
	if err := trained.CheckSetup(d.setup); err != nil {
		return lab.At(err, "setup")
	}
	if d.Spec.PaperModel.Name != train.AmoebaNet {
		return lab.At(fmt.Errorf("want %s", train.AmoebaNet), "paper_model")
	}
	return trained.Check(d.Spec.Profiles)
}

// The two arms.
const (
	early = "reduced early"
	late  = "reduced late"
)

func (d *delayed) arms(p trained.Profile) []trained.Arm {
	var arms []trained.Arm
	for _, name := range []string{early, late} {
		arms = append(arms, trained.Arm{Name: name, Training: func(seed uint64) train.Training {
			t := p.Training.Training("synthetic", d.setup, seed)
			t.Model.Delayed = name == late
			return t
		}})
	}
	return arms
}

// footprint is what both networks plan to hold, early and late.
type footprint struct {
	Kept [2]int64 `json:"kept"` // activations of the training as it is run
	// Of one image at the paper's scale, by shapes.
	PaperParams [2]int64 `json:"paper_params"`
	PaperSaved  [2]int64 `json:"paper_saved"`
	PaperFLOPs  [2]int64 `json:"paper_flops"`
}

const memorySample = "memory"

func (d *delayed) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	profile, err := lab.ProfileOf(d.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	if !log.Has(memorySample) {
		m, err := d.memory(ctx, profile)
		if err != nil {
			return fmt.Errorf("delayed-reduction, %s: %w", memorySample, err)
		}
		if err := log.Add(memorySample, d.Spec.Seed, m); err != nil {
			return err
		}
	}
	return trained.Run(ctx, d.ID(), d.arms(profile), profile.AllSeeds(), log, p)
}

func (d *delayed) memory(ctx context.Context, p trained.Profile) (*footprint, error) {
	m := &footprint{}
	for i, arm := range d.arms(p) {
		var err error
		if m.Kept[i], err = activations(ctx, arm.Training(d.Spec.Seed)); err != nil {
			return nil, err
		}
		model := d.Spec.PaperModel
		model.Delayed = arm.Name == late
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

func (d *delayed) Report(log, reference *records.Log) (*lab.Report, error) {
	r, err := trained.Open(log, reference, d.Spec.Profiles, d.arms)
	if err != nil {
		return nil, err
	}
	var m footprint
	if err := log.Get(memorySample, &m); err != nil {
		return nil, err
	}
	all, t, n := r.All, r.Training, len(r.AllSeeds())
	table := &lab.Table{
		ID: "delayed-reduction", Title: d.Spec.Title,
		Caption: []string{
			fmt.Sprintf("%v, %d steps of %d procedural images, %s, at K = %d and M = %d. Each network is trained %d times, with the same seeds; accuracy is measured on %d held-out images. The difference is the mean over pairs of trainings with the same seed, in percentage points, with its 95%% interval (Student's t).",
				t.Model, t.Steps, t.Batch, t.Optimizer, d.setup.Partitions, d.setup.MicroBatches, n, all[0].Runs[0].Targets),
			"Reduced late: the same network with stride 1 instead of 2 in the first convolution, and with stride 2 in the last cell. Activation memory: the planned memory of the device without parameters, gradients and the optimiser's state.",
			fmt.Sprintf("In the paper (first version, section 5), late reduction has the same model size, %s times the activation memory and a better top-1 accuracy; the figures of the accuracy are lost.", d.Spec.Paper.Text),
		},
	}
	table.Texts("network")
	table.Numbers("parameters", "planned activation memory", "ratio", "paper", "accuracy", "sd", "difference (points)")
	gains := stats.Differences(all[1].Accuracies(), all[0].Accuracies())
	difference := stats.Sampled(gains)
	times := func(of [2]int64, i int) any {
		if i == 0 {
			return 1
		}
		return lab.Fixed(float64(of[i])/float64(of[0]), 2)
	}
	paper, gain := [2]any{1, d.Spec.Paper}, [2]any{"", lab.Paired(difference, 2)}
	for i, arm := range all {
		r.Add(table, i, arm.Name, arm.Runs[0].Params, lab.Bytes(m.Kept[i]), times(m.Kept, i), paper[i], arm.Accuracy(), gain[i])
	}
	table.Notes = append([]string{d.verdict(difference)}, r.SeedNotes()...)
	scale := &lab.Table{
		ID: "delayed-reduction-paper", Title: "Delayed reduction at the paper's scale, by shapes",
		Caption: []string{fmt.Sprintf("%v, one image; nothing is run. Activations kept: the values that the backward needs from the forward of every layer.", d.Spec.PaperModel)},
	}
	scale.Texts("network")
	scale.Numbers("parameters", "activations kept", "ratio", "paper", "GFLOP forward", "ratio of FLOPs")
	for i, arm := range all {
		scale.Add(arm.Name, m.PaperParams[i], lab.Bytes(m.PaperSaved[i]), times(m.PaperSaved, i), paper[i], lab.Fixed(float64(m.PaperFLOPs[i])/1e9, 2), times(m.PaperFLOPs, i))
	}
	report := &lab.Report{Tables: []*lab.Table{table, scale, trained.EachTable("delayed-reduction-runs", "Delayed reduction: each training", all, r.AllSeeds())}}
	if all[0].Runs[0].Params != all[1].Runs[0].Params || m.PaperParams[0] != m.PaperParams[1] {
		report.Verdict = errors.New("delayed-reduction: the two networks have different numbers of parameters")
	}
	gained := &plot.DotPanel{Title: "difference, pairs of one seed", Y: "percentage points", Zero: true}
	gained.Add(late+" - "+early, gains)
	report.Files, err = plot.Files(d.ID(), d.Spec.Title, []plot.Axes{d.bill(&m), r.Panel(), gained})
	return report, err
}

// bill is what late reduction costs.
func (d *delayed) bill(m *footprint) *plot.BarPanel {
	times := func(of [2]int64) float64 { return float64(of[1]) / float64(of[0]) }
	none := math.NaN()
	return &plot.BarPanel{
		Title: late + ", " + early + " = 1", Y: "ratio", Names: []string{"parameters", "activations", "forward FLOPs"},
		Series: []plot.BarSeries{
			{Name: "paper", Values: []float64{1, d.Spec.Paper.Value, none}},
			{Name: "modelled from shapes, the paper's scale", Values: []float64{times(m.PaperParams), times(m.PaperSaved), times(m.PaperFLOPs)}},
			{Name: "planned memory of what is trained here", Values: []float64{none, times(m.Kept), none}},
		},
	}
}

// verdict says whether late reduction was better.
func (d *delayed) verdict(difference stats.Paired) string {
	switch difference.Sign() {
	case 1:
		return "Verdict: late reduction is more accurate, as the paper says: the interval of the difference is above 0."
	case -1:
		return "Verdict: late reduction is less accurate, which is not what the paper says: the interval of the difference is below 0."
	}
	return fmt.Sprintf("Verdict: inconclusive: with %d pairs the interval of the difference contains 0.", difference.N)
}

// activations is what a network's devices plan to hold beside parameters,
// gradients and the optimiser's state, in bytes.
func activations(ctx context.Context, t train.Training) (bytes int64, err error) {
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

func (d *delayed) Planned(profile string) []lab.PlannedRun {
	p := d.Spec.Profiles[profile]
	list := trained.PlannedArms(profile, d.arms(p), p.AllSeeds())
	for _, a := range d.arms(p) {
		m := d.Spec.PaperModel
		m.Delayed = a.Name == late
		list = append(list, lab.PlannedRun{Path: []string{"paper_model"}, Run: lab.ModelledRun{Model: m, Most: 1}},
			lab.PlannedRun{Path: []string{"profiles", profile, "training", "model"}, Run: lab.ModelledRun{Model: a.Training(1).Model, Most: 1}}) // planned without its images
	}
	return list
}
