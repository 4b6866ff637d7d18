package paperscale

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gpipebench/experiments/plot"
	"gpipebench/experiments/records"
	"gpipebench/experiments/suite"
)

// scaleErrors are relative errors of modelled throughputs, over the cells that
// are not 1 by definition.
type scaleErrors struct {
	Last, All           float64 // mean absolute, against the paper: at the largest M, and of all cells
	TorchLast, TorchAll float64 // and against torchgpipe; NaN if it has no values
	Free                float64 // against the paper at the largest M, were links free
}

// Errors are those of one convention.
func (s *Scale) Errors(log *records.Log, n *Network, v Convention) (scaleErrors, error) {
	var sums, counts [5]float64
	add := func(i int, got, want float64) {
		sums[i] += math.Abs(got/want - 1)
		counts[i]++
	}
	for _, c := range s.Cells() {
		if c == s.Base {
			continue
		}
		got, err := s.Throughput(log, n, v, c, false)
		if err != nil {
			return scaleErrors{}, err
		}
		paper := n.Paper.Of(c)
		last := c.M == s.M[len(s.M)-1]
		add(1, got, paper.Value.Value)
		if last {
			add(0, got, paper.Value.Value)
			free, err := s.Throughput(log, n, v, c, true)
			if err != nil {
				return scaleErrors{}, err
			}
			add(4, free, paper.Value.Value)
		}
		if t := paper.Torchgpipe.Value; t > 0 {
			add(3, got, t)
			if last {
				add(2, got, t)
			}
		}
	}
	return scaleErrors{sums[0] / counts[0], sums[1] / counts[1], sums[2] / counts[2], sums[3] / counts[3], sums[4] / counts[4]}, nil
}

// Tables are, for each network, its cells under the default convention and then
// the errors under each.
func (s *Scale) Tables(log *records.Log, id, title string, sources []string) (cells, conventions []*suite.Table, err error) {
	for _, n := range s.Networks {
		t, err := s.cellTable(log, n, id, title, sources)
		if err != nil {
			return nil, nil, err
		}
		cells = append(cells, t)
		if t, err = s.conventionTable(log, n, id, title); err != nil {
			return nil, nil, err
		}
		conventions = append(conventions, t)
	}
	return cells, conventions, nil
}

// Goal is what was to be reached: a mean absolute error over some networks
// of one table.
type Goal struct {
	Name     string
	Of       *Scale
	Networks []*Network
	Percent  float64
}

// ErrorTable holds the goals against every convention, the same for all.
func ErrorTable(log *records.Log, id string, goals []Goal) (*suite.Table, error) {
	t := &suite.Table{
		ID: id, Title: "Tables 2 and 3, modelled: mean absolute error at the largest M under one convention for all",
		Caption: []string{"The first row is the default convention, which the specs fixed beforehand; the others show how much hangs on what the paper leaves open, and are not there to choose from. Networks without finer cuts are cut at whole layers."},
	}
	t.Texts("convention")
	widest := goals[0].Of.ConventionsOf(goals[0].Networks[0])
	for _, g := range goals {
		t.Numbers(fmt.Sprintf("%s (reach: %.0f%%)", g.Name, g.Percent))
		for _, n := range g.Networks {
			if of := g.Of.ConventionsOf(n); len(of) > len(widest) {
				widest = of
			}
		}
	}
	t.Numbers("within reach")
	var reached []string
	for i, v := range widest {
		name, row, within := v.String(), []any{}, 0
		for _, g := range goals {
			var sum float64
			for _, n := range g.Networks {
				own := v
				if !slices.Contains(n.Splits, v.Split) {
					own.Split = n.Splits[0]
				}
				e, err := g.Of.Errors(log, n, own)
				if err != nil {
					return nil, err
				}
				sum += e.Last / float64(len(g.Networks))
			}
			row = append(row, suite.Percent(sum, 1))
			if 100*sum <= g.Percent {
				within++
			}
		}
		if i == 0 {
			name += " (default)"
		}
		if within == len(goals) {
			reached = append(reached, v.String())
		}
		t.Add(name, row, suite.Joined("%v of %v", within, len(goals)))
	}
	switch len(reached) {
	case 0:
		t.Notes = append(t.Notes, "No convention reaches all.")
	default:
		t.Notes = append(t.Notes, fmt.Sprintf("%d of %d conventions reach all, found by looking: %s.", len(reached), len(widest), strings.Join(reached, "; ")))
	}
	return t, nil
}

// StandardCaption tells what is modelled under the default convention.
func (s *Scale) StandardCaption() string {
	return fmt.Sprintf("the paper's own networks on the accelerators' published figures under the default convention, %v", s.ConventionsOf(s.Networks[0])[0])
}

func (n *Network) hasTorchgpipe() bool { return n.Paper[0].Torchgpipe.Value > 0 }

func (s *Scale) cellTable(log *records.Log, n *Network, id, title string, sources []string) (*suite.Table, error) {
	all := s.ConventionsOf(n)
	standard := all[0]
	t := &suite.Table{
		ID: id + "-" + n.ID, Title: fmt.Sprintf("%s, modelled: %s on %s, relative to K = %d, M = %d", title, n.Name, n.Accelerator, s.Base.K, s.Base.M),
		Caption: append([]string{
			fmt.Sprintf("The paper's own network, %v, %s activations, %s, everything re-materialised; a roofline for every operation from published figures (gpipe/accelerators/%s.yaml), memory and links as planned. Nothing is fitted.", n.Model, n.DType, n.Optimizer, n.Accelerator),
			fmt.Sprintf("Modelled: the default convention, %v. Filled: the largest micro-batch of %s, ... examples that fits (parameters and optimiser state of 12 bytes a parameter, and activations), up to %d examples in all; where not even one fits, one, with an asterisk. Fixed: %d examples. Shrunk: these, or fewer where they do not fit.", standard, suite.JoinWith(RoundSizes(12), ", "), s.Conventions.Most, n.Batch),
			fmt.Sprintf("Lowest, highest: over %d conventions. Free links: the same with links that take no time. Bubble, imbalance, communication and update are shares of the modelled step.", len(all)),
		}, sources...),
	}
	t.Numbers("K", "M", "paper")
	if n.hasTorchgpipe() {
		t.Numbers("torchgpipe")
	}
	t.Numbers("modelled", "error")
	if n.hasTorchgpipe() {
		t.Numbers("error to torchgpipe")
	}
	t.Numbers("lowest", "highest", "free links", "mini-batch", "fullest device", "bubble", "imbalance", "communication", "update")
	t.Texts("partition")
	for _, c := range s.Cells() {
		paper := n.Paper.Of(c)
		got, err := s.Throughput(log, n, standard, c, false)
		if err != nil {
			return nil, err
		}
		free, err := s.Throughput(log, n, standard, c, true)
		if err != nil {
			return nil, err
		}
		lowest, highest := got, got
		for _, v := range all {
			x, err := s.Throughput(log, n, v, c, false)
			if err != nil {
				return nil, err
			}
			lowest, highest = min(lowest, x), max(highest, x)
		}
		step, seconds, err := s.Step(log, n, standard, c)
		if err != nil {
			return nil, err
		}
		against := func(value float64) suite.Value {
			if c == s.Base {
				return suite.Absent
			}
			return suite.Signed(got/value - 1)
		}
		row := []any{c.K, c.M, paper.Value}
		if n.hasTorchgpipe() {
			row = append(row, paper.Torchgpipe)
		}
		row = append(row, suite.Fixed(got, 2), against(paper.Value.Value))
		if n.hasTorchgpipe() {
			row = append(row, against(paper.Torchgpipe.Value))
		}
		share := func(x float64) suite.Value { return suite.Share(x, seconds) }
		b := step.Breakdown
		t.Add(row, suite.Fixed(lowest, 2), suite.Fixed(highest, 2), suite.Fixed(free, 2), step.Micro*c.M, step.Fullest(),
			share(b.Bubble), share(b.Imbalance), share(b.Communication), share(b.Update), step.Partition)
	}
	e, err := s.Errors(log, n, standard)
	if err != nil {
		return nil, err
	}
	t.Notes = append(t.Notes, s.ReachNote(n, e))
	nearest, least := Convention{}, math.Inf(1)
	for _, v := range all {
		of, err := s.Errors(log, n, v)
		if err != nil {
			return nil, err
		}
		if of.Last < least {
			nearest, least = v, of.Last
		}
	}
	t.Notes = append(t.Notes, fmt.Sprintf("Of all conventions, %v comes nearest at M = %d: %s. It was found by looking, so it predicts nothing.", nearest, s.M[len(s.M)-1], suite.Percent(least, 1)))
	return t, nil
}

func (s *Scale) ReachNote(n *Network, e scaleErrors) string {
	text := fmt.Sprintf("Mean absolute error at M = %d under the default convention: %s, within the %.0f%% that were to be reached.", s.M[len(s.M)-1], suite.Percent(e.Last, 1), n.Reach)
	if 100*e.Last > n.Reach {
		text = fmt.Sprintf("Mean absolute error at M = %d under the default convention: %s; %.0f%% were to be reached, so it misses by %.1f points.", s.M[len(s.M)-1], suite.Percent(e.Last, 1), n.Reach, 100*e.Last-n.Reach)
	}
	text += fmt.Sprintf(" With free links: %s.", suite.Percent(e.Free, 1))
	if len(s.M) > 1 {
		text += fmt.Sprintf(" Over all cells: %s.", suite.Percent(e.All, 1))
	}
	if n.hasTorchgpipe() {
		text += fmt.Sprintf(" Against torchgpipe, whose GPUs these accelerators are not: %s, over all cells %s.", suite.Percent(e.TorchLast, 1), suite.Percent(e.TorchAll, 1))
	}
	return text
}

func (s *Scale) conventionTable(log *records.Log, n *Network, id, title string) (*suite.Table, error) {
	last := s.M[len(s.M)-1]
	t := &suite.Table{
		ID: id + "-" + n.ID + "-conventions", Title: fmt.Sprintf("%s, modelled: %s under every convention", title, n.Name),
		Caption: []string{fmt.Sprintf("Each convention's cells are relative to its own K = %d, M = %d. Errors: mean absolute ones over the cells that are not 1 by definition. A cell with an asterisk does not fit the devices' memory.", s.Base.K, s.Base.M)},
	}
	t.Texts("cut by", "at", "recomputation", "batch")
	for _, c := range s.Cells() {
		name := fmt.Sprintf("K=%d, M=%d", c.K, c.M)
		if len(s.M) == 1 {
			name = fmt.Sprintf("K=%d", c.K)
		}
		t.Numbers(name)
	}
	t.Numbers(fmt.Sprintf("error, M=%d", last))
	if len(s.M) > 1 {
		t.Numbers("error, all")
	}
	if n.hasTorchgpipe() {
		t.Numbers(fmt.Sprintf("to torchgpipe, M=%d", last), "to torchgpipe, all")
	}
	pad := func(row []any) []any {
		for len(row) < len(t.Columns) {
			row = append(row, "")
		}
		return row
	}
	paper, torch := []any{"the paper", "", "", ""}, []any{"torchgpipe", "", "", ""}
	for _, c := range s.Cells() {
		paper, torch = append(paper, n.Paper.Of(c).Value), append(torch, n.Paper.Of(c).Torchgpipe)
	}
	t.Add(pad(paper)...)
	if n.hasTorchgpipe() {
		t.Add(pad(torch)...)
	}
	for i, v := range s.ConventionsOf(n) {
		cut := v.Cut.String()
		if i == 0 {
			cut += " (default)"
		}
		row := []any{cut, map[string]string{"coarse": "layers", "fine": "halves"}[v.Split], v.Recompute, v.Batch}
		for _, c := range s.Cells() {
			x, err := s.Throughput(log, n, v, c, false)
			if err != nil {
				return nil, err
			}
			step, _, err := s.Step(log, n, v, c)
			if err != nil {
				return nil, err
			}
			row = append(row, suite.Joined("%v%v", suite.Fixed(x, 2), map[bool]string{false: "*"}[step.Fits]))
		}
		e, err := s.Errors(log, n, v)
		if err != nil {
			return nil, err
		}
		row = append(row, suite.Percent(e.Last, 1))
		if len(s.M) > 1 {
			row = append(row, suite.Percent(e.All, 1))
		}
		if n.hasTorchgpipe() {
			row = append(row, suite.Percent(e.TorchLast, 1), suite.Percent(e.TorchAll, 1))
		}
		t.Add(row...)
	}
	return t, nil
}

// Fullest is the memory of the fullest device, with an asterisk if that has not as
// much.
func (s *Step) Fullest() suite.Value {
	if !s.Fits {
		return suite.Joined("%v *", suite.Bytes(s.Peak))
	}
	return suite.Bytes(s.Peak)
}

// Panels are bars of paper, torchgpipe and model for each network and M.
func (s *Scale) Panels(log *records.Log) ([]plot.Axes, error) {
	var panels []plot.Axes
	for _, n := range s.Networks {
		all := s.ConventionsOf(n)
		for _, m := range s.M {
			p := &plot.BarPanel{
				Title: fmt.Sprintf("%s, M = %d", n.Name, m), Y: fmt.Sprintf("throughput relative to K = %d, M = %d", s.Base.K, s.Base.M),
				Series: []plot.BarSeries{{Name: "paper"}, {Name: "torchgpipe"}, {Name: "modelled"}}, Whiskers: "modelled, all conventions",
			}
			for i, k := range s.K {
				c := suite.Cell{K: k, M: m}
				p.Names = append(p.Names, fmt.Sprintf("K = %d", k))
				p.Series[0].Add(n.Paper.Of(c).Value.Value)
				p.Series[1].Add(n.Paper.Of(c).Torchgpipe.Value)
				got, err := s.Throughput(log, n, all[0], c, false)
				if err != nil {
					return nil, err
				}
				of := plot.Spread{Group: i, Lo: got, Hi: got}
				for _, v := range all {
					x, err := s.Throughput(log, n, v, c, false)
					if err != nil {
						return nil, err
					}
					of.Lo, of.Hi = min(of.Lo, x), max(of.Hi, x)
				}
				if of.Lo < of.Hi {
					p.Series[2].Spread = append(p.Series[2].Spread, of)
				}
				p.Series[2].Add(got)
			}
			panels = append(panels, p)
		}
	}
	return panels, nil
}
