package reduction

import (
	"context"
	"iter"
	"sync"
)

// AllGather hands what each rank has to all ranks. Part returns the messages of a rank's
// part, with their numbers: on that rank what it has, on the others the places, of the same
// sizes, that it goes to. A rank sends its part to every other one directly, so that it
// receives (R-1)/R of the whole, as in a ring.
func AllGather(ctx context.Context, peers Peers, part func(rank int) iter.Seq2[int, [][]float32]) error {
	self := peers.Rank()
	return withSenders(ctx, peers, func(int) iter.Seq2[int, [][]float32] { return part(self) }, func(ctx context.Context) error {
		for peer := range peers.Ranks() {
			if peer == self {
				continue
			}
			for number, tensors := range part(peer) {
				if err := peers.Receive(ctx, peer, number, tensors); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// withSenders runs f, on this goroutine, while each peer's messages are sent to it. It
// returns when all have ended; the first error ends the others.
func withSenders(ctx context.Context, peers Peers, of func(peer int) iter.Seq2[int, [][]float32], f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var senders sync.WaitGroup
	defer func() { // after a panic of f, too
		cancel(nil)
		senders.Wait()
	}()
	for peer := range peers.Ranks() {
		if peer == peers.Rank() {
			continue
		}
		senders.Go(func() {
			for number, tensors := range of(peer) {
				if err := peers.Send(ctx, peer, number, tensors); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	if err := f(ctx); err != nil {
		cancel(err)
	}
	senders.Wait()
	return context.Cause(ctx)
}
