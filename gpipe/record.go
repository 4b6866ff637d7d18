package gpipe

import (
	"time"

	"gpipebench/gpipe/timeline"
)

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
