package gpipe

import (
	"context"
	"time"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/timeline"
	"gpipebench/nn"
)

// The update. Gradients are added up first (reduce.go): those of one parameter's uses, of groups,
// and of replicas. Then comes a barrier, at which all devices gather the tensors' norms (norm.go).
// Then every device updates its own parameters. A parameter that is tied across stages is updated
// in the same way by each of them.

// update ends a training step on a device, after its list.
func (r *stageRun) update(ctx context.Context) error {
	for r.group < len(r.Ends)-1 { // empty groups
		if err := r.endGroup(ctx); err != nil {
			return err
		}
	}
	start := time.Now()
	r.recordReductions()
	if err := r.exchangeUses(ctx); err != nil {
		return err
	}
	if r.trainer.net.Groups > 1 {
		if err := r.sumGroups(ctx); err != nil {
			return err
		}
		start = time.Now()
	}
	if len(r.tables) > 0 {
		if err := r.gatherRows(ctx); err != nil {
			return err
		}
		start = time.Now()
	}
	var squares []float64
	if err := r.timedWork(ctx, timeline.Update, func() {
		if r.trainer.net.Groups == 1 { // otherwise they were added before the groups
			r.addUses()
		}
		squares = r.squares()
	}); err != nil {
		return err
	}
	all, err := r.gather(ctx, place.Of(r.trainer.net.Replicas, r.trainer.net.Partitions), squares)
	if err != nil {
		return err
	}
	r.record(r.at, timeline.Barrier, -1, start, time.Now())
	scale, err := r.globalNorm(all)
	if err != nil {
		return err
	}
	if err := r.gatherTallies(ctx); err != nil {
		return err
	}
	err = r.timed(ctx, timeline.Update, -1, func() error {
		if r.still {
			return nil
		}
		r.move(r.number(0), scale)
		r.dev.moveStatistics()
		return nil
	})
	if err != nil || r.still || !r.trainer.net.ShardUpdate {
		return err
	}
	return r.overReplicas(timeline.Gather, weightsOf, func(a *reduction.AllReduce, weights [][]float32) error {
		return a.Gather(ctx, weights)
	})
}

// move updates every parameter of the stage by a mini-batch's gradient, divided over the device's
// threads. The step is the update's number.
func (r *stageRun) move(step int, scale float32) {
	n := r.trainer.net
	lr := n.LR.Rate(step)
	r.onThreads(func(part, thread, threads int) {
		state := make([][]float32, len(n.Optimizer.Slots()))
		for i := range r.dev.weights {
			w := &r.dev.weights[i]
			rate := n.Params[w.param].Rate
			if rate == 0 || w.part != part {
				continue
			}
			at, end := w.own.Len()*thread/threads, w.own.Len()*(thread+1)/threads
			for j := range state {
				state[j] = w.state[j][at:end]
			}
			from, to := w.own.From+at, w.own.From+end
			u := nn.Update{
				W: w.w[from:to], G: w.grads[0][from:to], State: state,
				Step: step, LR: float32(lr * rate), Scale: scale, NoDecay: n.Params[w.param].NoDecay,
				Norms: r.tensorNorms[w.param],
			}
			if !u.NoDecay {
				u.L2 = float32(n.L2)
			}
			n.Optimizer.Update(u)
			if n.EMA.Kept() {
				n.EMA.Update(w.average()[at:end], u.W, step)
			}
		}
	})
	for i, w := range r.dev.weights {
		mem := r.dev.memory(w.part)
		for _, offsets := range mem.plan.State {
			mem.high[OptimizerState] = max(mem.high[OptimizerState], offsets[i]+w.own.Len())
		}
	}
}
