package cells

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"gpipebench/gpipe/accelerator"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
)

// Errors are relative errors of modelled throughputs, over the cells that are not
// 1 by definition.
type Errors struct {
	Last, All           float64 // mean absolute, against the paper: at the largest M, and of all cells
	TorchLast, TorchAll float64 // and against torchgpipe; NaN if it has no values
	Free                float64 // against the paper at the largest M, were links free
}

// Errors returns the errors under one convention.
func (m *Modelled) Errors(n *Network, v Convention) Errors {
	mean := func(v Convention, cells []lab.Cell, of func(lab.PaperCell) lab.Verbatim) float64 {
		var off []float64
		for _, c := range cells {
			if want := of(n.Paper.Of(c)).Value; want > 0 && c != m.Base {
				off = append(off, math.Abs(m.Throughput(n, v, c)/want-1))
			}
		}
		return stat.Mean(off, nil)
	}
	paper := func(p lab.PaperCell) lab.Verbatim { return p.Value }
	torch := func(p lab.PaperCell) lab.Verbatim { return p.Torchgpipe }
	all := m.Cells()
	last := all[len(all)-len(m.K):]
	return Errors{
		Last: mean(v, last, paper), All: mean(v, all, paper),
		TorchLast: mean(v, last, torch), TorchAll: mean(v, all, torch), Free: mean(v.Free(), last, paper),
	}
}

// last is the cell of the largest K and M.
func (s *Scale) last() lab.Cell { return lab.Cell{K: s.K[len(s.K)-1], M: s.M[len(s.M)-1]} }

// span is the lowest and the highest throughput of a cell over all conventions.
func (m *Modelled) span(n *Network, c lab.Cell) (lo, hi float64) {
	return m.spanOf(n, func(v Convention) float64 { return m.Throughput(n, v, c) })
}

// spanOf is the lowest and the highest of what there is under each convention.
func (m *Modelled) spanOf(n *Network, of func(Convention) float64) (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, v := range m.ConventionsOf(n) {
		x := of(v)
		lo, hi = min(lo, x), max(hi, x)
	}
	return lo, hi
}

// overFirst is a cell's throughput relative to that of the smallest K at the same M.
func (m *Modelled) overFirst(n *Network, v Convention, c lab.Cell) float64 {
	return m.Throughput(n, v, c) / m.Throughput(n, v, lab.Cell{K: m.K[0], M: c.M})
}

// Tables are, for each network, its cells under the default convention and then
// the errors under each.
func (m *Modelled) Tables(id, title string, sources []string) (cells, conventions []*lab.Table) {
	for _, n := range m.Networks {
		cells = append(cells, m.cellTable(n, id, title, sources))
		conventions = append(conventions, m.conventionTable(n, id, title))
	}
	return cells, conventions
}

// Goal is what was to be reached: a mean absolute error over some networks
// of one table.
type Goal struct {
	Name     string
	Of       *Modelled
	Networks []*Network
	Percent  float64
}

func (g Goal) String() string { return fmt.Sprintf("%s (reach: %.0f%%)", g.Name, g.Percent) }

// on is the goal for the same networks of another Scale.
func (g Goal) on(of *Modelled) Goal {
	var same []*Network
	for i, n := range of.Networks {
		if slices.Contains(g.Networks, g.Of.Networks[i]) {
			same = append(same, n)
		}
	}
	g.Of, g.Networks = of, same
	return g
}

// mean is the mean over the networks.
func (g Goal) mean(of func(*Network) float64) (sum float64) {
	for _, n := range g.Networks {
		sum += of(n) / float64(len(g.Networks))
	}
	return sum
}

// StandardCaption says what is modelled under the default convention.
func (s *Scale) StandardCaption() string {
	return fmt.Sprintf("the paper's own networks on accelerators at measured rates (at peak: every operation at its peak) under the default convention, %v", s.ConventionsOf(s.Networks[0])[0])
}

func (n *Network) hasTorchgpipe() bool { return n.Paper[0].Torchgpipe.Value > 0 }

// shares says where the shares of the peaks are from.
func (n *Network) shares() string {
	if lab.Named(accelerator.Named, n.Accelerator).Calibrated() {
		return "the shares of them that others measured, some calibrated on the published throughput of another network. Memory and links as planned. Nothing is fitted to the table."
	}
	return "the shares of them that others measured. Memory and links as planned. Nothing is fitted."
}

// when is xs if something is so, and nothing otherwise.
func when[T any](so bool, xs ...T) []T {
	if so {
		return xs
	}
	return nil
}

func (m *Modelled) cellTable(n *Network, id, title string, sources []string) *lab.Table {
	all, torch := m.ConventionsOf(n), n.hasTorchgpipe()
	standard := all[0]
	t := &lab.Table{
		ID: id + "-" + n.ID, Title: fmt.Sprintf("%s, modelled: %s on %s, relative to K = %d, M = %d", title, n.Name, n.Accelerator, m.Base.K, m.Base.M),
		Caption: append([]string{
			fmt.Sprintf("The paper's own network, %v, %s activations, %s, everything re-materialised; a roofline for every operation from published figures (gpipe/accelerators/%s.yaml): peaks, and %s", n.Model, n.DType, n.Optimizer, n.Accelerator, n.shares()),
			fmt.Sprintf("Modelled: the default convention, %v. At peak: the same with every operation at the accelerator's peak. Filled: the largest micro-batch of %s, ... examples that fits (parameters and optimiser state of 12 bytes a parameter, and activations), up to %d examples in all; if not even one example fits, the micro-batch is one example, and an asterisk marks the figure. Fixed: %d examples. Shrunk: the same number, or fewer if they do not fit.", standard, lab.JoinWith(RoundSizes(12), ", "), m.Conventions.Most, n.Batch),
			fmt.Sprintf("Lowest, highest: over %d conventions. Over K = %d: relative to that K at the same M, whatever the base. Free links: the same with links that take no time. Bubble, imbalance, communication and update are shares of the modelled step.", len(all), m.K[0]),
		}, sources...),
	}
	t.Numbers("K", "M", "paper")
	t.Numbers(when(torch, "torchgpipe")...)
	t.Numbers("modelled", "error", "at peak", "error at peak")
	t.Numbers(when(torch, "error to torchgpipe")...)
	t.Numbers("lowest", "highest", "free links", "mini-batch", "fullest device", "bubble", "imbalance", "communication", "update")
	t.Texts("partition")
	several, first := len(m.M) > 1, fmt.Sprintf("over K = %d", m.K[0])
	t.Numbers(when(several, first, "lowest "+first, "highest "+first)...)
	atPeak, peak := m.Peak(n)
	for _, c := range m.Cells() {
		paper, got, plain := n.Paper.Of(c), m.Throughput(n, standard, c), atPeak.Throughput(peak, standard, c)
		lowest, highest := m.span(n, c)
		step, seconds := m.Step(n, standard, c)
		against := func(got, value float64) lab.Value {
			if c == m.Base {
				return lab.Absent
			}
			return lab.Signed(got/value - 1)
		}
		share := func(x float64) lab.Value { return lab.Share(x, seconds) }
		b := step.Breakdown
		t.Add(c.K, c.M, paper.Value, when[any](torch, paper.Torchgpipe), lab.Fixed(got, 2), against(got, paper.Value.Value), lab.Fixed(plain, 2), against(plain, paper.Value.Value), when(torch, against(got, paper.Torchgpipe.Value)),
			lab.Fixed(lowest, 2), lab.Fixed(highest, 2), lab.Fixed(m.Throughput(n, standard.Free(), c), 2), step.Micro*c.M, step.Fullest(),
			share(b.Bubble), share(b.Imbalance), share(b.Communication), share(b.Update), step.Partition, when[any](several, m.firstCells(n, standard, c)...))
	}
	nearest, least := Convention{}, math.Inf(1)
	for _, v := range all {
		if off := m.Errors(n, v).Last; off < least {
			nearest, least = v, off
		}
	}
	t.Notes = []string{
		m.ReachNote(n),
		fmt.Sprintf("Of all conventions, %v comes nearest at M = %d: %s. It was found by trying all conventions, so it predicts nothing.", nearest, m.last().M, lab.Percent(least, 1)),
	}
	return t
}

// firstCells are a cell's throughput relative to the smallest K's under a convention, and the
// lowest and the highest under all.
func (m *Modelled) firstCells(n *Network, v Convention, c lab.Cell) []any {
	lo, hi := m.spanOf(n, func(v Convention) float64 { return m.overFirst(n, v, c) })
	return []any{lab.Fixed(m.overFirst(n, v, c), 2), lab.Fixed(lo, 2), lab.Fixed(hi, 2)}
}

// ReachNote compares a network's errors under the default convention with what was
// to be reached.
func (m *Modelled) ReachNote(n *Network) string {
	e := m.Errors(n, m.ConventionsOf(n)[0])
	text := fmt.Sprintf("Mean absolute error at M = %d under the default convention: %s", m.last().M, lab.Percent(e.Last, 1))
	if 100*e.Last > n.Reach {
		text += fmt.Sprintf("; the goal is %.0f%%, missed by %.1f points.", n.Reach, 100*e.Last-n.Reach)
	} else {
		text += fmt.Sprintf(", within the goal of %.0f%%.", n.Reach)
	}
	atPeak, peak := m.Peak(n)
	text += fmt.Sprintf(" At peak rates it would be %s.", lab.Percent(atPeak.Errors(peak, m.ConventionsOf(n)[0]).Last, 1))
	text += fmt.Sprintf(" With free links: %s.", lab.Percent(e.Free, 1))
	if len(m.M) > 1 {
		text += fmt.Sprintf(" Over all cells: %s.", lab.Percent(e.All, 1))
	}
	if n.hasTorchgpipe() {
		text += fmt.Sprintf(" Against torchgpipe, which ran on other GPUs: %s, over all cells %s.", lab.Percent(e.TorchLast, 1), lab.Percent(e.TorchAll, 1))
	}
	return text
}

func (m *Modelled) conventionTable(n *Network, id, title string) *lab.Table {
	last, several, torch := m.last().M, len(m.M) > 1, n.hasTorchgpipe()
	t := &lab.Table{
		ID: id + "-" + n.ID + "-conventions", Title: fmt.Sprintf("%s, modelled: %s under every convention", title, n.Name),
		Caption: []string{fmt.Sprintf("Each convention's cells are relative to its own K = %d, M = %d. Errors: mean absolute errors over the cells that are not 1 by definition. A cell with an asterisk does not fit the devices' memory.", m.Base.K, m.Base.M)},
	}
	t.Texts("cut by", "at", "recomputation", "batch")
	papers, torches := []any{"the paper", "", "", ""}, []any{"torchgpipe", "", "", ""}
	for _, c := range m.Cells() {
		name := fmt.Sprintf("K=%d", c.K)
		if several {
			name += fmt.Sprintf(", M=%d", c.M)
		}
		t.Numbers(name)
		papers, torches = append(papers, n.Paper.Of(c).Value), append(torches, n.Paper.Of(c).Torchgpipe)
	}
	t.Numbers(fmt.Sprintf("error, M=%d", last))
	t.Numbers(when(several, "error, all")...)
	t.Numbers(when(torch, fmt.Sprintf("to torchgpipe, M=%d", last), "to torchgpipe, all")...)
	without := make([]lab.Value, len(t.Columns)-len(papers)) // errors
	t.Add(papers, without)
	if torch {
		t.Add(torches, without)
	}
	for i, v := range m.ConventionsOf(n) {
		cut := v.Cut.String()
		if i == 0 {
			cut += " (default)"
		}
		row := []any{cut, map[string]string{"coarse": "layers", "fine": "halves"}[v.Split], v.Recompute, v.Batch}
		for _, c := range m.Cells() {
			step, _ := m.Step(n, v, c)
			row = append(row, lab.Joined("%v%v", lab.Fixed(m.Throughput(n, v, c), 2), map[bool]string{false: "*"}[step.Fits]))
		}
		e := m.Errors(n, v)
		t.Add(row, lab.Percent(e.Last, 1), when(several, lab.Percent(e.All, 1)), when(torch, lab.Percent(e.TorchLast, 1), lab.Percent(e.TorchAll, 1)))
	}
	return t
}

// Fullest is the memory of the fullest device, with an asterisk if it has less.
func (s *Step) Fullest() lab.Value { return Memory(s.Peak, s.Fits) }

// Memory is what is needed, with an asterisk if there is less.
func Memory(bytes int64, fits bool) lab.Value {
	if !fits {
		return lab.Joined("%v *", lab.Bytes(bytes))
	}
	return lab.Bytes(bytes)
}

// Panels are the paper, the model over all conventions, and torchgpipe, for each network
// and M.
func (m *Modelled) Panels() (panels []plot.Axes) {
	for _, n := range m.Networks {
		for _, micro := range m.M {
			p := &plot.BarPanel{
				Title: fmt.Sprintf("%s, M = %d", n.Name, micro), Y: fmt.Sprintf("throughput relative to K = %d, M = %d", m.Base.K, m.Base.M),
				Series:   []plot.BarSeries{{Name: "paper", As: plot.Across}, {Name: "modelled", As: plot.Range}, {Name: "torchgpipe"}, {Name: "at peak", As: plot.Mark}},
				Whiskers: "modelled, all conventions",
			}
			value := func(v lab.Verbatim) float64 {
				if v.Value == 0 {
					return math.NaN() // not printed
				}
				return v.Value
			}
			for _, k := range m.K {
				c := lab.Cell{K: k, M: micro}
				p.Names = append(p.Names, fmt.Sprintf("K = %d", k))
				p.Series[0].Add(value(n.Paper.Of(c).Value))
				got := lab.Value{Numbers: []float64{m.Throughput(n, m.ConventionsOf(n)[0], c)}}
				if lo, hi := m.span(n, c); lo < hi {
					got.Interval = []float64{lo, hi}
				}
				p.Series[1].AddValue(got)
				p.Series[2].Add(value(n.Paper.Of(c).Torchgpipe))
				atPeak, peak := m.Peak(n)
				p.Series[3].Add(atPeak.Throughput(peak, m.ConventionsOf(n)[0], c))
			}
			panels = append(panels, p)
		}
	}
	return plot.OneScale(panels)
}

// WhatIfTable holds the goals against variations of accelerators at their peaks.
func WhatIfTable(log *records.Log, id string, variations []accelerator.Variation, goals []Goal) (*lab.Table, error) {
	t := &lab.Table{
		ID: id, Title: "Tables 2 and 3, modelled: what the errors depended on at peak rates",
		Caption: []string{"Mean absolute error at the largest M by the default convention, and in brackets the cells of the largest K. The first row has measured rates. The others are as it was before these: every product runs at the published peak, which no product reaches in practice. They show how much depended on that; nothing was fitted to them. The experiment sensitivity varies what is assumed at measured rates."},
	}
	t.Texts("accelerators")
	for _, g := range goals {
		t.Numbers(g.String())
	}
	add := func(row string, goals []Goal) {
		cells := []any{row}
		for _, g := range goals {
			var largest []any
			for _, n := range g.Networks {
				largest = append(largest, lab.Fixed(g.Of.Throughput(n, g.Of.ConventionsOf(n)[0], g.Of.last()), 2))
			}
			mean := g.mean(func(n *Network) float64 { return g.Of.Errors(n, g.Of.ConventionsOf(n)[0]).Last })
			cells = append(cells, lab.Joined("%v [%v]", lab.Percent(mean, 1), lab.List(", ", largest...)))
		}
		t.Add(cells...)
	}
	add("at measured rates", goals)
	plain := slices.Clone(goals)
	for i, g := range goals {
		plain[i] = g.on(g.Of.peak)
	}
	add("at peak", plain)
	for _, v := range variations {
		changed := slices.Clone(goals)
		for i, g := range goals {
			of, err := g.Of.WhatIf(v).ReadOwn(log)
			if err != nil {
				return nil, err
			}
			changed[i] = g.on(of)
		}
		add("at peak, "+v.Name, changed)
	}
	paper := []any{"the paper"}
	for _, g := range goals {
		var largest []any
		for _, n := range g.Networks {
			largest = append(largest, n.Paper.Of(g.Of.last()).Value)
		}
		paper = append(paper, lab.Joined("[%v]", lab.List(", ", largest...)))
	}
	t.Add(paper...)
	return t, nil
}
