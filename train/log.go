package train

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"gpipebench/internal/files"
)

// lossLog is a file with a training's losses, a line for each step and for each
// evaluation. A line is in the file as soon as it is known, so an interrupted training
// keeps those that it has made. Nil: nothing is logged.
type lossLog struct{ *files.Growing }

var logColumns = []string{"step", "loss", "lr", "step_seconds", "examples_per_second", "held_out_loss", "held_out_accuracy"}

// openLog begins the log of a training, if it is to have one. That of a training that goes
// on after a step keeps its lines up to this step and goes on after them, so that each step
// and each evaluation is there once.
func openLog(name string, resumed int) (*lossLog, error) {
	if name == "" {
		return nil, nil
	}
	var keep func(at int64, line []byte) bool // nil: none
	if resumed > 0 {
		keep = func(at int64, line []byte) bool { return staysInLog(at == 0, string(line), resumed) }
	}
	f, begun, err := files.Grow(name, keep)
	if err != nil {
		return nil, err
	}
	if !begun {
		if _, err := f.Write([]byte(strings.Join(logColumns, ",") + "\n")); err != nil {
			f.Close()
			return nil, err
		}
	}
	return &lossLog{f}, nil
}

// staysInLog reports whether a line of a log is its first, one of the steps up to a position, or of an
// evaluation before it. The one at the position is made again.
func staysInLog(first bool, line string, resumed int) bool {
	fields, err := csv.NewReader(strings.NewReader(line)).Read()
	if err != nil || len(fields) != len(logColumns) {
		return false
	}
	if first {
		return slices.Equal(fields, logColumns)
	}
	step, err := strconv.Atoi(fields[0])
	return err == nil && (step > 0 && step < resumed || step == resumed && fields[1] != "")
}

func (l *lossLog) step(s *TrainStep) error {
	if l == nil {
		return nil
	}
	return writeRow(l, s.Step, s.Loss, s.LR, s.Seconds, s.ExamplesPerSecond(), nil, nil)
}

// evaluation adds an evaluation that was made after a step.
func (l *lossLog) evaluation(step int, e *Evaluation) error {
	if l == nil || e == nil {
		return nil
	}
	return writeRow(l, step, nil, nil, nil, nil, e.Loss, e.Accuracy)
}

func (l *lossLog) close() error {
	if l == nil {
		return nil
	}
	return l.Close()
}

// writeRow writes a line of comma-separated values with one call of Write. A value is a
// string, an integer or a number; nil is an empty field.
func writeRow(to io.Writer, values ...any) error {
	fields := make([]string, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case nil:
		case float64:
			fields[i] = strconv.FormatFloat(v, 'g', -1, 64)
		default:
			fields[i] = fmt.Sprint(v)
		}
	}
	var line bytes.Buffer
	w := csv.NewWriter(&line)
	if err := w.Write(fields); err != nil {
		return err
	}
	w.Flush()
	_, err := to.Write(line.Bytes())
	return err
}
