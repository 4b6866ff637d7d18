package gpipe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/failure"
	"gpipebench/nn"
	"gpipebench/nn/program"
	"gpipebench/nn/trace"
)

// explain turns the first error of a step into the one that the user sees: it
// looks for the origin of a loss that is not finite, and for the token that made
// a stage panic. A step that succeeds does not pay for any of this.
func (s *step) explain(ctx context.Context, err error) error {
	// Of several processes, take the first whose failure is its own, not another's abort.
	err = agree(ctx, s.trainer, s.named(err), func(a, b sentError) bool { return !a.Heard && b.Heard })
	var bad *lossError
	switch {
	case !errors.As(err, &bad) || s.hunting:
		return err
	case s.purpose == plan.Training:
		return s.hunt(ctx, bad)
	}
	// The forward functions have given their inputs back, and may run again.
	again := *s
	again.hunting = true
	if _, e := again.run(ctx); e != nil {
		return e
	}
	return err
}

// named adds to an error what this process knows about it: the layer of a value that
// is not finite, or the token that made a stage panic.
func (s *step) named(err error) error {
	var at *StageError
	var trapped *program.NonFiniteError
	var panicked *failure.Defect
	switch {
	case !errors.As(err, &at):
	case errors.As(err, &trapped):
		return &StageError{at.At, at.Task, s.nonFinite(trapped)}
	case errors.As(err, &panicked):
		if token := s.outside(); token != nil {
			return &StageError{at.At, at.Task, token}
		}
	}
	return err
}

// hunt runs the forward functions of a training micro-batch again and checks every
// instruction's output, to name the operation in which a value that is not finite
// first appeared. The inputs are still in their slots, and so are statistics over
// replicas: if another replica has spoilt these, it is their batch norm that is named.
func (s *step) hunt(ctx context.Context, bad *lossError) error {
	task := "F" + strconv.Itoa(bad.Micro)
	s.hunting = true
	var found error
	var chunks []*chunkRun
	for _, d := range s.trainer.devices {
		if d.at.Replica == bad.Replica {
			chunks = append(chunks, newStageRun(s, d).chunks...)
		}
	}
	slices.SortFunc(chunks, func(a, b *chunkRun) int { return a.piece - b.piece })
	for _, r := range chunks {
		r.use(program.In, bad.Micro%r.input.slots)
		r.use(program.Out, 0)
		r.useStatistics(bad.Micro)
		var nf *program.NonFiniteError
		if e := r.exec(ctx, r.stage(bad.Micro).Forward.Again(), schedule.Task{Kind: schedule.Forward, Micro: bad.Micro}, again); errors.As(e, &nf) {
			found = &StageError{r.at, task, s.nonFinite(nf)}
			break
		}
	}
	// The origin is in the first stage that finds such a value.
	found = agree(ctx, s.trainer, found, func(a, b sentError) bool {
		return a.Task != "" && (b.Task == "" || s.trainer.net.Pieces.Piece(a.At) < s.trainer.net.Pieces.Piece(b.At))
	})
	if found != nil {
		return found
	}
	return &StageError{s.trainer.net.Pieces.At(bad.Replica, s.trainer.net.Pieces.Len()-1), task, &NonFiniteError{What: "loss", Where: "the mini-batch", Value: bad.Value}}
}

func (s *step) nonFinite(nf *program.NonFiniteError) error {
	return &NonFiniteError{"output", s.trainer.net.LayerName(nf.Layer), nf.Op, nf.Value}
}

// outside returns an error that names the first token of the batches that has no row in
// its table, or the first target that is not a class; nil if there is none. The batch
// must fit the network.
func (s *step) outside() error {
	for _, b := range s.batches {
		if err := s.outsideOf(b); err != nil {
			return err
		}
	}
	return nil
}

func (s *step) outsideOf(b nn.Batch) error {
	n, in := s.trainer.net, InputOf(b)
	loss := n.Loss
	if s.purpose == plan.Predicting {
		loss = nil
	}
	whole := trace.Layers(n.Layers, 0, loss, BatchOf(in.Inputs, 1), BatchOf(in.Targets, 1), false)
	for _, c := range whole.Function.Graph.Calls {
		index := c.Index()
		if index == nil {
			continue
		}
		values, at := b.Inputs, slices.Index(whole.Function.In, c.In[index.In])
		if at < 0 {
			values, at = b.Targets, slices.Index(whole.Function.Feeds, c.In[index.In])
		}
		if at < 0 || at >= len(values) {
			continue
		}
		ids := values[at].I32
		if i := slices.IndexFunc(ids, func(id int32) bool { return id < index.Least || int(id) >= index.Limit }); i >= 0 {
			row := len(ids) / b.Examples()
			return fmt.Errorf("example %d, position %d: %s %d: want 0 to %d", i/row, i%row, index.What, ids[i], index.Limit-1)
		}
	}
	return nil
}
