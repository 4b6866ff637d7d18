package gpipe

import (
	"fmt"
	"slices"
	"strings"

	"gpipebench/gpipe"
	"gpipebench/gpipe/clock"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
	"gpipebench/train"
)

// table3Spec is the spec of table3.
//
//lint:ignore U1000 it is the type argument of an embedded field, which staticcheck does not see
type table3Spec struct {
	timed.Spec[table3Profile] `yaml:",inline"`
	Torchgpipe                string `yaml:"torchgpipe"`
	cells.Scale               `yaml:",inline"`
	cells.CutSpec             `yaml:",inline"` // of the measured part
}

type table3Profile struct {
	timed.Profile `yaml:",inline"`
	Models        []train.Model `yaml:"models"` // one for each network
	Batch         int           `yaml:"batch"`
}

// table3 times pipelines on emulated devices and replays their steps over links
// as slow, beside a core of this machine, as PCI-E is beside a P100; and models
// the paper's own networks on P100s.
type table3 struct {
	timed.Timed[table3Spec, table3Profile]
	cut train.Setup // of the measured part, but for K and M
}

func newTable3() (lab.Experiment, error) {
	t := &table3{}
	t.Check, t.Runs, t.Show, t.Reduce, t.CoreRate = t.check, t.runs, t.show, t.reduce, true
	t.Beside, t.Also = t.Spec.Scale.Jobs, t.Spec.Scale.Planned
	return t, nil
}

func (t *table3) check() *lab.Problem {
	if p := t.Spec.Scale.Check(); p != nil {
		return p
	}
	t.cut = t.Spec.CutSpec.Setup(train.Setup{Device: gpipe.Emulated, Threads: 1})
	return lab.CheckEach(t.Spec.Profiles, "models", func(p table3Profile) int { return len(p.Models) }, len(t.Spec.Networks), "networks")
}

func table3Run(n *cells.Network, c lab.Cell) string {
	return fmt.Sprintf("model=%s/K=%d/M=%d", n.ID, c.K, c.M)
}

func (t *table3) setup(c lab.Cell) train.Setup {
	s := t.cut
	s.Partitions, s.MicroBatches = c.K, c.M
	return s
}

// runs are all cells of one network, and then of the next.
func (t *table3) runs(p table3Profile) (runs []timed.Run) {
	for i, n := range t.Spec.Networks {
		for _, c := range t.Spec.Cells() {
			runs = append(runs, timed.Run{Name: table3Run(n, c), Steps: 1, Training: train.Training{Model: p.Models[i], Batch: p.Batch, Setup: t.setup(c)}})
		}
	}
	return runs
}

const fastLink, toScale, atLeast = "fast link", "PCI-E, to scale", "PCI-E, P100 at 30%"

// leastShare of the peak is an assumption, below the half or so that ResNet-50's published throughput
// on a P100 comes to.
const leastShare = 0.3

// links are the measured part's links: names, and what they are. What is compared with
// the paper is measured to scale.
var links = []struct {
	name string
	of   func(timed.Links) clock.Link
}{
	{fastLink, func(timed.Links) clock.Link { return clock.Link{} }},
	{toScale, timed.Links.Scaled},
	{"PCI-E, bytes per FLOP", timed.Links.Strict},
	{atLeast, func(l timed.Links) clock.Link { return l.Slowed(leastShare) }},
}

// networks are the runs of each network, and the links that these are replayed over.
func (t *table3) networks(r *timed.Rounds, log *records.Log) (runs [][]timed.Run, ratios []timed.Links, err error) {
	rate, err := r.MedianCoreRate(log)
	if err != nil {
		return nil, nil, err
	}
	cells := len(t.Spec.Cells())
	for i, n := range t.Spec.Networks {
		of := r.Runs[i*cells : (i+1)*cells]
		ratio, err := timed.LinksOf(rate, n.Accelerator, n.Model, of[0].Training.Model)
		if err != nil {
			return nil, nil, err
		}
		runs, ratios = append(runs, of), append(ratios, ratio)
	}
	return runs, ratios, nil
}

// reduce reduces the runs as if over a link to scale.
func (t *table3) reduce(r *timed.Rounds, log *records.Log, _ table3Profile) (map[string]*timed.Measured, error) {
	runs, ratios, err := t.networks(r, log)
	if err != nil {
		return nil, err
	}
	for i, of := range runs {
		for j := range of {
			of[j].Over = &timed.Crossing{Link: ratios[i].Scaled(), Out: ratios[i].Out}
		}
	}
	return r.All(log)
}

// linkSpeedups are a run's over a base, by round.
func linkSpeedups(runs map[string]*timed.Measured, base, run string) (all []float64) {
	for i, seconds := range runs[run].Rounds {
		all = append(all, runs[base].Rounds[i]/seconds)
	}
	return all
}

func (t *table3) show(r *timed.Reporting[table3Profile]) error {
	networks, ratiosOf, err := t.networks(r.Rounds, r.Log)
	if err != nil {
		return err
	}
	runs := map[string]map[string]*timed.Measured{toScale: r.Runs} // by link
	for _, l := range links {
		if l.name == toScale {
			continue
		}
		runs[l.name] = map[string]*timed.Measured{}
		for i, of := range networks {
			for _, run := range of {
				if runs[l.name][run.Name], err = r.Runs[run.Name].Over(l.of(ratiosOf[i])); err != nil {
					return err
				}
			}
		}
	}
	m, err := t.Spec.Scale.Read(r.Log)
	if err != nil {
		return err
	}
	base, table := t.Spec.Base, r.Table
	several := len(t.Spec.M) > 1
	table.Texts("network")
	table.Numbers("K")
	if several {
		table.Numbers("M")
	}
	table.Numbers("paper", "theory, even", "theory, cut", "modelled", "error", "at peak", "modelled, fast link")
	var bars []string
	for _, l := range links {
		if l.name != atLeast { // an end of a span, which is not drawn
			bars = append(bars, "measured, "+l.name)
		}
		table.Numbers("measured, "+l.name, "95%, "+strings.TrimPrefix(l.name, "PCI-E, "))
	}
	table.Numbers("measured/paper, to scale", "PCI-E / fast link", "95%, PCI-E / fast link")
	r.ReferenceColumns(", to scale")
	for i, n := range t.Spec.Networks {
		model := r.Profile.Models[i]
		ratios := ratiosOf[i]
		table.Caption = append(table.Caption, fmt.Sprintf("%s is measured as %v. A core here reaches %.1f GFLOP/s, the P100's peak is %.1f TFLOP/s and its PCI-E %.0f GB/s a direction: the link has %.0f MB/s, and to scale, with %.1f times the traffic for each operation, %.0f MB/s.",
			n.Name, model, ratios.Rate/1e9, ratios.Peak/1e12, ratios.Of.Bandwidth/1e9, ratios.Strict().Bandwidth/1e6, ratios.Traffic, ratios.Scaled().Bandwidth/1e6))
		costs, err := train.FlopsOf(model)
		if err != nil {
			return err
		}
		standard := t.Spec.ConventionsOf(n)[0]
		atPeak, peak := m.Peak(n)
		for _, c := range t.Spec.Cells() {
			paper, got, off := n.Paper.Of(c).Value, m.Relative(n, standard, c), lab.Absent
			if c != base {
				off = paper.Off(got.X)
			}
			theory, err := timed.Theory(t.setup(base), t.setup(c), costs)
			if err != nil {
				return err
			}
			row := []any{n.Name, c.K}
			if several {
				row = append(row, c.M)
			}
			row = append(row, paper, theory, got.Value(), off, atPeak.Relative(peak, standard, c).Value(), m.Relative(n, standard.Free(), c).Value())
			one, run := table3Run(n, base), table3Run(n, c)
			for _, l := range links {
				row = append(row, timed.Relative(runs[l.name], one, run))
			}
			slow, fast := linkSpeedups(runs[toScale], one, run), linkSpeedups(runs[fastLink], one, run)
			table.Add(row, r.Measured(one, run, paper)[2], lab.Ratio(stats.RatioOf(slow, fast), c == base), r.Referred(one, run))
		}
		table.Notes = append(table.Notes, n.Name+", modelled. "+m.ReachNote(n))
	}
	table.Notes = append(table.Notes, lab.StarNote(table)...)
	drawn := *table // the base's M
	drawn.Rows = slices.DeleteFunc(slices.Clone(table.Rows), func(row []lab.Value) bool {
		return several && row[table.Column("M")].Text != fmt.Sprint(base.M)
	})
	r.Panels = plot.TableBars{
		Panel: "network", Group: "K", Y: fmt.Sprintf("throughput relative to K = %d", base.K), Across: "paper", Bars: append(bars, "modelled"),
		Names: map[string]string{"measured, PCI-E, bytes per FLOP": "measured, PCI-E with the paper's ratio of bytes to FLOPs"},
	}.Panels(&drawn)
	cells, conventions := m.Tables(t.ID()+"-modelled", "Table 3", "Source of the paper's values: "+t.Spec.Source+".")
	r.Tables = []*lab.Table{cells, conventions}
	return nil
}
