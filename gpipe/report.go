package gpipe

import (
	"bytes"
	"cmp"
	"context"
	"encoding/gob"
	"errors"
	"math"
	"slices"
	"time"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/plan"
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

// results makes the Result of each of the step's mini-batches from the reports of all stages.
func (s *step) results(reports []report) ([]*Result, error) {
	n := s.trainer.net
	s.trainer.note(reports)
	s.trainer.stopAsked = slices.ContainsFunc(reports, func(r report) bool { return r.Stop })
	if len(s.trainer.peers) > 1 {
		onOneClock(reports)
	}
	slices.SortFunc(reports, func(a, b report) int { return a.At.Compare(b.At) })
	r := Result{Times: newTimes(n, s.portions, n.Together())}
	r.Times.Last = func(replica int) []clock.Exchange { return n.RowExchanges(s.tables, replica) }
	r.Times.Window = len(s.batches)
	if s.purpose == plan.Training {
		r.planTraffic = func() []Traffic { return n.PlanTraffic(s.portions) }
	}
	wall := &timeline.Timeline{Devices: n.Replicas * n.Partitions, Replicas: n.Replicas, Placement: n.OwnPlacement()}
	for _, of := range reports {
		addLinks(n, &of.Times, of.At, s.tables)
		r.Times.Stages = append(r.Times.Stages, of.Times)
		wall.Events = append(wall.Events, of.Events...)
		wall.Reductions = append(wall.Reductions, of.Reductions...)
		r.Traffic = append(r.Traffic, of.Traffic...)
	}
	slices.SortStableFunc(wall.Events, func(a, b timeline.Event) int { return cmp.Compare(a.Start, b.Start) })
	r.Timeline = wall
	if n.Devices[0].Kind == Emulated && s.purpose == plan.Training {
		virtual, err := r.Times.Replay()
		if err != nil {
			return nil, err
		}
		r.Timeline = virtual
	}
	r.Seconds = r.Timeline.Span() / float64(len(s.batches))
	for replica, p := range s.portions { // of several processes
		for m, outputs := range s.ofLast(reports, replica).Outputs {
			if err := s.each(p.Firsts[m], outputs); err != nil {
				return nil, err
			}
		}
	}
	var all []*Result
	for mini := range s.batches {
		of := r
		s.scored(&of, reports, mini)
		all = append(all, &of)
	}
	return all, nil
}

// ofLast is the report of a replica's last stage.
func (s *step) ofLast(reports []report, replica int) *report {
	n := s.trainer.net
	return &reports[n.Pieces.Index(n.Pieces.At(replica, n.Pieces.Len()-1))]
}

// scored sets what a result says of its mini-batch alone, which has a place in the step.
func (s *step) scored(r *Result, reports []report, mini int) {
	n, count := s.trainer.net, s.batches[mini].Count
	var loss float64
	for replica := range s.portions {
		last := s.ofLast(reports, replica)
		groups := last.Scores
		if len(s.batches) > 1 {
			groups = groups[mini : mini+1]
		}
		for _, group := range groups {
			if len(last.Rows) == 0 {
				loss += group.Loss
			}
			r.Correct += int(group.Correct)
			r.Ranks = append(r.Ranks, group.Ranks...)
		}
		for _, v := range last.Rows {
			loss += float64(v)
		}
	}
	r.Count, r.Loss, r.GradNorm = count, loss/float64(count), reports[0].Norm
	if s.purpose != plan.Training {
		return
	}
	if n.Asynchronous() {
		var squares float64
		for _, of := range reports {
			squares += float64(of.Norms[mini] * of.Norms[mini])
		}
		r.GradNorm = math.Sqrt(squares)
	}
	r.LR = n.LR.Rate(s.number(mini))
	r.Clipping = float64(clipping(n.ClipNorm, r.GradNorm))
}
