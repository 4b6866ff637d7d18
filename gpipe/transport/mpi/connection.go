package mpi

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// connection is a stream of bytes in each direction.
type connection struct {
	of      identity
	among   *connections
	reading sync.Mutex // held by the Read that is under way

	mu      sync.Mutex
	changed *sync.Cond // any of the following
	came    [][]byte   // and not yet read
	taken   int        // bytes that were read since the sender was granted room
	room    int        // bytes that may be sent
	left    bool       // the other side has closed it
	gone    bool       // this side has

	readBy, writeBy deadline
}

func newConnection(n *connections, of identity) *connection {
	c := &connection{of: of, among: n, room: window}
	c.changed = sync.NewCond(&c.mu)
	return c
}

// receive takes a message about this connection.
func (c *connection) receive(k kind, content []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch k {
	case data:
		if len(content) > 0 {
			c.came = append(c.came, content)
		}
	case room:
		c.room += int(binary.LittleEndian.Uint32(content))
	case closed:
		c.left = true
	}
	c.changed.Broadcast()
}

// send sends a message about this connection. The mutex is held, so that all are sent in
// order.
func (c *connection) send(k kind, content []byte) {
	c.among.carrier.send(c.of.peer, message(k, c.of, content))
}

func (c *connection) Read(b []byte) (n int, err error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	next, err := c.next()
	n = copy(b, next)
	c.took(n)
	return n, err
}

// next waits for bytes to read, and returns the first piece of them.
func (c *connection) next() ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.came) == 0 {
		switch {
		case c.gone:
			return nil, net.ErrClosed
		case c.readBy.passed():
			return nil, os.ErrDeadlineExceeded
		case c.left:
			return nil, io.EOF
		case c.among.life.Err() != nil:
			return nil, context.Cause(c.among.life)
		}
		c.changed.Wait()
	}
	return c.came[0], nil
}

// took forgets bytes of the first piece that were read, and makes room for others.
func (c *connection) took(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n == 0 || c.gone {
		return
	}
	if c.came[0] = c.came[0][n:]; len(c.came[0]) == 0 {
		c.came[0] = nil // what follows keeps the array
		c.came = c.came[1:]
	}
	if c.taken += n; c.taken >= window/2 && !c.left {
		c.send(room, binary.LittleEndian.AppendUint32(nil, uint32(c.taken)))
		c.taken = 0
	}
}

func (c *connection) Write(b []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(b) > 0 {
		part := min(len(b), maxData)
		switch {
		case c.gone:
			return n, net.ErrClosed
		case c.writeBy.passed():
			return n, os.ErrDeadlineExceeded
		case c.left:
			return n, syscall.EPIPE
		case c.among.life.Err() != nil:
			return n, context.Cause(c.among.life)
		case c.room < part:
			c.changed.Wait()
			continue
		}
		c.room -= part
		c.send(data, b[:part])
		n, b = n+part, b[part:]
	}
	return n, nil
}

// Close closes this side. What was written before still arrives.
func (c *connection) Close() error {
	c.mu.Lock()
	if c.gone {
		c.mu.Unlock()
		return net.ErrClosed
	}
	c.gone, c.came = true, nil
	c.readBy.stop()
	c.writeBy.stop()
	c.send(closed, nil)
	c.changed.Broadcast()
	c.mu.Unlock()
	c.among.forget(c)
	return nil
}

func (c *connection) LocalAddr() net.Addr  { return address(c.among.rank) }
func (c *connection) RemoteAddr() net.Addr { return address(c.of.peer) }

func (c *connection) SetDeadline(t time.Time) error      { return c.set(t, &c.readBy, &c.writeBy) }
func (c *connection) SetReadDeadline(t time.Time) error  { return c.set(t, &c.readBy) }
func (c *connection) SetWriteDeadline(t time.Time) error { return c.set(t, &c.writeBy) }

func (c *connection) set(t time.Time, all ...*deadline) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return net.ErrClosed
	}
	for _, d := range all {
		d.stop()
		if d.at = t; !t.IsZero() {
			d.alarm = time.AfterFunc(time.Until(t), c.wake)
		}
	}
	return nil
}

// wake makes the operations that wait look again, as at their deadlines.
func (c *connection) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed.Broadcast()
}

// deadline is a time from which on an operation fails; the zero time: never.
type deadline struct {
	at    time.Time
	alarm *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (d *deadline) stop() {
	if d.alarm != nil {
		d.alarm.Stop()
	}
}
