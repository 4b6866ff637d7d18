package experiments

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/timeline"
)

// Cells of a table at the paper's own scale, on modelled accelerators, under
// conventions that the paper leaves open.

// conventionsSpec lists, for each thing that is open, what it may be. The first
// of each is the default.
type conventionsSpec struct {
	Cuts      []cutSpec `yaml:"cuts"`
	Splits    []string  `yaml:"splits" want:"split"`        // coarse, fine
	Recompute []string  `yaml:"recompute" want:"recompute"` // early, late
	Batches   []string  `yaml:"batches" want:"batches"`     // filled: the largest mini-batch that fits; fixed: the network's own; shrunk: that, or the largest that fits
	Most      int       `yaml:"most"`                       // examples of a mini-batch that fills memory
}

// cutSpec is a rule by which layers are cut into stages.
type cutSpec struct {
	Partitioner string `yaml:"partitioner" want:"partitioner"`
	Cost        string `yaml:"cost" want:"cost"` // time is the modelled one
}

func (c cutSpec) String() string { return c.Partitioner + " over " + c.Cost }

// scaleNetwork is a network as the paper has it, and what the paper reports.
type scaleNetwork struct {
	ID          string       `yaml:"id" want:"id,key"`
	Name        string       `yaml:"name" want:"name"`
	Model       Model        `yaml:"model"`
	Accelerator string       `yaml:"accelerator" want:"accelerator"`
	DType       string       `yaml:"dtype" want:"dtype"`
	Optimizer   string       `yaml:"optimizer" want:"optimizer"`
	Batch       int          `yaml:"batch"`
	Splits      []string     `yaml:"splits" want:"split"`   // of the conventions', those that it has
	Reach       float64      `yaml:"reach" want:">0..1000"` // of the mean absolute error at the largest M, percent
	Paper       []amoebaCell `yaml:"paper"`

	change func(*accelerator.Accelerator) // of its figures; nil: none
}

// paper is what is printed for a cell, nil if nothing is.
func (n *scaleNetwork) paper(c cell) *amoebaCell {
	for i := range n.Paper {
		if n.Paper[i].cell == c {
			return &n.Paper[i]
		}
	}
	return nil
}

// paperScale is networks, cells and conventions.
type paperScale struct {
	K           []int           `yaml:"k" want:"1..1024"`
	M           []int           `yaml:"m" want:"1..65536"`
	Base        cell            `yaml:"base"`
	Conventions conventionsSpec `yaml:"conventions"`
	Networks    []*scaleNetwork `yaml:"networks"`
}

func (s *paperScale) check() *specProblem {
	c := s.Conventions
	for i, n := range s.Networks {
		here := func(err error, field string) *specProblem { return at(err, "networks", fmt.Sprint(i), field) }
		if n.Splits[0] != c.Splits[0] {
			return here(fmt.Errorf("want %s first, the default", c.Splits[0]), "splits")
		}
		for _, split := range n.Splits {
			if !slices.Contains(c.Splits, split) {
				return here(fmt.Errorf("%s is not among the conventions: want %s", split, strings.Join(c.Splits, ", ")), "splits")
			}
		}
		if p := checkGrid(s.cells(), s.Base, func(c cell) float64 { return n.paper(c).value() }); p != nil {
			if p.path[0] == "paper" {
				p.in("networks", fmt.Sprint(i))
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

// accelerators are the figures that samples hang on, beside the spec.
func (s *paperScale) accelerators() (text string) {
	for _, n := range s.Networks {
		text += acceleratorText(n.Accelerator)
	}
	return text
}

// acceleratorText is an accelerator's figures, without what only readers need.
func acceleratorText(name string) string {
	a, err := accelerator.Named(name)
	if err != nil {
		panic(err) // specs are checked
	}
	a.Description, a.Sources = "", nil
	return fmt.Sprintf("%+v", *a)
}

// cells of the grid, in the paper's order.
func (s *paperScale) cells() []cell {
	var cs []cell
	for _, m := range s.M {
		for _, k := range s.K {
			cs = append(cs, cell{k, m})
		}
	}
	return cs
}

// convention is one of each.
type convention struct {
	cut                     cutSpec
	split, recompute, batch string
}

func (c convention) String() string {
	split := map[string]string{"coarse": "whole layers", "fine": "halves of layers"}[c.split]
	return fmt.Sprintf("%v, %s, %s recomputation, %s batch", c.cut, split, c.recompute, c.batch)
}

// conventions are all combinations that a network has, the default first.
func (s *paperScale) conventions(n *scaleNetwork) (all []convention) {
	c := s.Conventions
	for _, split := range c.Splits {
		if !slices.Contains(n.Splits, split) {
			continue
		}
		for _, cut := range c.Cuts {
			for _, recompute := range c.Recompute {
				for _, batch := range c.Batches {
					all = append(all, convention{cut, split, recompute, batch})
				}
			}
		}
	}
	return all
}

// scaleStep is a modelled step. Nothing in it depends on the machine.
type scaleStep struct {
	Partition []int          `json:"partition"`
	Micro     int            `json:"micro"` // examples of a micro-batch
	Fits      bool           `json:"fits"`
	Peak      int64          `json:"peak_bytes"` // of the fullest device
	Early     float64        `json:"early"`      // seconds with early recomputation,
	Late      float64        `json:"late"`       // with late,
	Free      float64        `json:"free"`       // and with early and a link that takes no time
	Breakdown timeline.Parts `json:"breakdown"`  // of the first
}

// scaleSample is a cell's steps for one split and cut.
type scaleSample struct {
	Filled scaleStep `json:"filled"`
	Shrunk scaleStep `json:"shrunk"`
	Fixed  scaleStep `json:"fixed"`
}

func scaleName(n *scaleNetwork, split string, cut cutSpec, c cell) string {
	return fmt.Sprintf("scale/%s/%s/%s/%s/K=%d/M=%d", n.ID, split, cut.Partitioner, cut.Cost, c.K, c.M)
}

// measure adds the samples that the log lacks.
func (s *paperScale) measure(ctx context.Context, log *Log, p Progress) error {
	type todo struct {
		n     *scaleNetwork
		split string
		cut   cutSpec
		c     cell
	}
	var list []todo
	for _, n := range s.Networks {
		for _, split := range n.Splits {
			for _, c := range s.cells() {
				for _, cut := range s.Conventions.Cuts {
					if !log.Has(scaleName(n, split, cut, c)) {
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
	models := map[string]*modeller{}
	for _, t := range list {
		key := t.n.ID + "/" + t.split
		if models[key] == nil {
			m, err := newModeller(t.n, t.split == "fine")
			if err != nil {
				return fmt.Errorf("%s: %w", t.n.Name, err)
			}
			models[key] = m
		}
		sample, err := models[key].cell(ctx, t.cut, t.c, t.n.Batch, s.Conventions.Most)
		if err != nil {
			return fmt.Errorf("%s: %w", scaleName(t.n, t.split, t.cut, t.c), err)
		}
		if err := log.Add(scaleName(t.n, t.split, t.cut, t.c), 0, sample); err != nil {
			return err
		}
		p.Advance(scaleName(t.n, t.split, t.cut, t.c))
	}
	p.End()
	return nil
}

// step reads what a convention makes of a cell, and its seconds.
func (s *paperScale) step(log *Log, n *scaleNetwork, v convention, c cell) (*scaleStep, float64, error) {
	var sample scaleSample
	if err := log.Get(scaleName(n, v.split, v.cut, c), &sample); err != nil {
		return nil, 0, err
	}
	step := map[string]*scaleStep{"filled": &sample.Filled, "shrunk": &sample.Shrunk, "fixed": &sample.Fixed}[v.batch]
	if v.recompute == "late" {
		return step, step.Late, nil
	}
	return step, step.Early, nil
}

// throughput is a cell's, relative to the base's under the same convention.
// Free: with links that take no time, early recomputation.
func (s *paperScale) throughput(log *Log, n *scaleNetwork, v convention, c cell, free bool) (float64, error) {
	rate := func(c cell) (float64, error) {
		step, seconds, err := s.step(log, n, v, c)
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

// modeller simulates one network on its accelerators. It remembers what it has
// simulated, since different cuts often come to the same stages.
type modeller struct {
	sim    Simulating
	change func(*accelerator.Accelerator)
	flops  []float64
	times  map[int][]gpipe.LayerEstimate // of the layers, by size of micro-batch
	steps  map[string]*scaleStep
	fill   map[string]float64 // micro-batches that should fill memory
}

func newModeller(n *scaleNetwork, fine bool) (*modeller, error) {
	dtype, err := ParseDType(n.DType)
	if err != nil {
		return nil, err
	}
	m := &modeller{
		sim:    Simulating{Model: n.Model, Accelerator: n.Accelerator, Optimizer: n.Optimizer, DType: dtype},
		change: n.change,
		times:  map[int][]gpipe.LayerEstimate{}, steps: map[string]*scaleStep{}, fill: map[string]float64{},
	}
	m.sim.Model.Fine = fine
	m.flops, err = flopsOf(m.sim.Model)
	return m, err
}

// pipeline is K stages as given, or for K = 1 the whole, on m micro-batches.
func (m *modeller) pipeline(ctx context.Context, sizes []int, micro, count int) (gpipe.Pipeline, gpipe.Input, error) {
	in := m.sim.Model.Input(micro * count)
	sim := m.sim
	sim.Setup = Setup{Partitions: len(sizes), MicroBatches: count, Balance: sizes}
	p, err := sim.pipeline(ctx, in)
	if err == nil && m.change != nil {
		a := p.Devices[0].Accelerator // this pipeline's own
		m.change(a)
		p.Devices[0] = gpipe.DeviceOf(a)
	}
	return p, in, err
}

// costs are what a cut balances.
func (m *modeller) costs(ctx context.Context, cost Cost, micro int) ([]float64, error) {
	switch cost {
	case FLOPs:
		return m.flops, nil
	case Memory:
		p, _, err := m.pipeline(ctx, []int{len(m.flops)}, 1, 1)
		if err != nil {
			return nil, err
		}
		d, err := p.Describe(m.sim.Model.Input(1))
		if err != nil {
			return nil, err
		}
		return d.Memory(), nil
	}
	layers, err := m.layers(ctx, micro)
	return seconds(layers), err
}

// layers times the layers, each by itself.
func (m *modeller) layers(ctx context.Context, micro int) ([]gpipe.LayerEstimate, error) {
	if m.times[micro] == nil {
		p, in, err := m.pipeline(ctx, []int{len(m.flops)}, micro, 1)
		if err != nil {
			return nil, err
		}
		if m.times[micro], err = p.ModelLayers(in, m.sim.modelling()); err != nil {
			return nil, err
		}
	}
	return m.times[micro], nil
}

// cut cuts the network.
func (m *modeller) cut(ctx context.Context, how cutSpec, stages, micro int) ([]int, error) {
	rule, err := partition.Parse(how.Partitioner)
	if err != nil {
		return nil, err
	}
	cost, err := ParseCost(how.Cost)
	if err != nil {
		return nil, err
	}
	costs, err := m.costs(ctx, cost, micro)
	if err != nil {
		return nil, err
	}
	r, err := partition.Split(rule, costs, stages)
	return r.Sizes, err
}

// cell simulates a cell with the fixed mini-batch, with that made smaller where
// it does not fit, and with one that fills memory. All are cut alike, by what layers cost at the fixed mini-batch.
func (m *modeller) cell(ctx context.Context, how cutSpec, c cell, batch, most int) (*scaleSample, error) {
	sizes, err := m.cut(ctx, how, c.K, batch/c.M)
	if err != nil {
		return nil, err
	}
	fixed, err := m.step(ctx, sizes, batch/c.M, c.M)
	if err != nil {
		return nil, err
	}
	filled, err := m.filled(ctx, sizes, c.M, batch/c.M, most/c.M)
	if err != nil {
		return nil, err
	}
	shrunk := fixed
	if !fixed.Fits {
		shrunk = filled
	}
	return &scaleSample{*filled, *shrunk, *fixed}, nil
}

// roundSizes are 1, 2, 3, 4, 6, 8, 12, ..., up to most: powers of two, and what
// is half-way between them.
func roundSizes(most int) (sizes []int) {
	for n := 1; n <= most; n *= 2 {
		sizes = append(sizes, n)
		if n > 1 && n+n/2 <= most {
			sizes = append(sizes, n+n/2)
		}
	}
	return sizes
}

// filled is the step with the largest of the round sizes of micro-batch that
// fits; the smallest if none does. Memory grows with the micro-batch nearly in
// proportion, so the size is guessed from one that is known and then checked.
func (m *modeller) filled(ctx context.Context, sizes []int, count, known, most int) (*scaleStep, error) {
	if _, err := m.step(ctx, sizes, known, count); err != nil {
		return nil, err
	}
	round := roundSizes(most)
	guess := m.fill[m.key(sizes, known, count)]
	i := max(0, len(slices.DeleteFunc(slices.Clone(round), func(n int) bool { return float64(n) > guess }))-1)
	at, err := m.step(ctx, sizes, round[i], count)
	if err != nil {
		return nil, err
	}
	if at.Fits {
		for i+1 < len(round) {
			next, err := m.step(ctx, sizes, round[i+1], count)
			if err != nil || !next.Fits {
				return at, err
			}
			at, i = next, i+1
		}
		return at, nil
	}
	for i > 0 && !at.Fits {
		i--
		if at, err = m.step(ctx, sizes, round[i], count); err != nil {
			return nil, err
		}
	}
	return at, nil
}

func (m *modeller) key(sizes []int, micro, count int) string { return fmt.Sprint(sizes, micro, count) }

// step simulates a step of count micro-batches.
func (m *modeller) step(ctx context.Context, sizes []int, micro, count int) (*scaleStep, error) {
	key := m.key(sizes, micro, count)
	if s := m.steps[key]; s != nil {
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
	sims, err := p.SimulateVariants(in, m.sim.modelling(), early, late, free)
	if err != nil {
		return nil, err
	}
	s := &scaleStep{
		Partition: sims[0].Sizes, Micro: micro, Fits: true,
		Early: sims[0].Seconds, Late: sims[1].Seconds, Free: sims[2].Seconds, Breakdown: sims[0].Parts,
	}
	fill := float64(1 << 30)
	for _, d := range sims[0].Devices {
		s.Peak = max(s.Peak, d.PeakBytes)
		s.Fits = s.Fits && d.Fits()
		fill = min(fill, float64(micro)*float64(d.Capacity-(d.PeakBytes-d.ActivationBytes))/float64(d.ActivationBytes))
	}
	m.steps[key], m.fill[key] = s, fill
	return s, nil
}
