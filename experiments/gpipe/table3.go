package gpipe

import (
	"fmt"

	"gpipebench/gpipe"
	"gpipebench/gpipe/clock"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/records"
	"gpipebench/lab/shown"
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

// leastShare of the peak is an assumption, below the half or so that ResNet-50's published throughput
// on a P100 comes to.
const leastShare = 0.3

const toScale = "scale"

// links are the measured part's links: what rows call them, and what they are. What is compared with
// the paper is measured to scale.
var links = map[string]func(timed.Links) clock.Link{
	"fast":  func(timed.Links) clock.Link { return clock.Link{} },
	toScale: timed.Links.Scaled,
	"bytes": timed.Links.Strict,
	"least": func(l timed.Links) clock.Link { return l.Slowed(leastShare) },
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

func (t *table3) show(r *timed.Reporting[table3Profile]) (shown.Rows, error) {
	networks, ratiosOf, err := t.networks(r.Rounds, r.Log)
	if err != nil {
		return nil, err
	}
	m, err := t.Spec.Scale.Read(r.Log)
	if err != nil {
		return nil, err
	}
	base := t.Spec.Base
	var rows []shown.Values
	for i, n := range t.Spec.Networks {
		model, ratios := r.Profile.Models[i], ratiosOf[i]
		r.Table.Caption = append(r.Table.Caption, fmt.Sprintf("%s is measured as %v. A core here reaches %.1f GFLOP/s, the P100's peak is %.1f TFLOP/s and its PCI-E %.0f GB/s per direction: so the link has %.0f MB/s and, to scale, with %.1f times the traffic per operation, %.0f MB/s.",
			n.Name, model, ratios.Rate/1e9, ratios.Peak/1e12, ratios.Of.Bandwidth/1e9, ratios.Strict().Bandwidth/1e6, ratios.Traffic, ratios.Scaled().Bandwidth/1e6))
		r.Table.Notes = append(r.Table.Notes, n.Name+", modelled. "+m.ReachNote(n))
		over := map[string]map[string]*timed.Measured{} // by link
		for name, link := range links {
			over[name] = r.Runs
			if name == toScale {
				continue
			}
			over[name] = map[string]*timed.Measured{}
			for _, run := range networks[i] {
				if over[name][run.Name], err = r.Runs[run.Name].Over(link(ratios)); err != nil {
					return nil, err
				}
			}
		}
		costs, err := train.FlopsOf(model)
		if err != nil {
			return nil, err
		}
		standard := t.Spec.ConventionsOf(n)[0]
		atPeak, peak := m.Peak(n)
		for _, c := range t.Spec.Cells() {
			theory, err := timed.Theory(t.setup(base), t.setup(c), costs)
			if err != nil {
				return nil, err
			}
			one, run := table3Run(n, base), table3Run(n, c)
			row := shown.Values{
				"network": n.Name, "K": c.K, "M": c.M, "base": c == base, "drawn": c.M == base.M, "paper": n.Paper.Of(c).Value, "theory_even": theory[0], "theory_cut": theory[1],
				"modelled": m.Relative(n, standard, c).Value(), "peak": atPeak.Relative(peak, standard, c).Value(), "free": m.Relative(n, standard.Free(), c).Value(),
				"before": timed.Over(r.Refs, one, run),
			}
			for name := range links {
				row[name] = timed.Over(over[name], one, run)
			}
			rows = append(rows, row)
		}
	}
	cells, conventions := m.Tables(t.ID()+"-modelled", "Table 3", "Source of the paper's values: "+t.Spec.Source+".")
	r.Tables = []*lab.Table{cells, conventions}
	return shown.Rows{"": rows}, nil
}
