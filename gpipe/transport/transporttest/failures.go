package transporttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/transport"
)

// What ends waiting: a context, an abort, the death of a process.

// waiting returns operations of each end that wait for something that never comes.
func (r *run) waiting(ctx context.Context) []func() error {
	var all []func() error
	last := place.Stage(100 * len(r.Ends)) // never gathers, sends or receives; on rank 0
	for rank, s := range r.sessions {
		p := place.Stage(rank)
		all = append(all, func() error {
			return s.Receive(ctx, transport.Route{From: last, To: p}, nil, func() { r.Error("something came") })
		}, func() error {
			_, err := s.Gather(ctx, p, append(place.Stages(len(r.Ends)), last), nil)
			return err
		}, func() error {
			x := make([]float32, 1<<12)
			for i := range 1 << 16 { // never received, but some of it may be under way
				to := transport.Route{From: p, To: last, What: transport.Gradient, Index: i}
				if err := s.Send(ctx, to, [][]float32{x}); err != nil {
					return err
				}
			}
			return errors.New("a gigabyte was sent without a receiver")
		})
	}
	return all
}

// A waiting operation returns the cause of its context.
func cancel(r *run) {
	cause := errors.New("enough")
	ctx, stop := context.WithCancelCause(r.Context())
	all := append(r.waiting(ctx), func() error {
		time.Sleep(r.while)
		stop(cause)
		return cause
	})
	for i, err := range together(all...) {
		if !errors.Is(err, cause) {
			r.Errorf("operation %d: %v, want %v", i, err, cause)
		}
	}
	if err := r.sessions[0].Receive(ctx, route(0), nil, func() {}); !errors.Is(err, cause) {
		r.Errorf("afterwards: %v", err)
	}
	r.sessions[0].Abort(cause)
}

// An abort ends waiting and later operations on all ends; the first cause counts.
func abort(r *run) {
	all := append(r.waiting(r.Context()), func() error {
		time.Sleep(r.while)
		r.sessions[1].Abort(errors.New("stage 1 is on fire"))
		never := transport.Route{From: place.Stage(100 * len(r.Ends)), To: place.Stage(2), What: transport.TiedGradient}
		r.aborted("waiting for it", r.sessions[2].Receive(r.Context(), never, nil, func() {})) // until the abort is there
		r.sessions[2].Abort(errors.New("stage 2, too"))
		return nil
	})
	for i, err := range together(all...) {
		if i < len(all)-1 {
			r.aborted(fmt.Sprintf("operation %d", i), err)
		}
	}
	for i, f := range r.waiting(r.Context()) {
		r.aborted(fmt.Sprintf("operation %d afterwards", i), f())
	}
	r.aborted("sending afterwards", r.send(route(0), filled(1<<20, 0)))
}

func (r *run) aborted(what string, err error) {
	r.Helper()
	var a *transport.AbortError
	if !errors.As(err, &a) || a.Rank != 1 || a.Cause != "stage 1 is on fire" {
		r.Errorf("%s: %v, want rank 1's abort", what, err)
	}
}

// An end that begins a session after another has aborted it gets the abort.
func abortEarly(r *run) {
	r.end()
	r.sessions = nil
	early := r.Ends[1].Begin()
	early.Abort(errors.New("stage 1 is on fire"))
	early.End()
	time.Sleep(r.while)
	late := r.Ends[0].Begin()
	defer late.End()
	_, err := late.Gather(r.Context(), place.Stage(0), place.Stages(2), nil)
	r.aborted("gathering", err)
	if errors.Is(err, context.Canceled) {
		r.Errorf("%v is an interrupt", err)
	}
}

// An interrupt of one process is one in all.
func abortInterrupted(r *run) {
	r.sessions[1].Abort(fmt.Errorf("step 3: %w", context.Canceled))
	_, err := r.sessions[0].Gather(r.Context(), place.Stage(0), place.Stages(2), nil)
	var a *transport.AbortError
	if !errors.As(err, &a) || a.Rank != 1 || a.Cause != "step 3: context canceled" || !errors.Is(err, context.Canceled) {
		r.Errorf("%v, want rank 1's interrupt", err)
	}
}

// Nothing of an aborted session is received in the next one.
func nothingStale(r *run) {
	for i := range 3 {
		ctx, stop := context.WithCancel(r.Context())
		together(func() error { return r.of(place.Stage(0)).Send(ctx, route(0), [][]float32{filled(8, 1)}) }, func() error {
			_, err := r.of(place.Stage(0)).Gather(ctx, place.Stage(0), place.Stages(2), []byte("stale"))
			return err
		}, func() error {
			time.Sleep(r.while)
			r.sessions[i%2].Abort(errors.New("enough"))
			stop()
			return nil
		})
		r.end()
		r.begin()
		x := make([]float32, 8)
		r.both(func() error { return r.send(route(0), filled(8, 2)) }, func() error { return r.receive(route(0), x) },
			func() error {
				got, err := r.of(place.Stage(0)).Gather(r.Context(), place.Stage(0), place.Stages(2), []byte("fresh"))
				if err == nil && string(got[0]) != "fresh" {
					err = fmt.Errorf("gathered %q", got)
				}
				return err
			}, func() error {
				_, err := r.of(place.Stage(1)).Gather(r.Context(), place.Stage(1), place.Stages(2), nil)
				return err
			})
		if !slices.Equal(x, filled(8, 2)) {
			r.Errorf("received %v of the session before", x)
		}
	}
}

// The death of a process ends the operations that wait for it, in this session and in
// those that begin later.
func peerDies(r *run) {
	gone := func(what string, err error) {
		r.Helper()
		var p *transport.PeerError
		if !errors.As(err, &p) || p.Rank != 2 {
			r.Errorf("%s: %v, want rank 2 gone", what, err)
		}
	}
	// Rank 2 is in none of its operations when it dies.
	waits := func(s transport.Session, at place.Place) []func() error {
		return []func() error{
			func() error {
				return s.Receive(r.Context(), transport.Route{From: place.Stage(2), To: at}, nil, func() {})
			},
			func() error { _, err := s.Gather(r.Context(), at, place.Stages(3), nil); return err },
		}
	}
	all := append(waits(r.sessions[0], place.Stage(0)), waits(r.sessions[1], place.Stage(1))...)
	all = append(all, func() error {
		time.Sleep(r.while)
		r.Kill(2)
		return nil
	})
	for i, err := range together(all...)[:4] {
		gone(fmt.Sprintf("operation %d", i), err)
	}
	r.end()
	r.sessions = nil
	for rank, end := range r.Ends[:2] {
		s := end.Begin()
		_, err := s.Gather(r.Context(), place.Stage(rank), place.Stages(3), nil)
		s.End()
		gone("the next session", err)
	}
}
