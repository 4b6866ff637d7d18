package gpipe

import (
	"bytes"
	"cmp"
	"context"
	"encoding/gob"
	"errors"
	"slices"
	"time"

	"gpipebench/gpipe/plan"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/timeline"
	"gpipebench/gpipe/transport"
	"gpipebench/nn"
)

// Processes learn about each other's stages by messages: at the end of each step the
// reports of all stages, one message per process; otherwise weights, or the failure
// of a step. A process that runs all stages sends none.

// report is what a device reports of a chunk at the end of a step.
type report struct {
	At         place.Place
	Start      int64 // of the step in the stage's process, by rank 0's clock, in nanoseconds since 1970
	Events     []timeline.Event
	Reductions []timeline.Reduction
	Times      StageTimes
	Used       highWater
	Stop       bool // its process has asked to stop

	Traffic []Traffic // that the stage received, in plan.SortTraffic's order

	Norm    float64
	Norms   []float64 // of the device's own gradients, by mini-batch of a window
	Scores  []score   // by group; of the last stages only, as are the next two
	Rows    []float32
	Outputs [][]nn.Tensor // by micro-batch, of a prediction in several processes
}

// highWater is what a device has used of its memory so far.
type highWater struct {
	Bytes [Categories]int64
	Peak  int64
	Parts []highWater // of the stage's parts after the first
}

// reports returns a report for each of the device's chunks. What is the device's is in the first.
func (r *stageRun) reports() (all []report) {
	plan.SortTraffic(r.received.all)
	for i, c := range r.chunks {
		of := report{
			At: c.at, Start: r.trainer.clock(r.start), Events: slices.Concat(c.crossed[0], c.crossed[1]), Times: *c.times, Used: r.dev.highWater(),
			Stop: r.trainer.stopping.Load(), Norm: r.norm,
		}
		if i == 0 {
			of.Events, of.Traffic, of.Reductions = slices.Concat(r.events, of.Events), r.received.all, r.recorded.reductions
			of.Norms = r.ownNorms
		}
		if c.isLast() {
			of.Scores, of.Rows, of.Outputs = r.scores, r.rows, r.outputs
		}
		all = append(all, of)
	}
	return all
}

// clock is a time of this process by the clock of rank 0, in nanoseconds since 1970.
func (t *Trainer) clock(at time.Time) int64 {
	if c, ok := t.transport.(transport.Clocked); ok {
		offset, _ := c.Clock()
		at = at.Add(offset)
	}
	return at.UnixNano()
}

// onOneClock counts the events of all processes from the first one's start.
func onOneClock(reports []report) {
	first := slices.MinFunc(reports, func(a, b report) int { return cmp.Compare(a.Start, b.Start) }).Start
	for _, r := range reports {
		later := float64(r.Start-first) / 1e9
		for i := range r.Events {
			r.Events[i].Start += later
			r.Events[i].End += later
		}
		for i := range r.Reductions {
			of := &r.Reductions[i]
			of.Ready += later
			for j := range of.Activities {
				of.Activities[j].Start += later
				of.Activities[j].End += later
			}
		}
	}
}

// note stores the stages' reports of their used memory.
func (t *Trainer) note(reports []report) {
	for _, r := range reports {
		t.used[t.net.DeviceOf(r.At)] = r.Used
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

// Exchange returns a message of each process, in the order of their first places. All
// processes must call it, as with Step.
func (t *Trainer) Exchange(ctx context.Context, message []byte) ([][]byte, error) {
	return exchange(ctx, t, message)
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

// sentError is the error of a step as it is sent to other processes. The zero value is
// none.
type sentError struct {
	At        place.Place
	Task      string // empty: not of a stage
	Text      string
	NonFinite *NonFiniteError
	Loss      *lossError
	Heard     bool // it is only the abort that another process's failure has caused
}

func sentErrorOf(err error) sentError {
	if err == nil {
		return sentError{}
	}
	f := sentError{Text: err.Error()}
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

func (f sentError) err() error {
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
func agree(ctx context.Context, t *Trainer, mine error, before func(a, b sentError) bool) error {
	all, err := exchange(ctx, t, sentErrorOf(mine))
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
