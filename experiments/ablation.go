package experiments

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/schedule"
)

// ablationSpec is ablation.yaml.
type ablationSpec struct {
	head         `yaml:",inline"`
	K            []int              `yaml:"k" want:"1..1024"`
	M            int                `yaml:"m" want:"1..65536"`
	Partitioners []string           `yaml:"partitioners" want:"partitioner"`
	Costs        []string           `yaml:"costs" want:"cost"`
	Base         cutSpec            `yaml:"base"`
	Networks     []*ablationNetwork `yaml:"networks"`

	Profiles map[string]expectedOnly `yaml:"profiles"`
}

// ablationNetwork is a network on its accelerator.
type ablationNetwork struct {
	Name        string `yaml:"name" want:"name,key"`
	Model       Model  `yaml:"model"`
	Accelerator string `yaml:"accelerator" want:"accelerator"`
	DType       string `yaml:"dtype" want:"dtype"`
	Optimizer   string `yaml:"optimizer" want:"optimizer"`
	Micro       int    `yaml:"micro"` // examples of a micro-batch
}

// ablation cuts the paper's networks by every rule and models what comes out.
type ablation struct {
	spec ablationSpec
	text string
}

func loadAblation(from ...SpecFile) (Experiment, error) {
	a := &ablation{}
	var err error
	a.text, err = loadSpec("ablation.yaml", from, &a.spec, a.check)
	return a, err
}

func (a *ablation) check() *specProblem {
	if !slices.Contains(a.cuts(), a.spec.Base) {
		return at(errors.New("want one of the partitioners over one of the costs"), "base")
	}
	return checkProfiles(a.spec.Profiles)
}

func (a *ablation) ID() string    { return a.spec.Experiment }
func (a *ablation) Title() string { return a.spec.Title }

func (a *ablation) Expected(profile string) time.Duration {
	return time.Duration(a.spec.Profiles[profile].Expected)
}

func (a *ablation) Key(profile string) Key {
	var figures string
	for _, n := range a.spec.Networks {
		figures += acceleratorText(n.Accelerator)
	}
	return key(a.ID(), profile, a.text+figures)
}

// cuts are every partitioner over every cost.
func (a *ablation) cuts() (cuts []cutSpec) {
	for _, cost := range a.spec.Costs {
		for _, rule := range a.spec.Partitioners {
			cuts = append(cuts, cutSpec{rule, cost})
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
	ByFLOPs float64   `json:"efficiency_flops"` // mean stage over largest
	ByTime  float64   `json:"efficiency_time"`
	Step    scaleStep `json:"step"`
}

func ablationName(n *ablationNetwork, k int) string { return fmt.Sprintf("%s/K=%d", n.Name, k) }

func (a *ablation) Measure(ctx context.Context, log *Log, p Progress) error {
	p.Begin(a.ID(), len(a.spec.Networks)*len(a.spec.K))
	for _, n := range a.spec.Networks {
		m, err := newModeller(&scaleNetwork{Model: n.Model, Accelerator: n.Accelerator, DType: n.DType, Optimizer: n.Optimizer}, false)
		if err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
		for _, k := range a.spec.K {
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

func (a *ablation) sample(ctx context.Context, m *modeller, n *ablationNetwork, k int) (*ablationSample, error) {
	layers, err := m.layers(ctx, n.Micro)
	if err != nil {
		return nil, err
	}
	var f, r, b float64
	for _, l := range layers {
		f, r, b = f+l.Forward/float64(k), r+l.Recompute/float64(k), b+l.Backward/float64(k)
	}
	s := &ablationSample{}
	if s.Even, err = schedule.StepTime(schedule.GPipe, schedule.Always, false, k, a.spec.M, f, r, b); err != nil {
		return nil, err
	}
	for _, how := range a.cuts() {
		sizes, err := m.cut(ctx, how, k, n.Micro)
		if err != nil {
			return nil, err
		}
		step, err := m.step(ctx, sizes, n.Micro, a.spec.M)
		if err != nil {
			return nil, err
		}
		s.Cuts = append(s.Cuts, ablationCut{partition.Efficiency(m.flops, sizes), partition.Efficiency(seconds(layers), sizes), *step})
	}
	return s, nil
}

func (a *ablation) Report(log, _ *Log) (*Report, error) {
	base := slices.Index(a.cuts(), a.spec.Base)
	main := &Table{
		ID: a.ID(), Title: "Modelled throughput of every partitioner, relative to the paper's rule",
		Caption: []string{
			fmt.Sprintf("Section 2.2 of the paper cuts by estimated costs and says that better partitioning algorithms can potentially improve. The paper's own networks at M = %d, everything re-materialised, early, whole layers, a mini-batch of the same size for every cut. 1: %v. Even: stages of one time, no link, no update: about what is left to gain.", a.spec.M, a.spec.Base),
			"Cost: flops, derived from shapes; time, modelled for each layer on this accelerator; memory, parameters with their state and what is saved for the backward. Efficiency: the mean stage over the largest, of the paper's rule.",
		},
		Columns: []Column{{"network", true}, {"on", true}, {"K", false}, {"efficiency, flops", false}, {"efficiency, time", false}},
	}
	for _, c := range a.cuts() {
		main.Columns = append(main.Columns, Column{Name: c.String()})
	}
	main.Columns = append(main.Columns, Column{Name: "even"})
	all := &Table{
		ID: a.ID() + "-partitions", Title: "Every partition, its efficiency and its modelled step",
		Caption: []string{"Efficiency: the mean stage over the largest, by FLOPs and by modelled time. Imbalance: of the step. An asterisk: the fullest device has not enough memory."},
		Columns: []Column{{"network", true}, {"K", false}, {"cost", true}, {"partitioner", true}, {"efficiency, flops", false}, {"efficiency, time", false},
			{"step", false}, {"examples/s", false}, {"relative", false}, {"imbalance", false}, {"communication", false}, {"fullest device", false}, {"partition", true}},
	}
	var panels []axes
	for _, n := range a.spec.Networks {
		panel := &barPanel{title: n.Name, y: "throughput, " + a.spec.Base.String() + " = 1"}
		for _, c := range a.cuts() {
			if a.drawn(c) {
				panel.series = append(panel.series, barSeries{name: c.String()})
			}
		}
		panel.series = append(panel.series, barSeries{name: "even stages"})
		for _, k := range a.spec.K {
			var s ablationSample
			if err := log.Get(ablationName(n, k), &s); err != nil {
				return nil, err
			}
			standard := s.Cuts[base]
			row := []string{n.Name, n.Accelerator, fmt.Sprint(k), fmt.Sprintf("%.3f", standard.ByFLOPs), fmt.Sprintf("%.3f", standard.ByTime)}
			bar := 0
			panel.names = append(panel.names, fmt.Sprintf("K = %d", k))
			for i, how := range a.cuts() {
				c := s.Cuts[i]
				relative := standard.Step.Early / c.Step.Early
				row = append(row, fmt.Sprintf("%.2f", relative))
				if a.drawn(how) {
					panel.series[bar].add(relative)
					bar++
				}
				peak := FormatBytes(c.Step.Peak)
				if !c.Step.Fits {
					peak += " *"
				}
				all.Add(n.Name, fmt.Sprint(k), how.Cost, how.Partitioner, fmt.Sprintf("%.3f", c.ByFLOPs), fmt.Sprintf("%.3f", c.ByTime),
					FormatSeconds(c.Step.Early), fmt.Sprintf("%.1f", float64(n.Micro*a.spec.M)/c.Step.Early), fmt.Sprintf("%.2f", relative),
					FormatShare(c.Step.Breakdown.Imbalance, c.Step.Early), FormatShare(c.Step.Breakdown.Communication, c.Step.Early), peak, joinInts(c.Step.Partition))
			}
			main.Add(append(row, fmt.Sprintf("%.2f", standard.Step.Early/s.Even))...)
			panel.series[bar].add(standard.Step.Early / s.Even)
		}
		panels = append(panels, panel)
	}
	notes, err := a.answer(log)
	if err != nil {
		return nil, err
	}
	main.Notes = notes
	report := &Report{Tables: []*Table{main, all}}
	report.Files, err = plotFiles(a.ID(), a.spec.Title, panels)
	return report, err
}

// drawn tells whether a cut has bars: not memory, which nobody would cut by for
// speed, nor the base, which is 1.
func (a *ablation) drawn(c cutSpec) bool { return c.Cost != "memory" && c != a.spec.Base }

// answer says for the largest K what the best rule over FLOPs and the best of
// all gain, and what would be left to gain.
func (a *ablation) answer(log *Log) (notes []string, err error) {
	base, k := slices.Index(a.cuts(), a.spec.Base), a.spec.K[len(a.spec.K)-1]
	for _, n := range a.spec.Networks {
		var s ablationSample
		if err := log.Get(ablationName(n, k), &s); err != nil {
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
		for _, cost := range a.spec.Costs {
			name, gain := best(cost)
			text += fmt.Sprintf(" best over %s %s (%s);", cost, signed(gain), name)
		}
		notes = append(notes, fmt.Sprintf("%s even stages %s.", text, signed(s.Cuts[base].Step.Early/s.Even-1)))
	}
	return notes, nil
}
