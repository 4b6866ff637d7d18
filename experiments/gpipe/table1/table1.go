// Package table1 finds the largest networks that fit, modelled and for real (Table 1).
package table1

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"gpipebench/experiments/progress"
	"gpipebench/experiments/records"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/workload"
	"gpipebench/gpipe"
	"gpipebench/gpipe/partition"
	"gpipebench/internal/units"
	"gpipebench/internal/yamldoc"
	"gpipebench/nn/graph"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = suite.Definition{ID: "table1", Folder: folder, New: suite.New[Table1]}

// Planned are the paper's own networks in each column's way, and the smallest
// ones that are searched here.
func (t *Table1) Planned(profile string) (list []suite.PlannedRun) {
	for i := range t.Spec.Networks {
		n := &t.Spec.Networks[i]
		for j, c := range n.Columns {
			list = append(list, suite.PlannedRun{Path: []string{"networks", fmt.Sprint(i), "columns", fmt.Sprint(j)},
				Run: suite.ModelledRun{Model: c.candidate.of(n.Model), Most: c.K}},
				suite.PlannedRun{Path: []string{"networks", fmt.Sprint(i), "grid"}, Run: searchedRun{suite.ModelledRun{Model: n.Model, Most: c.K}, c.way, n.Grid}})
		}
		m := t.Spec.Profiles[profile].Networks[i]
		for _, w := range t.Spec.Measured {
			list = append(list, suite.PlannedRun{Path: []string{"profiles", profile, "networks", fmt.Sprint(i)}, Run: searchedRun{suite.ModelledRun{Model: m.Model, Most: w.K}, w, m.Grid}})
		}
	}
	return list
}

// table1Spec is spec.yaml.
type table1Spec struct {
	suite.Head  `yaml:",inline"`
	Torchgpipe  string          `yaml:"torchgpipe"` // source of its values
	Optimizer   string          `yaml:"optimizer" want:"optimizer"`
	LR          float64         `yaml:"lr" want:">0.."`
	Partitioner string          `yaml:"partitioner" want:"partitioner"`
	Conventions []counting      `yaml:"conventions"` // the first is the default
	Networks    []table1Network `yaml:"networks"`
	Measured    []way           `yaml:"measured"`

	Profiles map[string]table1Profile `yaml:"profiles"`
}

// counting is how the memory of modelled devices is counted.
type counting struct {
	DType      string `yaml:"dtype" want:"dtype"`
	Accounting string `yaml:"accounting" want:"accounting"`
	Scores     bool   `yaml:"scores"` // attention writes its probabilities and keeps them

	how gpipe.Modelling
}

func (c counting) String() string {
	s := c.DType + ", " + c.Accounting
	if !c.Scores {
		s += ", no scores"
	}
	return s
}

// table1Network is one half of the table.
type table1Network struct {
	Name         string         `yaml:"name" want:"name,key"`
	Model        workload.Model `yaml:"model"` // without what the search settles
	Batch        int            `yaml:"batch"`
	Accelerator  string         `yaml:"accelerator" want:"accelerator"`
	Grid         grid           `yaml:"grid"`
	Unit         amountUnit     `yaml:"unit"`          // of the paper's amounts of memory
	Held         int            `yaml:"held"`          // examples of a micro-batch, where it is not as small as need be
	MicroBatches []int          `yaml:"micro_batches"` // of the ablation of activations, in examples
	Claim        growthClaim    `yaml:"claim"`
	Columns      []table1Column `yaml:"columns"`
}

// growthClaim is by how much the paper says that networks may grow.
type growthClaim struct {
	Columns [2]string `yaml:"columns" want:"name"`
	Times   float64   `yaml:"times" want:">0.."`
}

// way is how a network is trained: naively, that is in one piece, with every
// activation kept, or as GPipe does it, over K accelerators.
type way struct {
	Name  string `yaml:"name" want:"name,key"`
	K     int    `yaml:"k" want:"1..1024"`
	Naive bool   `yaml:"naive"`
}

// table1Column is one column of the paper's table, and torchgpipe's.
type table1Column struct {
	way         `yaml:",inline"`
	candidate   `yaml:",inline"`
	Params      amount        `yaml:"params"`
	ParamMemory amount        `yaml:"param_memory"`
	Activations amount        `yaml:"activations"`
	Swapped     bool          `yaml:"swapped"` // the two, in print
	Torchgpipe  *otherFigures `yaml:"torchgpipe"`
}

// otherFigures is what torchgpipe has for a column, as it is printed. Amounts that
// it has not are words.
type otherFigures struct {
	Params      string `yaml:"params"`
	ParamMemory string `yaml:"param_memory"`
	Activations string `yaml:"activations"`
}

// largest is torchgpipe's network, which is the paper's, and whether it trained.
func (f *otherFigures) largest() suite.Value {
	if f == nil {
		return suite.Absent
	}
	if _, err := units.ParseBytes(strings.ReplaceAll(f.Activations, " ", "")); err != nil {
		return suite.Joined("%v, %v", suite.Figure(f.Params), f.Activations)
	}
	return suite.Figure(f.Params)
}

func (p *table1Column) memory() (params, activations amount) {
	if p.Swapped {
		return p.Activations, p.ParamMemory
	}
	return p.ParamMemory, p.Activations
}

type table1Profile struct {
	Expected    suite.Span       `yaml:"expected"`
	Conventions int              `yaml:"conventions"` // the first so many are modelled
	Networks    []table1Measured `yaml:"networks"`    // one for each network
}

// table1Measured is a network at the scale of this host.
type table1Measured struct {
	Capacity byteSize       `yaml:"capacity"` // of each device
	Batch    int            `yaml:"batch"`
	Model    workload.Model `yaml:"model"`
	Grid     grid           `yaml:"grid"`
}

// amount is a number with a unit behind it, as the paper prints it: 318M, 3.8GB,
// 6.4G. Value is without the unit's size where that is of bytes.
type amount struct {
	Text  string
	Value float64
}

func (a *amount) UnmarshalYAML(n *yaml.Node) error {
	a.Text = n.Value
	number, scale := strings.TrimSuffix(n.Value, "GB"), 1.0
	if s, ok := strings.CutSuffix(number, "M"); ok {
		number, scale = s, 1e6
	} else if s, ok := strings.CutSuffix(number, "B"); ok {
		number, scale = s, 1e9
	}
	v, err := strconv.ParseFloat(strings.TrimSuffix(number, "G"), 64)
	if err != nil || !(v > 0 && v < 1e9) {
		return yamldoc.WantError("an amount such as 318M, 3.8GB or 6.4G")
	}
	a.Value = v * scale
	return nil
}

func (a amount) cell() suite.Value { return suite.Value{Text: a.Text, Numbers: []float64{a.Value}} }

// amountUnit is GB or GiB, in bytes.
type amountUnit float64

func (u *amountUnit) UnmarshalYAML(n *yaml.Node) error {
	if n.Value != "GB" && n.Value != "GiB" {
		return yamldoc.WantError("GB or GiB")
	}
	bytes, err := units.ParseBytes("1" + n.Value)
	*u = amountUnit(bytes)
	return err
}

func (u amountUnit) String() string {
	if u == 1e9 {
		return "GB"
	}
	return "GiB"
}

func (u amountUnit) of(bytes int64) suite.Value { return suite.Fixed(float64(bytes)/float64(u), 2) }

// byteSize is an amount of memory such as 64MiB.
type byteSize int64

func (b *byteSize) UnmarshalYAML(n *yaml.Node) error {
	bytes, err := units.ParseBytes(n.Value)
	if err != nil || bytes < 1<<20 || bytes > 1<<40 || bytes%(1<<20) != 0 {
		return yamldoc.WantError("whole MiB from 1MiB to 1024GiB")
	}
	*b = byteSize(bytes)
	return nil
}

// Table1 searches for the largest networks that fit: the paper's own on modelled
// accelerators, smaller ones on devices of this host, where they also train.
type Table1 struct {
	suite.Base[table1Spec]

	partitioner partition.Partitioner
}

func (t *Table1) Resolve() *suite.Problem {
	for i := range t.Spec.Conventions {
		c := &t.Spec.Conventions[i]
		var err error
		if c.how.DType, err = workload.ParseDType(c.DType); err != nil {
			return suite.At(err, "conventions", fmt.Sprint(i), "dtype")
		}
		if c.how.Accounting, err = gpipe.ParseAccounting(c.Accounting); err != nil {
			return suite.At(err, "conventions", fmt.Sprint(i), "accounting")
		}
		c.how.KeepScores = c.Scores
	}
	var err error
	if t.partitioner, err = partition.Parse(t.Spec.Partitioner); err != nil {
		return suite.At(err, "partitioner")
	}
	for i := range t.Spec.Networks {
		n := &t.Spec.Networks[i]
		where := []string{"networks", fmt.Sprint(i)}
		if err := n.Grid.Check(n.Model); err != nil {
			return suite.At(err, append(where, "grid")...)
		}
		for _, size := range n.MicroBatches {
			if n.Batch%size != 0 {
				return suite.At(fmt.Errorf("micro-batches of %d examples do not divide the %d of %s", size, n.Batch, n.Name), append(where, "micro_batches")...)
			}
		}
		if n.Held < 2 || n.Batch%n.Held != 0 {
			return suite.At(fmt.Errorf("micro-batches of %d examples: want 2 or more that divide %d", n.Held, n.Batch), append(where, "held")...)
		}
		for _, name := range n.Claim.Columns {
			if n.column(name) == nil {
				return suite.At(fmt.Errorf("no column %q", name), append(where, "claim")...)
			}
		}
		if !n.Columns[0].Naive {
			return suite.At(errors.New("want the naive way first: what follows is said relative to it"), append(where, "columns")...)
		}
	}
	if !t.Spec.Measured[0].Naive {
		return suite.At(errors.New("want the naive way first: what follows is said relative to it"), "measured")
	}
	for _, name := range suite.Profiles {
		p := t.Spec.Profiles[name]
		if len(p.Networks) != len(t.Spec.Networks) {
			return suite.At(fmt.Errorf("%d networks, where %d are modelled: want one for each", len(p.Networks), len(t.Spec.Networks)), "profiles", name, "networks")
		}
		if p.Conventions < 1 || p.Conventions > len(t.Spec.Conventions) {
			return suite.At(fmt.Errorf("%d conventions: want 1 to %d", p.Conventions, len(t.Spec.Conventions)), "profiles", name, "conventions")
		}
		for i, m := range p.Networks {
			where := []string{"profiles", name, "networks", fmt.Sprint(i)}
			if err := m.Grid.Check(m.Model); err != nil {
				return suite.At(err, append(where, "grid")...)
			}
			if m.Batch&(m.Batch-1) != 0 {
				return suite.At(fmt.Errorf("a mini-batch of %d: want a power of two", m.Batch), append(where, "batch")...)
			}
		}
	}
	return nil
}

func (n *table1Network) column(name string) *table1Column {
	for i := range n.Columns {
		if n.Columns[i].Name == name {
			return &n.Columns[i]
		}
	}
	return nil
}

func (t *Table1) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	profile, err := suite.ProfileOf(t.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	steps := len(t.Spec.Networks) * len(t.Spec.Measured)
	for i := range t.Spec.Networks {
		steps += len(t.Spec.Networks[i].Columns)
	}
	p.Begin(t.ID(), steps)
	defer p.End()
	for i := range t.Spec.Networks {
		n := &t.Spec.Networks[i]
		if err := t.model(ctx, n, t.Spec.Conventions[:profile.Conventions], log, p); err != nil {
			return fmt.Errorf("%s, %s: %w", t.ID(), n.Name, err)
		}
	}
	for i := range t.Spec.Networks {
		n := &t.Spec.Networks[i]
		if err := t.measure(ctx, n, profile.Networks[i], log, p); err != nil {
			return fmt.Errorf("%s, %s: %w", t.ID(), n.Name, err)
		}
	}
	return nil
}

// storages are the conventions' dtypes, and whether scores are kept: what plans
// differ in.
func (t *Table1) storages() (list []gpipe.Modelling) {
	seen := map[gpipe.Modelling]bool{}
	for _, c := range t.Spec.Conventions {
		how := gpipe.Modelling{DType: c.how.DType, KeepScores: c.how.KeepScores}
		if !seen[how] {
			seen[how] = true
			list = append(list, how)
		}
	}
	return list
}

func storageName(how gpipe.Modelling) string {
	s := "f32"
	if how.DType == graph.BF16 {
		s = "bf16"
	}
	if !how.KeepScores {
		s += ", no scores"
	}
	return s
}
