package sockets

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/transport"
)

// session is a session as this process sees it.
type session struct {
	end    *End
	number uint64
	local  transport.Session // between places of this process; set by Begin
	ctx    context.Context   // done when the session is aborted or a process is gone
	cancel func(cause error) // ends ctx
	once   sync.Once         // of the end of ctx

	mu     sync.Mutex
	groups map[group]*gatherings
}

// stop ends the session's operations with an error. It reports whether it was the first.
func (s *session) stop(err error) (first bool) {
	s.once.Do(func() {
		first = true
		s.cancel(err)
	})
	return first
}

// over is the error that an operation must return at once, or nil.
func (s *session) over(ctx context.Context) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// within is a context that ends with the session, too. free must be called.
func (s *session) within(ctx context.Context) (both context.Context, free func()) {
	both, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })
	return both, func() {
		stop()
		cancel(nil)
	}
}

func (s *session) Send(ctx context.Context, to transport.Route, tensors [][]float32) error {
	if err := s.over(ctx); err != nil {
		return err
	}
	ctx, free := s.within(ctx)
	defer free()
	rank := s.end.Owner(to.To)
	if rank == s.end.Rank() {
		return s.local.Send(ctx, to, tensors)
	}
	return s.end.outLine(to.Line()).send(ctx, rank, s.number, to, tensors)
}

func (s *session) Receive(ctx context.Context, from transport.Route, dst [][]float32, arrived func()) error {
	if err := s.over(ctx); err != nil {
		return err
	}
	ctx, free := s.within(ctx)
	defer free()
	if s.end.Owner(from.From) == s.end.Rank() {
		return s.local.Receive(ctx, from, dst, arrived)
	}
	return s.end.inLine(from.Line()).receive(ctx, s.number, from, dst, arrived)
}

// gatherings are those of one group of places, one after another.
type gatherings struct {
	messages map[place.Place]int // of each place so far
	rounds   map[int]*round      // that are not complete
}

type round struct {
	messages map[place.Place][]byte
	done     chan struct{} // closed when all are here
}

// put adds a place's next message to its gathering.
func (s *session) put(of group, from place.Place, content []byte) *round {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[of]
	if g == nil {
		g = &gatherings{map[place.Place]int{}, map[int]*round{}}
		s.groups[of] = g
	}
	number := g.messages[from]
	g.messages[from]++
	r := g.rounds[number]
	if r == nil {
		r = &round{map[place.Place][]byte{}, make(chan struct{})}
		g.rounds[number] = r
	}
	r.messages[from] = content
	if len(r.messages) == of.places {
		delete(g.rounds, number)
		close(r.done)
	}
	return r
}

func (s *session) Gather(ctx context.Context, from place.Place, among []place.Place, content []byte) ([][]byte, error) {
	if !slices.Contains(among, from) {
		return nil, fmt.Errorf("transport: %v gathers among %v: want it to be one of them", from, among)
	}
	if err := s.over(ctx); err != nil {
		return nil, err
	}
	of := group{among[0], among[len(among)-1], len(among)}
	r := s.put(of, from, content)
	told := map[int]bool{s.end.Rank(): true}
	for _, p := range among {
		if rank := s.end.Owner(p); !told[rank] {
			told[rank] = true
			s.end.peers[rank].push(messageFrame(s.number, of, from, content))
		}
	}
	select {
	case <-r.done:
	case <-s.ctx.Done():
		return nil, context.Cause(s.ctx)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	all := make([][]byte, len(among))
	for i, p := range among {
		m, ok := r.messages[p]
		if !ok {
			return nil, fmt.Errorf("transport: %v gathers among %v, and others with the same first and last place among others: want the same places", from, among)
		}
		all[i] = m
	}
	return all, nil
}

// Abort aborts the session. If the cause is that a process is gone, the others get to
// know that instead.
func (s *session) Abort(cause error) {
	if cause == nil {
		cause = errors.New("aborted")
	}
	if s.abort(s.end.Rank(), cause.Error(), errors.Is(cause, context.Canceled)) {
		s.end.tell(causeFrame(aborted, s.number, cause), -1)
	}
}

// abort ends the session by a rank's abort, and reports whether it had not ended before.
func (s *session) abort(rank int, cause string, canceled bool) bool {
	return s.stop(&transport.AbortError{Rank: rank, Cause: cause, Canceled: canceled})
}

func (s *session) End() {
	s.stop(errors.New("the session has ended"))
	s.local.End()
	s.end.mu.Lock()
	defer s.end.mu.Unlock()
	delete(s.end.sessions, s.number)
}
