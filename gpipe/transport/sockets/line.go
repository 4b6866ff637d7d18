package sockets

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"gpipebench/gpipe/transport"
	"gpipebench/internal/units"
)

// A line is a connection for tensors from one place to another. The sender makes it when it
// first sends; there is one in a run, and if it is lost, the run is.

// during calls f, whose reads and writes of a connection end with ctx. The connection
// can be used afterwards.
func during(ctx context.Context, conn net.Conn, f func() error) error {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = conn.SetDeadline(time.Unix(1, 0)) // an error: it is closed
		close(done)
	})
	err := f()
	if !stop() {
		<-done
		_ = conn.SetDeadline(time.Time{})
		if err != nil {
			return context.Cause(ctx)
		}
	}
	return err
}

// outLine is the sender's end.
type outLine struct {
	end   *End
	rank  int // the receiver's
	route transport.Route
	turn  chan struct{} // held by the Send that is under way

	made chan struct{} // closed when the next two are set
	w    writer
	err  error // why it is missing
}

// outLine is the line of a route. The first call makes it, for all that come: a Send that
// gives up has not used up the connection.
func (e *End) outLine(r transport.Route) *outLine {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.out[r]
	if l == nil {
		l = &outLine{end: e, rank: e.Owner(r.To), route: r, turn: make(chan struct{}, 1), made: make(chan struct{})}
		e.out[r] = l
		if e.closed {
			l.err = net.ErrClosed
			close(l.made)
		} else {
			e.running.Go(l.make)
		}
	}
	return l
}

func (l *outLine) make() {
	defer close(l.made)
	ctx, cancel := context.WithTimeoutCause(l.end.life, l.end.Limit, errLate)
	defer cancel()
	c, err := l.end.contact(ctx, l.rank, l.end.peers[l.rank].Address, hello{Rank: l.end.Rank(), Host: l.end.host, Line: &l.route})
	if l.err = err; err == nil {
		l.w.conn = c.Conn
	}
}

func (l *outLine) send(ctx context.Context, session uint64, to transport.Route, of [][]float32) error {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-l.made:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if l.err != nil {
		return l.end.broken(ctx, l.end.Rank(), l.rank, lost(l.route, system(l.err)))
	}
	body := make([][]byte, len(of))
	for i, t := range of {
		body[i] = memoryOf(t)
	}
	err := during(ctx, l.w.conn, func() error { return l.w.write(headerOf(session, to.Index, of), body) })
	if err == nil {
		return nil
	}
	return l.end.broken(ctx, l.end.Rank(), l.rank, lost(l.route, reason(err, l.end.Limit)))
}

// namesOf is what a line carries, for an error that names its ranks.
func namesOf(r transport.Route) string {
	return fmt.Sprintf("%ss from %v to %v", strings.TrimSuffix(r.What.String(), "s"), r.From, r.To)
}

// lost says that a line is, and why.
func lost(r transport.Route, why string) string {
	return fmt.Sprintf("the line of %s is lost: %s", namesOf(r), why)
}

// broken is the error of an operation for which what goes from one rank to another is lost or
// damaged. If that has no other reason, such as ctx, the run ends with it.
func (e *End) broken(ctx context.Context, from, to int, what string) error {
	wait(ctx, min(time.Second, e.Limit)) // in which the reason may come to light
	if ctx.Err() == nil {
		e.finish(&transport.LinkError{From: from, To: to, What: what}, e.Rank())
		wait(ctx, time.Second) // the session, and so ctx, has ended
	}
	return context.Cause(ctx)
}

// wait waits for the end of ctx or for a time.
func wait(ctx context.Context, most time.Duration) {
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// inLine is the receiver's end.
type inLine struct {
	end   *End
	rank  int // the sender's
	route transport.Route
	turn  chan struct{} // held by the Receive that is under way
	came  chan struct{} // closed when there is a connection
	c     *reader

	// Of the Receive that is under way.
	at    uint64 // how many bytes had come when it last heard or asked
	quiet int    // limits for which nothing more has come

	more atomic.Uint64 // the sender has said that it has sent more than these bytes, and 1
}

func (e *End) inLine(r transport.Route) *inLine {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.in[r]
	if l == nil {
		l = &inLine{end: e, rank: e.Owner(r.From), route: r, turn: make(chan struct{}, 1), came: make(chan struct{})}
		e.in[r] = l
	}
	return l
}

// put gives the line its connection. It reports false if it had one: what is alive is not
// replaced, nor is what is dead.
func (l *inLine) put(conn net.Conn) bool {
	l.end.mu.Lock()
	defer l.end.mu.Unlock()
	if l.c != nil {
		return false
	}
	l.c = newReader(l.end.life, conn, l.end.Limit)
	l.c.silent = func() error { return l.silent(l.c.bytes) }
	close(l.came)
	return true
}

// patience is for how many limits nothing may come of what was sent. A line is asked about
// after one.
const patience = 4

// silent is called when a Receive has waited for another limit, in which nothing has come
// after the line's first bytes. A sender may take its time. But if it has sent something that
// does not come, or has ended, the line is lost.
func (l *inLine) silent(bytes uint64) error {
	p := l.end.peers[l.rank]
	if l.at != bytes {
		l.at, l.quiet = bytes, 0
	}
	select {
	case <-p.ended:
		l.quiet++
	default:
		if l.more.Load() == bytes+1 {
			l.quiet++
		}
		p.push(frame{kind: asked, news: news{Bytes: bytes, Line: l.route}})
	}
	if l.quiet < patience {
		return nil
	}
	return fmt.Errorf("nothing of what was sent has come for %s", units.FormatSeconds(patience*l.end.Limit.Seconds()))
}

// connection waits until there is one.
func (l *inLine) connection(ctx context.Context) (*reader, error) {
	ticks := time.NewTicker(l.end.Limit)
	defer ticks.Stop()
	for {
		select {
		case <-l.came:
			return l.c, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-ticks.C:
			if err := l.silent(0); err != nil {
				return nil, err
			}
		}
	}
}

func (l *inLine) receive(ctx context.Context, session uint64, due transport.Route, dst [][]float32, arrived func()) error {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	l.quiet = 0
	c, err := l.connection(ctx)
	if err == nil {
		err = l.take(ctx, c, session, due, dst, arrived)
	}
	var not *notDue
	var bad damaged
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &not):
		return not.error
	case errors.As(err, &bad):
		return l.end.broken(ctx, l.rank, l.end.Rank(), fmt.Sprintf("message %d of the %s is damaged", int(bad), namesOf(l.route)))
	case errors.Is(err, errLater): // a sender ends a session when it has sent everything, or has aborted it
		if wait(ctx, l.end.Limit); ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("transport: %v was due, but its sender has ended the session", due)
	}
	return l.end.broken(ctx, l.rank, l.end.Rank(), lost(l.route, reason(err, l.end.Limit)))
}

// notDue is the error of a message that is not the one that was due.
type notDue struct{ error }

// errLater says that a message of a later session is next, or that a message was given up.
var errLater = errors.New("the sender has ended the session")

// take passes over what is left of former messages and sessions, and takes the session's
// next message.
func (l *inLine) take(ctx context.Context, c *reader, session uint64, due transport.Route, dst [][]float32, arrived func()) error {
	c.ctx = ctx
	return during(ctx, c.Conn, func() error {
		var h header
		for {
			var err error
			if h, err = c.peek(); err != nil {
				return err
			}
			if h.kind != tensors {
				return fmt.Errorf("a frame of kind %d came where tensors were due", h.kind)
			}
			if h.session > session {
				return errLater
			}
			if c.take(h); h.session == session {
				break
			}
		}
		if err := h.fits(due, dst); err != nil {
			return &notDue{err}
		}
		arrived()
		for _, t := range dst {
			if err := c.read(memoryOf(t)); err != nil {
				return err
			}
		}
		givenUp, err := c.end()
		if givenUp {
			return errLater
		}
		return err
	})
}
