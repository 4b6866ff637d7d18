package gpipe

import (
	"errors"
	"fmt"
	"slices"

	"gpipebench/gpipe"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/schedule"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/nn"
	"gpipebench/train"
)

// searchedRun is the search in a grid: every row has to have a network that can
// be cut so, and the smallest has to be one.
type searchedRun struct {
	lab.ModelledRun
	way  way
	grid grid
}

func (s searchedRun) Check(known map[train.Model]int) error {
	for _, row := range s.way.rows(s.grid, s.Model) {
		if len(row) == 0 {
			return fmt.Errorf("no network of the grid has layers for %d partitions: want larger ones", s.way.K)
		}
		s.Model = row[0].of(s.Model)
		if err := s.ModelledRun.Check(known); err != nil {
			return fmt.Errorf("%v: %w", row[0], err)
		}
	}
	return nil
}

// candidate is a network on a grid.
type candidate struct {
	Layers  int `yaml:"layers" json:"layers"`
	Filters int `yaml:"filters" json:"filters,omitempty" want:"0.."` // of AmoebaNet-D
}

func (c candidate) String() string {
	if c.Filters == 0 {
		return fmt.Sprint(c.Layers)
	}
	return fmt.Sprintf("(%d, %d)", c.Layers, c.Filters)
}

// value is a network, or that there is none, with L and D as its numbers.
func (c candidate) value() lab.Value {
	v := lab.Whole(int64(c.Layers), c.String())
	switch {
	case c.none():
		return lab.Value{Text: "none"}
	case c.Filters > 0:
		v.Numbers = append(v.Numbers, float64(c.Filters))
	}
	return v
}

// none reports whether nothing fits.
func (c candidate) none() bool { return c.Layers == 0 }

func (c candidate) of(m train.Model) train.Model {
	m.Layers, m.Filters = c.Layers, c.Filters
	return m
}

// grid is the networks that are searched: (L, D) with D in steps, or layers one
// by one.
type grid struct {
	Layers  []int `yaml:"layers" want:"1..1500,optional"`
	Filters struct {
		Step int `yaml:"step" want:"0.."`
		Most int `yaml:"most" want:"0..65536"`
	} `yaml:"filters"`
	UpTo int `yaml:"layers_up_to" want:"0..10000"`
}

func (g grid) Check(m train.Model) error {
	switch {
	case m.Name == train.AmoebaNet && (len(g.Layers) == 0 || g.Filters.Step < 8 || g.Filters.Step%8 != 0 || g.Filters.Most < g.Filters.Step || g.UpTo != 0):
		return fmt.Errorf("want the numbers of layers, and filters in steps of a multiple of 8")
	case m.Name != train.AmoebaNet && (g.UpTo < 1 || len(g.Layers) > 0 || g.Filters.Step != 0):
		return fmt.Errorf("want the largest number of layers")
	}
	return nil
}

// rows are the grid's lines along which networks grow.
func (g grid) rows() [][]candidate {
	if g.UpTo > 0 {
		row := make([]candidate, g.UpTo)
		for i := range row {
			row[i].Layers = i + 1
		}
		return [][]candidate{row}
	}
	var rows [][]candidate
	for _, l := range g.Layers {
		var row []candidate
		for d := g.Filters.Step; d <= g.Filters.Most; d += g.Filters.Step {
			row = append(row, candidate{l, d})
		}
		rows = append(rows, row)
	}
	return rows
}

// borders finds the border in every row of a grid, and the largest network that fits,
// of most parameters. The search begins where a border was found before, or at guess.
func (c *cuts) borders(m train.Model, rows [][]candidate, guess func(row []candidate) int, fits func(candidate) (bool, error)) (all []cells.Border[candidate], largest candidate, most int64, err error) {
	for i, row := range rows {
		at, ok := c.found[i]
		if !ok {
			at = guess(row)
		}
		b, err := cells.FindBorder(row, at, fits)
		if err != nil {
			return nil, largest, 0, err
		}
		c.found[i] = max(0, slices.Index(row, b.Fits))
		all = append(all, b)
		if b.Fits.none() {
			continue
		}
		size, err := params(b.Fits.of(m))
		if err != nil {
			return nil, largest, 0, err
		}
		if size > most {
			largest, most = b.Fits, size
		}
	}
	return all, largest, most, nil
}

// largestMicro finds the largest micro-batch that fits, of those that are the least
// times a power of two and divide the mini-batch; 0 if none does.
func largestMicro(batch, least int, fits func(size int) (bool, error)) (int, error) {
	var row []int
	for size := least; size <= batch && batch%size == 0; size *= 2 {
		row = append(row, size)
	}
	b, err := cells.FindBorder(row, 0, fits)
	return b.Fits, err
}

// pipeline returns a network trained in a way. Micro is the number of examples of a
// micro-batch, which naive training ignores. A nil balance is decided by FLOPs.
func (w way) pipeline(m train.Model, balance []int, batch, micro int, optimizer nn.Optimizer) (gpipe.Pipeline, error) {
	layers, err := m.Build()
	if err != nil {
		return gpipe.Pipeline{}, err
	}
	loss, err := m.Loss(0)
	if err != nil {
		return gpipe.Pipeline{}, err
	}
	p := gpipe.Pipeline{Layers: layers, Loss: loss, Partitions: w.K, Cut: gpipe.Cut{Balance: balance}, MicroBatches: batch / micro, Numerics: gpipe.Numerics{Optimizer: optimizer}}
	if w.Naive {
		p.MicroBatches, p.Schedule, p.Checkpoint = 1, schedule.Naive, schedule.Never
	}
	return p, nil
}

// cuts caches what networks' layers cost, where they are cut, and where borders were
// found.
type cuts struct {
	by    partition.Partitioner
	costs map[train.Model][]float64
	sizes map[cutModel][]int
	found map[int]int // the last that fit, by row of a grid
}

type cutModel struct {
	train.Model
	k int
}

func newCuts(by partition.Partitioner) *cuts {
	return &cuts{by, map[train.Model][]float64{}, map[cutModel][]int{}, map[int]int{}}
}

// flops are the layers' costs.
func (c *cuts) flops(m train.Model) ([]float64, error) {
	if costs, ok := c.costs[m]; ok {
		return costs, nil
	}
	traced := m
	if alike(m) {
		traced.Layers = 1
	}
	p, err := way{K: 1}.pipeline(traced, nil, 1, 1, nil)
	if err != nil {
		return nil, err
	}
	d, err := p.Counted(m.Input(1))
	if err != nil {
		return nil, err
	}
	costs := d.FLOPs()
	if alike(m) {
		costs = slices.Concat(costs[:1], slices.Repeat(costs[1:2], m.Layers), costs[2:])
	}
	c.costs[m] = costs
	return costs, nil
}

// alike reports whether a network is an embedding, layers of one kind, and a
// softmax.
func alike(m train.Model) bool { return m.Name == train.LanguageModel && !m.Fine }

// balance is the partition of a network by FLOPs.
func (c *cuts) balance(m train.Model, k int) ([]int, error) {
	if k == 1 {
		layers, err := m.Build()
		return []int{len(layers)}, err
	}
	if sizes, ok := c.sizes[cutModel{m, k}]; ok {
		return sizes, nil
	}
	costs, err := c.flops(m)
	if err != nil {
		return nil, err
	}
	split, err := partition.Split(c.by, costs, k)
	c.sizes[cutModel{m, k}] = split.Sizes
	return split.Sizes, err
}

// rows returns the rows of a grid that can be cut into a way's partitions.
func (w way) rows(g grid, m train.Model) [][]candidate {
	rows := g.rows()
	for i, row := range rows {
		first := 0
		for alike(m) && first < len(row) && row[first].Layers+2 < w.K {
			first++
		}
		rows[i] = row[first:]
	}
	return rows
}

// params counts a network's parameters.
func params(m train.Model) (int64, error) {
	if alike(m) && m.Layers > 2 { // layers are of one size
		one, two := m, m
		one.Layers, two.Layers = 1, 2
		a, errA := params(one)
		b, errB := params(two)
		return a + int64(m.Layers-1)*(b-a), errors.Join(errA, errB)
	}
	layers, err := m.Build()
	return nn.CountParams(layers), err
}
