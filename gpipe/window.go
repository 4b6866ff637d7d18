package gpipe

import (
	"context"
	"fmt"
	"slices"

	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/nn"
	"gpipebench/nn/program"
)

// With an asynchronous schedule a step is a window of mini-batches. They go through the pipeline
// as the groups of a synchronous step do, but where that adds up a group, U updates the stage's
// weights by it. Nothing else waits for other stages: there is no barrier and no global norm.

// Window trains on as many mini-batches as Pipeline.Window says, with one update for each, and
// drains the pipeline. It is Step for asynchronous schedules: an error leaves the trainer broken.
//
// There is a result for each mini-batch. Timeline, Times and Traffic are the whole window's, and
// Seconds is an even part of it.
func (t *Trainer) Window(ctx context.Context, batches []nn.Batch) ([]*Result, error) {
	switch n := t.net; {
	case !n.Asynchronous():
		return nil, fmt.Errorf("a window with the schedule %v: want Step, or one of the schedules %v", n.Schedule, schedule.AsynchronousNames())
	case len(batches) != n.Window:
		return nil, fmt.Errorf("a window of %d mini-batches: want %d, Pipeline.Window", len(batches), n.Window)
	}
	if err := t.trainable(); err != nil {
		return nil, err
	}
	all, err := t.train(ctx, false, batches...)
	t.steps += len(all)
	return all, err
}

// workThrough runs a list with U, on the versions of the weights that its tasks name. task is set
// to the name of the one that runs.
func (r *stageRun) workThrough(ctx context.Context, task *string) error {
	list, chunk := r.Lists[r.k], r.chunks[0]
	slots, _ := schedule.WeightSlots(list)
	for i, tk := range list {
		*task = tk.String()
		if tk.Kind == schedule.Update {
			if err := r.updateBy(ctx, tk, slots[i], i == len(list)-1); err != nil {
				return err
			}
			continue
		}
		chunk.use(program.Params, slots[i])
		if err := chunk.task(ctx, tk); err != nil {
			return err
		}
	}
	return nil
}

// updateBy is U: it moves the weights by the gradient of the mini-batch that ends with a
// micro-batch. If a later task reads the weights that it moves, it copies them to the slot stash
// before, which is not 0 then. Unless it is the last task, it makes room for the next gradient.
func (r *stageRun) updateBy(ctx context.Context, t schedule.Task, stash int, last bool) error {
	mini := r.mini(t.Micro)
	return r.timed(ctx, timeline.Update, t.Micro, func() error {
		r.addUses()
		// Other devices' squares are left out: without clipping nothing depends on them.
		scale, err := r.globalNorm(slices.Repeat([][]float64{r.squares()}, r.trainer.net.Partitions))
		if err != nil {
			return err
		}
		r.ownNorms = append(r.ownNorms, r.norm)
		tallies := r.tallies(mini)
		if r.still {
			for i, m := range r.dev.moving {
				copy(m.tally, tallies[i])
			}
			return nil
		}
		if stash > 0 {
			r.stash(stash)
		}
		r.move(r.number(mini), scale)
		for i := range r.dev.moving {
			r.dev.moving[i].move(tallies[i])
		}
		if !last {
			r.clearGradients()
		}
		return nil
	})
}

// stash copies the newest weights, with the constants beside them, to another slot.
func (r *stageRun) stash(slot int) {
	newest, kept := r.dev.mem.slot(0, program.Params, 0), r.dev.mem.slot(0, program.Params, slot)
	parts := r.dev.pool.Threads()
	r.dev.pool.Do(func(part int) {
		from, to := len(kept)*part/parts, len(kept)*(part+1)/parts
		copy(kept[from:to], newest[from:to])
	})
	r.dev.mem.touch(0, program.Params, slot, len(kept))
}
