package train

import (
	"encoding/csv"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"gpipebench/internal/files"
)

// lossLog is a file with a training's losses, a line for each step and for each
// evaluation. A line is in the file as soon as it is known, so an interrupted training
// keeps those that it has made. Nil: nothing is logged.
type lossLog struct {
	file *files.Growing
	rows *rowWriter
}

var logColumns = []string{"step", "loss", "lr", "step_seconds", "examples_per_second", "held_out_loss", "held_out_accuracy"}

// openLog begins the log of a training, if it is to have one. That of a training that goes
// on after a step keeps its lines up to this step and goes on after them, so that each step
// and each evaluation is there once.
func openLog(name string, resumed int) (*lossLog, error) {
	if name == "" {
		return nil, nil
	}
	rows := newRowWriter(nil, name, logColumns...)
	var keep func(at int64, line []byte) bool // nil: none
	if resumed > 0 {
		keep = func(at int64, line []byte) bool { return rows.stays(at == 0, string(line), resumed) }
	}
	f, begun, err := files.Grow(name, keep)
	if err != nil {
		return nil, err
	}
	rows.to = f
	if !begun {
		if err := rows.begin(); err != nil {
			f.Close()
			return nil, err
		}
	}
	return &lossLog{f, rows}, nil
}

// stays reports whether a line of a log is one of the steps up to a position, or of an
// evaluation before it. The one at the position is made again.
func (r *rowWriter) stays(first bool, line string, resumed int) bool {
	var step int
	var ofStep bool
	if r.json {
		var row struct {
			Step int
			Loss any
		}
		if json.Unmarshal([]byte(line), &row) != nil {
			return false
		}
		step, ofStep = row.Step, row.Loss != nil
	} else {
		fields, err := csv.NewReader(strings.NewReader(line)).Read()
		if err != nil || len(fields) != len(r.columns) {
			return false
		}
		if first {
			return slices.Equal(fields, r.columns)
		}
		if step, err = strconv.Atoi(fields[0]); err != nil {
			return false
		}
		ofStep = fields[1] != ""
	}
	return step > 0 && step < resumed || step == resumed && ofStep
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
