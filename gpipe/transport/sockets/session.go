package sockets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

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
	groups map[group][]*round     // that are not complete, in order
	last   map[place.Place]*round // of each place of other processes, that it has sent a message to
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
	return s.end.outLine(to.Line()).send(ctx, s.number, to, tensors)
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

// round is a gathering.
type round struct {
	waits    []place.Place // this process's, as a message says that has come
	joined   bool          // one of them takes part
	messages map[place.Place][]byte
	done     chan struct{} // closed when all are here
}

// put adds a place's next message to its gathering. The mutex is held.
func (s *session) put(of group, from place.Place, content []byte) *round {
	rounds := s.groups[of]
	i := slices.IndexFunc(rounds, func(r *round) bool { _, here := r.messages[from]; return !here })
	if i < 0 {
		i, rounds = len(rounds), append(rounds, &round{messages: map[place.Place][]byte{}, done: make(chan struct{})})
	}
	r := rounds[i]
	r.messages[from] = content
	if len(r.messages) == of.Places {
		rounds = slices.Delete(rounds, i, i+1)
		close(r.done)
	}
	s.groups[of] = rounds
	return r
}

// take takes a message of a place of another process. Such a place waits for places of this
// process, so it has no other message before one of these has joined it.
func (s *session) take(f frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.last[f.Place]; r != nil && !r.joined {
		return fmt.Errorf("a second message of %v, whose first gathering waits", f.Place)
	}
	r := s.put(f.Group, f.Place, f.content)
	r.waits, s.last[f.Place] = f.Waits, r
	return nil
}

func (s *session) Gather(ctx context.Context, from place.Place, among []place.Place, content []byte) ([][]byte, error) {
	if !slices.Contains(among, from) {
		return nil, fmt.Errorf("transport: %v gathers among %v: want it to be one of them", from, among)
	}
	if err := s.over(ctx); err != nil {
		return nil, err
	}
	of, places := groupOf(among), map[int][]place.Place{} // by rank
	for _, p := range among {
		rank := s.end.Owner(p)
		places[rank] = append(places[rank], p)
	}
	s.mu.Lock()
	r := s.put(of, from, content)
	r.joined = true
	s.mu.Unlock()
	for rank, waits := range places {
		if rank != s.end.Rank() {
			s.end.peers[rank].push(frame{message, s.number, news{Group: of, Place: from, Waits: waits}, content})
		}
	}
	ticks := time.NewTicker(s.end.Limit)
	defer ticks.Stop()
	for waits := true; waits; {
		select {
		case <-r.done:
			waits = false
		case <-s.ctx.Done():
			return nil, context.Cause(s.ctx)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-ticks.C:
			if err := s.inVain(r, from, among); err != nil {
				return nil, cmp.Or(s.over(ctx), err) // the session may have ended at the same time
			}
		}
	}
	all := make([][]byte, len(among))
	for i, p := range among {
		m, ok := r.messages[p]
		if !ok {
			return nil, fmt.Errorf("transport: %v gathers among %v, and others without %v: want the same places", from, among, p)
		}
		all[i] = m
	}
	return all, nil
}

// inVain is an error if a gathering waits for a message that cannot come: of a process that
// has ended its part, or of a place that waits for this one in another gathering.
func (s *session) inVain(r *round, from place.Place, among []place.Place) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end.mu.Lock()
	defer s.end.mu.Unlock()
	for _, p := range among {
		if _, here := r.messages[p]; here {
			continue
		}
		if peer := s.end.peers[s.end.Owner(p)]; peer != nil && peer.left != nil {
			return peer.left
		}
		if other := s.last[p]; other != nil && !other.joined && slices.Contains(other.waits, from) {
			return fmt.Errorf("transport: %v gathers among %v, and %v with it among others: want the same places", from, among, p)
		}
	}
	return nil
}

// Abort aborts the session. If the cause is that a process is gone, the others get to
// know that instead.
func (s *session) Abort(cause error) {
	if cause == nil {
		cause = errors.New("aborted")
	}
	if why := causeOf(cause); s.abort(s.end.Rank(), why) {
		s.end.tell(frame{kind: aborted, session: s.number, news: why}, -1)
	}
}

// abort ends the session by a rank's abort, and reports whether it had not ended before.
func (s *session) abort(rank int, why news) bool {
	return s.stop(&transport.AbortError{Rank: rank, Cause: why.Text, Canceled: why.Canceled})
}

func (s *session) End() {
	s.stop(errors.New("the session has ended"))
	s.local.End()
	s.end.mu.Lock()
	defer s.end.mu.Unlock()
	delete(s.end.sessions, s.number)
}
