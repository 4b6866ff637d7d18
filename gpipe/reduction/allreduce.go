package reduction

import (
	"context"
	"fmt"
	"math/bits"
	"sync"

	"gpipebench/internal/kernel"
)

// Peers carries chunks between the ranks of a reduction, all of which make the same
// calls. Chunks on their way from one rank to another arrive in the order in which
// they are sent; a Send returns when its memory may be written again. Operations for
// different peers may run at the same time.
type Peers interface {
	Ranks() int
	Rank() int
	Send(ctx context.Context, to, chunk int, parts [][]float32) error
	Receive(ctx context.Context, from, chunk int, parts [][]float32) error
}

// AllReduce adds up the same tensors of all ranks, by the tree over ranks, in two
// halves, between which a rank has whole sums of the chunks that it owns (see
// [Layout.Owned]) and of no others. A rank sends and receives 2 (R-1)/R of the data, as
// in a ring. Every owner gets its chunks from all others directly and adds them up as
// the tree says, so any number of ranks has the tree's bits, and owns its even share.
type AllReduce struct {
	Layout *Layout
	Peers  Peers
	// Buffers has room for the chunks that are being added up: Buffers(R) of
	// BlockFloats elements each.
	Buffers [][]float32
	// Add adds the second tensors to the first. Nil: kernel.Add on the calling goroutine.
	Add func(sums, summands [][]float32)
}

// Buffers is the number of buffers that a reduction over ranks needs.
func Buffers(ranks int) int {
	if ranks < 2 {
		return 0
	}
	// The largest subtree without this rank is the root's left side, whose sum takes one
	// buffer for itself and one for each level below.
	return 1 + bits.Len(uint(Split(ranks)-1))
}

// Reduce adds up the tensors: afterwards the chunks that this rank owns have the sums
// of all ranks, and the others what they had.
func (a *AllReduce) Reduce(ctx context.Context, tensors [][]float32) error {
	ranks, self := a.Peers.Ranks(), a.Peers.Rank()
	return a.withSenders(ctx, func(peer int) (from, to int) { return a.Layout.Owned(ranks, peer) }, tensors, func(ctx context.Context) error {
		from, to := a.Layout.Owned(ranks, self)
		for chunk := from; chunk < to; chunk++ {
			if err := a.sum(ctx, chunk, 0, ranks, a.Layout.of(chunk, tensors), 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// Gather hands every owner's chunks to all ranks.
func (a *AllReduce) Gather(ctx context.Context, tensors [][]float32) error {
	ranks, self := a.Peers.Ranks(), a.Peers.Rank()
	return a.withSenders(ctx, func(int) (from, to int) { return a.Layout.Owned(ranks, self) }, tensors, func(ctx context.Context) error {
		for peer := range ranks {
			if peer == self {
				continue
			}
			from, to := a.Layout.Owned(ranks, peer)
			for chunk := from; chunk < to; chunk++ {
				if err := a.Peers.Receive(ctx, peer, chunk, a.Layout.of(chunk, tensors)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// withSenders runs f while the chunks for each peer are sent to it. It returns when all
// have ended; the first error ends the others.
func (a *AllReduce) withSenders(ctx context.Context, chunks func(peer int) (from, to int), tensors [][]float32, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	run := func(f func(context.Context) error) {
		all.Go(func() {
			if err := f(ctx); err != nil {
				cancel(err)
			}
		})
	}
	for peer := range a.Peers.Ranks() {
		if peer == a.Peers.Rank() {
			continue
		}
		run(func(ctx context.Context) error {
			from, to := chunks(peer)
			for chunk := from; chunk < to; chunk++ {
				if err := a.Peers.Send(ctx, peer, chunk, a.Layout.of(chunk, tensors)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	run(f)
	all.Wait()
	return context.Cause(ctx)
}

// sum makes parts the tree's sum of a chunk over ranks lo to hi-1. If this rank is one
// of them, parts are its own tensors' and hold its summand; otherwise they are free.
// Buffers from the given index on are free.
func (a *AllReduce) sum(ctx context.Context, chunk, lo, hi int, parts [][]float32, free int) error {
	self := a.Peers.Rank()
	if hi-lo == 1 {
		if lo == self {
			return nil
		}
		return a.Peers.Receive(ctx, lo, chunk, parts)
	}
	middle := lo + Split(hi-lo)
	first, second := [2]int{lo, middle}, [2]int{middle, hi}
	if self >= middle && self < hi {
		first, second = second, first // the side with this rank is summed where it lies
	}
	if err := a.sum(ctx, chunk, first[0], first[1], parts, free); err != nil {
		return err
	}
	if free >= len(a.Buffers) {
		return fmt.Errorf("reduction: %d buffers for %d ranks: want %d", len(a.Buffers), a.Peers.Ranks(), Buffers(a.Peers.Ranks()))
	}
	other := a.Layout.in(chunk, a.Buffers[free])
	if err := a.sum(ctx, chunk, second[0], second[1], other, free+1); err != nil {
		return err
	}
	if a.Add != nil {
		a.Add(parts, other)
		return nil
	}
	for i := range parts {
		kernel.Add(parts[i], parts[i], other[i])
	}
	return nil
}
