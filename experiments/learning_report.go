package experiments

import (
	"fmt"
	"math"
)

func (l *learning) Report(log, reference *Log) (*Report, error) {
	table := &Table{
		ID: "learning", Title: l.spec.Title,
		Caption: []string{
			fmt.Sprintf("K = %d, M = %d, checkpoint %v, %v devices. Losses in bits per token (of the text: per byte), on what was held out.",
				l.setup.Partitions, l.setup.MicroBatches, l.setup.Checkpoint, l.setup.Device),
		},
		Columns: []Column{
			{"task", true}, {"parameters", false}, {"steps", false}, {"loss", false}, {"accuracy", false}, {"held against", true}, {"bits", false},
			{"loss/that", false}, {"SHA-256 of the weights", true},
		},
	}
	curve := &Table{
		ID: "learning-curve", Title: "Learning: training losses",
		Caption: []string{"Nats per token, the mean of the steps since the row before."},
		Columns: []Column{{"task", true}, {"step", false}, {"loss", false}},
	}
	if reference != nil {
		table.Columns = append(table.Columns, Column{Name: "reference loss"})
	}
	var panels []axes
	for _, task := range l.spec.Tasks {
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
	r := &Report{Tables: []*Table{table, curve}}
	var err error
	r.Files, err = plotFiles(l.ID(), l.spec.Title, panels)
	return r, err
}

// panel is a training's losses in bits, what was held out at the end, and what
// both are held against.
func (s *learningSample) panel(title string) panel {
	losses, every := binned(s.Losses)
	for i := range losses {
		losses[i].y /= math.Ln2
	}
	p := panel{
		title: title, x: fmt.Sprintf("step (training: means of %d)", every), y: "bits per token", fromZero: true,
		series: []series{
			{name: "training loss", lines: [][]point{losses}},
			{name: "held out, at the end", lines: [][]point{{{float64(len(s.Losses)), s.Eval.BitsPerToken}}}},
		},
	}
	if s.Bytes > 0 {
		p.y = "bits per byte"
	}
	for _, y := range s.Yardsticks {
		name := y.Name
		if y.Floor {
			name += ", floor"
		}
		p.levels = append(p.levels, level{name, y.Bits})
	}
	return p
}
