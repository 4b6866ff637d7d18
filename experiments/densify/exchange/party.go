package exchange

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/transport"
)

// party is a rank's part in an accumulation: the peers of package reduction.
type party struct {
	ctx         context.Context
	session     transport.Session
	ranks, rank int
	received    atomic.Int64 // bytes of tensors
}

func (p *party) Ranks() int { return p.ranks }
func (p *party) Rank() int  { return p.rank }

func (p *party) Send(ctx context.Context, to, chunk int, parts [][]float32) error {
	return p.session.Send(ctx, route(p.rank, to, chunk), parts)
}

func (p *party) Receive(ctx context.Context, from, chunk int, parts [][]float32) error {
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
func (p *party) connect() error {
	return p.withOthers(
		func(ctx context.Context, other int) error { return p.Send(ctx, other, -1, nil) },
		func(ctx context.Context, other int) error { return p.Receive(ctx, other, -1, nil) })
}

// withOthers sends to and receives from all other ranks at the same time.
func (p *party) withOthers(send, receive func(ctx context.Context, other int) error) error {
	g, ctx := errgroup.WithContext(p.ctx)
	for other := range p.ranks {
		if other != p.rank {
			g.Go(func() error { return send(ctx, other) })
			g.Go(func() error { return receive(ctx, other) })
		}
	}
	return g.Wait()
}

// begin waits until all ranks are there.
func (p *party) begin() error {
	_, err := p.session.Gather(p.ctx, at(p.rank), p.places(), nil)
	return err
}

func (p *party) places() []place.Place { return place.Of(p.ranks, 1) }
