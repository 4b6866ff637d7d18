// Package ablation compares partitioners and costs on the paper's networks.
package ablation

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"

	"gpipebench/gpipe"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/train"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "ablation", Folder: folder, New: lab.New[ablation]}

// spec is spec.yaml.
type spec struct {
	lab.Head     `yaml:",inline"`
	K            []int         `yaml:"k" want:"1..1024"`
	M            int           `yaml:"m" want:"1..65536"`
	Partitioners []string      `yaml:"partitioners" want:"partitioner"`
	Costs        []string      `yaml:"costs" want:"cost"`
	Base         cells.CutSpec `yaml:"base"`
	Networks     []*network    `yaml:"networks"`

	Profiles map[string]lab.ExpectedOnly `yaml:"profiles"`
}

// network is a network on its accelerator.
type network struct {
	Name        string      `yaml:"name" want:"name,key"`
	Model       train.Model `yaml:"model"`
	Accelerator string      `yaml:"accelerator" want:"accelerator"`
	DType       string      `yaml:"dtype" want:"dtype"`
	Optimizer   string      `yaml:"optimizer" want:"optimizer"`
	Micro       int         `yaml:"micro"` // examples of a micro-batch
}

// ablation cuts the paper's networks by every rule and models what comes out.
type ablation struct {
	lab.Base[spec]
}

func (a *ablation) Resolve() *lab.Problem {
	if a.base() < 0 {
		return lab.At(errors.New("want one of the partitioners over one of the costs"), "base")
	}
	return nil
}

func (a *ablation) base() int { return slices.Index(a.cuts(), a.Spec.Base) }

// cuts are every partitioner over every cost.
func (a *ablation) cuts() (cuts []cells.CutSpec) {
	for _, cost := range a.Spec.Costs {
		for _, rule := range a.Spec.Partitioners {
			cuts = append(cuts, cells.CutSpec{Partitioner: rule, Cost: cost})
		}
	}
	return cuts
}

// sample is what one network on K devices comes to. Nothing in it
// depends on the machine.
type sample struct {
	Cuts []outcome `json:"cuts"` // as the spec's
	// Even is the step on stages of the same time, which no cut at layers may
	// give: the closed form, without links and update.
	Even float64 `json:"even_seconds"`
}

// outcome is what a cut comes to.
type outcome struct {
	ByFLOPs float64    `json:"efficiency_flops"` // mean stage over largest
	ByTime  float64    `json:"efficiency_time"`
	Step    cells.Step `json:"step"`
}

func (n *network) sample(k int) string {
	return lab.AtRates(fmt.Sprintf("%s/K=%d", n.Name, k), n.Accelerator, nil)
}

// read reads what a network on K devices comes to.
func (a *ablation) read(log *records.Log, n *network, k int) (*sample, error) {
	s := &sample{}
	err := log.Get(n.sample(k), s)
	if want := len(a.cuts()); err == nil && len(s.Cuts) != want {
		err = log.Strange(n.sample(k), fmt.Errorf("%d cuts, want %d", len(s.Cuts), want))
	}
	return s, err
}

func (a *ablation) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	p.Begin(a.ID(), len(a.Spec.Networks)*len(a.Spec.K))
	for _, n := range a.Spec.Networks {
		m, err := cells.NewModeller(&cells.Network{Model: n.Model, Accelerator: n.Accelerator, DType: n.DType, Optimizer: n.Optimizer}, false)
		if err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
		for _, k := range a.Spec.K {
			if log.Has(n.sample(k)) {
				continue
			}
			s, err := a.measure(ctx, m, n, k)
			if err != nil {
				return fmt.Errorf("%s: %w", n.sample(k), err)
			}
			if err := log.Add(n.sample(k), 0, s); err != nil {
				return err
			}
			p.Advance(n.sample(k))
		}
	}
	p.End()
	return nil
}

func (a *ablation) measure(ctx context.Context, m *cells.Modeller, n *network, k int) (*sample, error) {
	layers, err := m.Layers(ctx, n.Micro)
	if err != nil {
		return nil, err
	}
	var f, r, b float64
	for _, l := range layers {
		f, r, b = f+l.Forward/float64(k), r+l.Recompute/float64(k), b+l.Backward/float64(k)
	}
	s := &sample{}
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
		s.Cuts = append(s.Cuts, outcome{partition.Efficiency(m.Flops, sizes), partition.Efficiency(gpipe.LayerSeconds(layers), sizes), *step})
	}
	return s, nil
}

func (a *ablation) Report(log, _ *records.Log) (*lab.Report, error) {
	main := &lab.Table{
		ID: a.ID(), Title: "Modelled throughput of every partitioner, relative to the paper's rule",
		Caption: []string{
			fmt.Sprintf("Section 2.2 of the paper cuts by estimated costs and says that better partitioning algorithms can potentially improve on that. The paper's own networks at M = %d; everything is recomputed, early; cuts are at whole layers; the mini-batch has the same size for every cut; accelerators run at measured rates. Throughput 1 is %v. Even: stages of equal time, without links and without the update; this is about as much as better cuts could gain.", a.Spec.M, a.Spec.Base),
			"Cost: flops are derived from shapes; time is modelled for each layer on the row's accelerator; memory is the parameters with their state and the values saved for the backward. Efficiency: the mean stage over the largest stage, under the paper's rule.",
		},
	}
	main.Texts("network", "on")
	main.Numbers("K", "efficiency, flops", "efficiency, time")
	for _, c := range a.cuts() {
		main.Numbers(c.String())
	}
	main.Numbers("even")
	all := &lab.Table{
		ID: a.ID() + "-partitions", Title: "Every partition, its efficiency and its modelled step",
		Caption: []string{"Efficiency: the mean stage over the largest stage, by FLOPs and by modelled time. Imbalance and communication: their shares of the step. Asterisk: the fullest device does not have enough memory."},
	}
	all.Texts("network")
	all.Numbers("K")
	all.Texts("cost", "partitioner")
	all.Numbers("efficiency, flops", "efficiency, time", "step", "examples/s", "relative", "imbalance", "communication", "fullest device")
	all.Texts("partition")
	var panels []plot.Axes
	for _, n := range a.Spec.Networks {
		panel := &plot.BarPanel{Title: n.Name, Y: "throughput, " + a.Spec.Base.String() + " = 1", Levels: []plot.Level{{Y: 1}}}
		for _, c := range a.cuts() {
			if a.drawn(c) {
				panel.Series = append(panel.Series, plot.BarSeries{Name: c.String(), As: plot.Mark})
			}
		}
		panel.Series = append(panel.Series, plot.BarSeries{Name: "even stages", As: plot.Across})
		for i, k := range a.Spec.K {
			s, err := a.read(log, n, k)
			if err != nil {
				return nil, err
			}
			if i == len(a.Spec.K)-1 {
				main.Notes = append(main.Notes, a.answer(n, k, s))
			}
			standard := s.Cuts[a.base()]
			row := []any{n.Name, n.Accelerator, k, lab.Fixed(standard.ByFLOPs, 3), lab.Fixed(standard.ByTime, 3)}
			bar := 0
			panel.Names = append(panel.Names, fmt.Sprintf("K = %d", k))
			for i, how := range a.cuts() {
				c := s.Cuts[i]
				relative := standard.Step.Early / c.Step.Early
				row = append(row, lab.Fixed(relative, 2))
				if a.drawn(how) {
					panel.Series[bar].Add(relative)
					bar++
				}
				all.Add(n.Name, k, how.Cost, how.Partitioner, lab.Fixed(c.ByFLOPs, 3), lab.Fixed(c.ByTime, 3),
					lab.Seconds(c.Step.Early), lab.Fixed(float64(n.Micro*a.Spec.M)/c.Step.Early, 1), lab.Fixed(relative, 2),
					lab.Share(c.Step.Breakdown.Imbalance, c.Step.Early), lab.Share(c.Step.Breakdown.Communication, c.Step.Early), c.Step.Fullest(), c.Step.Partition)
			}
			main.Add(row, lab.Fixed(standard.Step.Early/s.Even, 2))
			panel.Series[bar].Add(standard.Step.Early / s.Even)
		}
		panels = append(panels, panel)
	}
	files, err := plot.Files(a.ID(), a.Spec.Title, plot.OneScale(panels))
	return &lab.Report{Tables: []*lab.Table{main, all}, Files: files}, err
}

// drawn reports whether a cut is drawn: not by memory, which is no cost for speed, nor
// the base, which is 1.
func (a *ablation) drawn(c cells.CutSpec) bool { return c.Cost != "memory" && c != a.Spec.Base }

// answer says what the best rule over each cost gains on K devices, and what would be
// left to gain.
func (a *ablation) answer(n *network, k int, s *sample) string {
	base := s.Cuts[a.base()].Step.Early
	text := fmt.Sprintf("%s, K = %d:", n.Name, k)
	for _, cost := range a.Spec.Costs {
		name, gain := "", 0.0
		for i, how := range a.cuts() {
			if g := base/s.Cuts[i].Step.Early - 1; how.Cost == cost && (name == "" || g > gain) {
				name, gain = how.Partitioner, g
			}
		}
		text += fmt.Sprintf(" best over %s %s (%s);", cost, lab.Signed(gain), name)
	}
	return fmt.Sprintf("%s even stages %s.", text, lab.Signed(base/s.Even-1))
}

func (a *ablation) Planned(string) (list []lab.PlannedRun) {
	for i, n := range a.Spec.Networks {
		list = append(list, lab.PlannedRun{Path: []string{"networks", fmt.Sprint(i), "model"}, Run: lab.ModelledRun{Model: n.Model, Most: slices.Max(a.Spec.K)}})
	}
	return list
}
