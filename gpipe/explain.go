package gpipe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"gpipebench/gpipe/place"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// explain turns the first error of a step into the one that the user sees: it
// looks for the origin of a loss that is not finite, and for the token behind a
// panic. Nothing of this costs a step that succeeds anything.
func (s *step) explain(ctx context.Context, err error) error {
	var bad *lossError
	var trapped *program.NonFiniteError
	var at *StageError
	switch {
	case errors.As(err, &bad) && s.purpose == training:
		return s.hunt(bad)
	case errors.As(err, &bad) && !s.hunting:
		// The forward functions have given their inputs back, and may run again.
		again := *s
		again.hunting = true
		if _, e := again.run(ctx); e != nil {
			return e
		}
		return err
	case errors.As(err, &at) && errors.As(err, &trapped):
		return &StageError{at.At, at.Task, s.nonFinite(trapped)}
	case errors.As(err, &at) && panicked(err):
		if token := s.outside(); token != nil {
			return &StageError{at.At, at.Task, token}
		}
	}
	return err
}

// hunt runs the forward functions of a training's micro-batch again, instruction
// by instruction, to name the operation where a value that is not finite first
// came out: the inputs are still in their slots.
func (s *step) hunt(bad *lossError) error {
	task := "F" + strconv.Itoa(bad.micro)
	s.hunting = true
	for k, d := range s.trainer.devices {
		r := newStageRun(s, k, d)
		r.use(program.In, bad.micro%r.input.slots)
		r.use(program.Out, 0)
		var nf *program.NonFiniteError
		if e := r.exec(r.stage(bad.micro).Forward, bad.micro, again); errors.As(e, &nf) {
			return &StageError{place.Stage(k), task, s.nonFinite(nf)}
		}
	}
	return &StageError{place.Stage(len(s.trainer.devices) - 1), task, &NonFiniteError{What: "loss", Where: "the mini-batch", Value: bad.value}}
}

func (s *step) nonFinite(nf *program.NonFiniteError) error {
	return &NonFiniteError{"output", s.trainer.net.layerName(nf.Layer), nf.Op, nf.Value}
}

func panicked(err error) bool {
	var own *panicError
	var kernel *program.PanicError
	return errors.As(err, &own) || errors.As(err, &kernel)
}

// outside finds the first token of the batch that is in no row of the table that
// looks it up, or the first target that is no class; nil if there is none.
func (s *step) outside() (found error) {
	defer func() {
		if recover() != nil {
			found = nil // the batch does not fit the network, which is another error
		}
	}()
	n, in := s.trainer.net, InputOf(s.batch)
	loss := n.Loss
	if s.purpose == predicting {
		loss = nil
	}
	whole := nn.TraceStage(n.Layers, 0, loss, batched(in.Inputs, 1), batched(in.Targets, 1), false)
	for _, c := range whole.Function.Graph.Calls {
		var values []nn.Tensor
		var at, limit int
		least, what := int32(0), "token"
		switch c.Op.(type) {
		case graph.EmbedOp:
			values, at, limit = s.batch.Inputs, slices.Index(whole.Function.In, c.In[1]), c.In[0].Shape[0]
		case graph.CrossEntropyOp:
			values, at, limit = s.batch.Targets, slices.Index(whole.Function.Feeds, c.In[1]), c.In[0].Shape.Last()
			least, what = math.MinInt32, "target" // negative ones are masked
		}
		if at < 0 || at >= len(values) {
			continue
		}
		ids := values[at].I32
		if i := slices.IndexFunc(ids, func(id int32) bool { return id < least || int(id) >= limit }); i >= 0 {
			row := len(ids) / s.batch.Examples()
			return fmt.Errorf("example %d, position %d: %s %d: want 0 to %d", i/row, i%row, what, ids[i], limit-1)
		}
	}
	return nil
}
