package gpipe

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/timeline"
	"gpipebench/gpipe/transport"
	"gpipebench/internal/kernel"
	"gpipebench/nn"
	"gpipebench/nn/program"
)

// The update. Gradients of one parameter from its several uses are added in layer
// order, also if the uses are on different stages; then those of groups, by the tree.
// Then comes a barrier, at which all devices gather the tensors' norms. Then every
// device updates its own parameters. A parameter that is tied across stages is updated
// in the same way by each of them.

// zeroGradients is the setup of a step. What the first backward function starts from zero itself
// is not cleared.
func (r *stageRun) zeroGradients() error {
	r.dev.handOut()
	parts := r.dev.pool.Threads()
	for c, chunk := range r.chunks {
		grads := r.dev.mem.slot(c, program.Grads, 0)
		clear := []program.Operand{{Space: program.Grads, Len: len(grads)}}
		if chunk.fresh = len(chunk.parts) == 0 && !r.hasUpdates() && r.Ends[0] > 0; chunk.fresh {
			chunk.poison(program.Grads)
			clear = chunk.stage(0).Clear
		}
		r.dev.pool.Do(func(part int) {
			for _, o := range clear {
				kernel.Zero(grads[o.Off+o.Len*part/parts : o.Off+o.Len*(part+1)/parts])
			}
		})
		r.dev.mem.touch(c, program.Grads, 0, len(grads))
	}
	if r.trainer.net.Tensor > 1 {
		r.onThreads(func(part, thread, threads int) {
			for c := range r.chunks {
				if mem := r.dev.memory(part); part > 0 {
					grads := mem.slot(c, program.Grads, 0)
					kernel.Zero(grads[len(grads)*thread/threads : len(grads)*(thread+1)/threads])
					if thread == 0 {
						mem.touch(c, program.Grads, 0, len(grads))
					}
				}
			}
		})
	}
	return nil
}

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
	norms, err := r.norms(ctx)
	if err != nil {
		return err
	}
	all, err := r.gather(ctx, place.Of(r.trainer.net.Replicas, r.trainer.net.Partitions), norms)
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

// gather waits for the values of all these places, this one among them, and returns
// them by place.
func (r *stageRun) gather(ctx context.Context, among []place.Place, values []float64) ([][]float64, error) {
	message := make([]byte, 0, 8*len(values))
	for _, v := range values {
		message = binary.LittleEndian.AppendUint64(message, math.Float64bits(v))
	}
	messages, err := r.session.Gather(ctx, r.at, among, message)
	if err != nil {
		return nil, err
	}
	all := make([][]float64, len(messages))
	for i, m := range messages {
		if len(m) != len(message) {
			return nil, fmt.Errorf("%v gathers %d bytes: want %d", among[i], len(m), len(message))
		}
		for ; len(m) > 0; m = m[8:] {
			all[i] = append(all[i], math.Float64frombits(binary.LittleEndian.Uint64(m)))
		}
	}
	return all, nil
}

// exchangeUses adds up, in their first accumulators, the uses of the parameters that
// several stages share.
func (r *stageRun) exchangeUses(ctx context.Context) error {
	n := r.trainer.net
	for i := range n.Params { // in the same order on every stage
		if copies := r.dev.index[i]; len(copies) > 0 && n.Params[i].Shared() && !n.Params[i].Gathered {
			if err := r.exchange(ctx, i, copies); err != nil {
				return err
			}
		}
	}
	return nil
}

// addUses adds up the uses of the stage's other parameters.
func (r *stageRun) addUses() {
	several := func(w weight) bool {
		return len(w.grads) > 1 && !r.trainer.net.Params[w.param].Shared() && !w.gathered()
	}
	if !slices.ContainsFunc(r.dev.weights, several) {
		return
	}
	r.eachPart(func(w *weight, from, to int) {
		for _, g := range w.grads[1:] {
			if several(*w) {
				kernel.Add(w.grads[0][from:to], w.grads[0][from:to], g[from:to])
			}
		}
	})
}

// weightsFor returns the weights that one thread handles: whole tensors, since each
// sum of squares is one fixed chain, balanced by element count.
func (d *device) weightsFor(part int) []weight {
	total := 0
	for _, w := range d.weights {
		total += len(w.w)
	}
	parts, before := d.pool.Threads(), 0
	from, to := len(d.weights), len(d.weights)
	for i, w := range d.weights {
		middle := before + len(w.w)/2
		if i < from && middle >= total*part/parts {
			from = i
		}
		if i < to && part < parts-1 && middle >= total*(part+1)/parts {
			to = i
		}
		before += len(w.w)
	}
	return d.weights[from:to]
}

// timedWork times f, a part of the step between its tasks and its barrier, which
// counts on the virtual clock and has no event.
func (r *stageRun) timedWork(ctx context.Context, kind timeline.Kind, f func()) error {
	events := len(r.events)
	err := r.timed(ctx, kind, -1, func() error { f(); return nil })
	r.events = r.events[:min(events, len(r.events))]
	return err
}

// exchange sends this device's accumulators of a shared parameter to the other
// devices that use it, and adds up all uses in layer order. Each of the device's copies of the
// parameter gets the sum.
func (r *stageRun) exchange(ctx context.Context, param int, copies []int) error {
	n := r.trainer.net
	p := &n.Params[param]
	ws := r.dev.mem.slot(0, program.Workspace, 0)
	size := p.Shape.Elems()
	sum, got := ws[:size], ws[min(program.AlignUp(size), n.SharedFloats(p)):n.SharedFloats(p)]
	r.dev.mem.touch(0, program.Workspace, 0, n.SharedFloats(p))

	own := make([][]float32, len(p.Uses)) // nil: of another device
	accumulators := r.accumulators(param)
	for i, u := range p.Uses {
		if n.Device(u.Stage) == r.k {
			own[i], accumulators = accumulators[0], accumulators[1:]
		}
	}
	err := r.swapUses(ctx, param, func(use int) [][]float32 { return [][]float32{own[use]} }, func(use int, receive func(into [][]float32) error) error {
		g := own[use]
		if g == nil {
			g = got
			if err := receive([][]float32{got}); err != nil {
				return err
			}
		}
		if use == 0 {
			copy(sum, g)
		} else {
			kernel.Add(sum, sum, g)
		}
		return nil
	})
	for _, j := range copies {
		copy(r.dev.weights[j].grads[0], sum)
	}
	return err
}

// swapUses sends what this device has of a parameter's uses to the other devices that have
// the parameter, and meanwhile calls each for every use, in layer order, with a function that
// receives another device's.
func (r *stageRun) swapUses(ctx context.Context, param int, parts func(use int) [][]float32, each func(use int, receive func(into [][]float32) error) error) error {
	n := r.trainer.net
	p := &n.Params[param]
	route := func(from, to, use int) transport.Route {
		return transport.Route{From: r.neighbour(from), To: r.neighbour(to), What: transport.TiedGradient, Index: param<<16 | use}
	}
	sent := make(chan error, 1)
	go func() {
		sent <- func() error {
			for i, u := range p.Uses {
				for _, to := range n.DevicesOf(p) {
					if n.Device(u.Stage) != r.k || to == r.k {
						continue
					}
					if err := r.session.Send(ctx, route(r.k, to, i), parts(i)); err != nil {
						return err
					}
				}
			}
			return nil
		}()
	}()
	var err error
	for i := 0; err == nil && i < len(p.Uses); i++ {
		err = each(i, func(into [][]float32) error {
			_, err := r.takeIn(ctx, route(n.Device(p.Uses[i].Stage), r.k, i), TiedGradients, into)
			return err
		})
	}
	if e := <-sent; err == nil {
		err = e
	}
	return err
}

// accumulators returns the accumulators of the device's uses of a parameter, in layer order.
func (r *stageRun) accumulators(param int) (all [][]float32) {
	for _, j := range r.dev.index[param] {
		all = append(all, r.dev.weights[j].grads...)
	}
	return all
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
