package cells

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"gpipebench/gpipe/accelerator"
	"gpipebench/lab"
	"gpipebench/lab/plot"
)

// Errors are relative errors of modelled throughputs, over the cells that are not
// 1 by definition; NaN where the paper has no values.
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
			if want := of(n.Paper.Of(c)).Number(); want > 0 && c != m.Base {
				off = append(off, math.Abs(m.Throughput(n, v, c)/want-1))
			}
		}
		return stat.Mean(off, nil) // NaN of none
	}
	paper := func(p lab.PaperCell) lab.Verbatim { return p.Value }
	torch := func(p lab.PaperCell) lab.Verbatim { return p.Torchgpipe }
	all, last := m.Cells(), []lab.Cell{}
	for _, c := range all {
		if c.M == m.last().M {
			last = append(last, c)
		}
	}
	return Errors{
		Last: mean(v, last, paper), All: mean(v, all, paper),
		TorchLast: mean(v, last, torch), TorchAll: mean(v, all, torch), Free: mean(v.Free(), last, paper),
	}
}

// last is the cell of the largest K, at the largest M for which the paper has values; if it has
// none at all, at the largest M.
func (s *Scale) last() lab.Cell {
	m := 0
	for _, c := range s.Cells() {
		for _, n := range s.Networks {
			if c != s.Base && n.Paper.Of(c).Value != "" {
				m = max(m, c.M)
			}
		}
	}
	if m == 0 {
		m = slices.Max(s.M)
	}
	return lab.Cell{K: slices.Max(s.K), M: m}
}

// Figure is a throughput relative to another cell's under the same convention.
type Figure struct {
	X    float64
	Fits bool // both steps fit the memory of their devices
}

// Value is the figure with two digits, and with an asterisk unless it fits.
func (f Figure) Value() lab.Value { return lab.Starred(lab.Fixed(f.X, 2), f.Fits) }

// Relative is a cell's throughput relative to the base's.
func (m *Modelled) Relative(n *Network, v Convention, c lab.Cell) Figure {
	return m.over(n, v, c, m.Base)
}

// overFirst is a cell's throughput relative to the smallest K's at the same M.
func (m *Modelled) overFirst(n *Network, v Convention, c lab.Cell) Figure {
	return m.over(n, v, c, lab.Cell{K: slices.Min(m.K), M: c.M})
}

func (m *Modelled) over(n *Network, v Convention, c, base lab.Cell) Figure {
	step, _ := m.Step(n, v, c)
	under, _ := m.Step(n, v, base)
	return Figure{m.Throughput(n, v, c) / m.Throughput(n, v, base), step.Fits && under.Fits}
}

// span is the lowest and the highest of a cell's figures under all conventions.
func (m *Modelled) span(n *Network, of func(Convention) Figure) (lo, hi Figure) {
	lo.X, hi.X = math.Inf(1), math.Inf(-1)
	for _, v := range m.ConventionsOf(n) {
		x := of(v)
		if x.X < lo.X {
			lo = x
		}
		if x.X > hi.X {
			hi = x
		}
	}
	return lo, hi
}

// Tables are the cells of all networks under the default convention, and their errors under each. Sources
// are sentences on where figures are from.
func (m *Modelled) Tables(id, title string, sources ...string) (cells, conventions *lab.Table) {
	return m.cellTable(id, title, sources), m.conventionTable(id+"-conventions", title)
}

// StandardCaption says what is modelled under the default convention.
func (s *Scale) StandardCaption() string {
	return fmt.Sprintf("the paper's own networks on accelerators at measured rates (at peak: every operation at its peak) under the default convention, %v", s.ConventionsOf(s.Networks[0])[0])
}

func (n *Network) hasTorchgpipe() bool {
	return slices.ContainsFunc(n.Paper, func(c lab.PaperCell) bool { return c.Torchgpipe != "" })
}

// shares says where the shares of the peaks are from.
func (n *Network) shares() string {
	if lab.Named(accelerator.Named, n.Accelerator).Calibrated() {
		return "the shares of them that others measured, some of them calibrated on the published throughput of another network. Memory and links as planned. Nothing is fitted to this table."
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

// torchgpipe reports whether torchgpipe has figures of any network.
func (s *Scale) torchgpipe() bool { return slices.ContainsFunc(s.Networks, (*Network).hasTorchgpipe) }

func (m *Modelled) cellTable(id, title string, sources []string) *lab.Table {
	torch, several := m.torchgpipe(), len(m.M) > 1
	standard, leastK := m.ConventionsOf(m.Networks[0])[0], slices.Min(m.K)
	t := &lab.Table{ID: id, Title: fmt.Sprintf("%s, modelled: relative to K = %d, M = %d", title, m.Base.K, m.Base.M)}
	for _, n := range m.Networks {
		t.Caption = append(t.Caption, fmt.Sprintf("%s: the paper's own network, %v, on %s, %s activations, %s, mini-batches of %d examples, everything re-materialised, under %d conventions; a roofline for every operation from published figures (gpipe/accelerators/%s.yaml): peaks, and %s",
			n.Name, n.Model, n.Accelerator, n.DType, n.Optimizer, n.Batch, len(m.ConventionsOf(n)), n.Accelerator, n.shares()))
	}
	t.Caption = append(t.Caption,
		fmt.Sprintf("Modelled: the default convention, %v. At peak: the same with every operation at the accelerator's peak. Filled: the largest micro-batch of %s, ... examples that fits (parameters and optimiser state of 12 bytes a parameter, and activations), up to %d examples in all; if not even one example fits, the micro-batch is one example. Fixed: the network's mini-batch. Shrunk: the same, or fewer if they do not fit.", standard, lab.JoinWith(RoundSizes(12), ", "), m.Conventions.Most),
		fmt.Sprintf("Lowest, highest: over all conventions. Over K = %d: relative to that K at the same M instead of to the base. Free links: modelled, with links that take no time. Bubble, imbalance, communication and update are shares of the modelled step.", leastK))
	t.Caption = append(t.Caption, sources...)
	t.Texts("network")
	t.Numbers("K", "M", "paper")
	t.Numbers(when(torch, "torchgpipe")...)
	t.Numbers("modelled", "error", "at peak", "error at peak")
	t.Numbers(when(torch, "error to torchgpipe")...)
	t.Numbers("lowest", "highest", "free links", "mini-batch", "fullest device", "bubble", "imbalance", "communication", "update")
	t.Texts("partition")
	first := fmt.Sprintf("over K = %d", leastK)
	t.Numbers(when(several, first, "lowest "+first, "highest "+first)...)
	t.Texts("command")
	for _, n := range m.Networks {
		atPeak, peak := m.Peak(n)
		for _, c := range m.Cells() {
			paper, got, plain := n.Paper.Of(c), m.Relative(n, standard, c), atPeak.Relative(peak, standard, c)
			lowest, highest := m.span(n, func(v Convention) Figure { return m.Relative(n, v, c) })
			step, seconds := m.Step(n, standard, c)
			against := func(got Figure, value lab.Verbatim) lab.Value {
				if c == m.Base {
					return lab.Absent
				}
				return value.Off(got.X)
			}
			share := func(x float64) lab.Value { return lab.Share(x, seconds) }
			b := step.Breakdown
			t.Add(n.Name, c.K, c.M, paper.Value, when[any](torch, paper.Torchgpipe), got.Value(), against(got, paper.Value), plain.Value(), against(plain, paper.Value), when(torch, against(got, paper.Torchgpipe)),
				lowest.Value(), highest.Value(), m.Relative(n, standard.Free(), c).Value(), step.Micro*c.M, step.Fullest(),
				share(b.Bubble), share(b.Imbalance), share(b.Communication), share(b.Update), step.Partition, when[any](several, m.firstCells(n, standard, c)...),
				"gpipebench "+strings.Join(n.simulated(standard, c, step), " "))
		}
	}
	t.Notes = lab.StarNote(t)
	for _, n := range m.Networks {
		t.Notes = append(t.Notes, n.Name+". "+m.ReachNote(n)+m.nearestNote(n))
	}
	return t
}

// nearestNote is which convention comes nearest to the paper; "" if the paper has no values.
func (m *Modelled) nearestNote(n *Network) string {
	nearest, least := Convention{}, math.Inf(1)
	for _, v := range m.ConventionsOf(n) {
		if off := m.Errors(n, v).Last; off < least {
			nearest, least = v, off
		}
	}
	if math.IsInf(least, 1) {
		return ""
	}
	return fmt.Sprintf(" Of all conventions, %v comes nearest at M = %d: %s. It was found by trying all conventions, so it predicts nothing.", nearest, m.last().M, lab.Percent(least, 1))
}

// simulated is the command line of a cell's step. Its stages are given, since a cut may balance what layers
// cost at another mini-batch.
func (n *Network) simulated(v Convention, c lab.Cell, step *Step) []string {
	return slices.Concat([]string{"simulate"}, n.Model.Flags(), when(v.Split == "fine", "--split", "fine"), []string{
		"--device", n.Accelerator, "--dtype", n.DType, "--optimizer", n.Optimizer, "-k", fmt.Sprint(c.K), "-m", fmt.Sprint(c.M),
		"--batch", fmt.Sprint(step.Micro * c.M), "--balance", lab.JoinWith(step.Partition, ","), "--accounting", "paper",
	}, when(v.Recompute == "late", "--late-recompute"))
}

// firstCells are a cell's throughput relative to the smallest K's under a convention, and the
// lowest and the highest under all.
func (m *Modelled) firstCells(n *Network, v Convention, c lab.Cell) []any {
	lo, hi := m.span(n, func(v Convention) Figure { return m.overFirst(n, v, c) })
	return []any{m.overFirst(n, v, c).Value(), lo.Value(), hi.Value()}
}

// ReachNote compares a network's errors under the default convention with what was
// to be reached.
func (m *Modelled) ReachNote(n *Network) string {
	e := m.Errors(n, m.ConventionsOf(n)[0])
	if math.IsNaN(e.Last) {
		return "The paper has no values to compare with."
	}
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

func (m *Modelled) conventionTable(id, title string) *lab.Table {
	last, several, torch := m.last().M, len(m.M) > 1, m.torchgpipe()
	t := &lab.Table{
		ID: id, Title: title + ", modelled under every convention",
		Caption: []string{fmt.Sprintf("Each convention's cells are relative to its own K = %d, M = %d. At peak: every operation at the accelerator's peak. Errors: mean absolute errors over the cells other than the base, which is 1 by definition.", m.Base.K, m.Base.M)},
	}
	t.Texts("network", "cut by", "at", "recomputation", "batch")
	for _, c := range m.Cells() {
		name := fmt.Sprintf("K=%d", c.K)
		if several {
			name += fmt.Sprintf(", M=%d", c.M)
		}
		t.Numbers(name)
	}
	t.Numbers(fmt.Sprintf("error, M=%d", last))
	t.Numbers(when(several, "error, all")...)
	t.Numbers(when(torch, fmt.Sprintf("to torchgpipe, M=%d", last), "to torchgpipe, all")...)
	for _, n := range m.Networks {
		printed := func(by string, of func(lab.PaperCell) lab.Verbatim) {
			row := []any{n.Name, by, "", "", ""}
			for _, c := range m.Cells() {
				row = append(row, of(n.Paper.Of(c)))
			}
			t.Add(row, make([]lab.Value, len(t.Columns)-len(row))) // without errors
		}
		printed("the paper", func(p lab.PaperCell) lab.Verbatim { return p.Value })
		if n.hasTorchgpipe() {
			printed("torchgpipe", func(p lab.PaperCell) lab.Verbatim { return p.Torchgpipe })
		}
		add := func(m *Modelled, n *Network, v Convention, says string) {
			row := []any{n.Name, v.Cut.String() + says, map[string]string{"coarse": "layers", "fine": "halves"}[v.Split], v.Recompute, v.Batch}
			for _, c := range m.Cells() {
				row = append(row, m.Relative(n, v, c).Value())
			}
			e := m.Errors(n, v)
			t.Add(row, lab.Percent(e.Last, 1), when(several, lab.Percent(e.All, 1)), when(torch, lab.Percent(e.TorchLast, 1), lab.Percent(e.TorchAll, 1)))
		}
		all := m.ConventionsOf(n)
		atPeak, peak := m.Peak(n)
		add(m, n, all[0], " (default)")
		add(atPeak, peak, all[0], " (default, at peak)")
		for _, v := range all[1:] {
			add(m, n, v, "")
		}
	}
	t.Notes = lab.StarNote(t)
	return t
}

// Fullest is the memory of the fullest device, with an asterisk if it has less.
func (s *Step) Fullest() lab.Value { return lab.Starred(lab.Bytes(s.Peak), s.Fits) }

// Panels are the paper, the model over all conventions, and torchgpipe, for each network
// and M.
func (m *Modelled) Panels() (panels []plot.Axes) {
	for _, n := range m.Networks {
		for _, micro := range m.M {
			p := &plot.BarPanel{
				Title: fmt.Sprintf("%s, M = %d", n.Name, micro), Y: fmt.Sprintf("throughput relative to K = %d, M = %d", m.Base.K, m.Base.M),
				Series:   []plot.BarSeries{{Name: "paper", As: plot.Across}, {Name: "modelled", As: plot.Range}, {Name: "torchgpipe"}, {Name: "modelled, at peak", As: plot.Mark}},
				Whiskers: "modelled, all conventions",
			}
			for _, k := range m.K {
				c := lab.Cell{K: k, M: micro}
				p.Names = append(p.Names, fmt.Sprintf("K = %d", k))
				p.Series[0].Add(n.Paper.Of(c).Value.Number())
				got := lab.Value{Numbers: []float64{m.Throughput(n, m.ConventionsOf(n)[0], c)}}
				if lo, hi := m.span(n, func(v Convention) Figure { return m.Relative(n, v, c) }); lo.X < hi.X {
					got.Interval = []float64{lo.X, hi.X}
				}
				p.Series[1].AddValue(got)
				p.Series[2].Add(n.Paper.Of(c).Torchgpipe.Number())
				atPeak, peak := m.Peak(n)
				p.Series[3].Add(atPeak.Throughput(peak, m.ConventionsOf(n)[0], c))
			}
			panels = append(panels, p)
		}
	}
	return plot.OneScale(panels)
}
