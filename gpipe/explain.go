package gpipe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"gpipebench/gpipe/place"
	"gpipebench/internal/defect"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// explain turns the first error of a step into the one that the user sees: it
// looks for the origin of a loss that is not finite, and for the token that made
// a stage panic. Nothing of this costs a step that succeeds anything.
func (s *step) explain(ctx context.Context, err error) error {
	// Of several processes the first that has not only heard of a failure knows it.
	err = agree(ctx, s.trainer, s.named(err), func(a, b failure) bool { return !a.Heard && b.Heard })
	var bad *lossError
	switch {
	case !errors.As(err, &bad) || s.hunting:
		return err
	case s.purpose == training:
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

// named says more of an error that this process's stages know more of.
func (s *step) named(err error) error {
	var at *StageError
	var trapped *program.NonFiniteError
	var panicked *defect.Error
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

// hunt runs the forward functions of a training's micro-batch again, instruction
// by instruction, to name the operation where a value that is not finite first
// came out: the inputs are still in their slots.
func (s *step) hunt(ctx context.Context, bad *lossError) error {
	task := "F" + strconv.Itoa(bad.Micro)
	s.hunting = true
	var found error
	for _, d := range s.trainer.devices {
		r := newStageRun(s, d)
		r.use(program.In, bad.Micro%r.input.slots)
		r.use(program.Out, 0)
		var nf *program.NonFiniteError
		if e := r.exec(r.stage(bad.Micro).Forward, bad.Micro, again); errors.As(e, &nf) {
			found = &StageError{r.at, task, s.nonFinite(nf)}
			break
		}
	}
	// The first stage that finds one has its origin.
	found = agree(ctx, s.trainer, found, func(a, b failure) bool {
		return a.Task != "" && (b.Task == "" || a.At.Compare(b.At) < 0)
	})
	if found != nil {
		return found
	}
	return &StageError{place.Stage(s.trainer.net.Partitions - 1), task, &NonFiniteError{What: "loss", Where: "the mini-batch", Value: bad.Value}}
}

func (s *step) nonFinite(nf *program.NonFiniteError) error {
	return &NonFiniteError{"output", s.trainer.net.layerName(nf.Layer), nf.Op, nf.Value}
}

// outside finds the first token of the batch that is in no row of the table that
// looks it up, or the first target that is no class; nil if there is none. The
// batch fits the network, whose programs are made for it.
func (s *step) outside() error {
	n, in := s.trainer.net, InputOf(s.batch)
	loss := n.Loss
	if s.purpose == predicting {
		loss = nil
	}
	whole := nn.TraceStage(n.Layers, 0, loss, batched(in.Inputs, 1), batched(in.Targets, 1), false)
	for _, c := range whole.Function.Graph.Calls {
		op, ok := c.Op.(graph.Indexer)
		if !ok {
			continue
		}
		index := op.Index(c)
		values, at := s.batch.Inputs, slices.Index(whole.Function.In, c.In[index.In])
		if at < 0 {
			values, at = s.batch.Targets, slices.Index(whole.Function.Feeds, c.In[index.In])
		}
		if at < 0 || at >= len(values) {
			continue
		}
		ids := values[at].I32
		if i := slices.IndexFunc(ids, func(id int32) bool { return id < index.Least || int(id) >= index.Limit }); i >= 0 {
			row := len(ids) / s.batch.Examples()
			return fmt.Errorf("example %d, position %d: %s %d: want 0 to %d", i/row, i%row, index.What, ids[i], index.Limit-1)
		}
	}
	return nil
}
