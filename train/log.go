package train

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpipebench/internal/files"
)

// lossLog is a file with a training's losses, a line for each step and for each
// evaluation. A line is in the file as soon as it is known, so an interrupted training
// keeps those that it has made. Lines that cannot be written wait for the next: no training
// ends because of its log. Nil: nothing is logged.
type lossLog struct {
	file    *files.Growing
	waiting []byte
	why     error // the last line is not in the file; nil: it is
	notice  func(string)
}

var logColumns = []string{"step", "loss", "lr", "step_seconds", "examples_per_second", "held_out_loss", "held_out_accuracy"}

// openLog begins the log of a training, if it is to have one. That of a training that goes
// on after a step keeps its lines up to this step and goes on after them, so that each step
// and each evaluation is there once. Notice gets the steps up to it that the file lacks.
func (t *Training) openLog(resumed int) (*lossLog, error) {
	name, last := t.Log, 0
	if name == "" {
		return nil, nil
	}
	var keep func(at int64, line []byte) bool // nil: none
	if resumed > 0 {
		keep = func(at int64, line []byte) bool { return staysInLog(at == 0, string(line), resumed, &last) }
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
	if last < resumed {
		t.notice(fmt.Sprintf("%s lacks steps %d to %d, which no earlier run has written there", files.Printable(name), last+1, resumed))
	}
	return &lossLog{file: f, notice: t.notice}, nil
}

// staysInLog reports whether a line of a log is its first, one of the steps up to a position, or of an
// evaluation before it, and then sets last to its step. The evaluation at the position is made again.
func staysInLog(first bool, line string, resumed int, last *int) bool {
	fields := strings.Split(strings.TrimSpace(line), ",")
	if len(fields) != len(logColumns) {
		return false
	}
	if first {
		return slices.Equal(fields, logColumns)
	}
	step, err := strconv.Atoi(fields[0])
	stays := err == nil && (step > 0 && step < resumed || step == resumed && fields[1] != "")
	if stays {
		*last = step
	}
	return stays
}

// add adds a line, after those that wait, with values of logColumns: integers or numbers; nil is an
// empty field.
func (l *lossLog) add(values ...any) {
	if l == nil {
		return
	}
	fields := make([]string, len(values))
	for i, v := range values {
		if x, ok := v.(float64); ok {
			fields[i] = strconv.FormatFloat(x, 'g', -1, 64)
		} else if v != nil {
			fields[i] = fmt.Sprint(v)
		}
	}
	l.waiting = append(l.waiting, strings.Join(fields, ",")+"\n"...)
	n, err := l.file.Write(l.waiting)
	l.waiting = l.waiting[n:]
	if err != nil {
		err = fmt.Errorf("the log lacks its last lines: %w", err)
		if l.why == nil {
			l.notice(err.Error() + "; the training goes on, and adds them as soon as it can")
		}
	}
	l.why = err
}

// close is an error if the last lines could not be written.
func (l *lossLog) close() error {
	if l == nil {
		return nil
	}
	return cmp.Or(l.why, l.file.Close())
}
