package transporttest

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Network is a network of hosts in a synctest bubble, where time passes only while all
// wait. Its connections take bytes that are not read yet, as a kernel's do, and do what
// faults say.
type Network struct {
	// Written is called before each write, with their number so far. Nil: nothing is done.
	Written func(number int)

	writes    atomic.Int64
	mu        sync.Mutex
	changed   *sync.Cond // anything that an operation waits for
	listening map[string]*netListener
	ports     int
	conns     []*netConn      // two of each connection, the dialer's first
	silent    map[string]bool // hosts that neither send nor get anything
	dead      map[string]bool // hosts whose connections are closed
	faults    []Fault
	happened  int
}

// Fault is what happens at a byte of a connection.
type Fault struct {
	Conn   int           // the number of the connection, as they are dialed
	Back   bool          // in what the listener sends, else in what the dialer sends
	Byte   int           // the number of the byte
	What   FaultKind     // what happens there
	Length time.Duration // of a Stall
}

// FaultKind is what a network can do.
type FaultKind int

const (
	Reset     FaultKind = iota // the byte is lost with all that are under way, and both sides are told
	HalfClose                  // the byte is the first that does not come: the receiver is told the end
	Cut                        // the same, and the receiver is not told
	Flip                       // a bit of it changes
	Double                     // it comes twice
	Swap                       // it comes after the next one
	Stall                      // it and what follows come later
)

func (k FaultKind) String() string {
	return [...]string{"reset", "half-close", "cut", "flip", "double", "swap", "stall"}[k]
}

// capacity is how many bytes a connection takes that are not read yet.
const capacity = 1 << 16

// NewNetwork is a network with faults.
func NewNetwork(faults ...Fault) *Network {
	n := &Network{listening: map[string]*netListener{}, silent: map[string]bool{}, dead: map[string]bool{}, faults: faults}
	n.changed = sync.NewCond(&n.mu)
	return n
}

// Host is the network as one host has it.
func (n *Network) Host(name string) *NetworkHost { return &NetworkHost{n, name} }

// Silence cuts a host off without a word.
func (n *Network) Silence(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.silent[host] = true
}

// Kill closes a host's connections, as the death of its process does.
func (n *Network) Kill(host string) {
	n.mu.Lock()
	n.dead[host] = true
	conns := n.conns
	n.mu.Unlock()
	for _, c := range conns {
		if c.local == host {
			c.Close()
		}
	}
}

// Carried is how many bytes were written to each connection, by its dialer and its listener.
func (n *Network) Carried() (all [][2]int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := 0; i < len(n.conns); i += 2 {
		all = append(all, [2]int{n.conns[i].out.written, n.conns[i+1].out.written})
	}
	return all
}

// Happened is how many faults have.
func (n *Network) Happened() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.happened
}

// NetworkHost makes a host's connections.
type NetworkHost struct {
	*Network
	name string
}

func (h *NetworkHost) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	to, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.silent[h.name] || h.silent[to] {
		h.mu.Unlock()
		<-ctx.Done()
		h.mu.Lock()
		return nil, ctx.Err()
	}
	l := h.listening[address]
	if l == nil || h.dead[h.name] || h.dead[to] {
		return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
	}
	there, back := &stream{}, &stream{}
	for _, f := range h.faults {
		switch {
		case f.Conn != len(h.conns)/2:
		case f.Back:
			back.faults = append(back.faults, f)
		default:
			there.faults = append(there.faults, f)
		}
	}
	own := &netConn{Network: h.Network, local: h.name, remote: to, in: back, out: there}
	their := &netConn{Network: h.Network, local: to, remote: h.name, in: there, out: back}
	h.conns = append(h.conns, own, their)
	l.queue <- their
	return own, nil
}

func (h *NetworkHost) Listen(_ context.Context, _, address string) (net.Listener, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if free, ok := strings.CutSuffix(address, ":0"); ok {
		h.ports++
		address = fmt.Sprintf("%s:%d", free, 1000+h.ports)
	}
	l := &netListener{h.Network, address, make(chan net.Conn, 1<<16), make(chan struct{})}
	h.listening[address] = l
	return l, nil
}

type netListener struct {
	*Network
	address string
	queue   chan net.Conn
	closed  chan struct{}
}

func (l *netListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *netListener) Close() error {
	l.mu.Lock()
	delete(l.listening, l.address)
	l.mu.Unlock()
	close(l.closed)
	for {
		select {
		case c := <-l.queue:
			c.Close()
		default:
			return nil
		}
	}
}

func (l *netListener) Addr() net.Addr { return &net.UnixAddr{Name: l.address} }

// stream is a direction of a connection.
type stream struct {
	bytes   []byte    // that may be read
	held    []byte    // that may be read from a time on
	until   time.Time // zero: nothing is held
	written int
	faults  []Fault
	swapped []byte // a byte that comes after the next
	cut     bool   // no more comes
	end     error  // after the bytes; nil: there may be more
}

// put adds bytes, as far as the faults let them through. It returns the fault that ends the
// connection, if there is one.
func (s *stream) put(b []byte) (happened int, reset bool) {
	for _, x := range b {
		at := s.written
		s.written++
		come := []byte{x}
		if len(s.swapped) > 0 {
			come, s.swapped = append(come, s.swapped...), nil
		}
		for _, f := range s.faults {
			if f.Byte != at || s.cut {
				continue
			}
			happened++
			switch f.What {
			case Reset:
				return happened, true
			case HalfClose:
				s.cut, s.end = true, io.EOF
			case Cut:
				s.cut = true
			case Flip:
				come[0] ^= 1 << (at % 8)
			case Double:
				come = append(come, x)
			case Swap:
				come, s.swapped = nil, come
			case Stall:
				s.until = time.Now().Add(f.Length)
			}
		}
		switch {
		case s.cut:
		case !s.until.IsZero():
			s.held = append(s.held, come...)
		default:
			s.bytes = append(s.bytes, come...)
		}
	}
	return happened, false
}

type netConn struct {
	*Network
	local, remote string // hosts
	in, out       *stream
	closed        bool
	readBy        when
	writeBy       when
}

// when is a deadline.
type when struct {
	at    time.Time // zero: none
	alarm *time.Timer
}

func (w *when) passed() bool { return !w.at.IsZero() && !time.Now().Before(w.at) }

// wake makes all operations look again.
func (n *Network) wake() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.changed.Broadcast()
}

func (c *netConn) Read(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if s := c.in; !s.until.IsZero() && !time.Now().Before(s.until) {
			s.bytes, s.held, s.until = append(s.bytes, s.held...), nil, time.Time{}
		}
		switch {
		case c.closed:
			return 0, net.ErrClosed
		case c.readBy.passed():
			return 0, os.ErrDeadlineExceeded
		case len(c.in.bytes) > 0:
			n := copy(b, c.in.bytes)
			c.in.bytes = c.in.bytes[n:]
			c.changed.Broadcast()
			return n, nil
		case c.in.end != nil && c.in.until.IsZero():
			return 0, c.in.end
		}
		c.changed.Wait()
	}
}

func (c *netConn) Write(b []byte) (n int, err error) {
	if number := c.writes.Add(1); c.Written != nil {
		c.Written(int(number))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for n < len(b) || n == 0 {
		some := b[n:min(len(b), n+max(0, capacity-len(c.out.bytes)-len(c.out.held)))]
		switch {
		case c.closed:
			return n, net.ErrClosed
		case c.writeBy.passed():
			return n, os.ErrDeadlineExceeded
		case c.silent[c.local] || c.silent[c.remote]:
			return len(b), nil
		case c.out.end == syscall.ECONNRESET:
			return n, syscall.EPIPE
		case len(b) == 0:
			return 0, nil
		case len(some) == 0:
			c.changed.Wait()
			continue
		}
		happened, reset := c.out.put(some)
		c.happened += happened
		if reset {
			for _, s := range []*stream{c.in, c.out} {
				s.bytes, s.held, s.until, s.end = nil, nil, time.Time{}, syscall.ECONNRESET
			}
			some = b[n:] // the kernel has taken them
		}
		if u := c.out.until; !u.IsZero() {
			time.AfterFunc(time.Until(u), c.wake)
		}
		n += len(some)
		c.changed.Broadcast()
	}
	return n, nil
}

// Close ends the connection for the other side after what was written. What comes for a
// closed connection resets it.
func (c *netConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	if c.silent[c.local] || c.silent[c.remote] {
		return nil
	}
	if c.out.end == nil && !c.out.cut {
		c.out.end = io.EOF
	}
	c.in.end = syscall.ECONNRESET // for its writer
	c.changed.Broadcast()
	return nil
}

func (c *netConn) LocalAddr() net.Addr  { return &net.UnixAddr{Name: c.local + ":1"} }
func (c *netConn) RemoteAddr() net.Addr { return &net.UnixAddr{Name: c.remote + ":2"} }

func (c *netConn) SetDeadline(t time.Time) error      { return c.set(t, &c.readBy, &c.writeBy) }
func (c *netConn) SetReadDeadline(t time.Time) error  { return c.set(t, &c.readBy) }
func (c *netConn) SetWriteDeadline(t time.Time) error { return c.set(t, &c.writeBy) }

func (c *netConn) set(t time.Time, all ...*when) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	for _, w := range all {
		if w.alarm != nil {
			w.alarm.Stop()
		}
		if w.at = t; !t.IsZero() {
			w.alarm = time.AfterFunc(time.Until(t), c.wake)
		}
	}
	return nil
}
