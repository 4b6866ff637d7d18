package learning

import (
	"fmt"
	"math"

	"gpipebench/experiments/plot"
	"gpipebench/experiments/records"
	"gpipebench/experiments/suite"
)

func (l *learning) Report(log, reference *records.Log) (*suite.Report, error) {
	table := &suite.Table{
		ID: "learning", Title: l.Spec.Title,
		Caption: []string{
			fmt.Sprintf("K = %d, M = %d, checkpoint %v, %v devices. Losses in bits per token (of the text: per byte), on what was held out.",
				l.setup.Partitions, l.setup.MicroBatches, l.setup.Checkpoint, l.setup.Device),
		},
		Columns: []suite.Column{
			{Name: "task", Left: true}, {Name: "parameters", Left: false}, {Name: "steps", Left: false}, {Name: "loss", Left: false}, {Name: "accuracy", Left: false}, {Name: "held against", Left: true}, {Name: "bits", Left: false},
			{Name: "loss/that", Left: false}, {Name: "SHA-256 of the weights", Left: true},
		},
	}
	curve := &suite.Table{
		ID: "learning-curve", Title: "Learning: training losses",
		Caption: []string{"Nats per token, the mean of the steps since the row before."},
		Columns: []suite.Column{{Name: "task", Left: true}, {Name: "step", Left: false}, {Name: "loss", Left: false}},
	}
	if reference != nil {
		table.Columns = append(table.Columns, suite.Column{Name: "reference loss"})
	}
	var panels []plot.Axes
	for _, task := range l.Spec.Tasks {
		var s learningSample
		if err := log.Get(task.Name, &s); err != nil {
			return nil, err
		}
		what := task.Title
		if s.Bytes > 0 {
			what += fmt.Sprintf(" (%s, %d bytes)", s.GoVersion, s.Bytes)
		}
		for i, y := range s.Yardsticks {
			row := []string{"", "", "", "", "", y.Name, fmt.Sprintf("%.4f", y.Bits), fmt.Sprintf("%.3f", s.Eval.BitsPerToken/y.Bits), ""}
			if i == 0 {
				row[0], row[1], row[2] = what, fmt.Sprint(s.Params), fmt.Sprint(len(s.Losses))
				row[3], row[4] = fmt.Sprintf("%.4f", s.Eval.BitsPerToken), fmt.Sprintf("%.1f%%", 100*s.Eval.Accuracy)
				row[8] = s.WeightsSHA256[:16]
			}
			if reference != nil {
				var ref learningSample
				cell := ""
				if i == 0 && reference.Get(task.Name, &ref) == nil {
					cell = fmt.Sprintf("%.4f", ref.Eval.BitsPerToken)
				}
				row = append(row, cell)
			}
			table.Add(row...)
		}
		panels = append(panels, s.panel(task.Title))
		const points = 20
		every := max(1, int(math.Ceil(float64(len(s.Losses))/points)))
		for from := 0; from < len(s.Losses); from += every {
			to := min(from+every, len(s.Losses))
			var mean float64
			for _, v := range s.Losses[from:to] {
				mean += v / float64(to-from)
			}
			curve.Add(task.Name, fmt.Sprint(to), fmt.Sprintf("%.4f", mean))
		}
	}
	r := &suite.Report{Tables: []*suite.Table{table, curve}}
	var err error
	r.Files, err = plot.Files(l.ID(), l.Spec.Title, panels)
	return r, err
}

// panel is a training's losses in bits, what was held out at the end, and what
// both are held against.
func (s *learningSample) panel(title string) plot.LinePanel {
	losses, every := plot.Binned(s.Losses)
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
