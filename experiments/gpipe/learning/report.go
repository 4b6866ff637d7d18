package learning

import (
	"fmt"
	"math"

	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
)

func (l *learning) Report(log, reference *records.Log) (*lab.Report, error) {
	table := &lab.Table{
		ID: "learning", Title: l.Spec.Title,
		Caption: []string{
			fmt.Sprintf("K = %d, M = %d, checkpoint %v, %v devices. Losses are in bits per token (for the text: per byte), on held-out data. Held against: a loss to compare with, its bits, and the loss of the network over it.",
				l.setup.Partitions, l.setup.MicroBatches, l.setup.Checkpoint, l.setup.Device),
		},
	}
	table.Texts("task")
	table.Numbers("parameters", "steps", "loss", "accuracy")
	table.Texts("held against")
	table.Numbers("bits", "loss/that")
	table.Texts("SHA-256 of the weights")
	curve := &lab.Table{
		ID: "learning-curve", Title: "Learning: training losses",
		Caption: []string{"Losses in nats per token, each the mean over the steps since the previous row."},
	}
	curve.Texts("task")
	curve.Numbers("step", "loss")
	if reference != nil {
		table.Numbers(lab.ReferenceName(log, reference) + " loss")
	}
	var panels []plot.Axes
	for _, task := range l.Spec.Tasks {
		var s record
		if err := log.Get(task.Name, &s); err != nil {
			return nil, err
		}
		what := task.Title
		if s.Bytes > 0 {
			what += fmt.Sprintf(" (%s, %d bytes)", s.GoVersion, s.Bytes)
		}
		for i, y := range s.Yardsticks {
			own, hash, beside := []any{"", "", "", "", ""}, "", lab.Value{}
			if i == 0 {
				own = []any{what, s.Params, len(s.Losses), lab.Fixed(s.Eval.BitsPerToken, 4), lab.Percent(s.Eval.Accuracy, 1)}
				hash = s.WeightsSHA256[:16]
				var ref record
				if reference != nil && reference.Get(task.Name, &ref) == nil {
					beside = lab.Fixed(ref.Eval.BitsPerToken, 4)
				}
			}
			row := []any{own, y.Name, lab.Fixed(y.Bits, 4), lab.Fixed(s.Eval.BitsPerToken/y.Bits, 3), hash}
			if reference != nil {
				row = append(row, beside)
			}
			table.Add(row...)
		}
		panels = append(panels, s.panel(task.Title))
		line, _ := plot.Binned(s.Losses, 20)
		for _, at := range line {
			curve.Add(task.Name, int(at.X), lab.Fixed(at.Y, 4))
		}
	}
	r := &lab.Report{Tables: []*lab.Table{table, curve}}
	var err error
	r.Files, err = plot.Files(l.ID(), l.Spec.Title, panels)
	return r, err
}

// panel is a training's losses in bits, what was held out at the end, and what
// both are held against.
func (s *record) panel(title string) plot.LinePanel {
	losses, every := plot.Binned(s.Losses, plot.Curve)
	for i := range losses {
		losses[i].Y /= math.Ln2
	}
	p := plot.LinePanel{
		Title: title, X: fmt.Sprintf("step (training: means of %d)", every), Y: "bits per token", FromZero: true,
		Series: []plot.Series{
			{Name: "training loss", Lines: [][]plot.Point{losses}},
			{Name: "held out, at the end", Lines: [][]plot.Point{{{X: float64(len(s.Losses)), Y: s.Eval.BitsPerToken}}}},
		},
	}
	if s.Bytes > 0 {
		p.Y = "bits per byte"
	}
	for _, y := range s.Yardsticks {
		name := y.Name
		if y.Floor {
			name += ", floor"
		}
		p.Levels = append(p.Levels, plot.Level{Name: name, Y: y.Bits})
	}
	return p
}
