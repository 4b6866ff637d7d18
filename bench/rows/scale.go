package rows

import (
	"fmt"
	"slices"
	"strings"

	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
)

// Scale draws time and memory of the row simulate-scale over the tasks of a step, beside what is in
// proportion to the largest; no files: it has not been measured.
func Scale(log *records.Log) ([]lab.File, error) {
	panels := []*plot.LinePanel{{Title: "time", Y: "s", FromZero: true}, {Title: "resident memory", Y: "MiB", FromZero: true}}
	largest := make([]plot.Point, len(panels))
	var each, tasks []float64 // of a task, in ns; of a step, in millions
	for _, name := range log.Names {
		if !strings.HasPrefix(name, scale+"/") {
			continue
		}
		var s Sample
		if err := log.Get(name, &s); err != nil {
			return nil, err
		}
		of := map[string]float64{}
		for _, f := range s.Figures {
			of[f.Name] = stats.Median(f.Values)
		}
		each, tasks = append(each, of["a task"]), append(tasks, of["tasks"])
		stages, _, _ := strings.Cut(s.What, ",")
		for i, y := range []float64{of["ours"], of["resident"]} {
			p, at := panels[i], plot.Point{X: of["tasks"], Y: y}
			n := slices.IndexFunc(p.Series, func(known plot.Series) bool { return known.Name == stages })
			if n < 0 {
				n, p.Series = len(p.Series), append(p.Series, plot.Series{Name: stages, Lines: [][]plot.Point{nil}})
			}
			p.Series[n].Lines[0] = append(p.Series[n].Lines[0], at)
			if at.X > largest[i].X {
				largest[i] = at
			}
		}
	}
	if each == nil {
		return nil, nil
	}
	var axes []plot.Axes
	for i, p := range panels {
		p.X = "million tasks"
		p.Series = append(p.Series, plot.Series{Name: "in proportion to the largest", Dashed: true, Lines: [][]plot.Point{{{}, largest[i]}}})
		axes = append(axes, p)
	}
	return plot.Files("bench-scale", lab.Heading{
		Finding: fmt.Sprintf("A task takes %.0f to %.0f ns, in steps of %.1f to %.1f million", slices.Min(each), slices.Max(each), slices.Min(tasks), slices.Max(tasks)),
		Subject: fmt.Sprintf("simulate, the whole process; %s; %s", log.Session.Machine, log.Session.Time[:len("2006-01-02")]),
	}, axes)
}
