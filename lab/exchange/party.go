package exchange

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/transport"
	"gpipebench/internal/kernel"
)

// Party is a rank's part in an exchange: the peers of package reduction. A rank is a replica of
// one stage.
type Party struct {
	ctx         context.Context
	session     transport.Session
	ranks, rank int
	received    atomic.Int64 // bytes of tensors
}

// join begins a session with the other ranks, which do the same, and connects to all of
// them, so that nothing that is timed afterwards has to.
func join(ctx context.Context, over transport.Transport, ranks, rank int) (*Party, error) {
	p := &Party{ctx: ctx, session: over.Begin(), ranks: ranks, rank: rank}
	err := p.WithOthers( // a message without elements
		func(ctx context.Context, other int) error { return p.Send(ctx, other, -1, nil) },
		func(ctx context.Context, other int) error { return p.Receive(ctx, other, -1, nil) })
	if err != nil {
		p.leave(err)
	}
	return p, err
}

// leave ends the session; an error ends it for all ranks.
func (p *Party) leave(err error) {
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
	_, err := p.session.Gather(p.ctx, at(p.rank), place.Of(p.ranks, 1), nil)
	return err
}

// collect returns what every rank has.
func (p *Party) collect(own any) (all []json.RawMessage, err error) {
	message, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	messages, err := p.session.Gather(p.ctx, at(p.rank), place.Of(p.ranks, 1), message)
	for _, m := range messages {
		all = append(all, m)
	}
	return all, err
}

// AllReduce returns a function that adds up tensors of the given sizes over all ranks, in
// place. Its buffers are in memory before it is called.
func (p *Party) AllReduce(sizes ...int) func(ctx context.Context, tensors [][]float32) error {
	layout := reduction.NewLayout(sizes)
	a := reduction.AllReduce{Layout: layout, Peers: p}
	if p.ranks == 1 {
		return func(context.Context, [][]float32) error { return nil }
	}
	for range reduction.Buffers(p.ranks, p.rank, false) {
		buffer := make([]float32, layout.LargestMessage(p.ranks, p.rank))
		kernel.Zero(buffer)
		a.Buffers = append(a.Buffers, buffer)
	}
	return func(ctx context.Context, tensors [][]float32) error {
		if err := a.Reduce(ctx, tensors); err != nil {
			return err
		}
		return a.Gather(ctx, tensors)
	}
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

// Digest is the SHA-256 of values in little-endian order.
func Digest(values []float32) string {
	h := sha256.New()
	buffer := make([]byte, 0, 1<<16)
	for part := range slices.Chunk(values, 1<<14) {
		buffer = buffer[:0]
		for _, v := range part {
			buffer = binary.LittleEndian.AppendUint32(buffer, math.Float32bits(v))
		}
		h.Write(buffer)
	}
	return hex.EncodeToString(h.Sum(nil))
}
