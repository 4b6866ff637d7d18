// Package party connects the ranks of an exchange of tensors that is no training, each
// perhaps in a process of its own. A rank is a replica of one stage.
package party

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/transport"
)

// Party is a rank's part in an exchange: the peers of package reduction.
type Party struct {
	ctx         context.Context
	session     transport.Session
	ranks, rank int
	received    atomic.Int64 // bytes of tensors
}

// Join begins a session with the other ranks, which do the same, and connects to all of
// them, so that nothing that is timed afterwards has to.
func Join(ctx context.Context, over transport.Transport, ranks, rank int) (*Party, error) {
	p := &Party{ctx: ctx, session: over.Begin(), ranks: ranks, rank: rank}
	err := p.connect()
	if err != nil {
		p.Leave(err)
	}
	return p, err
}

// Leave ends the session; an error ends it for all ranks.
func (p *Party) Leave(err error) {
	if err != nil {
		p.session.Abort(err)
	}
	p.session.End()
}

func (p *Party) Ranks() int { return p.ranks }
func (p *Party) Rank() int  { return p.rank }

// Received is how many bytes of tensors have come from other ranks.
func (p *Party) Received() int64 { return p.received.Load() }

func (p *Party) Send(ctx context.Context, to, chunk int, parts [][]float32) error {
	return p.session.Send(ctx, route(p.rank, to, chunk), parts)
}

func (p *Party) Receive(ctx context.Context, from, chunk int, parts [][]float32) error {
	if err := p.session.Receive(ctx, route(from, p.rank, chunk), parts, func() {}); err != nil {
		return err
	}
	for _, part := range parts {
		p.received.Add(4 * int64(len(part)))
	}
	return nil
}

func route(from, to, index int) transport.Route {
	return transport.Route{From: at(from), To: at(to), What: transport.GroupGradient, Index: index}
}

// connect sends every other rank a message without elements, so that all connections are
// there before anything is timed.
func (p *Party) connect() error {
	return p.WithOthers(
		func(ctx context.Context, other int) error { return p.Send(ctx, other, -1, nil) },
		func(ctx context.Context, other int) error { return p.Receive(ctx, other, -1, nil) })
}

// WithOthers sends to and receives from all other ranks at the same time.
func (p *Party) WithOthers(send, receive func(ctx context.Context, other int) error) error {
	g, ctx := errgroup.WithContext(p.ctx)
	for other := range p.ranks {
		if other != p.rank {
			g.Go(func() error { return send(ctx, other) })
			g.Go(func() error { return receive(ctx, other) })
		}
	}
	return g.Wait()
}

// Begin waits until all ranks are there.
func (p *Party) Begin() error {
	_, err := p.session.Gather(p.ctx, at(p.rank), p.places(), nil)
	return err
}

func (p *Party) places() []place.Place { return place.Of(p.ranks, 1) }

// Collect returns what every rank has of one kind, as JSON takes it.
func Collect[T any](p *Party, own T) ([]T, error) {
	message, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	messages, err := p.session.Gather(p.ctx, at(p.rank), p.places(), message)
	if err != nil {
		return nil, err
	}
	all := make([]T, len(messages))
	for i, m := range messages {
		if err := json.Unmarshal(m, &all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Timed adds the time of f to seconds.
func Timed(seconds *float64, f func() error) error {
	start := time.Now()
	err := f()
	*seconds += time.Since(start).Seconds()
	return err
}

// at is the place of a rank.
func at(rank int) place.Place { return place.Place{Replica: rank} }
