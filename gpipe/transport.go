package gpipe

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Transport is the only way in which stages meet. In-process channels are its
// first implementation; stages that are processes of their own need another
// one and nothing else.
type Transport interface {
	// Send hands tensors to a stage and returns when their memory may be
	// written again.
	Send(ctx context.Context, to Route, tensors [][]float32) error
	// Receive waits for the tensors of a route and copies them to dst. It
	// returns when the copying began.
	Receive(ctx context.Context, from Route, dst [][]float32) (began time.Time, err error)
	// Gather waits for every stage's values and returns them all, by stage.
	Gather(ctx context.Context, stage int, values []float64) ([][]float64, error)
}

// Route names a transfer: who to whom, what.
type Route struct {
	From, To int
	What     Payload
	Index    int // micro-batch of a boundary tensor; parameter and use of a tied gradient
}

// Payload is a kind of transfer.
type Payload uint8

const (
	Activation Payload = iota
	Gradient
	TiedGradient
)

func (r Route) String() string {
	return fmt.Sprintf("%s %d from stage %d to %d", [...]string{"activation", "gradient", "tied gradient"}[r.What], r.Index, r.From, r.To)
}

// channels is the transport within one process: a sender waits until the
// receiver has copied.
type channels struct {
	mu    sync.Mutex
	lines map[Route]chan parcel // by route without its index
	gathering
	// copying runs a copy; emulated devices let nothing else run meanwhile.
	copying func(func())
}

type parcel struct {
	route   Route
	tensors [][]float32
	taken   chan struct{}
}

func newChannels(stages int) *channels {
	c := &channels{lines: map[Route]chan parcel{}, copying: func(f func()) { f() }}
	c.gathering.init(stages)
	return c
}

func (c *channels) line(r Route) chan parcel {
	r.Index = 0
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lines[r]
	if l == nil {
		l = make(chan parcel)
		c.lines[r] = l
	}
	return l
}

func (c *channels) Send(ctx context.Context, to Route, tensors [][]float32) error {
	p := parcel{to, tensors, make(chan struct{})}
	select {
	case c.line(to) <- p:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	<-p.taken // the receiver copies without waiting for anything
	return nil
}

func (c *channels) Receive(ctx context.Context, from Route, dst [][]float32) (began time.Time, err error) {
	var p parcel
	select {
	case p = <-c.line(from):
	case <-ctx.Done():
		return began, context.Cause(ctx)
	}
	defer close(p.taken)
	if p.route != from || len(p.tensors) != len(dst) {
		return began, fmt.Errorf("transport: %v arrived where %v was due", p.route, from)
	}
	c.copying(func() {
		began = time.Now()
		for i := range dst {
			copy(dst[i], p.tensors[i])
		}
	})
	return began, nil
}

// gathering is a barrier that exchanges a few numbers.
type gathering struct {
	mu     sync.Mutex
	values [][]float64
	here   int
	done   chan struct{}
}

func (g *gathering) init(stages int) {
	g.values = make([][]float64, stages)
	g.here = 0
	g.done = make(chan struct{})
}

func (g *gathering) Gather(ctx context.Context, stage int, values []float64) ([][]float64, error) {
	g.mu.Lock()
	g.values[stage] = values
	g.here++
	all, done := g.values, g.done
	if g.here == len(g.values) {
		g.init(len(g.values))
		close(done)
	}
	g.mu.Unlock()
	select {
	case <-done:
		return all, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
