package gpipe

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gpipebench/internal/units"
	"gpipebench/lab"
	"gpipebench/lab/shown"
)

// activationRows are what networks' activations take by each assumption, the smallest error first, after what is
// printed.
func (t *table1) activationRows(r *table1Results) (rows []shown.Values, err error) {
	for _, h := range r.halves {
		if rows, err = t.addActivations(rows, h); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// addActivations adds the rows of a network: its printed memory, torchgpipe's, and ours by assumption.
func (t *table1) addActivations(rows []shown.Values, h *table1Half) ([]shown.Values, error) {
	n := h.table1Network
	add := func(name string, micro any, bytes, errors []lab.Value) {
		row := shown.Values{"network": n.Name, "activations": name, "micro": micro, "unit": n.Unit.String(), "error": errors[0], "naive_error": errors[1], "bare_error": errors[2]}
		for _, of := range t.Spec.Networks {
			for _, c := range of.Columns {
				row[shown.Word(c.Name)] = lab.Absent
			}
		}
		for i, c := range n.Columns {
			row[shown.Word(c.Name)] = bytes[i]
		}
		rows = append(rows, row)
	}
	none := []lab.Value{lab.Absent, lab.Absent, lab.Absent}
	var printed []lab.Value
	var paper []float64
	for _, c := range n.Columns {
		_, a := c.memory()
		paper = append(paper, a.number()*float64(n.Unit))
		printed = append(printed, lab.Fixed(a.number(), 2))
	}
	add("paper", lab.Absent, printed, none)
	if other := n.torchgpipeRow(); other != nil {
		add("torchgpipe, f32", 1, other, none)
	}
	type assumption struct {
		name  string
		micro int
		bytes []lab.Value
		error float64
		also  []lab.Value
	}
	var all []assumption
	assume := func(name string, micro int, ours, bare []float64) {
		a := assumption{name: name, micro: micro, error: meanError(ours[1:], paper[1:])}
		for _, bytes := range ours {
			a.bytes = append(a.bytes, n.Unit.of(int64(bytes)))
		}
		a.also = []lab.Value{lab.Percent(a.error, 0), lab.Percent(meanError(ours, paper), 0), lab.Percent(meanError(bare[1:], paper[1:]), 0)}
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
				assume(name+", convolutions", micro, convolutions, convolutions)
			}
			assume(name, micro, ours, bare)
		}
	}
	slices.SortStableFunc(all, func(a, b assumption) int { return cmp.Compare(a.error, b.error) })
	for _, a := range all {
		add(a.name, a.micro, a.bytes, a.also)
	}
	return rows, nil
}

// torchgpipeRow is what torchgpipe measured, with micro-batches of one image, in
// the paper's unit; nil of a network that it has not.
func (n *table1Network) torchgpipeRow() (cells []lab.Value) {
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
