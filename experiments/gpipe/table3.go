package gpipe

import (
	"fmt"
	"slices"
	"strings"

	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
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
	t.Runs, t.Show, t.Reduce, t.CoreRate = t.runs, t.show, t.reduce, true
	t.Beside, t.Also = t.Spec.Scale.Jobs, t.Spec.Scale.Planned
	return t, nil
}

func (t *table3) Resolve() *lab.Problem {
	if p := t.Spec.Scale.Check(); p != nil {
		return p
	}
	t.cut = t.Spec.CutSpec.Setup(train.Setup{Device: gpipe.Emulated, Threads: 1})
	if p := checkModels(len(t.Spec.Networks), func(profile string) int { return len(t.Spec.Profiles[profile].Models) }); p != nil {
		return p
	}
	return t.CheckRuns()
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

// linkRatios are the links that a network's steps are replayed over.
type linkRatios struct {
	rate    float64 // of a core here, the median over rounds
	peak    float64 // of the accelerator
	traffic float64 // bytes handed on for each FLOP, over that of the paper's network
	link    clock.Link
	out     []int64 // bytes that each layer hands on for an example
}

// linksOf are those for a network that is measured as model, on cores of a rate.
func linksOf(rate float64, n *cells.Network, model train.Model) (r linkRatios, err error) {
	a, err := accelerator.Named(n.Accelerator)
	if err != nil {
		return r, err
	}
	out, flops, err := timed.HandedOn(model)
	if err != nil {
		return r, err
	}
	papers, papersFLOPs, err := timed.HandedOn(n.Model)
	if err != nil {
		return r, err
	}
	return linkRatios{rate, a.F32, timed.Traffic(out, flops) / timed.Traffic(papers, papersFLOPs), a.Link, out}, nil
}

// strict has the accelerator's bytes for each floating-point operation. The
// latency, an assumption of microseconds beside tasks of many milliseconds at
// the paper's scale, is left out.
func (r linkRatios) strict() clock.Link {
	return clock.Link{Bandwidth: r.link.Bandwidth * r.rate / r.peak, ThroughHost: r.link.ThroughHost}
}

// scaled is as much faster as the smaller network has more traffic for each
// operation than the paper's, so that transfers take the share of a step that
// they would take at the paper's scale.
func (r linkRatios) scaled() clock.Link {
	l := r.strict()
	l.Bandwidth *= r.traffic
	return l
}

// slowed is scaled beside an accelerator that reaches a share of its peak: its links are as much
// faster beside its work.
func (r linkRatios) slowed(share float64) clock.Link {
	l := r.scaled()
	l.Bandwidth /= share
	return l
}

const fastLink, toScale, atLeast = "fast link", "PCI-E, to scale", "PCI-E, P100 at 30%"

// leastShare of the peak is an assumption, below the half or so that ResNet-50's published throughput
// on a P100 comes to.
const leastShare = 0.3

// links are the measured part's links: names, and what they are. What is compared with
// the paper is measured to scale.
var links = []struct {
	name string
	of   func(linkRatios) clock.Link
}{
	{fastLink, func(linkRatios) clock.Link { return clock.Link{} }},
	{toScale, linkRatios.scaled},
	{"PCI-E, bytes per FLOP", linkRatios.strict},
	{atLeast, func(r linkRatios) clock.Link { return r.slowed(leastShare) }},
}

// networks are the runs of each network, and the links that these are replayed over.
func (t *table3) networks(r *timed.Rounds, log *records.Log) (runs [][]timed.Run, ratios []linkRatios, err error) {
	rate, err := r.MedianCoreRate(log)
	if err != nil {
		return nil, nil, err
	}
	cells := len(t.Spec.Cells())
	for i, n := range t.Spec.Networks {
		of := r.Runs[i*cells : (i+1)*cells]
		ratio, err := linksOf(rate, n, of[0].Training.Model)
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
			of[j].Over = &timed.Crossing{Link: ratios[i].scaled(), Out: ratios[i].out}
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
	baseName := fmt.Sprintf("K = %d", base.K)
	if several {
		baseName += fmt.Sprintf(", M = %d", base.M)
	}
	table.Caption = []string{
		fmt.Sprintf("M = %s, everything re-materialised, early; whole layers cut by %v over %v. Mini-batch %d throughout the measured part, %s, one thread a device. Each column is relative to its own %s.", lab.JoinWith(t.Spec.M, ", "), t.cut.Partitioner, t.cut.Cost, r.Profile.Batch, t.Spec.Optimizer, baseName),
		timed.EmulatedCaption(r.Profile.Rounds, "cell"),
		"Links: the same timed tasks, replayed over four links. Through PCI-E a transfer goes by way of the host's memory: two legs, and each occupies its device. Bytes per FLOP: the link is as slow, beside a core of this machine, as PCI-E is beside a P100. To scale: the smaller network transfers more bytes for each operation than the paper's network, and the link is faster by the same factor, so transfers have the same weight as in the paper's network. P100 at 30%: to scale, beside a P100 that reaches that share of its peak, where its links are as much faster beside its work. Fast link: transfers take no time. PCI-E / fast link: the speed-up over PCI-E, to scale, relative to that over the fast link, of the same tasks. The measured part leaves out latencies: at the paper's scale they are microseconds and tasks are long.",
		"Modelled: " + t.Spec.StandardCaption() + "; fast link: the same with links that take no time.",
		"Source of the paper's values: " + t.Spec.Source + ". torchgpipe: " + t.Spec.Torchgpipe + ".",
	}
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
			n.Name, model, ratios.rate/1e9, ratios.peak/1e12, ratios.link.Bandwidth/1e9, ratios.strict().Bandwidth/1e6, ratios.traffic, ratios.scaled().Bandwidth/1e6))
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
