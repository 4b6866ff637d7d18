package reduction

import (
	"context"
	"fmt"
	"iter"

	"gpipebench/internal/kernel"
)

// Peers carries messages between the ranks of a reduction, all of which make the same
// calls. A message is the parts of the tensors that some consecutive chunks are, and goes
// by the number of the first. Messages on their way from one rank to another arrive in
// the order in which they are sent; a Send returns when its memory may be written again.
// Operations for different peers may run at the same time.
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
	// Buffers has room for the messages that are being added up: as many as [Buffers] says, of
	// as many elements as [Layout.LargestMessage].
	Buffers [][]float32
	// Add adds the second tensors to the first. Nil: kernel.Add on the calling goroutine.
	Add func(sums, summands [][]float32)
	// AddLent, if not nil, adds a peer's message to sums where the peer has it.
	AddLent func(ctx context.Context, from, chunk int, sums [][]float32) error
}

// Buffers is the number of buffers with which a rank adds up its chunks; lent says that
// there is an AddLent.
func Buffers(ranks, rank int, lent bool) int { return buffers(0, ranks, rank, lent) }

func buffers(lo, hi, self int, lent bool) int {
	if hi-lo == 1 {
		return 0
	}
	first, second := halves(lo, hi, self)
	if lent && second[1]-second[0] == 1 {
		return buffers(first[0], first[1], self, lent)
	}
	return max(buffers(first[0], first[1], self, lent), 1+buffers(second[0], second[1], self, lent))
}

// halves are the sides of the tree over ranks lo to hi-1: that with this rank first, as it
// is summed where it lies.
func halves(lo, hi, self int) (first, second [2]int) {
	middle := lo + Split(hi-lo)
	first, second = [2]int{lo, middle}, [2]int{middle, hi}
	if self >= middle && self < hi {
		return second, first
	}
	return first, second
}

// Reduce adds up the tensors: afterwards the chunks that this rank owns have the sums
// of all ranks, and the others what they had.
func (a *AllReduce) Reduce(ctx context.Context, tensors [][]float32) error {
	ranks, self := a.Peers.Ranks(), a.Peers.Rank()
	return withSenders(ctx, a.Peers, func(peer int) iter.Seq2[int, [][]float32] { return a.owned(peer, tensors) }, func(ctx context.Context) error {
		from, to := a.Layout.Owned(ranks, self)
		for m := range messages(from, to) {
			if err := a.sum(ctx, m, 0, ranks, a.Layout.of(m, tensors), 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// Gather hands every owner's chunks to all ranks.
func (a *AllReduce) Gather(ctx context.Context, tensors [][]float32) error {
	return AllGather(ctx, a.Peers, func(rank int) iter.Seq2[int, [][]float32] { return a.owned(rank, tensors) })
}

// owned are the messages with the chunks that a rank owns.
func (a *AllReduce) owned(rank int, tensors [][]float32) iter.Seq2[int, [][]float32] {
	return func(yield func(int, [][]float32) bool) {
		from, to := a.Layout.Owned(a.Peers.Ranks(), rank)
		for m := range messages(from, to) {
			if !yield(m.from, a.Layout.of(m, tensors)) {
				return
			}
		}
	}
}

// sum makes parts the tree's sum of a message over ranks lo to hi-1. If this rank is one
// of them, parts are its own tensors' and hold its summand; otherwise they are free.
// Buffers from the given index on are free.
func (a *AllReduce) sum(ctx context.Context, m span, lo, hi int, parts [][]float32, free int) error {
	self := a.Peers.Rank()
	if hi-lo == 1 {
		if lo == self {
			return nil
		}
		return a.Peers.Receive(ctx, lo, m.from, parts)
	}
	first, second := halves(lo, hi, self)
	if err := a.sum(ctx, m, first[0], first[1], parts, free); err != nil {
		return err
	}
	if peer := second[0]; a.AddLent != nil && second[1]-peer == 1 {
		return a.AddLent(ctx, peer, m.from, parts)
	}
	if free >= len(a.Buffers) {
		return fmt.Errorf("reduction: %d buffers for %d ranks: want %d", len(a.Buffers), a.Peers.Ranks(), Buffers(a.Peers.Ranks(), self, a.AddLent != nil))
	}
	other := a.Layout.in(m, a.Buffers[free])
	if err := a.sum(ctx, m, second[0], second[1], other, free+1); err != nil {
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
