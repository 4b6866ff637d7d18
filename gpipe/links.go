package gpipe

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/timeline"
	"gpipebench/gpipe/transport"
	"gpipebench/nn/program"
)

// inbox is where a neighbour's tensors arrive, micro-batch m in slot m mod the
// number of slots. The first stage's input has no neighbour: its list takes credits
// itself.
//
// Invariants: the credits left, plus the micro-batches that have taken a credit and
// are not released, are slots. Micro-batches come and are released in ascending
// order, so those that are here are consecutive, and no two of them share a slot.
// Sends on the channels never wait: both have room for all.
type inbox struct {
	slots   int
	credit  chan struct{} // a slot is free
	arrived chan int      // micro-batches that lie in their slots, ascending
}

func newInbox(slots, micro int) inbox { return inbox{slots, tokens(slots), make(chan int, micro)} }

// outbox holds what is on its way to a neighbour, micro-batch m in slot m mod the
// number of slots.
//
// Invariants: the tokens in free, plus the micro-batches that have taken a token
// (before their task) and whose Send is not over, are slots. Only the list's
// goroutine takes tokens and fills ready, in ascending order, and closes ready when
// it ends; only the sender gives tokens back. Sends on the channels never wait.
type outbox struct {
	slots int
	free  chan struct{} // a slot may be written to
	ready chan int      // micro-batches that may be sent, ascending
}

func newOutbox(slots, micro int) outbox { return outbox{slots, tokens(slots), make(chan int, micro)} }

// tokens is a channel that holds n tokens, and has room for no more.
func tokens(n int) chan struct{} {
	c := make(chan struct{}, n)
	for range n {
		c <- struct{}{}
	}
	return c
}

// crossing returns the tensors of a slot that cross an edge. Those without a gradient
// do not cross backwards.
func crossing(slot []float32, places []program.Tensor) [][]float32 {
	var ts [][]float32
	for _, p := range places {
		if p.Len > 0 {
			ts = append(ts, slot[p.Off:p.End()])
		}
	}
	return ts
}

// neighbour is another device of the same replica.
func (r *stageRun) neighbour(k int) place.Place {
	return place.Place{Replica: r.at.Replica, Stage: k}
}

// pieceAt is where the replica has a piece of the network.
func (r *stageRun) pieceAt(k int) place.Place { return r.trainer.net.Pieces.At(r.at.Replica, k) }

// receive receives a neighbour's tensors for every micro-batch, in order.
func (r *chunkRun) receive(ctx context.Context, what transport.Payload, in *inbox, from int) error {
	for m := range r.Sizes {
		if err := take(ctx, in.credit); err != nil {
			return err
		}
		space, places, log, load := program.In, r.stage(m).In, &r.crossed[0], BoundaryActivations
		if what == transport.Gradient {
			space, places, log, load = program.DOut, r.stage(m).DOut, &r.crossed[1], BoundaryGradients
		}
		dst := crossing(r.dev.mem.slot(r.at.Chunk, space, m%in.slots), places)
		began, err := r.takeIn(ctx, transport.Route{From: r.pieceAt(from), To: r.at, What: what, Index: m}, load, dst)
		if err != nil {
			return err
		}
		*log = append(*log, timeline.Event{
			At: r.pieceAt(from), Peer: r.at, Kind: timeline.Transfer, Micro: m,
			Start: began.Sub(r.start).Seconds(), End: time.Since(r.start).Seconds(),
			Bytes: bytesOf(dst), Backward: what == transport.Gradient,
		})
		in.arrived <- m
	}
	return nil
}

// takeIn receives tensors and returns when the copying began. On emulated devices
// nothing else runs meanwhile.
func (r *stageRun) takeIn(ctx context.Context, from transport.Route, what Load, dst [][]float32) (began time.Time, err error) {
	alone := r.trainer.alone
	defer func() {
		if alone != nil && !began.IsZero() {
			<-alone
		}
	}()
	err = r.session.Receive(ctx, from, dst, func() {
		if alone != nil {
			alone <- struct{}{}
		}
		began = time.Now()
	})
	if err == nil {
		r.received.add(Traffic{From: from.From, To: from.To, What: what, Messages: 1, Bytes: bytesOf(dst), Seconds: time.Since(began).Seconds()})
	}
	return began, err
}

// send sends what the list's goroutine has put into an outbox.
func (r *chunkRun) send(ctx context.Context, what transport.Payload, out *outbox, to int) error {
	for m := range out.ready { // until the list's goroutine ends
		space, places := program.Out, r.stage(m).Out
		if what == transport.Gradient {
			space, places = program.DIn, r.stage(m).DIn
		}
		slot := r.dev.mem.slot(r.at.Chunk, space, m%out.slots)
		if err := r.session.Send(ctx, transport.Route{From: r.at, To: r.pieceAt(to), What: what, Index: m}, crossing(slot, places)); err != nil {
			return err
		}
		if r.trainer.testing.poison {
			for i := range slot {
				slot[i] = float32(math.NaN())
			}
		}
		out.free <- struct{}{}
	}
	return nil
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

func bytesOf(ts [][]float32) (n int64) {
	for _, t := range ts {
		n += int64(len(t)) * plan.FloatBytes
	}
	return n
}

// take waits for a token.
func take(ctx context.Context, c chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// await waits until micro-batch m has arrived.
func await(ctx context.Context, c chan int, m int) error {
	select {
	case got := <-c:
		if got != m {
			return fmt.Errorf("micro-batch %d arrived where %d was due", got, m)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// traffic counts what a stage receives. Several goroutines do that.
type traffic struct {
	mu  sync.Mutex
	all []Traffic
}

func (t *traffic) add(of Traffic) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.all, func(a Traffic) bool { return a.From == of.From && a.What == of.What })
	if i < 0 {
		t.all = append(t.all, of)
		return
	}
	a := &t.all[i]
	a.Messages, a.Bytes, a.Seconds = a.Messages+of.Messages, a.Bytes+of.Bytes, a.Seconds+of.Seconds
}
