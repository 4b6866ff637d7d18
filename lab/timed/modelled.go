package timed

import (
	"context"
	"fmt"
	"maps"

	"gpipebench/internal/machine"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/shown"
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

// seconds, rates and own are figures of a step.
func (s *ModelledStep) seconds() float64 { return s.Seconds }
func (s *ModelledStep) rates() float64   { return s.Rates }
func (s *ModelledStep) own() float64     { return s.Own }

// ModelledRows are rows of steps beside a model, with what has says of a run: times, and whether they are near
// each other, within a percentage of the emulated step. Memory must be the same bytes as modelled, planned
// and reached.
func ModelledRows[P sized, V comparable](c *Comparison[P, V, ModelledStep], runs []V, within float64, has func(V) shown.Values) shown.Rows {
	var byRates, byOwn Reach
	var rows []shown.Values
	disturbed := map[int]bool{} // rounds
	for _, run := range runs {
		memory := "equal"
		for round, s := range c.Of[run] {
			if machine.Crowded(s.Others, 1, c.Log.Session.Machine.Cores) {
				disturbed[round] = true
			}
			if !s.SameMemory() {
				memory = fmt.Sprintf("modelled %v, planned %v, reached %v", s.ModelledPeak, s.Peak, s.HighWater)
				c.Verdict = fmt.Errorf("%s: memory %s: want the same bytes", c.Name(run), memory)
			}
		}
		emulated, rates, own := c.Each(run, (*ModelledStep).seconds), c.Each(run, (*ModelledStep).rates), c.Each(run, (*ModelledStep).own)
		repetition, overRates, overOwn := Repetition(emulated), stats.RatioOf(rates, emulated), stats.RatioOf(own, emulated)
		byRates.Add(overRates, within)
		byOwn.Add(overOwn, within)
		row := has(run)
		maps.Copy(row, shown.Values{
			"emulated": emulated, "repetition": lab.Ratio(repetition, false)[1], "rates": rates, "own": own, "memory": memory,
			"rates_near": NearOne(overRates, repetition, within), "own_near": NearOne(overOwn, repetition, within),
		})
		rows = append(rows, row)
	}
	c.Table.Notes = append(c.Table.Notes, fmt.Sprintf("Within %v%%: by rates %v; by own operations %v.", within, byRates, byOwn))
	if len(disturbed) > 0 {
		c.Table.Notes = append(c.Table.Notes, fmt.Sprintf("In %d of %d rounds other processes used cores that were needed.", len(disturbed), c.Profile.size().Rounds))
	}
	c.Before = nil // another machine's ratios say nothing of this one's
	return shown.Rows{"": rows}
}
