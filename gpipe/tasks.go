package gpipe

import (
	"context"

	"gpipebench/gpipe/plan"

	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/nn/program"
)

// The kinds of task in a device's list. Each is of a chunk.

func (r *chunkRun) task(ctx context.Context, t schedule.Task) error {
	switch t.Kind {
	case schedule.Forward:
		return r.forward(ctx, t)
	case schedule.Recompute:
		return r.recompute(ctx, t)
	case schedule.BackwardWeights:
		return r.weightGradients(ctx, t)
	}
	return r.backward(ctx, t)
}

func (r *chunkRun) isLast() bool { return r.piece == r.trainer.net.Pieces.Len()-1 }

// forward is F(m): input from the previous stage or the batch, output to the
// next stage, or the loss.
func (r *chunkRun) forward(ctx context.Context, t schedule.Task) error {
	m := t.Micro
	st := r.stage(m)
	if r.piece > 0 {
		if err := await(ctx, r.input.arrived, m); err != nil {
			return err
		}
	} else if err := take(ctx, r.input.credit); err != nil {
		return err
	}
	r.use(program.In, m%r.input.slots)
	r.touchAll(st.In)
	r.useStatistics(m)
	prog := plan.ProgramOf(st, t)
	if t.Keep {
		r.hold(m)
	}
	if !r.isLast() {
		if err := take(ctx, r.output.free); err != nil {
			return err
		}
	}
	if r.isLast() && r.purpose == plan.Predicting {
		r.useWorkspace(program.Out, plan.PredictionOffset(st), st.Span[program.Out])
	} else {
		r.use(program.Out, m%r.output.slots)
	}
	err := r.timed(ctx, timeline.Forward, m, func() error {
		r.load(st, m)
		err := r.exec(ctx, prog, t, firstTime)
		r.keepTallies(m)
		return err
	})
	if err != nil {
		return err
	}
	if r.isLast() {
		err = r.collect(st, m)
	} else {
		r.output.ready <- m
	}
	if r.purpose != plan.Training {
		r.release(program.In, m%r.input.slots, &r.input)
	}
	return err
}

// recompute is R(m): the composite forward function again, this time keeping the
// residuals. Its output has been sent after F(m) and is thrown away.
func (r *chunkRun) recompute(ctx context.Context, t schedule.Task) error {
	m := t.Micro
	if t.AwaitGrad && !r.isLast() {
		if err := r.awaitGradient(ctx, m); err != nil {
			return err
		}
	}
	r.use(program.In, m%r.input.slots)
	r.useStatistics(m)
	r.hold(m)
	if r.isLast() {
		r.use(program.Out, m%r.output.slots)
	} else {
		r.useWorkspace(program.Out, r.dev.mem.plan.Discard, r.stage(m).Span[program.Out])
	}
	return r.timed(ctx, timeline.Recompute, m, func() error { return r.exec(ctx, plan.ProgramOf(r.stage(m), t), t, again) })
}

// backward is B(m): output gradient from the next stage, input gradient to the
// previous one, parameter gradients added to the accumulators. Or it is I(m), which
// leaves some of the latter to W(m).
func (r *chunkRun) backward(ctx context.Context, t schedule.Task) error {
	m := t.Micro
	if !r.isLast() {
		if err := r.awaitGradient(ctx, m); err != nil {
			return err
		}
		r.use(program.DOut, m%r.gradient.slots)
		r.touchAll(r.stage(m).DOut)
	}
	if r.piece > 0 {
		if err := take(ctx, r.back.free); err != nil {
			return err
		}
		r.use(program.DIn, m%r.back.slots)
	}
	r.use(program.In, m%r.input.slots)
	r.use(program.Residual, r.residual.Of(m))
	kind := timeline.Backward
	if r.splits() {
		r.use(program.Lasting, r.lasting.Of(m))
	}
	if t.Kind == schedule.BackwardInput {
		kind = timeline.BackwardInput
		r.use(program.Between, r.between.Take(m))
	}
	r.useStatistics(m)
	if err := r.timed(ctx, kind, m, func() error { return r.exec(ctx, plan.ProgramOf(r.stage(m), t), t, again) }); err != nil {
		return err
	}
	r.residual.Free(m)
	r.poison(program.Residual)
	if r.splits() && t.Kind == schedule.Backward {
		r.lasting.Free(m)
		r.poison(program.Lasting)
	}
	r.poison(program.Statistics)
	r.release(program.In, m%r.input.slots, &r.input)
	if !r.isLast() {
		r.release(program.DOut, m%r.gradient.slots, &r.gradient)
	}
	if r.piece > 0 {
		r.back.ready <- m
	}
	return nil
}

// weightGradients is W(m): the parameter gradients that I(m) has left, added to the
// accumulators. It waits for nothing and sends nothing.
func (r *chunkRun) weightGradients(ctx context.Context, t schedule.Task) error {
	m := t.Micro
	r.use(program.Lasting, r.lasting.Of(m))
	r.use(program.Between, r.between.Of(m))
	if err := r.timed(ctx, timeline.BackwardWeights, m, func() error { return r.exec(ctx, plan.ProgramOf(r.stage(m), t), t, again) }); err != nil {
		return err
	}
	r.lasting.Free(m)
	r.between.Free(m)
	r.poison(program.Lasting)
	r.poison(program.Between)
	return nil
}

// awaitGradient waits for the output gradient of micro-batch m, unless a late
// recomputation has done so already.
func (r *chunkRun) awaitGradient(ctx context.Context, m int) error {
	if r.haveGradient == m {
		return nil
	}
	r.haveGradient = m
	return await(ctx, r.gradient.arrived, m)
}

// stage returns the stage's programs for micro-batch m.
func (r *chunkRun) stage(m int) *program.Stage { return r.Programs[m][r.piece] }
