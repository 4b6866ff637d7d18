package gpipe

import (
	"context"
	"slices"
	"sync"
	"time"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/timeline"
	"gpipebench/gpipe/transport"
	"gpipebench/internal/kernel"
	"gpipebench/nn/program"
)

// Gradients of one parameter from its several uses are added in layer order, also if the uses are on
// different stages. Those of groups are added up by the tree of package reduction: those of a
// replica's own groups at the end of each but the last, those of all replicas before the update.

// endGroup adds a group, other than the replica's last, to those before it.
func (r *stageRun) endGroup(ctx context.Context) error {
	if err := r.exchangeUses(ctx); err != nil {
		return err
	}
	micro := r.Ends[r.group] - 1 // -1: the replica has no examples
	err := r.timed(ctx, timeline.Reduce, micro, func() error {
		r.addUses()
		r.keepDense()
		add := func(to, from func(w *weight) []float32) {
			r.eachReduced(func(w *weight, at, end int) {
				dst := to(w)[at:end]
				kernel.Add(dst, dst, from(w)[at:end])
			})
		}
		place := func(i int) func(w *weight) []float32 { return func(w *weight) []float32 { return w.sums[i] } }
		r.sums.Push(
			func(i int) {
				r.touchSums(i)
				r.eachReduced(func(w *weight, at, end int) { copy(w.sums[i][at:end], w.grads[0][at:end]) })
			},
			func(i int) { add(place(i), gradientsOf) },
			func(i int) { add(place(i), place(i+1)) })
		r.clearGradients()
		return nil
	})
	r.group++
	return err
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
	ctx, cancel := context.WithCancelCause(ctx)
	var sender sync.WaitGroup
	defer func() { // after a panic of each, too
		cancel(nil)
		sender.Wait()
	}()
	sender.Go(func() {
		for i, u := range p.Uses {
			for _, to := range n.DevicesOf(p) {
				if n.Device(u.Stage) != r.k || to == r.k {
					continue
				}
				if err := r.session.Send(ctx, route(r.k, to, i), parts(i)); err != nil {
					cancel(err)
					return
				}
			}
		}
	})
	for i, u := range p.Uses {
		if err := each(i, func(into [][]float32) error {
			_, err := r.takeIn(ctx, route(n.Device(u.Stage), r.k, i), TiedGradients, into)
			return err
		}); err != nil {
			return err
		}
	}
	sender.Wait()
	return context.Cause(ctx)
}

// accumulators returns the accumulators of the device's uses of a parameter, in layer order.
func (r *stageRun) accumulators(param int) (all [][]float32) {
	for _, j := range r.dev.index[param] {
		all = append(all, r.dev.weights[j].grads...)
	}
	return all
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

// clearGradients clears the accumulators after a group, but not the tallies, which are of a later
// one already.
func (r *stageRun) clearGradients() {
	r.eachPart(func(w *weight, at, end int) {
		for _, g := range w.grads {
			kernel.Zero(g[at:end])
		}
	})
}

// sumGroups makes the first accumulator of every weight the sum of all groups: of all
// of it in one replica, else of the chunks that this replica owns.
func (r *stageRun) sumGroups(ctx context.Context) error {
	err := r.timedWork(ctx, timeline.Reduce, func() {
		r.addUses()
		r.sums.Finish(func(i int) {
			r.eachReduced(func(w *weight, at, end int) {
				dst := w.grads[0][at:end]
				kernel.Add(dst, dst, w.sums[i][at:end])
			})
		})
	})
	if err != nil || r.trainer.net.Replicas == 1 {
		return err
	}
	return r.overReplicas(timeline.Reduce, gradientsOf, func(a *reduction.AllReduce, gradients [][]float32) error {
		if err := a.Reduce(ctx, gradients); err != nil || r.trainer.net.ShardUpdate {
			return err
		}
		return a.Gather(ctx, gradients)
	})
}

func gradientsOf(w *weight) []float32 { return w.grads[0] }

func weightsOf(w *weight) []float32 { return w.w }

// overReplicas runs f as one event, with the all-reduce of a tensor of each of this
// stage's weights. Its buffers lie in the workspace.
func (r *stageRun) overReplicas(kind timeline.Kind, of func(*weight) []float32, f func(a *reduction.AllReduce, tensors [][]float32) error) error {
	p := peers{r, transport.GroupGradient, &r.times.Reduce, Sums}
	if kind == timeline.Gather {
		p.spent, p.handed = &r.times.Gather, UpdatedWeights
	}
	a := &reduction.AllReduce{Layout: r.dev.reduced, Peers: p, Add: p.add}
	if r.trainer.net.InProcess {
		a.AddLent = p.addLent
	}
	ws := r.dev.mem.slot(0, program.Workspace, 0)
	buffers, size := r.trainer.net.ReduceBuffers(r.at)
	for i := range buffers {
		at := i * program.AlignUp(size)
		a.Buffers = append(a.Buffers, ws[at:at+size])
		r.dev.mem.touch(0, program.Workspace, 0, at+size)
	}
	tensors := make([][]float32, len(r.dev.weights))
	for i := range tensors {
		tensors[i] = of(&r.dev.weights[i])
	}
	start := time.Now()
	if err := f(a, tensors); err != nil {
		return err
	}
	r.record(r.at, kind, -1, start, time.Now())
	return nil
}

// gatherParts makes whole tensors of the parts that the replicas have, between steps.
func gatherParts(t *Trainer, of func(*weight) []float32) error {
	session := t.transport.Begin()
	defer session.End()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var all sync.WaitGroup
	for _, d := range t.devices {
		r := &stageRun{step: &step{trainer: t, session: session}, at: d.at, k: d.k, dev: d, times: newStageTimes(0)}
		all.Go(func() {
			if err := r.overReplicas(timeline.Gather, of, func(a *reduction.AllReduce, tensors [][]float32) error {
				return a.Gather(ctx, tensors)
			}); err != nil {
				cancel(err)
				session.Abort(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// peers are the same stage of all replicas. Copies and additions are timed.
type peers struct {
	*stageRun
	what   transport.Payload
	spent  *float64 // seconds
	handed Load     // what the owner of a chunk sends the others
}

func (p peers) Ranks() int { return p.trainer.net.Replicas }
func (p peers) Rank() int  { return p.at.Replica }

func (p peers) route(from, to, chunk int) transport.Route {
	return transport.Route{
		From: place.Place{Replica: from, Stage: p.k}, To: place.Place{Replica: to, Stage: p.k},
		What: p.what, Index: chunk,
	}
}

func (p peers) Send(ctx context.Context, to, chunk int, parts [][]float32) error {
	return p.session.Send(ctx, p.route(p.Rank(), to, chunk), parts)
}

func (p peers) Receive(ctx context.Context, from, chunk int, parts [][]float32) error {
	what := p.handed
	if first, end := p.dev.reduced.Owned(p.Ranks(), p.Rank()); chunk >= first && chunk < end {
		what = Summands
	}
	start := time.Now()
	began, err := p.takeIn(ctx, p.route(from, p.Rank(), chunk), what, parts)
	if err == nil {
		*p.spent += time.Since(began).Seconds()
		p.took(from, chunk, parts, start, began)
	}
	return err
}

// took records a message with gradients; those of updated weights are no reduction.
func (p peers) took(from, chunk int, parts [][]float32, start, began time.Time) {
	if c := &p.recorded; c.reductions != nil && p.handed == Sums {
		c.weights = p.dev.reduced.Tensors(chunk, len(parts))
		c.message(c.weights, from, start, began, bytesOf(parts))
	}
}

// addLent adds a replica's chunks where that replica has them.
func (p peers) addLent(ctx context.Context, from, chunk int, sums [][]float32) error {
	start := time.Now()
	return p.session.(transport.Lender).Lend(ctx, p.route(from, p.Rank(), chunk), sums, func(summands [][]float32) {
		began := time.Now()
		p.addUp(sums, summands)
		p.took(from, chunk, sums, start, began)
		p.received.add(Traffic{From: place.Place{Replica: from, Stage: p.k}, To: p.at, What: Summands, Messages: 1, Bytes: bytesOf(sums)})
	})
}

// add is addUp of the message that was received last.
func (p peers) add(sums, summands [][]float32) {
	start := time.Now()
	p.addUp(sums, summands)
	p.recorded.add(p.recorded.weights, timeline.Carry, -1, start, time.Now(), bytesOf(sums))
}

// addUp is the addition of a reduction, divided over the device's threads.
func (p peers) addUp(sums, summands [][]float32) {
	parts := p.dev.pool.Threads()
	*p.spent += p.aloneFor(func() {
		p.dev.pool.Do(func(part int) {
			for i, sum := range sums {
				from, to := len(sum)*part/parts, len(sum)*(part+1)/parts
				kernel.Add(sum[from:to], sum[from:to], summands[i][from:to])
			}
		})
	})
}

// eachPart calls f for a part of every weight on each of the device's threads.
func (r *stageRun) eachPart(f func(w *weight, from, to int)) {
	r.onThreads(func(part, thread, threads int) {
		for i := range r.dev.weights {
			if w := &r.dev.weights[i]; w.part == part {
				f(w, len(w.w)*thread/threads, len(w.w)*(thread+1)/threads)
			}
		}
	})
}

// eachReduced is eachPart without the weights whose gradients are gathered.
func (r *stageRun) eachReduced(f func(w *weight, from, to int)) {
	r.eachPart(func(w *weight, from, to int) {
		if !w.gathered() {
			f(w, from, to)
		}
	})
}

// onThreads calls f on each of the device's threads, and where parts divide operations on those of all
// parts: with the number of the part, and of the thread and the threads of each. On emulated devices
// parts work one after another, and count as if they worked beside each other.
func (r *stageRun) onThreads(f func(part, thread, threads int)) {
	threads := r.dev.pool.Threads()
	switch n := r.trainer.net; {
	case n.Tensor == 1:
		r.dev.pool.Do(func(i int) { f(0, i, threads) })
	case r.trainer.alone == nil:
		r.dev.tasks.Do(func(i int) { f(i/threads, i%threads, threads) })
	default:
		var sum, most time.Duration
		for part := range n.Tensor {
			start := time.Now()
			r.dev.pool.Do(func(i int) { f(part, i, threads) })
			took := time.Since(start)
			sum, most = sum+took, max(most, took)
		}
		r.turns += sum - most
	}
}

// recorded is how a stage's tensors are added up over replicas, for a trace like Horovod's.
// The zero value records nothing. Only the goroutine of the stage's list uses it.
type recorded struct {
	reductions []timeline.Reduction // by weight; nil: nothing is recorded
	begin      time.Time            // of the step
	weights    []int                // of the last message
}

// recordReductions begins the record: the stage's own gradients are complete.
func (r *stageRun) recordReductions() {
	n := r.trainer.net
	if !r.trainer.records || n.Replicas == 1 || n.Devices[r.k].Kind != Host {
		return
	}
	for i := range r.dev.weights {
		w := &r.dev.weights[i]
		r.recorded.reductions = append(r.recorded.reductions, timeline.Reduction{
			At: r.at, Tensor: n.Params[w.param].Path, Gathered: w.gathered(), Ready: time.Since(r.start).Seconds(),
		})
	}
	r.recorded.begin = r.start
}

// add adds an activity of some weights.
func (c *recorded) add(weights []int, kind timeline.ActivityKind, peer int, start, end time.Time, bytes int64) {
	if c.reductions == nil {
		return
	}
	a := timeline.Activity{Kind: kind, Peer: peer, Start: start.Sub(c.begin).Seconds(), End: end.Sub(c.begin).Seconds(), Bytes: bytes}
	for _, w := range weights {
		of := &c.reductions[w].Activities
		*of = append(*of, a)
	}
}

// message adds what taking in a peer's message was: the wait for it, from start, and, from
// began, the copy or the addition.
func (c *recorded) message(weights []int, peer int, start, began time.Time, bytes int64) {
	c.add(weights, timeline.WaitForData, peer, start, began, bytes)
	c.add(weights, timeline.Carry, peer, began, time.Now(), bytes)
}

// touchSums records that a place for sums of groups is used.
func (r *stageRun) touchSums(place int) {
	for part := range r.trainer.net.Tensor {
		mem := r.dev.memory(part)
		mem.touch(0, program.Grads, 1+place, mem.plan.Chunks[0][program.Grads][1+place].Span)
	}
}
