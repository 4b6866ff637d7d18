package timed

import (
	"context"
	"fmt"

	"gpipebench/internal/machine"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/simulate"
)

// ModelledStep is a pipeline's step in a round: emulated, and modelled by what was calibrated in
// the same round.
type ModelledStep struct {
	simulate.Compared
	Others float64 `json:"others"` // cores that other processes took meanwhile; -1: unknown
}

// Pipeline is a network that runs in a way.
type Pipeline struct {
	simulate.Calibrating
	simulate.ProbeShape
}

// Network is one that is timed on one device, where its operations are, and in pipelines.
type Network struct{ Alone, Pipelines []Pipeline }

// BesideModel times the pipelines of networks, in their order, beside a model of this machine.
// All take turns with the calibration, so that a change of the machine's speed affects it and
// what it is compared with alike.
func BesideModel(ctx context.Context, networks []Network, round, turns int) (all []*ModelledStep, err error) {
	host, err := networks[0].Alone[0].Open(ctx, simulate.ProbeShapes)
	if err != nil {
		return nil, err
	}
	defer host.Close()
	var probes []*simulate.Probe // of each network those on one device, and then the pipelines
	for _, n := range networks {
		for _, of := range append(n.Alone[:len(n.Alone):len(n.Alone)], n.Pipelines...) {
			probes = append(probes, of.Closed(of.ProbeShape))
		}
	}
	meter := machine.StartMeter()
	if err := host.Turn(ctx, false); err != nil { // which warms up
		return nil, err
	}
	for range turns {
		if err := host.Turn(ctx, true); err != nil {
			return nil, err
		}
		for i := range probes {
			p := probes[(i+round)%len(probes)]
			if err := p.Turn(ctx); err != nil {
				return nil, err
			}
		}
	}
	others := meter.Others()
	rates, err := host.Host()
	if err != nil {
		return nil, err
	}
	left := probes
	for _, n := range networks {
		own := simulate.ShapesOf(rates, left[:len(n.Alone)]...)
		for _, p := range left[len(n.Alone):][:len(n.Pipelines)] {
			of, err := p.Compare(rates, own)
			if err != nil {
				return nil, err
			}
			all = append(all, &ModelledStep{*of, others})
		}
		left = left[len(n.Alone)+len(n.Pipelines):]
	}
	return all, nil
}

// ModelledTable is a table of steps beside a model.
type ModelledTable[V any] struct {
	Runs         []V
	Within       float64 // of the emulated step, in percent
	First, Added []Column[V]
	Panel, Group string // columns by which the figure is divided
	Title        string // of a panel, with %s for its value; "": the value
}

// seconds, rates and own are figures of a step.
func (s *ModelledStep) seconds() float64 { return s.Seconds }
func (s *ModelledStep) rates() float64   { return s.Rates }
func (s *ModelledStep) own() float64     { return s.Own }

// ShowModelled fills the main table: First, the times and their ratios, Added, and memory,
// which must be the same bytes as modelled, planned and reached.
func ShowModelled[P sized, V comparable](c *Comparison[P, V, ModelledStep], m ModelledTable[V]) {
	var rates, own Reach
	memory := map[V]string{}
	disturbed := map[int]bool{} // rounds
	for _, run := range m.Runs {
		memory[run] = "equal"
		for round, s := range c.Of[run] {
			if machine.Crowded(s.Others, 1, c.Log.Session.Machine.Cores) {
				disturbed[round] = true
			}
			if !s.SameMemory() {
				memory[run] = fmt.Sprintf("modelled %v, planned %v, reached %v", s.ModelledPeak, s.Peak, s.HighWater)
				c.Verdict = fmt.Errorf("%s: memory %s: want the same bytes", c.Name(run), memory[run])
			}
		}
		rates.Add(stats.RatioOf(c.Each(run, (*ModelledStep).rates), c.Each(run, (*ModelledStep).seconds)), m.Within)
		own.Add(stats.RatioOf(c.Each(run, (*ModelledStep).own), c.Each(run, (*ModelledStep).seconds)), m.Within)
	}
	columns := append(m.First,
		Column[V]{Heads: []string{"emulated", "95% of emulated"}, Cells: func(run V) any {
			s := c.Each(run, (*ModelledStep).seconds)
			return []lab.Value{lab.Seconds(stats.Median(s)), lab.Ratio(Repetition(s), false)[1]}
		}},
		Number("by rates", func(run V) any { return lab.Seconds(stats.Median(c.Each(run, (*ModelledStep).rates))) }),
		Number("by own operations", func(run V) any { return lab.Seconds(stats.Median(c.Each(run, (*ModelledStep).own))) }))
	for _, by := range []struct {
		name string
		of   func(*ModelledStep) float64
	}{{"rates", (*ModelledStep).rates}, {"own", (*ModelledStep).own}} {
		ratio := func(run V) stats.Ratio {
			return stats.RatioOf(c.Each(run, by.of), c.Each(run, (*ModelledStep).seconds))
		}
		columns = append(columns,
			Column[V]{Heads: []string{by.name + "/emulated", "95% of " + by.name}, Cells: func(run V) any { return lab.Ratio(ratio(run), false) }},
			Text(fmt.Sprintf("%s within %v%%", by.name, m.Within), func(run V) any {
				return NearOne(ratio(run), Repetition(c.Each(run, (*ModelledStep).seconds)), m.Within)
			}))
	}
	Fill(c.Table, m.Runs, append(append(columns, m.Added...), Text("memory", func(run V) any { return memory[run] }))...)
	c.Table.Notes = append(c.Table.Notes, fmt.Sprintf("Within %v%%: by rates %v; by own operations %v.", m.Within, rates, own))
	if len(disturbed) > 0 {
		c.Table.Notes = append(c.Table.Notes, fmt.Sprintf("In %d of %d rounds other processes took cores that were needed.", len(disturbed), c.Profile.size().Rounds))
	}
	near := m.Within / 100
	c.Panels = plot.TableBars{
		Panel: m.Panel, Group: m.Group, Y: "step, modelled over emulated",
		Bars:  []string{"rates/emulated", "own/emulated"},
		Names: map[string]string{"rates/emulated": "modelled by rates", "own/emulated": "modelled by own operations"}, Title: m.Title, Marks: true,
		Levels: []plot.Level{{Y: 1}}, Band: &plot.Band{Name: fmt.Sprintf("%.2g to %.2g", 1-near, 1+near), Lo: 1 - near, Hi: 1 + near},
	}.Panels(c.Table)
	c.Before = nil // another machine's ratios say nothing of this one's
}
