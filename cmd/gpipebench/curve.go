package main

import (
	"fmt"

	"gpipebench/lab/plot"
	"gpipebench/train"
)

// writeCurve draws the losses of a training, if there is a name of a file for them.
func writeCurve(name string, t *train.Training, r *train.Result) error {
	if name == "" {
		return nil
	}
	return plot.Write(name, fmt.Sprintf("%s on %s, mini-batches of %d", t.Model.Name, t.Data, t.Batch), curve(r))
}

// curve has the losses of the steps and of held-out data, and the losses that a
// training's outcome is compared with as levels.
func curve(r *train.Result) plot.LinePanel {
	line, every := plot.Binned(r.Losses, plot.Curve)
	training := "training"
	if every > 1 {
		training = fmt.Sprintf("training, means of %d steps", every)
	}
	p := plot.LinePanel{X: "step", Y: "loss (nats)", Series: []plot.Series{{Name: training, Lines: [][]plot.Point{line}}}}
	var held []plot.Point
	for _, e := range r.Evals {
		held = append(held, plot.Point{X: float64(e.Step), Y: e.Loss})
	}
	if r.Eval != nil && r.Best == nil { // of the best weights, it is of other examples
		held = append(held, plot.Point{X: float64(r.Eval.Step), Y: r.Eval.Loss})
	}
	p.Series = append(p.Series, plot.Series{Name: "held out", Lines: [][]plot.Point{held}})
	for _, y := range r.Yardsticks {
		p.Levels = append(p.Levels, plot.Level{Name: y.Name, Y: y.Loss})
	}
	return p
}
