package timed

import (
	"context"

	"gpipebench/gpipe"
	"gpipebench/train"
)

// Opened opens a training after its first step, which makes programs and touches memory for
// the first time.
func Opened(ctx context.Context, t train.Training) (*train.Loop, error) {
	l, err := t.Open(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := l.Step(ctx); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Stepped takes steps, and returns the seconds of one on the devices' clock, every kind of task
// at its median, and the loss of the last.
func Stepped(ctx context.Context, l *train.Loop, steps int) (seconds, loss float64, err error) {
	var all gpipe.Samples
	for range steps {
		step, err := l.Step(ctx)
		if err != nil {
			return 0, 0, err
		}
		all.Add(step.Times)
		loss = step.Loss
	}
	parts, err := all.Median().Breakdown()
	return parts.Step, loss, err
}
