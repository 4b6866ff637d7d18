package sockets

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"sync"
	"time"

	"gpipebench/gpipe/transport"
)

// A line is a connection for tensors from one place to another, which the sender makes.
// A message is a head of headBytes and the tensors' memory, one after another.

// head is what comes before tensors.
type head struct {
	session uint64
	index   int64  // of the route
	tensors uint64 // how many
	floats  uint64 // elements of all
	sizes   uint64 // a digest of the tensors' sizes
}

const (
	headBytes = 5 * 8
	// maxFloats bounds the elements of a message.
	maxFloats = 1 << 36
)

func headOf(session uint64, index int, tensors [][]float32) head {
	h := head{session: session, index: int64(index), tensors: uint64(len(tensors))}
	digest := fnv.New64a()
	var size [8]byte
	for _, t := range tensors {
		h.floats += uint64(len(t))
		binary.LittleEndian.PutUint64(size[:], uint64(len(t)))
		digest.Write(size[:])
	}
	h.sizes = digest.Sum64()
	return h
}

func (h head) encode() []byte {
	b := make([]byte, 0, headBytes)
	for _, v := range [5]uint64{h.session, uint64(h.index), h.tensors, h.floats, h.sizes} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// parseHead reads a head of headBytes.
func parseHead(b []byte) (head, error) {
	at := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	h := head{at(0), int64(at(1)), at(2), at(3), at(4)}
	if h.floats > maxFloats {
		return head{}, fmt.Errorf("a message of %d elements: want at most %d", h.floats, uint64(maxFloats))
	}
	return h, nil
}

// fits is the error of receiving a message with this head where a route's tensors are
// due, or nil.
func (h head) fits(due transport.Route, dst [][]float32) error {
	got := due
	got.Index = int(h.index)
	want := headOf(h.session, due.Index, dst)
	switch {
	case h == want:
		return nil
	case h.index != want.index:
		return fmt.Errorf("transport: %v arrived where %v was due", got, due)
	}
	return fmt.Errorf("transport: %v has %d elements in %d tensors: want %d in %d, each of its size", due, h.floats, h.tensors, want.floats, want.tensors)
}

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
	route transport.Route
	turn  chan struct{} // held by the Send that is under way
	conn  net.Conn      // nil: not yet made
}

func (e *End) outLine(r transport.Route) *outLine {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.out[r]
	if l == nil {
		l = &outLine{end: e, route: r, turn: make(chan struct{}, 1)}
		e.out[r] = l
	}
	return l
}

func (l *outLine) send(ctx context.Context, rank int, session uint64, to transport.Route, tensors [][]float32) error {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if l.conn == nil {
		conn, err := l.end.dialLine(ctx, rank, l.route)
		if err != nil {
			return l.end.unreachable(ctx, rank, err)
		}
		l.conn = conn
	}
	bytes := net.Buffers{headOf(session, to.Index, tensors).encode()}
	for _, t := range tensors {
		if len(t) > 0 {
			bytes = append(bytes, memoryOf(t))
		}
	}
	err := during(ctx, l.conn, func() error {
		_, err := bytes.WriteTo(l.conn)
		return err
	})
	if err == nil {
		return nil
	}
	// The receiver may have a part of the message.
	l.end.drop(l.conn)
	l.conn = nil
	return l.end.unreachable(ctx, rank, err)
}

// unreachable is the error of an operation that could not reach a rank. If that has no
// other reason, such as ctx, the rank counts as gone.
func (e *End) unreachable(ctx context.Context, rank int, err error) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(min(time.Second, e.Limit)): // in which the reason may come to light
	}
	e.lose(rank, reason(err, e.Limit), true)
	select {
	case <-ctx.Done(): // of the session, at the latest
		return context.Cause(ctx)
	case <-time.After(time.Second):
		return e.loss(rank, reason(err, e.Limit))
	}
}

// inLine is the receiver's end.
type inLine struct {
	end  *End
	turn chan struct{} // held by the Receive that is under way

	mu   sync.Mutex
	conn *incoming     // nil: there is none now
	came chan struct{} // closed when there is another
}

// incoming is a connection that tensors come by.
type incoming struct {
	net.Conn
	r    *bufio.Reader
	rest uint64 // bytes of a message that is to be passed over
}

func (e *End) inLine(r transport.Route) *inLine {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.in[r]
	if l == nil {
		l = &inLine{end: e, turn: make(chan struct{}, 1), came: make(chan struct{})}
		e.in[r] = l
	}
	return l
}

// put replaces the line's connection.
func (l *inLine) put(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		l.end.drop(l.conn.Conn)
	}
	l.conn = &incoming{Conn: conn, r: bufio.NewReaderSize(conn, 1<<16)}
	close(l.came)
	l.came = make(chan struct{})
}

// lose forgets a connection that has ended.
func (l *inLine) lose(c *incoming) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end.drop(c.Conn)
	if l.conn == c {
		l.conn = nil
	}
}

// connection waits until there is one.
func (l *inLine) connection(ctx context.Context) (*incoming, error) {
	for {
		l.mu.Lock()
		c, came := l.conn, l.came
		l.mu.Unlock()
		if c != nil {
			return c, nil
		}
		select {
		case <-came:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
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
	var c *incoming
	var h head
	for {
		var err error
		if c, err = l.connection(ctx); err != nil {
			return err
		}
		err = during(ctx, c, func() error {
			h, err = c.next(session)
			return err
		})
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, errLater) {
			return l.ended(ctx, due)
		}
		l.lose(c) // the sender has given up the message, and may make another connection, or is gone
	}
	if err := h.fits(due, dst); err != nil {
		return err
	}
	arrived()
	err := during(ctx, c, func() error {
		for _, t := range dst {
			n, err := io.ReadFull(c.r, memoryOf(t))
			c.rest -= uint64(n)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		l.lose(c)
		return l.ended(ctx, due)
	}
	return err
}

// ended is the error of receiving from a sender that has ended the session, which it
// only does when it has sent everything, or has aborted it.
func (l *inLine) ended(ctx context.Context, due transport.Route) error {
	select {
	case <-ctx.Done(): // the news of the abort
		return context.Cause(ctx)
	case <-time.After(l.end.Limit):
		return fmt.Errorf("transport: %v was due, but its sender has ended the session", due)
	}
}

// errLater says that a message of a later session is next.
var errLater = errors.New("a message of a later session")

// next passes over what is left of former messages and sessions, and takes the head of
// the session's next message.
func (c *incoming) next(session uint64) (head, error) {
	for {
		for c.rest > 0 {
			n, err := c.r.Discard(int(min(c.rest, 1<<20)))
			c.rest -= uint64(n)
			if err != nil {
				return head{}, err
			}
		}
		raw, err := c.r.Peek(headBytes) // if it is not whole, it stays
		if err != nil {
			return head{}, err
		}
		h, err := parseHead(raw)
		if err != nil {
			return head{}, err
		}
		if h.session > session {
			return head{}, errLater
		}
		if _, err := c.r.Discard(headBytes); err != nil {
			return head{}, err
		}
		c.rest = h.floats * 4
		if h.session == session {
			return h, nil
		}
	}
}
