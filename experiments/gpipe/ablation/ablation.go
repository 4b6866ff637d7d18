// Package ablation holds partitioners and costs against each other on the paper's
// networks.
package ablation

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"

	"gpipebench/experiments/paperscale"
	"gpipebench/experiments/plot"
	"gpipebench/experiments/progress"
	"gpipebench/experiments/records"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/workload"
	"gpipebench/gpipe"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/schedule"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = suite.Definition{ID: "ablation", Folder: folder, New: suite.New[Ablation]}

// ablationSpec is spec.yaml.
type ablationSpec struct {
	suite.Head   `yaml:",inline"`
	K            []int              `yaml:"k" want:"1..1024"`
	M            int                `yaml:"m" want:"1..65536"`
	Partitioners []string           `yaml:"partitioners" want:"partitioner"`
	Costs        []string           `yaml:"costs" want:"cost"`
	Base         paperscale.CutSpec `yaml:"base"`
	Networks     []*ablationNetwork `yaml:"networks"`

	Profiles map[string]suite.ExpectedOnly `yaml:"profiles"`
}

// ablationNetwork is a network on its accelerator.
type ablationNetwork struct {
	Name        string         `yaml:"name" want:"name,key"`
	Model       workload.Model `yaml:"model"`
	Accelerator string         `yaml:"accelerator" want:"accelerator"`
	DType       string         `yaml:"dtype" want:"dtype"`
	Optimizer   string         `yaml:"optimizer" want:"optimizer"`
	Micro       int            `yaml:"micro"` // examples of a micro-batch
}

// Ablation cuts the paper's networks by every rule and models what comes out.
type Ablation struct {
	suite.Base[ablationSpec]
}

func (a *Ablation) Resolve() *suite.Problem {
	if !slices.Contains(a.cuts(), a.Spec.Base) {
		return suite.At(errors.New("want one of the partitioners over one of the costs"), "base")
	}
	return nil
}

// cuts are every partitioner over every cost.
func (a *Ablation) cuts() (cuts []paperscale.CutSpec) {
	for _, cost := range a.Spec.Costs {
		for _, rule := range a.Spec.Partitioners {
			cuts = append(cuts, paperscale.CutSpec{Partitioner: rule, Cost: cost})
		}
	}
	return cuts
}

// ablationSample is what one network on K devices comes to. Nothing in it
// depends on the machine.
type ablationSample struct {
	Cuts []ablationCut `json:"cuts"` // as the spec's
	// Even is the step on stages of the same time, which no cut at layers may
	// give: the closed form, without links and update.
	Even float64 `json:"even_seconds"`
}

// ablationCut is the outcome of a cut.
type ablationCut struct {
	ByFLOPs float64         `json:"efficiency_flops"` // mean stage over largest
	ByTime  float64         `json:"efficiency_time"`
	Step    paperscale.Step `json:"step"`
}

func ablationName(n *ablationNetwork, k int) string { return fmt.Sprintf("%s/K=%d", n.Name, k) }

// read reads what a network on K devices comes to.
func (a *Ablation) read(log *records.Log, n *ablationNetwork, k int) (*ablationSample, error) {
	s := &ablationSample{}
	err := log.Get(ablationName(n, k), s)
	if want := len(a.cuts()); err == nil && len(s.Cuts) != want {
		err = log.Strange(ablationName(n, k), fmt.Errorf("%d cuts, want %d", len(s.Cuts), want))
	}
	return s, err
}

func (a *Ablation) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	p.Begin(a.ID(), len(a.Spec.Networks)*len(a.Spec.K))
	for _, n := range a.Spec.Networks {
		m, err := paperscale.NewModeller(&paperscale.Network{Model: n.Model, Accelerator: n.Accelerator, DType: n.DType, Optimizer: n.Optimizer}, false)
		if err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
		for _, k := range a.Spec.K {
			if log.Has(ablationName(n, k)) {
				continue
			}
			s, err := a.sample(ctx, m, n, k)
			if err != nil {
				return fmt.Errorf("%s: %w", ablationName(n, k), err)
			}
			if err := log.Add(ablationName(n, k), 0, s); err != nil {
				return err
			}
			p.Advance(ablationName(n, k))
		}
	}
	p.End()
	return nil
}

func (a *Ablation) sample(ctx context.Context, m *paperscale.Modeller, n *ablationNetwork, k int) (*ablationSample, error) {
	layers, err := m.Layers(ctx, n.Micro)
	if err != nil {
		return nil, err
	}
	var f, r, b float64
	for _, l := range layers {
		f, r, b = f+l.Forward/float64(k), r+l.Recompute/float64(k), b+l.Backward/float64(k)
	}
	s := &ablationSample{}
	if s.Even, err = schedule.StepTime(schedule.GPipe, schedule.Always, false, k, a.Spec.M, f, r, b); err != nil {
		return nil, err
	}
	for _, how := range a.cuts() {
		sizes, err := m.Cut(ctx, how, k, n.Micro)
		if err != nil {
			return nil, err
		}
		step, err := m.Step(ctx, sizes, n.Micro, a.Spec.M)
		if err != nil {
			return nil, err
		}
		s.Cuts = append(s.Cuts, ablationCut{partition.Efficiency(m.Flops, sizes), partition.Efficiency(gpipe.LayerSeconds(layers), sizes), *step})
	}
	return s, nil
}

func (a *Ablation) Report(log, _ *records.Log) (*suite.Report, error) {
	base := slices.Index(a.cuts(), a.Spec.Base)
	main := &suite.Table{
		ID: a.ID(), Title: "Modelled throughput of every partitioner, relative to the paper's rule",
		Caption: []string{
			fmt.Sprintf("Section 2.2 of the paper cuts by estimated costs and says that better partitioning algorithms can potentially improve. The paper's own networks at M = %d, everything re-materialised, early, whole layers, a mini-batch of the same size for every cut. 1: %v. Even: stages of one time, no link, no update: about what is left to gain.", a.Spec.M, a.Spec.Base),
			"Cost: flops, derived from shapes; time, modelled for each layer on this accelerator; memory, parameters with their state and what is saved for the backward. Efficiency: the mean stage over the largest, of the paper's rule.",
		},
	}
	main.Texts("network", "on")
	main.Numbers("K", "efficiency, flops", "efficiency, time")
	for _, c := range a.cuts() {
		main.Numbers(c.String())
	}
	main.Numbers("even")
	all := &suite.Table{
		ID: a.ID() + "-partitions", Title: "Every partition, its efficiency and its modelled step",
		Caption: []string{"Efficiency: the mean stage over the largest, by FLOPs and by modelled time. Imbalance: of the step. An asterisk: the fullest device has not enough memory."},
	}
	all.Texts("network")
	all.Numbers("K")
	all.Texts("cost", "partitioner")
	all.Numbers("efficiency, flops", "efficiency, time", "step", "examples/s", "relative", "imbalance", "communication", "fullest device")
	all.Texts("partition")
	var panels []plot.Axes
	for _, n := range a.Spec.Networks {
		panel := &plot.BarPanel{Title: n.Name, Y: "throughput, " + a.Spec.Base.String() + " = 1"}
		for _, c := range a.cuts() {
			if a.drawn(c) {
				panel.Series = append(panel.Series, plot.BarSeries{Name: c.String()})
			}
		}
		panel.Series = append(panel.Series, plot.BarSeries{Name: "even stages"})
		for _, k := range a.Spec.K {
			s, err := a.read(log, n, k)
			if err != nil {
				return nil, err
			}
			standard := s.Cuts[base]
			row := []any{n.Name, n.Accelerator, k, suite.Fixed(standard.ByFLOPs, 3), suite.Fixed(standard.ByTime, 3)}
			bar := 0
			panel.Names = append(panel.Names, fmt.Sprintf("K = %d", k))
			for i, how := range a.cuts() {
				c := s.Cuts[i]
				relative := standard.Step.Early / c.Step.Early
				row = append(row, suite.Fixed(relative, 2))
				if a.drawn(how) {
					panel.Series[bar].Add(relative)
					bar++
				}
				all.Add(n.Name, k, how.Cost, how.Partitioner, suite.Fixed(c.ByFLOPs, 3), suite.Fixed(c.ByTime, 3),
					suite.Seconds(c.Step.Early), suite.Fixed(float64(n.Micro*a.Spec.M)/c.Step.Early, 1), suite.Fixed(relative, 2),
					suite.Share(c.Step.Breakdown.Imbalance, c.Step.Early), suite.Share(c.Step.Breakdown.Communication, c.Step.Early), c.Step.Fullest(), c.Step.Partition)
			}
			main.Add(row, suite.Fixed(standard.Step.Early/s.Even, 2))
			panel.Series[bar].Add(standard.Step.Early / s.Even)
		}
		panels = append(panels, panel)
	}
	notes, err := a.answer(log)
	if err != nil {
		return nil, err
	}
	main.Notes = notes
	report := &suite.Report{Tables: []*suite.Table{main, all}}
	report.Files, err = plot.Files(a.ID(), a.Spec.Title, panels)
	return report, err
}

// drawn tells whether a cut has bars: not memory, which nobody would cut by for
// speed, nor the base, which is 1.
func (a *Ablation) drawn(c paperscale.CutSpec) bool { return c.Cost != "memory" && c != a.Spec.Base }

// answer says for the largest K what the best rule over FLOPs and the best of
// all gain, and what would be left to gain.
func (a *Ablation) answer(log *records.Log) (notes []string, err error) {
	base, k := slices.Index(a.cuts(), a.Spec.Base), a.Spec.K[len(a.Spec.K)-1]
	for _, n := range a.Spec.Networks {
		s, err := a.read(log, n, k)
		if err != nil {
			return nil, err
		}
		best := func(cost string) (name string, gain float64) {
			for i, how := range a.cuts() {
				g := s.Cuts[base].Step.Early/s.Cuts[i].Step.Early - 1
				if how.Cost == cost && (name == "" || g > gain) {
					name, gain = how.Partitioner, g
				}
			}
			return name, gain
		}
		text := fmt.Sprintf("%s, K = %d:", n.Name, k)
		for _, cost := range a.Spec.Costs {
			name, gain := best(cost)
			text += fmt.Sprintf(" best over %s %s (%s);", cost, suite.Signed(gain), name)
		}
		notes = append(notes, fmt.Sprintf("%s even stages %s.", text, suite.Signed(s.Cuts[base].Step.Early/s.Even-1)))
	}
	return notes, nil
}

func (a *Ablation) Planned(string) (list []suite.PlannedRun) {
	for i, n := range a.Spec.Networks {
		list = append(list, suite.PlannedRun{Path: []string{"networks", fmt.Sprint(i), "model"}, Run: suite.ModelledRun{Model: n.Model, Most: slices.Max(a.Spec.K)}})
	}
	return list
}
