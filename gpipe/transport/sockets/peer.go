package sockets

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/transport"
	"gpipebench/internal/units"
)

// peer is another process, and the connection for frames to and from it.
type peer struct {
	end  *End
	rank int
	listed
	r     *reader
	w     writer
	clock clock

	noted chan struct{} // closed when it has read that this process ends
	ended chan struct{} // closed when no more comes from it

	// Guarded by the end's mutex.
	sessions uint64               // how many it has begun
	left     *transport.PeerError // what it has said about its end; nil: it has not ended

	mu    sync.Mutex
	queue []frame
	wake  chan struct{} // has room for one
}

func newPeer(e *End, rank int, at listed, r *reader) *peer {
	p := &peer{
		end: e, rank: rank, listed: at, r: r,
		noted: make(chan struct{}), ended: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	p.w.conn, p.w.limit = r.Conn, e.Limit
	r.ctx, r.silent = e.life, func() error { return os.ErrDeadlineExceeded }
	return p
}

// start starts the peer's goroutines, once.
func (p *peer) start() {
	p.end.running.Go(p.read)
	p.end.running.Go(p.write)
	if p.rank == 0 {
		p.beat()
	}
}

// push puts a frame into the queue and does not wait.
func (p *peer) push(f frame) {
	p.mu.Lock()
	p.queue = append(p.queue, f)
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *peer) beat() { p.push(frame{kind: beat, news: news{Sent: time.Now()}}) }

// write writes the queue, and signs of life.
func (p *peer) write() {
	beats := time.NewTicker(max(p.end.Limit/4, time.Millisecond))
	defer beats.Stop()
	for {
		select {
		case <-beats.C:
			p.beat()
		case <-p.wake:
		case <-p.end.life.Done():
			return
		}
		p.mu.Lock()
		queue := p.queue
		p.queue = nil
		p.mu.Unlock()
		for _, f := range queue {
			if err := p.w.writeFrame(f); err != nil {
				p.lost(err)
				return
			}
		}
	}
}

// read handles what the peer sends until its connection ends.
func (p *peer) read() {
	defer close(p.ended)
	for {
		f, err := p.r.frame()
		if err == nil {
			err = p.handle(f)
		}
		if err != nil {
			p.lost(err)
			return
		}
	}
}

// lost says that the peer is gone, unless it has said so itself.
func (p *peer) lost(err error) {
	p.end.mu.Lock()
	expected := p.left != nil
	p.end.mu.Unlock()
	var bad damaged
	switch {
	case errors.As(err, &bad):
		p.end.finish(&transport.LinkError{From: p.rank, To: p.end.Rank(), What: err.Error()}, p.end.Rank())
	case !expected:
		p.end.finish(p.end.loss(p.rank, reason(err, p.end.Limit)), p.rank)
	}
}

// miss ends a session that the peer has not begun and will not. The end's mutex is held.
func (p *peer) miss(s *session) {
	if p.left != nil && s.number >= p.sessions {
		s.stop(p.left)
	}
}

// handle does what a frame says.
func (p *peer) handle(f frame) error {
	e := p.end
	if err := p.begins(f); err != nil {
		return err
	}
	switch f.kind {
	case began:
	case beat:
		p.push(frame{kind: answer, news: news{Sent: f.Sent, Answered: time.Now()}})
	case answer:
		if p.clock.add(f.Sent, f.Answered, time.Now()) < clockSamples && p.rank == 0 {
			p.beat()
		}
	case message:
		elsewhere := func(at place.Place) bool { return e.Owner(at) != e.Rank() }
		if owner := e.Owner(f.Place); owner != p.rank {
			return fmt.Errorf("a message of %v, which is rank %d's", f.Place, owner)
		}
		if len(f.Waits) == 0 || slices.ContainsFunc(f.Waits, elsewhere) {
			return fmt.Errorf("a message of %v for %v, which are not all rank %d's", f.Place, f.Waits, e.Rank())
		}
		if s := e.sessionOf(f); s != nil {
			return s.take(f)
		}
	case aborted:
		if s := e.sessionOf(f); s != nil {
			s.abort(p.rank, f.news)
		}
	case over:
		if f.Gone != nil {
			e.finish(f.Gone, everyone)
		} else if f.Broken != nil {
			e.finish(f.Broken, everyone)
		}
	case asked:
		e.mu.Lock()
		l := e.out[f.Line]
		e.mu.Unlock()
		if l != nil && l.rank == p.rank && l.w.begun.Load() > f.Bytes {
			p.push(frame{kind: sent, news: f.news})
		}
	case sent:
		e.mu.Lock()
		l := e.in[f.Line]
		e.mu.Unlock()
		if l != nil && l.rank == p.rank {
			l.more.Store(f.Bytes + 1)
		}
	case left:
		loss := e.loss(p.rank, cmp.Or(f.Text, "it has ended its part of the run"))
		loss.Canceled = f.Canceled
		e.mu.Lock()
		p.left = loss
		for _, s := range e.sessions {
			p.miss(s)
		}
		e.mu.Unlock()
		p.push(frame{kind: noted})
	case noted:
		select {
		case <-p.noted:
		default:
			close(p.noted)
		}
	default:
		return fmt.Errorf("a frame of kind %d in the middle of a run", f.kind)
	}
	return nil
}

// begins counts the sessions that the peer begins, which it does one after another: it may
// speak of those alone.
func (p *peer) begins(f frame) error {
	e := p.end
	e.mu.Lock()
	defer e.mu.Unlock()
	switch f.kind {
	case began, left:
		if f.session != p.sessions {
			return fmt.Errorf("session %d where %d is its next", f.session, p.sessions)
		}
		if f.kind == began {
			p.sessions++
		}
	case message, aborted:
		if f.session >= p.sessions {
			return fmt.Errorf("session %d of %d that it has begun", f.session, p.sessions)
		}
	}
	return nil
}

// sessionOf is the session of a frame, nil if it has ended.
func (e *End) sessionOf(f frame) *session {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.session(f.session)
}

// reason says in words why a connection ended.
func reason(err error, limit time.Duration) string {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "it has been silent for " + units.FormatSeconds(limit.Seconds())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return "its connection was closed"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "its connection was reset"
	}
	var system syscall.Errno
	if errors.As(err, &system) {
		return system.Error()
	}
	return err.Error()
}

// clockSamples is how many round trips are made at the beginning.
const clockSamples = 8

// drift is how fast two clocks may part, in parts of a second a second.
const drift = 50e-6

// clock compares this process's clock with a peer's, by round trips: the peer answers
// somewhere between the question and the answer.
type clock struct {
	mu     sync.Mutex
	trips  int
	offset time.Duration // what to add to this clock for the peer's
	half   time.Duration // of the round trip
	taken  time.Time
}

// add adds a round trip, and returns how many there were.
func (c *clock) add(sent, there, back time.Time) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	half := back.Sub(sent) / 2
	if c.trips == 0 || half <= c.within(back) {
		c.offset, c.half, c.taken = there.Sub(sent)-half, half, back
	}
	c.trips++
	return c.trips
}

// within is how far the offset may be wrong. The mutex is held.
func (c *clock) within(now time.Time) time.Duration {
	return c.half + time.Duration(drift*float64(now.Sub(c.taken)))
}

func (c *clock) read(now time.Time) (offset, within time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offset, c.within(now)
}
