package transport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"gpipebench/gpipe/place"
)

// Channels is the transport within one process: a sender waits until the receiver
// has copied its tensors, and a message is handed over as it is.
type Channels struct {
	hub   *hub
	rank  int
	begun int // sessions, by this end
}

// InProcess is the transport of a run in one process.
func InProcess() *Channels { return Ends(1, func(place.Place) int { return 0 })[0] }

// Ends returns the ends of a run whose processes are all simulated in this one; owner
// says which of them runs a place. It is for tests of runs in several processes.
func Ends(ranks int, owner func(place.Place) int) []*Channels {
	h := &hub{ranks: ranks, owner: owner, sessions: map[int]*meeting{}}
	ends := make([]*Channels, ranks)
	for rank := range ends {
		ends[rank] = &Channels{hub: h, rank: rank}
	}
	return ends
}

func (c *Channels) Rank() int               { return c.rank }
func (c *Channels) Owner(p place.Place) int { return c.hub.owner(p) }

// Close ends this end as the death of its process would: the sessions that the other
// ends are in, or begin later, end with a *PeerError.
func (c *Channels) Close() {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone == nil {
		h.gone = &PeerError{Rank: c.rank, Cause: "closed"}
	}
	for _, m := range h.sessions {
		m.stop(h.gone)
	}
}

// Begin begins the next session. Each end counts its sessions; those with the same
// number are one.
func (c *Channels) Begin() Session {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	number := c.begun
	c.begun++
	m := h.sessions[number]
	if m == nil {
		m = &meeting{hub: h, lines: map[Route]chan parcel{}, gatherings: map[place.Place]*gathering{}, over: make(chan struct{})}
		h.sessions[number] = m
		if h.gone != nil {
			m.stop(h.gone)
		}
	}
	return &channelSession{meeting: m, rank: c.rank, number: number}
}

// hub is what the ends share.
type hub struct {
	mu       sync.Mutex
	ranks    int
	owner    func(place.Place) int
	sessions map[int]*meeting // by number; without those that all ends have ended
	gone     *PeerError       // of the first end that was closed
}

// meeting is a session as all ends see it.
type meeting struct {
	hub  *hub
	left int // ends that have ended it; guarded by the hub's mutex

	mu         sync.Mutex
	lines      map[Route]chan parcel
	gatherings map[place.Place]*gathering // by the first of their places

	once sync.Once
	over chan struct{} // closed once err is set
	err  error
}

// parcel is what a sender offers. The receiver closes taken when it has copied or
// refused the tensors.
type parcel struct {
	route   Route
	tensors [][]float32
	taken   chan struct{}
}

func (m *meeting) stop(err error) {
	m.once.Do(func() {
		m.err = err
		close(m.over)
	})
}

// ended is the error that an operation must return at once, or nil.
func (m *meeting) ended(ctx context.Context) error {
	select {
	case <-m.over:
		return m.err
	case <-ctx.Done():
		return context.Cause(ctx)
	default:
		return nil
	}
}

func (m *meeting) line(r Route) chan parcel {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.lines[r.Line()]
	if l == nil {
		l = make(chan parcel)
		m.lines[r.Line()] = l
	}
	return l
}

// channelSession is a meeting as one end sees it.
type channelSession struct {
	*meeting
	rank, number int
}

func (s *channelSession) Send(ctx context.Context, to Route, tensors [][]float32) error {
	if err := s.ended(ctx); err != nil {
		return err
	}
	p := parcel{to, tensors, make(chan struct{})}
	select {
	case s.line(to) <- p:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.over:
		return s.err
	}
	<-p.taken // the receiver copies without waiting for anything of the session
	return nil
}

func (s *channelSession) Receive(ctx context.Context, from Route, dst [][]float32, arrived func()) error {
	return s.Lend(ctx, from, dst, func(tensors [][]float32) {
		arrived()
		for i := range dst {
			copy(dst[i], tensors[i])
		}
	})
}

func (s *channelSession) Lend(ctx context.Context, from Route, like [][]float32, use func(tensors [][]float32)) error {
	if err := s.ended(ctx); err != nil {
		return err
	}
	var p parcel
	select {
	case p = <-s.line(from):
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.over:
		return s.err
	}
	defer close(p.taken)
	if err := Fits(p.route, from, p.tensors, like); err != nil {
		return err
	}
	use(p.tensors)
	return nil
}

// gathering is one exchange of messages.
type gathering struct {
	messages [][]byte // by place
	here     []bool
	missing  int
	done     chan struct{}
}

func (s *channelSession) Gather(ctx context.Context, from place.Place, among []place.Place, message []byte) ([][]byte, error) {
	i := slices.Index(among, from)
	if i < 0 {
		return nil, fmt.Errorf("transport: %v gathers among %v: want it to be one of them", from, among)
	}
	if err := s.ended(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	g := s.gatherings[among[0]]
	if g == nil {
		g = &gathering{make([][]byte, len(among)), make([]bool, len(among)), len(among), make(chan struct{})}
		s.gatherings[among[0]] = g
	}
	if len(g.here) != len(among) || g.here[i] {
		s.mu.Unlock()
		return nil, fmt.Errorf("transport: %v gathers among %v, but the gathering under way has other places or already has this one: want each place once", from, among)
	}
	g.messages[i], g.here[i] = message, true
	if g.missing--; g.missing == 0 {
		delete(s.gatherings, among[0])
		close(g.done)
	}
	s.mu.Unlock()
	select {
	case <-g.done:
		return g.messages, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-s.over:
		return nil, s.err
	}
}

func (s *channelSession) Abort(cause error) {
	if cause == nil {
		cause = errors.New("aborted")
	}
	s.stop(&AbortError{s.rank, cause.Error(), errors.Is(cause, context.Canceled)})
}

func (s *channelSession) End() {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.left++; s.left == h.ranks {
		delete(h.sessions, s.number)
	}
}
