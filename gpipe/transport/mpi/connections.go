package mpi

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A message is a header of headerBytes and, of data and room, more:
//
//	kind (1 byte), whether the sender has dialed the connection (1 byte), two bytes 0,
//	the dialer's number of the connection (4 bytes), then bytes of the connection, or
//	their number (4 bytes); little-endian
type kind uint8

const (
	open   kind = 1 + iota // a connection
	data                   // its next bytes
	room                   // that the sender of this message has made for data
	closed                 // the sender of this message has closed it
	parted                 // the last message to a process
)

const (
	headerBytes = 8
	// maxData is the most bytes of a connection in a message.
	maxData = 1 << 18
	// window is how many bytes a sender may be ahead of its reader. The reader makes room
	// when it has read half of it, so a message of maxData always finds room at last.
	window = 4 * maxData
)

func message(k kind, of identity, content []byte) []byte {
	m := make([]byte, headerBytes, headerBytes+len(content))
	m[0] = byte(k)
	if of.own {
		m[1] = 1
	}
	binary.LittleEndian.PutUint32(m[4:], of.number)
	return append(m, content...)
}

// identity is a connection as one of its processes names it.
type identity struct {
	peer   int    // the other process
	own    bool   // dialed by this one
	number uint32 // of the dialer's connections
}

// parse takes a message of a process apart. The content has at least four bytes if it is
// a number.
func parse(peer int, m []byte) (k kind, of identity, content []byte, err error) {
	if len(m) < headerBytes {
		return 0, of, nil, fmt.Errorf("a message of %d bytes from rank %d: want at least %d", len(m), peer, headerBytes)
	}
	k, content = kind(m[0]), m[headerBytes:]
	of = identity{peer, m[1] == 0, binary.LittleEndian.Uint32(m[4:])}
	if k < open || k > parted || k == room && len(content) != 4 || k != room && k != data && len(content) > 0 {
		return 0, of, nil, fmt.Errorf("a message of kind %d with %d bytes from rank %d", k, len(content), peer)
	}
	return k, of, content, nil
}

// connections connect a process with the others of a run.
type connections struct {
	rank, size int
	carrier    carrier

	mu       sync.Mutex
	changed  *sync.Cond // any of the following
	all      map[identity]*connection
	dialed   uint32 // how many
	listener *listener
	parted   int             // processes that send nothing more
	alone    chan struct{}   // closed when all others have parted
	life     context.Context // until nothing can be sent and received any more
	end      context.CancelCauseFunc
}

func newConnections(rank, size int, c carrier) *connections {
	n := &connections{rank: rank, size: size, carrier: c, all: map[identity]*connection{}, alone: make(chan struct{})}
	n.changed = sync.NewCond(&n.mu)
	n.life, n.end = context.WithCancelCause(context.Background())
	if size == 1 {
		close(n.alone)
	}
	return n
}

func (n *connections) Rank() int { return n.rank }
func (n *connections) Size() int { return n.size }

// DialContext makes a connection to the process with an address. If that does not listen,
// it closes the connection.
func (n *connections) DialContext(_ context.Context, _, to string) (net.Conn, error) {
	number, ok := strings.CutPrefix(to, "mpi:")
	rank, err := strconv.Atoi(number)
	if !ok || err != nil || rank < 0 || rank >= n.size || rank == n.rank {
		return nil, fmt.Errorf("%.100q: want mpi:RANK, with the rank of another of %d processes", to, n.size)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.life.Err() != nil {
		return nil, context.Cause(n.life)
	}
	of := identity{rank, true, n.dialed}
	n.dialed++
	n.carrier.send(rank, message(open, of, nil))
	return n.add(of), nil
}

// add adds a connection. The mutex is held.
func (n *connections) add(of identity) *connection {
	c := newConnection(n, of)
	n.all[of] = c
	return c
}

// forget removes a connection that is closed here: what still comes does not matter.
func (n *connections) forget(c *connection) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.all, c.of)
}

// Listen makes this process accept connections at its address. It has one listener at a
// time.
func (n *connections) Listen(_ context.Context, _, at string) (net.Listener, error) {
	if own := address(n.rank).String(); at != own {
		return nil, fmt.Errorf("%.100q: want this process's address, %s", at, own)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listener != nil {
		return nil, fmt.Errorf("rank %d listens already", n.rank)
	}
	n.listener = &listener{among: n}
	return n.listener, nil
}

// receive takes a message of another process. Those of one process come one after another.
func (n *connections) receive(peer int, m []byte) {
	k, of, content, err := parse(peer, m)
	if err != nil {
		n.fail(err)
		return
	}
	if c := n.handle(k, of); c != nil {
		c.receive(k, content)
	}
}

// handle does what a message is about, or returns the connection that it is about; nil:
// that is closed here.
func (n *connections) handle(k kind, of identity) *connection {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case k == parted:
		if n.parted++; n.parted == n.size-1 {
			close(n.alone)
		}
	case k == open && n.listener == nil:
		n.carrier.send(of.peer, message(closed, of, nil))
		return nil
	case k == open:
		n.listener.queue = append(n.listener.queue, n.add(of))
	default:
		return n.all[of]
	}
	n.changed.Broadcast()
	return nil
}

// fail ends all connections.
func (n *connections) fail(err error) {
	n.mu.Lock()
	n.end(err)
	all := slices.Collect(maps.Values(n.all))
	n.changed.Broadcast()
	n.mu.Unlock()
	for _, c := range all {
		c.wake()
	}
}

// part waits until no process sends anything more.
func (n *connections) part(ctx context.Context) error {
	for rank := range n.size {
		if rank != n.rank {
			n.carrier.send(rank, message(parted, identity{}, nil))
		}
	}
	select {
	case <-n.alone:
		return n.carrier.flush(ctx)
	case <-n.life.Done():
		return context.Cause(n.life)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// listener accepts connections. The mutex of all connections guards its fields.
type listener struct {
	among  *connections
	queue  []*connection
	closed bool
}

func (l *listener) Accept() (net.Conn, error) {
	n := l.among
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		switch {
		case l.closed:
			return nil, net.ErrClosed
		case n.life.Err() != nil:
			return nil, context.Cause(n.life)
		case len(l.queue) > 0:
			c := l.queue[0]
			l.queue = l.queue[1:]
			return c, nil
		}
		n.changed.Wait()
	}
}

func (l *listener) Close() error {
	n := l.among
	n.mu.Lock()
	if l.closed {
		n.mu.Unlock()
		return net.ErrClosed
	}
	l.closed, n.listener = true, nil
	n.changed.Broadcast()
	n.mu.Unlock()
	for _, c := range l.queue {
		_ = c.Close() // nobody has closed it before
	}
	return nil
}

func (l *listener) Addr() net.Addr { return address(l.among.rank) }

// address is the rank of a process.
type address int

func (a address) Network() string { return "mpi" }
func (a address) String() string  { return fmt.Sprintf("mpi:%d", int(a)) }
