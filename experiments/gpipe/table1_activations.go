package gpipe

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gpipebench/internal/units"
	"gpipebench/lab"
)

// activationsTable is the ablation of the networks' activation memory.
func (t *table1) activationsTable(r *table1Results) (*lab.Table, error) {
	table := &lab.Table{
		ID: "table1-activations", Title: "Table 1: activation memory of the paper's networks by assumption",
		Caption: []string{
			"Peak activation memory (boundary stash, residuals and workspace) summed over the accelerators. Error: the mean of |ours/paper - 1| over the pipelines. With Naive-1: the mean over the pipelines and Naive-1, which has no micro-batches. No workspace: the mean over the pipelines, with the workspace left out. The row with the smallest error comes first.",
			"Convolutions: the only residuals are the outputs of convolutions, and there is no workspace. The backward pass then computes batch norms, activations, sums and pools again from these outputs. A compiler may do so when memory is short.",
		},
	}
	table.Texts("network", "activations")
	table.Numbers("micro-batch")
	var ways []way
	for _, h := range r.halves {
		for _, c := range h.Columns {
			if !slices.Contains(ways, c.way) {
				ways = append(ways, c.way)
			}
		}
	}
	slices.SortStableFunc(ways, func(a, b way) int { return cmp.Compare(a.K, b.K) })
	for _, w := range ways {
		table.Numbers(w.Name)
	}
	table.Texts("unit")
	table.Numbers("error", "with Naive-1", "no workspace")
	for _, h := range r.halves {
		add := func(name string, micro any, bytes []any, errors ...any) {
			row := []any{h.Name, name, micro}
			for _, w := range ways {
				if i := slices.IndexFunc(h.Columns, func(c *table1Column) bool { return c.way == w }); i >= 0 {
					row = append(row, bytes[i])
				} else {
					row = append(row, lab.Absent)
				}
			}
			table.Add(append(append(row, h.Unit), errors...)...)
		}
		if err := t.addActivations(h, add); err != nil {
			return nil, err
		}
	}
	return table, nil
}

// addActivations adds the rows of a network: its printed memory, torchgpipe's, and ours by assumption.
func (t *table1) addActivations(h *table1Half, add func(name string, micro any, bytes []any, errors ...any)) error {
	n := h.table1Network
	var printed []any
	var paper []float64
	for _, c := range n.Columns {
		_, a := c.memory()
		paper = append(paper, a.number()*float64(n.Unit))
		printed = append(printed, lab.Fixed(a.number(), 2))
	}
	add("paper", "-", printed, "-", "-", "-")
	if other := n.torchgpipeRow(); other != nil {
		add("torchgpipe, f32", 1, other, "-", "-", "-")
	}
	type assumption struct {
		name  string
		micro int
		bytes []any
		error float64
		also  []any
	}
	var all []assumption
	assume := func(name string, micro int, ours, bare []float64) {
		a := assumption{name: name, micro: micro, error: meanError(ours[1:], paper[1:])}
		for _, bytes := range ours {
			a.bytes = append(a.bytes, n.Unit.of(int64(bytes)))
		}
		a.also = []any{lab.Percent(a.error, 0), lab.Percent(meanError(ours, paper), 0), lab.Percent(meanError(bare[1:], paper[1:]), 0)}
		all = append(all, a)
	}
	for _, how := range t.storages() {
		if n.Model.Images() && !how.KeepScores {
			continue
		}
		for _, micro := range n.MicroBatches {
			var ours, bare, convolutions []float64
			for _, w := range h.printed {
				m, ok := w.modelled.Memory[memoryName(how, micro)]
				if !ok {
					return fmt.Errorf("records of %s: %s has no memory of %s", t.ID(), n.modelled(w.column), memoryName(how, micro))
				}
				ours = append(ours, float64(m.activations()))
				bare = append(bare, float64(m.activations()-m.Workspace))
				convolutions = append(convolutions, float64(m.Boundary+w.modelled.Convolved*how.DType.Bytes()*int64(n.Batch/m.M)))
			}
			name := storageName(how)
			if n.Model.Images() {
				name, _, _ = strings.Cut(name, ",")
				assume(name+", convolutions", micro, convolutions, convolutions)
			}
			assume(name, micro, ours, bare)
		}
	}
	slices.SortStableFunc(all, func(a, b assumption) int { return cmp.Compare(a.error, b.error) })
	for _, a := range all {
		add(a.name, a.micro, a.bytes, a.also...)
	}
	return nil
}

// torchgpipeRow is what torchgpipe measured, with micro-batches of one image, in
// the paper's unit; nil of a network that it has not.
func (n *table1Network) torchgpipeRow() (cells []any) {
	for _, c := range n.Columns {
		if c.Torchgpipe == nil {
			return nil
		}
		cell := lab.Figure(c.Torchgpipe.Activations)
		if bytes, err := units.ParseBytes(strings.ReplaceAll(cell.Text, " ", "")); err == nil {
			cell = n.Unit.of(bytes)
		}
		cells = append(cells, cell)
	}
	return cells
}

// meanError is the mean of |a/b - 1|.
func meanError(a, b []float64) float64 {
	var sum float64
	for i := range a {
		sum += math.Abs(a[i]/b[i] - 1)
	}
	return sum / float64(len(a))
}
