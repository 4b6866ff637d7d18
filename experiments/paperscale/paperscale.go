// Package paperscale models the paper's own networks on its accelerators, under the
// conventions that it does not state.
package paperscale

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gpipebench/experiments/progress"
	"gpipebench/experiments/records"
	"gpipebench/experiments/simulation"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/workload"
	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/timeline"
)

// Cells of a table at the paper's own scale, on modelled accelerators, under
// conventions that the paper leaves open.

// ConventionsSpec lists, for each thing that is open, what it may be. The first
// of each is the default.
type ConventionsSpec struct {
	Cuts      []CutSpec `yaml:"cuts"`
	Splits    []string  `yaml:"splits" want:"split"`        // coarse, fine
	Recompute []string  `yaml:"recompute" want:"recompute"` // early, late
	Batches   []string  `yaml:"batches" want:"batches"`     // filled: the largest mini-batch that fits; fixed: the network's own; shrunk: that, or the largest that fits
	Most      int       `yaml:"most"`                       // examples of a mini-batch that fills memory
}

// CutSpec is a rule by which layers are cut into stages.
type CutSpec struct {
	Partitioner string `yaml:"partitioner" want:"partitioner"`
	Cost        string `yaml:"cost" want:"cost"` // time is the modelled one
}

func (c CutSpec) String() string { return c.Partitioner + " over " + c.Cost }

// Network is a network as the paper has it, and what the paper reports.
type Network struct {
	ID          string           `yaml:"id" want:"id,key"`
	Name        string           `yaml:"name" want:"name"`
	Model       workload.Model   `yaml:"model"`
	Accelerator string           `yaml:"accelerator" want:"accelerator"`
	DType       string           `yaml:"dtype" want:"dtype"`
	Optimizer   string           `yaml:"optimizer" want:"optimizer"`
	Batch       int              `yaml:"batch"`
	Splits      []string         `yaml:"splits" want:"split"`   // of the conventions', those that it has
	Reach       float64          `yaml:"reach" want:">0..1000"` // of the mean absolute error at the largest M, percent
	Paper       suite.PaperCells `yaml:"paper"`

	Change func(*accelerator.Accelerator) `yaml:"-"` // of its figures; nil: none
}

// Scale is networks, cells and conventions.
type Scale struct {
	suite.Grid  `yaml:",inline"`
	Conventions ConventionsSpec `yaml:"conventions"`
	Networks    []*Network      `yaml:"networks"`
}

func (s *Scale) Check() *suite.Problem {
	c := s.Conventions
	for i, n := range s.Networks {
		here := func(err error, field string) *suite.Problem { return suite.At(err, "networks", fmt.Sprint(i), field) }
		if n.Splits[0] != c.Splits[0] {
			return here(fmt.Errorf("want %s first, the default", c.Splits[0]), "splits")
		}
		for _, split := range n.Splits {
			if !slices.Contains(c.Splits, split) {
				return here(fmt.Errorf("%s is not among the conventions: want %s", split, strings.Join(c.Splits, ", ")), "splits")
			}
		}
		if p := s.CheckPaper(n.Paper); p != nil {
			if p.Path[0] == "paper" {
				p.In("networks", fmt.Sprint(i))
			}
			return p
		}
		for _, m := range s.M {
			if n.Batch%m != 0 || c.Most < m {
				return here(fmt.Errorf("%d micro-batches of %d examples, or of at most %d, are not of one size", m, n.Batch, c.Most), "batch")
			}
		}
	}
	return nil
}

// Convention is one of each.
type Convention struct {
	Cut                     CutSpec
	Split, Recompute, Batch string
}

func (c Convention) String() string {
	split := map[string]string{"coarse": "whole layers", "fine": "halves of layers"}[c.Split]
	return fmt.Sprintf("%v, %s, %s recomputation, %s batch", c.Cut, split, c.Recompute, c.Batch)
}

// ConventionsOf are all combinations that a network has, the default first.
func (s *Scale) ConventionsOf(n *Network) (all []Convention) {
	c := s.Conventions
	for _, split := range c.Splits {
		if !slices.Contains(n.Splits, split) {
			continue
		}
		for _, cut := range c.Cuts {
			for _, recompute := range c.Recompute {
				for _, batch := range c.Batches {
					all = append(all, Convention{cut, split, recompute, batch})
				}
			}
		}
	}
	return all
}

// Step is a modelled step. Nothing in it depends on the machine.
type Step struct {
	Partition []int          `json:"partition"`
	Micro     int            `json:"micro"` // examples of a micro-batch
	Fits      bool           `json:"fits"`
	Peak      int64          `json:"peak_bytes"` // of the fullest device
	Early     float64        `json:"early"`      // seconds with early recomputation,
	Late      float64        `json:"late"`       // with late,
	Free      float64        `json:"free"`       // and with early and a link that takes no time
	Breakdown timeline.Parts `json:"breakdown"`  // of the first
}

// Sample is a cell's steps for one split and cut.
type Sample struct {
	Filled Step `json:"filled"`
	Shrunk Step `json:"shrunk"`
	Fixed  Step `json:"fixed"`
}

func SampleName(n *Network, split string, cut CutSpec, c suite.Cell) string {
	return fmt.Sprintf("scale/%s/%s/%s/%s/K=%d/M=%d", n.ID, split, cut.Partitioner, cut.Cost, c.K, c.M)
}

// Measure adds the samples that the log lacks.
func (s *Scale) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	type todo struct {
		n     *Network
		split string
		cut   CutSpec
		c     suite.Cell
	}
	var list []todo
	for _, n := range s.Networks {
		for _, split := range n.Splits {
			for _, c := range s.Cells() {
				for _, cut := range s.Conventions.Cuts {
					if !log.Has(SampleName(n, split, cut, c)) {
						list = append(list, todo{n, split, cut, c})
					}
				}
			}
		}
	}
	if len(list) == 0 {
		return nil
	}
	p.Begin(fmt.Sprintf("%d modelled cells", len(list)), len(list))
	models := map[string]*Modeller{}
	for _, t := range list {
		key := t.n.ID + "/" + t.split
		if models[key] == nil {
			m, err := NewModeller(t.n, t.split == "fine")
			if err != nil {
				return fmt.Errorf("%s: %w", t.n.Name, err)
			}
			models[key] = m
		}
		sample, err := models[key].cell(ctx, t.cut, t.c, t.n.Batch, s.Conventions.Most)
		if err != nil {
			return fmt.Errorf("%s: %w", SampleName(t.n, t.split, t.cut, t.c), err)
		}
		if err := log.Add(SampleName(t.n, t.split, t.cut, t.c), 0, sample); err != nil {
			return err
		}
		p.Advance(SampleName(t.n, t.split, t.cut, t.c))
	}
	p.End()
	return nil
}

// Step reads what a convention makes of a cell, and its seconds.
func (s *Scale) Step(log *records.Log, n *Network, v Convention, c suite.Cell) (*Step, float64, error) {
	var sample Sample
	if err := log.Get(SampleName(n, v.Split, v.Cut, c), &sample); err != nil {
		return nil, 0, err
	}
	step := map[string]*Step{"filled": &sample.Filled, "shrunk": &sample.Shrunk, "fixed": &sample.Fixed}[v.Batch]
	if v.Recompute == "late" {
		return step, step.Late, nil
	}
	return step, step.Early, nil
}

// Throughput is a cell's, relative to the base's under the same convention.
// Free: with links that take no time, early recomputation.
func (s *Scale) Throughput(log *records.Log, n *Network, v Convention, c suite.Cell, free bool) (float64, error) {
	rate := func(c suite.Cell) (float64, error) {
		step, seconds, err := s.Step(log, n, v, c)
		if err != nil {
			return 0, err
		}
		if free {
			seconds = step.Free
		}
		return float64(step.Micro*c.M) / seconds, nil
	}
	base, err := rate(s.Base)
	if err != nil {
		return 0, err
	}
	r, err := rate(c)
	return r / base, err
}

// Modeller simulates one network on its accelerators. It remembers what it has
// simulated, since different cuts often come to the same stages.
type Modeller struct {
	sim    simulation.Simulating
	change func(*accelerator.Accelerator)
	Flops  []float64
	times  map[int][]gpipe.LayerEstimate // of the layers, by size of micro-batch
	Steps  map[string]*Step
	Fill   map[string]float64 // micro-batches that should fill memory
}

func NewModeller(n *Network, fine bool) (*Modeller, error) {
	dtype, err := workload.ParseDType(n.DType)
	if err != nil {
		return nil, err
	}
	m := &Modeller{
		sim:    simulation.Simulating{Model: n.Model, Accelerator: n.Accelerator, Optimizer: n.Optimizer, DType: dtype},
		change: n.Change,
		times:  map[int][]gpipe.LayerEstimate{}, Steps: map[string]*Step{}, Fill: map[string]float64{},
	}
	m.sim.Model.Fine = fine
	m.Flops, err = workload.FlopsOf(m.sim.Model)
	return m, err
}

// pipeline is K stages as given, or for K = 1 the whole, on m micro-batches.
func (m *Modeller) pipeline(ctx context.Context, sizes []int, micro, count int) (gpipe.Pipeline, gpipe.Input, error) {
	in := m.sim.Model.Input(micro * count)
	sim := m.sim
	sim.Setup = workload.Setup{Partitions: len(sizes), MicroBatches: count, Balance: sizes}
	p, err := sim.Pipeline(ctx, in)
	if err == nil && m.change != nil {
		a := p.Devices[0].Accelerator // this pipeline's own
		m.change(a)
		p.Devices[0] = gpipe.DeviceOf(a)
	}
	return p, in, err
}

// Costs are what a cut balances.
func (m *Modeller) Costs(ctx context.Context, cost workload.Cost, micro int) ([]float64, error) {
	switch cost {
	case workload.FLOPs:
		return m.Flops, nil
	case workload.Memory:
		p, _, err := m.pipeline(ctx, []int{len(m.Flops)}, 1, 1)
		if err != nil {
			return nil, err
		}
		d, err := p.Describe(m.sim.Model.Input(1))
		if err != nil {
			return nil, err
		}
		return d.Memory(), nil
	}
	layers, err := m.Layers(ctx, micro)
	return simulation.Seconds(layers), err
}

// Layers times the layers, each by itself.
func (m *Modeller) Layers(ctx context.Context, micro int) ([]gpipe.LayerEstimate, error) {
	if m.times[micro] == nil {
		p, in, err := m.pipeline(ctx, []int{len(m.Flops)}, micro, 1)
		if err != nil {
			return nil, err
		}
		if m.times[micro], err = p.ModelLayers(in, m.sim.Modelling()); err != nil {
			return nil, err
		}
	}
	return m.times[micro], nil
}

// Cut cuts the network.
func (m *Modeller) Cut(ctx context.Context, how CutSpec, stages, micro int) ([]int, error) {
	rule, err := partition.Parse(how.Partitioner)
	if err != nil {
		return nil, err
	}
	cost, err := workload.ParseCost(how.Cost)
	if err != nil {
		return nil, err
	}
	costs, err := m.Costs(ctx, cost, micro)
	if err != nil {
		return nil, err
	}
	r, err := partition.Split(rule, costs, stages)
	return r.Sizes, err
}

// cell simulates a cell with the fixed mini-batch, with that made smaller where
// it does not fit, and with one that fills memory. All are cut alike, by what layers cost at the fixed mini-batch.
func (m *Modeller) cell(ctx context.Context, how CutSpec, c suite.Cell, batch, most int) (*Sample, error) {
	sizes, err := m.Cut(ctx, how, c.K, batch/c.M)
	if err != nil {
		return nil, err
	}
	fixed, err := m.Step(ctx, sizes, batch/c.M, c.M)
	if err != nil {
		return nil, err
	}
	filled, err := m.Filled(ctx, sizes, c.M, batch/c.M, most/c.M)
	if err != nil {
		return nil, err
	}
	shrunk := fixed
	if !fixed.Fits {
		shrunk = filled
	}
	return &Sample{*filled, *shrunk, *fixed}, nil
}

// RoundSizes are 1, 2, 3, 4, 6, 8, 12, ..., up to most: powers of two, and what
// is half-way between them.
func RoundSizes(most int) (sizes []int) {
	for n := 1; n <= most; n *= 2 {
		sizes = append(sizes, n)
		if n > 1 && n+n/2 <= most {
			sizes = append(sizes, n+n/2)
		}
	}
	return sizes
}

// Filled is the step with the largest of the round sizes of micro-batch that
// fits; the smallest if none does. Memory grows with the micro-batch nearly in
// proportion, so the size is guessed from one that is known and then checked.
func (m *Modeller) Filled(ctx context.Context, sizes []int, count, known, most int) (*Step, error) {
	if _, err := m.Step(ctx, sizes, known, count); err != nil {
		return nil, err
	}
	round := RoundSizes(most)
	guess := m.Fill[m.Key(sizes, known, count)]
	i := max(0, len(slices.DeleteFunc(slices.Clone(round), func(n int) bool { return float64(n) > guess }))-1)
	at, err := m.Step(ctx, sizes, round[i], count)
	if err != nil {
		return nil, err
	}
	if at.Fits {
		for i+1 < len(round) {
			next, err := m.Step(ctx, sizes, round[i+1], count)
			if err != nil || !next.Fits {
				return at, err
			}
			at, i = next, i+1
		}
		return at, nil
	}
	for i > 0 && !at.Fits {
		i--
		if at, err = m.Step(ctx, sizes, round[i], count); err != nil {
			return nil, err
		}
	}
	return at, nil
}

func (m *Modeller) Key(sizes []int, micro, count int) string { return fmt.Sprint(sizes, micro, count) }

// Step simulates a step of count micro-batches.
func (m *Modeller) Step(ctx context.Context, sizes []int, micro, count int) (*Step, error) {
	key := m.Key(sizes, micro, count)
	if s := m.Steps[key]; s != nil {
		return s, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p, in, err := m.pipeline(ctx, sizes, micro, count)
	if err != nil {
		return nil, err
	}
	early := p.Variant()
	late, free := early, early
	late.LateRecompute, free.Link = true, timeline.Link{}
	sims, err := p.SimulateVariants(in, m.sim.Modelling(), early, late, free)
	if err != nil {
		return nil, err
	}
	s := &Step{
		Partition: sims[0].Sizes, Micro: micro, Fits: true,
		Early: sims[0].Seconds, Late: sims[1].Seconds, Free: sims[2].Seconds, Breakdown: sims[0].Parts,
	}
	fill := float64(1 << 30)
	for _, d := range sims[0].Devices {
		s.Peak = max(s.Peak, d.PeakBytes)
		s.Fits = s.Fits && d.Fits()
		fill = min(fill, float64(micro)*float64(d.Capacity-(d.PeakBytes-d.ActivationBytes))/float64(d.ActivationBytes))
	}
	m.Steps[key], m.Fill[key] = s, fill
	return s, nil
}

func (s *Scale) Planned() (list []suite.PlannedRun) {
	for i, n := range s.Networks {
		for _, split := range n.Splits {
			m := n.Model
			m.Fine = split == "fine"
			list = append(list, suite.PlannedRun{Path: []string{"networks", fmt.Sprint(i), "model"}, Run: suite.ModelledRun{Model: m, Most: slices.Max(s.K)}})
		}
	}
	return list
}
