package sockets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/transport"
)

// Config describes one process's part of a run.
type Config struct {
	Rank, Size int // this process, and how many there are
	// Address is where rank 0 listens: HOST:PORT; or, on one machine, unix:DIR for sockets
	// in a directory that rank 0 makes, or unix:@NAME for Nameless ones; or mpi:0 with a
	// Network that is MPI's.
	Address string
	// Listener is what rank 0 accepts connections with, which the run closes; nil: it listens
	// at Address itself.
	Listener net.Listener
	// Secret is at least MinSecret bytes that only the processes of this run know. It may
	// be empty for unix:DIR, which only this user can enter, and for mpi:0.
	Secret []byte
	// Network makes the connections. Nil: the system's.
	Network Network
	// Limit is how long a process may be silent until it counts as dead, and how long all
	// may take to come together. 0: DefaultLimit.
	Limit time.Duration
	Owner func(place.Place) int // the rank that a place runs on
	// Facts are what must be the same in all processes, in the same order.
	Facts []Fact
	// Where describes the places of a rank for errors, such as "stage 2". Nil: only ranks
	// and hosts are named.
	Where func(rank int) string
}

// Network makes connections: the system's, MPI's or a test's. It has the methods of
// [net.Dialer] and [net.ListenConfig]; the networks are tcp, unix and mpi.
type Network interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
	Listen(ctx context.Context, network, address string) (net.Listener, error)
}

// osNetwork is the system's network.
type osNetwork struct {
	net.Dialer
	net.ListenConfig
}

// Fact is a name and a value that must be the same in all processes.
type Fact struct{ Name, Value string }

const (
	// DefaultLimit is the longest silence of a process that lives.
	DefaultLimit = 30 * time.Second
	// MinSecret is the number of bytes of the shortest secret.
	MinSecret = 16
	// MaxSize is the largest number of processes.
	MaxSize = 1 << 12
)

func (c *Config) validate() error {
	switch {
	case c.Size < 1 || c.Size > MaxSize || c.Rank < 0 || c.Rank >= c.Size:
		return fmt.Errorf("rank %d of %d processes: want a rank below the number of processes, which is 1 to %d", c.Rank, c.Size, MaxSize)
	case c.Limit < 0:
		return fmt.Errorf("a time limit of %v: want more than 0", c.Limit)
	case c.Owner == nil:
		return errors.New("no owner of places: want a function")
	case c.Size == 1 || overMPI(c.Address):
		return nil
	}
	if dir, unix := directory(c.Address); unix && !nameless(dir) && len(c.Secret) == 0 {
		return nil
	}
	if len(c.Secret) < MinSecret {
		return fmt.Errorf("a secret of %d bytes: want at least %d", len(c.Secret), MinSecret)
	}
	return nil
}

// End is a process's end of the transport.
type End struct {
	Config
	host  string
	local *transport.Channels // between places of this process
	peers []*peer             // by rank; nil: this process

	listener net.Listener
	made     string          // the directory of Unix sockets that this process has made
	arrivals chan arrival    // connections of peers, until met is closed
	met      chan struct{}   // closed when all peers are connected
	life     context.Context // until shut
	end      context.CancelCauseFunc
	running  sync.WaitGroup
	refused  atomic.Value // why the last connection was

	mu       sync.Mutex
	closed   bool
	knocking []*knock // the oldest first
	conns    map[net.Conn]bool
	in       map[transport.Route]*inLine
	out      map[transport.Route]*outLine
	begun    uint64              // sessions, by this process
	sessions map[uint64]*session // that have not ended, and later ones from which something has come
	over     error               // why there are no more: of finish
}

func newEnd(c Config) *End {
	c.Limit = cmp.Or(c.Limit, DefaultLimit)
	if c.Network == nil {
		c.Network = &osNetwork{}
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	life, end := context.WithCancelCause(context.Background())
	return &End{
		Config: c, host: host, local: transport.InProcess(), peers: make([]*peer, c.Size),
		arrivals: make(chan arrival), met: make(chan struct{}), life: life, end: end,
		conns: map[net.Conn]bool{}, in: map[transport.Route]*inLine{}, out: map[transport.Route]*outLine{}, sessions: map[uint64]*session{},
	}
}

func (e *End) Rank() int               { return e.Config.Rank }
func (e *End) Owner(p place.Place) int { return e.Config.Owner(p) }

// Host is the name of the machine that a rank runs on, as it says itself.
func (e *End) Host(rank int) string {
	if p := e.peers[rank]; p != nil {
		return p.Host
	}
	return e.host
}

// Clock is what to add to this process's clock for that of rank 0, and how far that
// may be wrong: half of the shortest round trip, and the drift since.
func (e *End) Clock() (offset, within time.Duration) {
	if e.peers[0] == nil {
		return 0, 0
	}
	return e.peers[0].clock.read(time.Now())
}

// Begin begins this process's next session.
func (e *End) Begin() transport.Session {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.session(e.begun)
	e.begun++
	s.local = e.local.Begin()
	e.tell(frame{kind: began, session: s.number}, e.Rank())
	return s
}

// session is the session with a number, which may only begin later; nil if it has
// ended. The mutex is held.
func (e *End) session(number uint64) *session {
	s := e.sessions[number]
	if s != nil || number < e.begun {
		return s
	}
	s = &session{end: e, number: number, groups: map[group][]*round{}, last: map[place.Place]*round{}}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	e.sessions[number] = s
	if e.over != nil {
		s.stop(e.over)
	}
	for _, p := range e.peers {
		if p != nil {
			p.miss(s)
		}
	}
	return s
}

// loss is the error for a rank that is gone.
func (e *End) loss(rank int, cause string) *transport.PeerError {
	where := "on " + e.Host(rank)
	if e.Where != nil {
		where = e.Where(rank) + ", " + where
	}
	return &transport.PeerError{Rank: rank, Where: where, Cause: cause}
}

// finish ends all sessions with an error, a *transport.PeerError or *transport.LinkError.
// The first counts. The others are told, but for one rank or everyone, which know.
func (e *End) finish(err error, except int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.over != nil {
		return
	}
	e.over = err
	say := frame{kind: over}
	switch err := err.(type) {
	case *transport.PeerError:
		say.Gone = err
	case *transport.LinkError:
		say.Broken = err
	}
	if except != everyone {
		e.tell(say, except) // before what the sessions' ends make this process say
	}
	for _, s := range e.sessions {
		s.stop(err)
	}
}

// everyone is all ranks.
const everyone = -2

// tell sends a frame to all peers but one.
func (e *End) tell(f frame, except int) {
	for _, p := range e.peers {
		if p != nil && p.rank != except {
			p.push(f)
		}
	}
}

// Close ends this process's part of the run, after its last session. It waits until
// the others have read what it has sent.
func (e *End) Close() error { return e.leave(nil) }

// Fail ends this process's part of the run with an error, which sessions of the others
// return that it has not begun.
func (e *End) Fail(cause error) { _ = e.leave(cause) } // an error: a directory is left

// leave says that this process has ended, and why, waits until all that are there have
// read it, and ends.
func (e *End) leave(why error) error {
	e.mu.Lock()
	closed, begun, except := e.closed, e.begun, e.Rank()
	if gone, ok := e.over.(*transport.PeerError); ok {
		except = gone.Rank
	}
	e.mu.Unlock()
	if !closed {
		e.tell(frame{kind: left, session: begun, news: causeOf(why)}, except)
		e.settle(except)
	}
	return e.shut()
}

// settle waits until all peers but one have read what was sent to them, or have ended.
func (e *End) settle(except int) {
	patience := time.NewTimer(min(e.Limit, 5*time.Second))
	defer patience.Stop()
	for _, p := range e.peers {
		if p == nil || p.rank == except {
			continue
		}
		select {
		case <-p.noted:
		case <-p.ended:
		case <-patience.C:
			return
		}
	}
}

// shut closes all connections and waits for the goroutines that used them.
func (e *End) shut() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	e.end(net.ErrClosed)
	for conn := range e.conns {
		conn.Close()
	}
	e.mu.Unlock()
	if e.listener != nil {
		e.listener.Close()
	}
	e.running.Wait()
	if e.made != "" {
		return os.RemoveAll(e.made)
	}
	return nil
}

// keep makes shut close a connection. It is false, and the connection closed, if shut
// has been called.
func (e *End) keep(conn net.Conn) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		conn.Close()
		return false
	}
	e.conns[conn] = true
	return true
}

// drop closes a connection.
func (e *End) drop(conn net.Conn) {
	conn.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.conns, conn)
}
