package experiments

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gpipebench/gpipe"
	"gpipebench/nn"
)

// delayedSpec is delayed_reduction.yaml.
type delayedSpec struct {
	head       `yaml:",inline"`
	Paper      verbatim                  `yaml:"paper"` // times the activation memory
	PaperModel Model                     `yaml:"paper_model"`
	Setup      setupSpec                 `yaml:"setup"`
	Profiles   map[string]delayedProfile `yaml:"profiles"`
}

type delayedProfile struct {
	Expected span         `yaml:"expected"`
	Seeds    []uint64     `yaml:"seeds"`
	Training trainingSpec `yaml:"training"`
}

// delayed compares a network that reduces images at its first convolution with
// the same one that does so at its last ones.
type delayed struct {
	spec  delayedSpec
	text  string
	setup Setup
}

func loadDelayed(from ...SpecFile) (Experiment, error) {
	d := &delayed{}
	var err error
	d.text, err = loadSpec("delayed_reduction.yaml", from, &d.spec, d.check)
	return d, err
}

func (d *delayed) check() *specProblem {
	var err error
	if d.setup, err = d.spec.Setup.setup(); err != nil {
		return at(err, "setup")
	}
	switch {
	case d.setup.Device != gpipe.Host:
		return at(errors.New("trainings run beside one another: want host devices"), "setup")
	case d.spec.PaperModel.Name != amoebaNet:
		return at(fmt.Errorf("want %s", amoebaNet), "paper_model")
	}
	return checkTrials(d.spec.Profiles, func(p delayedProfile) trainingSpec { return p.Training })
}

func (d *delayed) ID() string    { return d.spec.Experiment }
func (d *delayed) Title() string { return d.spec.Title }

func (d *delayed) Expected(profile string) time.Duration {
	return time.Duration(d.spec.Profiles[profile].Expected)
}

func (d *delayed) Key(profile string) Key {
	return key(d.ID(), profile, d.text)
}

// The two arms.
const (
	early = "reduced early"
	late  = "reduced late"
)

func (d *delayed) arms(p delayedProfile) []arm {
	var arms []arm
	for _, name := range []string{early, late} {
		arms = append(arms, arm{name, func(seed uint64) Training {
			t := p.Training.training("synthetic", d.setup, seed)
			t.Model.Delayed = name == late
			return t
		}})
	}
	return arms
}

// delayedMemory is what both networks plan to hold, early and late.
type delayedMemory struct {
	Kept [2]int64 `json:"kept"` // activations of the training as it is run
	// Of one image at the paper's scale, by shapes.
	PaperParams [2]int64 `json:"paper_params"`
	PaperSaved  [2]int64 `json:"paper_saved"`
	PaperFLOPs  [2]int64 `json:"paper_flops"`
}

const memorySample = "memory"

func (d *delayed) Measure(ctx context.Context, log *Log, p Progress) error {
	profile, err := profileOf(d.spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	if !log.Has(memorySample) {
		m, err := d.memory(ctx, profile)
		if err != nil {
			return fmt.Errorf("delayed-reduction, %s: %w", memorySample, err)
		}
		if err := log.Add(memorySample, d.spec.Seed, m); err != nil {
			return err
		}
	}
	return runTrials(ctx, d.ID(), d.arms(profile), profile.Seeds, log, p)
}

func (d *delayed) memory(ctx context.Context, p delayedProfile) (*delayedMemory, error) {
	m := &delayedMemory{}
	for i, arm := range d.arms(p) {
		var err error
		if m.Kept[i], err = activations(ctx, arm.training(d.spec.Seed)); err != nil {
			return nil, err
		}
		model := d.spec.PaperModel
		model.Delayed = arm.name == late
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

func (d *delayed) Report(log, reference *Log) (*Report, error) {
	profile, err := profileOf(d.spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	all, err := readTrials(log, d.arms(profile), profile.Seeds)
	if err != nil {
		return nil, err
	}
	var m delayedMemory
	if err := log.Get(memorySample, &m); err != nil {
		return nil, err
	}
	t, n := profile.Training, len(profile.Seeds)
	table := &Table{
		ID: "delayed-reduction", Title: d.spec.Title,
		Caption: []string{
			fmt.Sprintf("%v, %d steps of %d procedural images, %s, at K = %d and M = %d, trained %d times each with the same seeds; accuracy on %d held-out images. The difference is the mean over pairs of one seed, in percentage points with its 95%% interval (Student's t).",
				t.Model, t.Steps, t.Batch, t.Optimizer, d.setup.Partitions, d.setup.MicroBatches, n, all[0].runs[0].Targets),
			"Reduced late is the same network with stride 1 instead of 2 in the first convolution and stride 2 in the last cell. Activation memory is what the device's plan has beside parameters, gradients and the optimiser's state.",
			fmt.Sprintf("The paper (first version, section 5) has the same model size, %s times the activation memory and a better top-1 accuracy, whose figures are lost.", d.spec.Paper.Text),
		},
		Columns: []Column{
			{"network", true}, {"parameters", false}, {"planned activation memory", false}, {"ratio", false}, {"paper", false},
			{"accuracy", false}, {"sd", false}, {"difference (points)", false},
		},
	}
	if reference != nil {
		table.Columns = append(table.Columns, Column{Name: "reference accuracy"})
	}
	var refs []trials
	if reference != nil {
		if p, ok := d.spec.Profiles[reference.Key.Profile]; ok {
			if refs, err = readTrials(reference, d.arms(p), p.Seeds); err != nil {
				refs = nil // of another spec
			}
		}
	}
	base := all[0].accuracies()
	difference := pairs(all[1].accuracies(), base)
	times := func(of [2]int64, i int) string {
		if i == 0 {
			return "1"
		}
		return fmt.Sprintf("%.2f", float64(of[i])/float64(of[0]))
	}
	paper := [2]string{"1", d.spec.Paper.Text}
	var groups [][]float64
	var intervals []spread
	for i, arm := range all {
		own := arm.accuracies()
		row := []string{
			arm.name, fmt.Sprint(arm.runs[0].Params), FormatBytes(m.Kept[i]), times(m.Kept, i), paper[i],
			meanText(own, 2) + "%", sdText(own, 2), "",
		}
		if i == 1 {
			row[7] = difference.text(2)
		}
		if reference != nil {
			cell := ""
			if i < len(refs) {
				cell = meanText(refs[i].accuracies(), 2) + "%"
			}
			row = append(row, cell)
		}
		table.Add(row...)
		groups = append(groups, own)
		intervals = addInterval(intervals, i, sampled(own))
	}
	table.Notes = append(table.Notes, d.verdict(difference))
	table.Notes = append(table.Notes, fewSeedsNote(n)...)
	scale := &Table{
		ID: "delayed-reduction-paper", Title: "Delayed reduction at the paper's scale, by shapes",
		Caption: []string{fmt.Sprintf("%v, one image; nothing is run. Kept activations are what the backward needs of every layer's forward.", d.spec.PaperModel)},
		Columns: []Column{{"network", true}, {"parameters", false}, {"activations kept", false}, {"ratio", false}, {"paper", false}, {"GFLOP forward", false}, {"ratio", false}},
	}
	for i, arm := range all {
		scale.Add(arm.name, fmt.Sprint(m.PaperParams[i]), FormatBytes(m.PaperSaved[i]), times(m.PaperSaved, i), paper[i],
			fmt.Sprintf("%.2f", float64(m.PaperFLOPs[i])/1e9), times(m.PaperFLOPs, i))
	}
	r := &Report{Tables: []*Table{table, scale, eachTrial("delayed-reduction-runs", "Delayed reduction: each training", all, profile.Seeds)}}
	if all[0].runs[0].Params != all[1].runs[0].Params || m.PaperParams[0] != m.PaperParams[1] {
		r.Verdict = errors.New("delayed-reduction: the two networks have different numbers of parameters")
	}
	r.Files, err = plotFiles(d.ID(), d.spec.Title, d.panels(&m, groups, intervals))
	return r, err
}

// verdict says whether late reduction was better.
func (d *delayed) verdict(difference paired) string {
	lo, hi, ok := difference.interval(0.95)
	switch {
	case ok && lo > 0:
		return "Verdict: late reduction is more accurate, as the paper says: the interval of the difference is above 0."
	case ok && hi < 0:
		return "Verdict: late reduction is less accurate, which is not what the paper says: the interval of the difference is below 0."
	}
	return fmt.Sprintf("Verdict: inconclusive: with %d pairs the interval of the difference has 0 in it.", difference.n)
}

// activations is what a network's devices plan to hold beside parameters,
// gradients and the optimiser's state, in bytes.
func activations(ctx context.Context, t Training) (bytes int64, err error) {
	trainer, _, err := t.open(ctx, toTrain)
	if err != nil {
		return 0, err
	}
	defer trainer.Close()
	for _, plan := range trainer.Plans() {
		for _, c := range []gpipe.Category{gpipe.Boundary, gpipe.Residuals, gpipe.Workspace} {
			bytes += plan.Bytes[c]
		}
	}
	return bytes, nil
}
