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

// activationsTable is the ablation of a network's activation memory.
func (t *table1) activationsTable(h *table1Half) (*lab.Table, error) {
	n := h.table1Network
	table := &lab.Table{
		ID: "table1-activations-" + lab.Slug(n.Name), Title: "Table 1: activation memory of the paper's networks by assumption, " + n.Name,
		Caption: []string{
			fmt.Sprintf("Peak activation memory (boundary stash, residuals and workspace) summed over the accelerators, in %v. Error: the mean of |ours/paper - 1| over the pipelines. With Naive-1: the mean over the pipelines and Naive-1, which has no micro-batches. No workspace: the mean over the pipelines, with the workspace left out. The row with the smallest error comes first.", n.Unit),
		},
	}
	table.Texts("activations")
	table.Numbers("micro-batch")
	if n.Model.Images() {
		table.Caption = append(table.Caption, "Convolutions: the only residuals are the outputs of convolutions, and there is no workspace. The backward pass then computes batch norms, activations, sums and pools again from these outputs. A compiler may do so when memory is short.")
	}
	cells := []any{"paper", "-"}
	var paper []float64
	for _, c := range n.Columns {
		_, a := c.memory()
		paper = append(paper, a.number()*float64(n.Unit))
		table.Numbers(c.Name)
		cells = append(cells, lab.Fixed(a.number(), 2))
	}
	table.Numbers("error", "with Naive-1", "no workspace")
	table.Add(cells, "-", "-", "-")
	if other := n.torchgpipeRow(); other != nil {
		table.Add(other, "-", "-", "-")
	}
	type assumption struct {
		cells []any
		error float64
	}
	var all []assumption
	add := func(name string, micro int, ours, bare []float64) {
		a := assumption{[]any{name, micro}, meanError(ours[1:], paper[1:])}
		for _, bytes := range ours {
			a.cells = append(a.cells, n.Unit.of(int64(bytes)))
		}
		a.cells = append(a.cells, lab.Percent(a.error, 0), lab.Percent(meanError(ours, paper), 0), lab.Percent(meanError(bare[1:], paper[1:]), 0))
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
					return nil, fmt.Errorf("records of %s: %s has no memory of %s", t.ID(), n.modelled(w.column), memoryName(how, micro))
				}
				ours = append(ours, float64(m.activations()))
				bare = append(bare, float64(m.activations()-m.Workspace))
				convolutions = append(convolutions, float64(m.Boundary+w.modelled.Convolved*how.DType.Bytes()*int64(n.Batch/m.M)))
			}
			name := storageName(how)
			if n.Model.Images() {
				name, _, _ = strings.Cut(name, ",")
				add(name+", convolutions", micro, convolutions, convolutions)
			}
			add(name, micro, ours, bare)
		}
	}
	slices.SortStableFunc(all, func(a, b assumption) int { return cmp.Compare(a.error, b.error) })
	for _, a := range all {
		table.Add(a.cells...)
	}
	return table, nil
}

// torchgpipeRow is what torchgpipe measured, with micro-batches of one image, in
// the paper's unit; nil of a network that it has not.
func (n *table1Network) torchgpipeRow() []any {
	cells := []any{"torchgpipe, f32", 1}
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
