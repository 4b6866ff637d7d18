package cells

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/timeline"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/simulate"
	"gpipebench/train"
)

// ConventionsSpec lists, for each convention, what it may be. The first of each is
// the default.
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

// Setup is a setup with this rule.
func (c CutSpec) Setup(s train.Setup) train.Setup {
	s.Partitioner, s.Cost = lab.Named(partition.Parse, c.Partitioner), lab.Named(train.ParseCost, c.Cost)
	return s
}

// On is a network on its accelerator.
type On struct {
	Model       train.Model `yaml:"model"`
	Accelerator string      `yaml:"accelerator" want:"accelerator"`
	DType       string      `yaml:"dtype" want:"dtype"`
	Optimizer   string      `yaml:"optimizer" want:"optimizer"`
}

// Simulating is a step of a mini-batch, in examples.
func (n On) Simulating(batch int, s train.Setup) simulate.Simulating {
	return simulate.Simulating{Model: n.Model, Setup: s, Batch: batch, Accelerator: n.Accelerator, DType: lab.Named(train.ParseDType, n.DType), Optimizer: n.Optimizer}
}

// Network is a network as the paper has it, and what the paper reports.
type Network struct {
	ID     string `yaml:"id" want:"id,key"`
	Name   string `yaml:"name" want:"name"`
	On     `yaml:",inline"`
	Batch  int            `yaml:"batch"`
	Splits []string       `yaml:"splits" want:"split"`   // those of the conventions' that it has
	Reach  float64        `yaml:"reach" want:">0..1000"` // of the mean absolute error at the largest M, percent
	Paper  lab.PaperCells `yaml:"paper" want:"optional"`

	Change func(*accelerator.Accelerator) `yaml:"-"` // of what is assumed of it; nil: none
}

// Scale is networks, cells and conventions.
type Scale struct {
	lab.Grid    `yaml:",inline"`
	Conventions ConventionsSpec `yaml:"conventions"`
	Networks    []*Network      `yaml:"networks"`
}

// Check refuses values that do not go together.
func (s *Scale) Check() *lab.Problem {
	c := s.Conventions
	for i, n := range s.Networks {
		here := func(err error, field string) *lab.Problem { return lab.At(err, "networks", fmt.Sprint(i), field) }
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

// freeLinks is early recomputation and links that take no time.
const freeLinks = "free"

// Free is the convention with links that take no time, and early recomputation.
func (c Convention) Free() Convention {
	c.Recompute = freeLinks
	return c
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
	Partition []int       `json:"partition"`
	Micro     int         `json:"micro"` // examples of a micro-batch
	Fits      bool        `json:"fits"`
	Peak      int64       `json:"peak_bytes"` // of the fullest device
	Early     float64     `json:"early"`      // seconds with early recomputation,
	Late      float64     `json:"late"`       // with late,
	Free      float64     `json:"free"`       // and with early and a link that takes no time
	Breakdown clock.Parts `json:"breakdown"`  // of the first

	Idle timeline.Idle `json:"-"` // seconds of the first, the mean over devices
}

// Sample is a cell's steps for one split and cut.
type Sample struct {
	Filled Step `json:"filled"`
	Shrunk Step `json:"shrunk"`
	Fixed  Step `json:"fixed"`
}

// Point is what a sample is of.
type Point struct {
	Network *Network
	Split   string
	Cell    lab.Cell
	Cut     CutSpec
}

// String names the sample.
func (p Point) String() string {
	name := fmt.Sprintf("scale/%s/%s/%s/%s/K=%d/M=%d", p.Network.ID, p.Split, p.Cut.Partitioner, p.Cut.Cost, p.Cell.K, p.Cell.M)
	return lab.AtRates(name, p.Network.Accelerator, p.Network.Change)
}

// Points are what all samples are of.
func (s *Scale) Points() (all []Point) {
	for _, n := range s.Networks {
		for _, split := range n.Splits {
			for _, c := range s.Cells() {
				for _, cut := range s.Conventions.Cuts {
					all = append(all, Point{n, split, c, cut})
				}
			}
		}
	}
	return all
}

// Jobs make the samples at measured rates and at peak rates.
func (s *Scale) Jobs() []lab.Job { return JobsOf(s, s.Varied(AtPeak)) }

// JobsOf make the samples of scales at the networks' own rates: measured ones, unless they were varied. All
// scales have the same networks, on accelerators of which something else is assumed, so that each network is
// compiled once for all of them.
func JobsOf(scales ...*Scale) (jobs []lab.Job) {
	type split struct {
		network int
		fine    bool
	}
	shared := map[split]func() ([]*Modeller, error){}
	for i, s := range scales {
		for _, at := range s.Points() {
			n, key := at.Network, split{slices.Index(s.Networks, at.Network), at.Split == "fine"}
			if shared[key] == nil {
				var varied []*Network
				for _, of := range scales {
					varied = append(varied, of.Networks[key.network])
				}
				shared[key] = ModellersOf(key.fine, nil, varied...)
			}
			jobs = append(jobs, lab.Making(at.String(), 0, func(ctx context.Context) (*Sample, error) {
				m, err := shared[key]()
				if err != nil {
					return nil, err
				}
				return m[i].cell(ctx, at.Cut, at.Cell, n.Batch, s.Conventions.Most)
			}))
		}
	}
	return jobs
}

// Modelled is a Scale with its samples.
type Modelled struct {
	*Scale
	samples map[Point]*Sample
	peak    *Modelled // the same at peak rates
}

// Peak is a network of m, and all cells, at peak rates.
func (m *Modelled) Peak(n *Network) (*Modelled, *Network) {
	return m.peak, m.peak.Networks[slices.Index(m.Networks, n)]
}

// Read reads all samples.
func (s *Scale) Read(log *records.Log) (m *Modelled, err error) {
	if m, err = s.ReadOwn(log); err == nil {
		m.peak, err = s.Varied(AtPeak).ReadOwn(log)
	}
	return m, err
}

// ReadOwn reads those at the networks' own rates.
func (s *Scale) ReadOwn(log *records.Log) (*Modelled, error) {
	m := &Modelled{Scale: s, samples: map[Point]*Sample{}}
	for _, p := range s.Points() {
		m.samples[p] = &Sample{}
		if err := log.Get(p.String(), m.samples[p]); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Step is what a convention makes of a cell, and its seconds.
func (m *Modelled) Step(n *Network, v Convention, c lab.Cell) (*Step, float64) {
	sample := m.samples[Point{n, v.Split, c, v.Cut}]
	step := map[string]*Step{"filled": &sample.Filled, "shrunk": &sample.Shrunk, "fixed": &sample.Fixed}[v.Batch]
	return step, map[string]float64{"early": step.Early, "late": step.Late, freeLinks: step.Free}[v.Recompute]
}

// Throughput is a cell's, relative to the base's under the same convention.
func (m *Modelled) Throughput(n *Network, v Convention, c lab.Cell) float64 {
	rate := func(c lab.Cell) float64 {
		step, seconds := m.Step(n, v, c)
		return float64(step.Micro*c.M) / seconds
	}
	return rate(c) / rate(m.Base)
}

// Planned are the networks in their splits, on as many devices as any cell has.
func (s *Scale) Planned() (list []lab.PlannedRun) {
	for i, n := range s.Networks {
		for _, split := range n.Splits {
			m := n.Model
			m.Fine = split == "fine"
			list = append(list, lab.PlannedRun{Path: []string{"networks", fmt.Sprint(i), "model"}, Run: lab.ModelledRun{Model: m, Most: slices.Max(s.K)}})
		}
	}
	return list
}
