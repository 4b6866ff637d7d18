package experiments

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// scaleErrors are relative errors of modelled throughputs, over the cells that
// are not 1 by definition.
type scaleErrors struct {
	last, all           float64 // mean absolute, against the paper: at the largest M, and of all cells
	torchLast, torchAll float64 // and against torchgpipe; NaN if it has no values
	free                float64 // against the paper at the largest M, were links free
}

// errors are those of one convention.
func (s *paperScale) errors(log *Log, n *scaleNetwork, v convention) (scaleErrors, error) {
	var sums, counts [5]float64
	add := func(i int, got, want float64) {
		sums[i] += math.Abs(got/want - 1)
		counts[i]++
	}
	for _, c := range s.cells() {
		if c == s.Base {
			continue
		}
		got, err := s.throughput(log, n, v, c, false)
		if err != nil {
			return scaleErrors{}, err
		}
		paper := n.paper(c)
		last := c.M == s.M[len(s.M)-1]
		add(1, got, paper.Value.Value)
		if last {
			add(0, got, paper.Value.Value)
			free, err := s.throughput(log, n, v, c, true)
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

// percent is a share, or "-" if there is none.
func percent(x float64) string {
	if math.IsNaN(x) {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*x)
}

// signed is a relative difference in whole percent; what rounds to none has no
// sign of its own.
func signed(x float64) string { return fmt.Sprintf("%+.0f%%", math.Round(100*x)+0) }

// tables are, for each network, its cells under the default convention and then
// the errors under each.
func (s *paperScale) tables(log *Log, id, title string, sources []string) (cells, conventions []*Table, err error) {
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

// scaleGoal is what was to be reached: a mean absolute error over some networks
// of one table.
type scaleGoal struct {
	name     string
	of       *paperScale
	networks []*scaleNetwork
	percent  float64
}

// errorTable holds the goals against every convention, the same for all.
func errorTable(log *Log, id string, goals []scaleGoal) (*Table, error) {
	t := &Table{
		ID: id, Title: "Tables 2 and 3, modelled: mean absolute error at the largest M under one convention for all",
		Caption: []string{"The first row is the default convention, which the specs fixed beforehand; the others show how much hangs on what the paper leaves open, and are not there to choose from. Networks without finer cuts are cut at whole layers."},
		Columns: []Column{{"convention", true}},
	}
	widest := goals[0].of.conventions(goals[0].networks[0])
	for _, g := range goals {
		t.Columns = append(t.Columns, Column{Name: fmt.Sprintf("%s (reach: %.0f%%)", g.name, g.percent)})
		for _, n := range g.networks {
			if of := g.of.conventions(n); len(of) > len(widest) {
				widest = of
			}
		}
	}
	t.Columns = append(t.Columns, Column{Name: "within reach"})
	var reached []string
	for i, v := range widest {
		row, within := []string{v.String()}, 0
		for _, g := range goals {
			var sum float64
			for _, n := range g.networks {
				own := v
				if !slices.Contains(n.Splits, v.split) {
					own.split = n.Splits[0]
				}
				e, err := g.of.errors(log, n, own)
				if err != nil {
					return nil, err
				}
				sum += e.last / float64(len(g.networks))
			}
			row = append(row, percent(sum))
			if 100*sum <= g.percent {
				within++
			}
		}
		if i == 0 {
			row[0] += " (default)"
		}
		if within == len(goals) {
			reached = append(reached, v.String())
		}
		t.Add(append(row, fmt.Sprintf("%d of %d", within, len(goals)))...)
	}
	switch len(reached) {
	case 0:
		t.Notes = append(t.Notes, "No convention reaches all.")
	default:
		t.Notes = append(t.Notes, fmt.Sprintf("%d of %d conventions reach all, found by looking: %s.", len(reached), len(widest), strings.Join(reached, "; ")))
	}
	return t, nil
}

// standardCaption tells what is modelled under the default convention.
func (s *paperScale) standardCaption() string {
	return fmt.Sprintf("the paper's own networks on the accelerators' published figures under the default convention, %v", s.conventions(s.Networks[0])[0])
}

func (n *scaleNetwork) hasTorchgpipe() bool { return n.Paper[0].Torchgpipe.Value > 0 }

func (s *paperScale) cellTable(log *Log, n *scaleNetwork, id, title string, sources []string) (*Table, error) {
	all := s.conventions(n)
	standard := all[0]
	t := &Table{
		ID: id + "-" + n.ID, Title: fmt.Sprintf("%s, modelled: %s on %s, relative to K = %d, M = %d", title, n.Name, n.Accelerator, s.Base.K, s.Base.M),
		Caption: append([]string{
			fmt.Sprintf("The paper's own network, %v, %s activations, %s, everything re-materialised; a roofline for every operation from published figures (gpipe/accelerators/%s.yaml), memory and links as planned. Nothing is fitted.", n.Model, n.DType, n.Optimizer, n.Accelerator),
			fmt.Sprintf("Modelled: the default convention, %v. Filled: the largest micro-batch of %s, ... examples that fits (parameters and optimiser state of 12 bytes a parameter, and activations), up to %d examples in all; where not even one fits, one, with an asterisk. Fixed: %d examples. Shrunk: these, or fewer where they do not fit.", standard, joinWith(roundSizes(12), ", "), s.Conventions.Most, n.Batch),
			fmt.Sprintf("Lowest, highest: over %d conventions. Free links: the same with links that take no time. Bubble, imbalance, communication and update are shares of the modelled step.", len(all)),
		}, sources...),
		Columns: []Column{{"K", false}, {"M", false}, {"paper", false}},
	}
	if n.hasTorchgpipe() {
		t.Columns = append(t.Columns, Column{Name: "torchgpipe"})
	}
	t.Columns = append(t.Columns, Column{Name: "modelled"}, Column{Name: "error"})
	if n.hasTorchgpipe() {
		t.Columns = append(t.Columns, Column{Name: "error to torchgpipe"})
	}
	for _, name := range []string{"lowest", "highest", "free links", "mini-batch", "fullest device", "bubble", "imbalance", "communication", "update"} {
		t.Columns = append(t.Columns, Column{Name: name})
	}
	t.Columns = append(t.Columns, Column{"partition", true})
	for _, c := range s.cells() {
		paper := n.paper(c)
		got, err := s.throughput(log, n, standard, c, false)
		if err != nil {
			return nil, err
		}
		free, err := s.throughput(log, n, standard, c, true)
		if err != nil {
			return nil, err
		}
		lowest, highest := got, got
		for _, v := range all {
			x, err := s.throughput(log, n, v, c, false)
			if err != nil {
				return nil, err
			}
			lowest, highest = min(lowest, x), max(highest, x)
		}
		step, seconds, err := s.step(log, n, standard, c)
		if err != nil {
			return nil, err
		}
		against := func(value float64) string {
			if c == s.Base {
				return "-"
			}
			return signed(got/value - 1)
		}
		row := []string{fmt.Sprint(c.K), fmt.Sprint(c.M), paper.Value.Text}
		if n.hasTorchgpipe() {
			row = append(row, paper.Torchgpipe.Text)
		}
		row = append(row, fmt.Sprintf("%.2f", got), against(paper.Value.Value))
		if n.hasTorchgpipe() {
			row = append(row, against(paper.Torchgpipe.Value))
		}
		share := func(x float64) string { return FormatShare(x, seconds) }
		peak := FormatBytes(step.Peak)
		if !step.Fits {
			peak += " *"
		}
		b := step.Breakdown
		t.Add(append(row, fmt.Sprintf("%.2f", lowest), fmt.Sprintf("%.2f", highest), fmt.Sprintf("%.2f", free),
			fmt.Sprint(step.Micro*c.M), peak, share(b.Bubble), share(b.Imbalance), share(b.Communication), share(b.Update), joinInts(step.Partition))...)
	}
	e, err := s.errors(log, n, standard)
	if err != nil {
		return nil, err
	}
	t.Notes = append(t.Notes, s.reachNote(n, e))
	nearest, least := convention{}, math.Inf(1)
	for _, v := range all {
		of, err := s.errors(log, n, v)
		if err != nil {
			return nil, err
		}
		if of.last < least {
			nearest, least = v, of.last
		}
	}
	t.Notes = append(t.Notes, fmt.Sprintf("Of all conventions, %v comes nearest at M = %d: %s. It was found by looking, so it predicts nothing.", nearest, s.M[len(s.M)-1], percent(least)))
	return t, nil
}

func (s *paperScale) reachNote(n *scaleNetwork, e scaleErrors) string {
	text := fmt.Sprintf("Mean absolute error at M = %d under the default convention: %s, within the %.0f%% that were to be reached.", s.M[len(s.M)-1], percent(e.last), n.Reach)
	if 100*e.last > n.Reach {
		text = fmt.Sprintf("Mean absolute error at M = %d under the default convention: %s; %.0f%% were to be reached, so it misses by %.1f points.", s.M[len(s.M)-1], percent(e.last), n.Reach, 100*e.last-n.Reach)
	}
	text += fmt.Sprintf(" With free links: %s.", percent(e.free))
	if len(s.M) > 1 {
		text += fmt.Sprintf(" Over all cells: %s.", percent(e.all))
	}
	if n.hasTorchgpipe() {
		text += fmt.Sprintf(" Against torchgpipe, whose GPUs these accelerators are not: %s, over all cells %s.", percent(e.torchLast), percent(e.torchAll))
	}
	return text
}

func (s *paperScale) conventionTable(log *Log, n *scaleNetwork, id, title string) (*Table, error) {
	last := s.M[len(s.M)-1]
	t := &Table{
		ID: id + "-" + n.ID + "-conventions", Title: fmt.Sprintf("%s, modelled: %s under every convention", title, n.Name),
		Caption: []string{fmt.Sprintf("Each convention's cells are relative to its own K = %d, M = %d. Errors: mean absolute ones over the cells that are not 1 by definition. A cell with an asterisk does not fit the devices' memory.", s.Base.K, s.Base.M)},
		Columns: []Column{{"cut by", true}, {"at", true}, {"recomputation", true}, {"batch", true}},
	}
	for _, c := range s.cells() {
		name := fmt.Sprintf("K=%d, M=%d", c.K, c.M)
		if len(s.M) == 1 {
			name = fmt.Sprintf("K=%d", c.K)
		}
		t.Columns = append(t.Columns, Column{Name: name})
	}
	t.Columns = append(t.Columns, Column{Name: fmt.Sprintf("error, M=%d", last)})
	if len(s.M) > 1 {
		t.Columns = append(t.Columns, Column{Name: "error, all"})
	}
	if n.hasTorchgpipe() {
		t.Columns = append(t.Columns, Column{Name: fmt.Sprintf("to torchgpipe, M=%d", last)}, Column{Name: "to torchgpipe, all"})
	}
	pad := func(row []string) []string {
		for len(row) < len(t.Columns) {
			row = append(row, "")
		}
		return row
	}
	paper, torch := []string{"the paper", "", "", ""}, []string{"torchgpipe", "", "", ""}
	for _, c := range s.cells() {
		paper, torch = append(paper, n.paper(c).Value.Text), append(torch, n.paper(c).Torchgpipe.Text)
	}
	t.Add(pad(paper)...)
	if n.hasTorchgpipe() {
		t.Add(pad(torch)...)
	}
	for i, v := range s.conventions(n) {
		row := []string{v.cut.String(), map[string]string{"coarse": "layers", "fine": "halves"}[v.split], v.recompute, v.batch}
		if i == 0 {
			row[0] += " (default)"
		}
		for _, c := range s.cells() {
			x, err := s.throughput(log, n, v, c, false)
			if err != nil {
				return nil, err
			}
			step, _, err := s.step(log, n, v, c)
			if err != nil {
				return nil, err
			}
			row = append(row, fmt.Sprintf("%.2f%s", x, map[bool]string{false: "*"}[step.Fits]))
		}
		e, err := s.errors(log, n, v)
		if err != nil {
			return nil, err
		}
		row = append(row, percent(e.last))
		if len(s.M) > 1 {
			row = append(row, percent(e.all))
		}
		if n.hasTorchgpipe() {
			row = append(row, percent(e.torchLast), percent(e.torchAll))
		}
		t.Add(row...)
	}
	return t, nil
}

// panels are bars of paper, torchgpipe and model for each network and M.
func (s *paperScale) panels(log *Log) ([]axes, error) {
	var panels []axes
	for _, n := range s.Networks {
		all := s.conventions(n)
		for _, m := range s.M {
			p := &barPanel{
				title: fmt.Sprintf("%s, M = %d", n.Name, m), y: fmt.Sprintf("throughput relative to K = %d, M = %d", s.Base.K, s.Base.M),
				series: []barSeries{{name: "paper"}, {name: "torchgpipe"}, {name: "modelled"}}, whiskers: "modelled, all conventions",
			}
			for i, k := range s.K {
				c := cell{k, m}
				p.names = append(p.names, fmt.Sprintf("K = %d", k))
				p.series[0].add(n.paper(c).Value.Value)
				p.series[1].add(n.paper(c).Torchgpipe.Value)
				got, err := s.throughput(log, n, all[0], c, false)
				if err != nil {
					return nil, err
				}
				of := spread{i, got, got}
				for _, v := range all {
					x, err := s.throughput(log, n, v, c, false)
					if err != nil {
						return nil, err
					}
					of.lo, of.hi = min(of.lo, x), max(of.hi, x)
				}
				if of.lo < of.hi {
					p.series[2].spread = append(p.series[2].spread, of)
				}
				p.series[2].add(got)
			}
			panels = append(panels, p)
		}
	}
	return panels, nil
}
