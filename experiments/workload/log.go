package workload

import "gpipebench/internal/files"

// lossLog is a file with a training's losses, a line for each step and for each
// evaluation. A line is in the file as soon as it is known, so an interrupted training
// keeps those that it has made. Nil: nothing is logged.
type lossLog struct {
	file *files.Growing
	rows *rowWriter
}

// openLog begins the log of a training, if it is to have one.
func openLog(name string) (*lossLog, error) {
	if name == "" {
		return nil, nil
	}
	f, err := files.Grow(name)
	if err != nil {
		return nil, err
	}
	rows, err := newRowWriter(f, name, "step", "loss", "lr", "step_seconds", "examples_per_second", "held_out_loss", "held_out_accuracy")
	if err != nil {
		f.Close()
		return nil, err
	}
	return &lossLog{f, rows}, nil
}

func (l *lossLog) step(s *TrainStep) error {
	if l == nil {
		return nil
	}
	return l.rows.add(s.Step, s.Loss, s.LR, s.Seconds, s.ExamplesPerSecond(), nil, nil)
}

func (l *lossLog) evaluation(e *Evaluation) error {
	if l == nil || e == nil {
		return nil
	}
	return l.rows.add(e.Step, nil, nil, nil, nil, e.Loss, e.Accuracy)
}

func (l *lossLog) close() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}
