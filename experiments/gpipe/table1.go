package gpipe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/partition"
	"gpipebench/internal/progress"
	"gpipebench/internal/units"
	"gpipebench/internal/yamldoc"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/lab/shown"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/train"
)

// Planned are the paper's own networks in each column's way, and the smallest
// ones that are searched here.
func (t *table1) Planned(profile string) (list []lab.PlannedRun) {
	for i, n := range t.Spec.Networks {
		for j, c := range n.Columns {
			list = append(list, lab.PlannedRun{Path: []string{"networks", fmt.Sprint(i), "columns", fmt.Sprint(j)},
				Run: lab.ModelledRun{Model: c.candidate.of(n.Model), Most: c.K}},
				lab.PlannedRun{Path: []string{"networks", fmt.Sprint(i), "grid"}, Run: searchedRun{lab.ModelledRun{Model: n.Model, Most: c.K}, c.way, n.Grid}})
		}
		m := t.Spec.Profiles[profile].Networks[i]
		for _, w := range t.Spec.Measured {
			list = append(list, lab.PlannedRun{Path: []string{"profiles", profile, "networks", fmt.Sprint(i)}, Run: searchedRun{lab.ModelledRun{Model: m.Model, Most: w.K}, w, m.Grid}})
		}
	}
	return list
}

// table1Spec is the spec of table1.
type table1Spec struct {
	shown.Profiled[table1Profile] `yaml:",inline"`
	Torchgpipe                    string           `yaml:"torchgpipe"` // source of its values
	Optimizer                     string           `yaml:"optimizer" want:"optimizer"`
	LR                            float64          `yaml:"lr" want:">0.."`
	Partitioner                   string           `yaml:"partitioner" want:"partitioner"`
	Conventions                   []counting       `yaml:"conventions"` // the first is the default
	Networks                      []*table1Network `yaml:"networks"`
	Measured                      []way            `yaml:"measured"`
}

// counting is how the memory of modelled devices is counted.
type counting struct {
	DType      string `yaml:"dtype" want:"dtype"`
	Accounting string `yaml:"accounting" want:"accounting"`
	Scores     bool   `yaml:"scores"` // attention writes its probabilities and keeps them
}

// storage is what plans differ in by convention.
func (c counting) storage() gpipe.Modelling {
	return gpipe.Modelling{DType: lab.Named(train.ParseDType, c.DType), KeepScores: c.Scores}
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
	Name         string          `yaml:"name" want:"name,key"`
	Model        train.Model     `yaml:"model"` // without what the search settles
	Batch        int             `yaml:"batch"`
	Accelerator  string          `yaml:"accelerator" want:"accelerator"`
	Grid         grid            `yaml:"grid"`
	Unit         amountUnit      `yaml:"unit"`          // of the paper's amounts of memory
	Held         int             `yaml:"held"`          // examples of a micro-batch, where it is not as small as need be
	MicroBatches []int           `yaml:"micro_batches"` // of the ablation of activations, in examples
	Columns      []*table1Column `yaml:"columns"`
}

// way is how a network is trained: naively, that is in one piece, with every
// activation kept, or as GPipe does it, over K accelerators.
type way struct {
	Name  string `yaml:"name" want:"name,key"`
	K     int    `yaml:"k" want:"1..1024"`
	Naive bool   `yaml:"naive"`
}

// table1Column is one of the paper's table, and torchgpipe's.
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
func (f *otherFigures) largest() lab.Value {
	if f == nil {
		return lab.Absent
	}
	if _, err := units.ParseBytes(strings.ReplaceAll(f.Activations, " ", "")); err != nil {
		return lab.Joined("%v, %v", lab.Figure(f.Params), f.Activations)
	}
	return lab.Figure(f.Params)
}

func (p *table1Column) memory() (params, activations amount) {
	if p.Swapped {
		return p.Activations, p.ParamMemory
	}
	return p.ParamMemory, p.Activations
}

type table1Profile struct {
	Expected    lab.Span    `yaml:"expected" want:"shown"`
	Conventions int         `yaml:"conventions"` // how many of them are modelled, the first ones
	Networks    []miniature `yaml:"networks"`    // one for each network
}

// miniature is a network at the scale of this host.
type miniature struct {
	Capacity byteSize    `yaml:"capacity"` // of each device
	Batch    int         `yaml:"batch"`
	Model    train.Model `yaml:"model"`
	Grid     grid        `yaml:"grid"`
}

// amount is a number with a unit, as the paper prints it: 318M, 3.8GB, 6.4G; "" if it prints none.
type amount string

func (a *amount) UnmarshalYAML(n *yaml.Node) error {
	if *a = amount(n.Value); !(a.number() > 0) {
		return yamldoc.WantError("an amount such as 318M, 3.8GB or 6.4G")
	}
	return nil
}

func (a amount) IsZero() bool { return a == "" }

// number is without the unit's size where that is of bytes; NaN if the paper prints none.
func (a amount) number() float64 {
	number, scale := strings.TrimSuffix(string(a), "GB"), 1.0
	if s, ok := strings.CutSuffix(number, "M"); ok {
		number, scale = s, 1e6
	} else if s, ok := strings.CutSuffix(number, "B"); ok {
		number, scale = s, 1e9
	}
	v, err := strconv.ParseFloat(strings.TrimSuffix(number, "G"), 64)
	if err != nil || !(v < 1e9) {
		return math.NaN()
	}
	return v * scale
}

func (a amount) cell() lab.Value { return lab.Figure(string(a)) }

// amountUnit is GB or GiB, in bytes.
type amountUnit float64

func (u *amountUnit) UnmarshalYAML(n *yaml.Node) error {
	switch n.Value {
	case "GB":
		*u = 1e9
	case "GiB":
		*u = 1 << 30
	default:
		return yamldoc.WantError("GB or GiB")
	}
	return nil
}

func (u amountUnit) String() string {
	if u == 1e9 {
		return "GB"
	}
	return "GiB"
}

func (u amountUnit) of(bytes int64) lab.Value { return lab.Fixed(float64(bytes)/float64(u), 2) }

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

// table1 searches for the largest networks that fit: the paper's own on modelled
// accelerators, smaller ones on devices of this host, where they also train.
type table1 struct {
	lab.Base[table1Spec]

	partitioner partition.Partitioner
	optimizer   nn.Optimizer
}

func (t *table1) Resolve() *lab.Problem {
	t.partitioner = lab.Named(partition.Parse, t.Spec.Partitioner)
	t.optimizer = lab.Named(train.ParseOptimizer, t.Spec.Optimizer)
	for i, n := range t.Spec.Networks {
		if p := n.check(); p != nil {
			return p.In("networks", fmt.Sprint(i))
		}
	}
	if !t.Spec.Measured[0].Naive {
		return lab.At(errNaive, "measured")
	}
	if p := lab.CheckEach(t.Spec.Profiles, "networks", func(p table1Profile) int { return len(p.Networks) }, len(t.Spec.Networks), "networks"); p != nil {
		return p
	}
	for _, name := range lab.Profiles {
		if p := t.checkProfile(t.Spec.Profiles[name]); p != nil {
			return p.In("profiles", name)
		}
		if p := t.Spec.CheckForms(t.data(name)); p != nil {
			return p
		}
	}
	return nil
}

var errNaive = errors.New("want the naive way first: what follows is said relative to it")

func (n *table1Network) check() *lab.Problem {
	if err := n.Grid.Check(n.Model); err != nil {
		return lab.At(err, "grid")
	}
	for _, size := range n.MicroBatches {
		if n.Batch%size != 0 {
			return lab.At(fmt.Errorf("micro-batches of %d examples do not divide the %d of %s", size, n.Batch, n.Name), "micro_batches")
		}
	}
	if n.Held < 2 || n.Batch%n.Held != 0 {
		return lab.At(fmt.Errorf("micro-batches of %d examples: want 2 or more that divide %d", n.Held, n.Batch), "held")
	}
	switch {
	case !n.Columns[0].Naive:
		return lab.At(errNaive, "columns")
	case len(n.Columns) < 2 || n.Columns[1].K != 1 || n.Columns[1].Naive:
		return lab.At(errors.New("want a pipeline on one accelerator after the naive way"), "columns")
	}
	return nil
}

func (t *table1) checkProfile(p table1Profile) *lab.Problem {
	if p.Conventions < 1 || p.Conventions > len(t.Spec.Conventions) {
		return lab.At(fmt.Errorf("%d conventions: want 1 to %d", p.Conventions, len(t.Spec.Conventions)), "conventions")
	}
	for i, m := range p.Networks {
		if err := m.Grid.Check(m.Model); err != nil {
			return lab.At(err, "networks", fmt.Sprint(i), "grid")
		}
		if m.Batch&(m.Batch-1) != 0 {
			return lab.At(fmt.Errorf("a mini-batch of %d: want a power of two", m.Batch), "networks", fmt.Sprint(i), "batch")
		}
	}
	return nil
}

// modelled and measured are the names of samples.
func (n *table1Network) modelled(c *table1Column) string { return "modelled/" + n.Name + "/" + c.Name }
func (n *table1Network) measured(w way) string           { return "measured/" + n.Name + "/" + w.Name }

func (t *table1) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	profile, err := lab.ProfileOf(t.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	var modelled, measured []lab.Job
	for i, n := range t.Spec.Networks {
		a, err := accelerator.Named(n.Accelerator)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", t.ID(), n.Name, err)
		}
		for _, c := range n.Columns {
			modelled = append(modelled, lab.Making(n.modelled(c), 0, func(ctx context.Context) (any, error) {
				return t.model(newEstimator(ctx, t.partitioner, t.optimizer, a), n, c, t.Spec.Conventions[:profile.Conventions])
			}))
		}
		h := &hosted{miniature: profile.Networks[i], optimizer: t.optimizer, lr: t.Spec.LR, seed: t.Spec.Seed, cuts: newCuts(t.partitioner)}
		for _, w := range t.Spec.Measured {
			measured = append(measured, lab.Making(n.measured(w), t.Spec.Seed, func(ctx context.Context) (any, error) { return h.way(ctx, w) }))
		}
	}
	err = lab.MakeMissing(ctx, t.ID()+", modelled", log, p, modelled)
	for i := range measured {
		if err == nil { // one by one, as the next begins its search where this ends
			err = lab.MakeMissing(ctx, t.ID()+", "+measured[i].Sample, log, p, measured[i:i+1])
		}
	}
	return err
}

// storages are the conventions' without repetitions.
func (t *table1) storages() (list []gpipe.Modelling) {
	for _, c := range t.Spec.Conventions {
		if how := c.storage(); !slices.Contains(list, how) {
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
