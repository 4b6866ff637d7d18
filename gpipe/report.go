package gpipe

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"slices"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/timeline"
	"gpipebench/gpipe/transport"
	"gpipebench/nn"
)

// Processes learn about each other's stages by messages: at the end of each step the
// reports of all stages, one message per process; otherwise weights, or the failure
// of a step. A process that runs all stages sends none.

// report is what a stage reports at the end of a step.
type report struct {
	At     place.Place
	Events []timeline.Event
	Times  StageTimes
	Used   highWater

	Norm    float64
	Losses  []float64 // sums by group; of the last stages only, as are the next three
	Rows    []float32
	Correct float64
	Ranks   []float32
	Outputs [][]nn.Tensor // by micro-batch, of a prediction in several processes
}

// highWater is what a device has used of its memory so far.
type highWater struct {
	Bytes [Categories]int64
	Peak  int64
}

func (r *stageRun) report() report {
	return report{
		At: r.at, Events: slices.Concat(r.events, r.crossed[0], r.crossed[1]), Times: *r.times, Used: r.dev.mem.highWater(),
		Norm: r.norm, Losses: r.losses, Rows: r.rows, Correct: r.correct, Ranks: r.ranks, Outputs: r.outputs,
	}
}

// note stores the stages' reports of their used memory.
func (t *Trainer) note(reports []report) {
	for _, r := range reports {
		t.used[t.net.deviceOf(r.At)] = r.Used
	}
}

// share returns the values of all processes, in the order of Trainer.peers. All
// processes call it at the same point of a session.
func share[T any](ctx context.Context, t *Trainer, s transport.Session, mine T) ([]T, error) {
	if len(t.peers) == 1 {
		return []T{mine}, nil
	}
	var message bytes.Buffer
	if err := gob.NewEncoder(&message).Encode(mine); err != nil {
		return nil, err
	}
	got, err := s.Gather(ctx, t.peers[t.self], t.peers, message.Bytes())
	if err != nil {
		return nil, err
	}
	all := make([]T, len(got))
	for i := range got {
		if err := gob.NewDecoder(bytes.NewReader(got[i])).Decode(&all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// exchange is share in a session of its own.
func exchange[T any](ctx context.Context, t *Trainer, mine T) ([]T, error) {
	if len(t.peers) == 1 {
		return []T{mine}, nil
	}
	s := t.transport.Begin()
	defer s.End()
	all, err := share(ctx, t, s, mine)
	if err != nil {
		s.Abort(err)
	}
	return all, err
}

// failure is the error of a step as it is sent to other processes. The zero value is
// none.
type failure struct {
	At        place.Place
	Task      string // empty: not of a stage
	Text      string
	NonFinite *NonFiniteError
	Loss      *lossError
	Heard     bool // it is only the abort that another process's failure has caused
}

func failureOf(err error) failure {
	if err == nil {
		return failure{}
	}
	f := failure{Text: err.Error()}
	var at *StageError
	if errors.As(err, &at) {
		f.At, f.Task, f.Text = at.At, at.Task, at.Err.Error()
	}
	errors.As(err, &f.NonFinite)
	errors.As(err, &f.Loss)
	var aborted *transport.AbortError
	f.Heard = errors.As(err, &aborted)
	return f
}

func (f failure) err() error {
	var err error
	switch {
	case f.NonFinite != nil:
		err = f.NonFinite
	case f.Loss != nil:
		err = f.Loss
	default:
		err = errors.New(f.Text)
	}
	if f.Task == "" {
		return err
	}
	return &StageError{f.At, f.Task, err}
}

// agree makes all processes return the same one of their failures, the first in the
// order of before, or nil if that is none. The process whose failure it is returns
// its own error.
func agree(ctx context.Context, t *Trainer, mine error, before func(a, b failure) bool) error {
	all, err := exchange(ctx, t, failureOf(mine))
	if err != nil {
		return mine // the others are gone, or have given up
	}
	first := 0
	for i := range all {
		if before(all[i], all[first]) {
			first = i
		}
	}
	switch {
	case first == t.self:
		return mine
	case all[first].Text == "":
		return nil
	}
	return all[first].err()
}
