package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/transport/mpi"
	"gpipebench/gpipe/transport/mpi/mpitest"
	"gpipebench/gpipe/transport/sockets"
	"gpipebench/gpipe/transport/transporttest"
	"gpipebench/internal/testkit"
)

// inside is the variable of the processes that mpirun starts.
const inside = "GPIPEBENCH_MPI_TEST"

// The conformance suite between processes that mpirun has started. All ends are in the first,
// and what one sends another goes by way of one of the others.
func TestMPI(t *testing.T) {
	if os.Getenv(inside) != "" {
		takePart(t)
		return
	}
	executable := testkit.Must(os.Executable())(t)
	c := mpitest.Command(t, 4, executable, "-test.run", "^TestMPI$", "-test.v", "-test.timeout", "5m")
	c.Env = append(c.Env, inside+"=1")
	said, err := c.CombinedOutput()
	if n := strings.Count(string(said), "--- PASS: TestMPI/"); err != nil || n < 16 {
		t.Fatalf("%v, %d cases have passed, want those of the suite\n%s", err, n, said)
	}
	t.Logf("%s", said)
}

func takePart(t *testing.T) {
	w := testkit.Must(mpi.Join(t.Context(), time.Minute))(t)
	defer func() {
		if t.Failed() {
			w.Leave()
			return
		}
		testkit.Equal(t, w.Close(), nil)
	}()
	l := testkit.Must(w.Listen(t.Context(), "mpi", fmt.Sprintf("mpi:%d", w.Rank())))(t)
	if w.Rank() > 0 {
		passOn(t, w, l)
		return
	}
	n := &detour{w: w, listening: map[byte]*listener{}}
	var accepting sync.WaitGroup
	accepting.Go(func() { n.accept(l) })
	transporttest.Run(t, transporttest.Suite{Real: true, Open: n.open})
	for by := 1; by < w.Size(); by++ {
		if _, err := n.dial(by, nobody); err != nil {
			t.Error(err)
		}
	}
	l.Close()
	accepting.Wait()
}

// nobody is whom a connection is for that ends a process's part.
const nobody = 255

// passOn makes a connection to rank 0 of each that comes from there.
func passOn(t *testing.T, w *mpi.World, l net.Listener) {
	defer l.Close()
	var all sync.WaitGroup
	defer all.Wait()
	for {
		in, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		to := make([]byte, 1)
		if _, err := io.ReadFull(in, to); err != nil || to[0] == nobody {
			return
		}
		out, err := w.DialContext(t.Context(), "mpi", mpi.Address)
		if err != nil {
			t.Error(err)
			return
		}
		out.Write(to)
		for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
			all.Go(func() {
				io.Copy(way[1], way[0]) // until an end closes it
				way[1].Close()
			})
		}
	}
}

// detour is the networks of ends in one process, whose connections go by way of others. Each
// begins with the rank of the end that it is for.
type detour struct {
	w *mpi.World

	mu        sync.Mutex
	listening map[byte]*listener // of each end
}

func (n *detour) dial(by int, to byte) (net.Conn, error) {
	c, err := n.w.DialContext(context.Background(), "mpi", fmt.Sprintf("mpi:%d", by))
	if err == nil {
		_, err = c.Write([]byte{to})
	}
	return c, err
}

// accept hands over what comes back.
func (n *detour) accept(from net.Listener) {
	for {
		c, err := from.Accept()
		if err != nil {
			return
		}
		to := make([]byte, 1)
		_, err = io.ReadFull(c, to)
		n.mu.Lock()
		l := n.listening[to[0]]
		n.mu.Unlock()
		if err != nil || l == nil {
			c.Close()
			continue
		}
		select {
		case l.came <- l.keep(c):
		case <-l.closed:
			c.Close()
		}
	}
}

// open connects the ends of a case.
func (n *detour) open(t *testing.T, ranks int, owner func(place.Place) int) transporttest.Cluster {
	ends, errs := make([]*sockets.End, ranks), make([]error, ranks)
	each := func(do func(rank int) error) {
		var all sync.WaitGroup
		for rank := range ranks {
			all.Go(func() { errs[rank] = do(rank) })
		}
		all.Wait()
		testkit.NoError(t, errors.Join(errs...))
	}
	n.mu.Lock()
	for rank := range ranks {
		n.listening[byte(rank)] = &listener{network: network{n, byte(rank)}, came: make(chan net.Conn), closed: make(chan struct{})}
	}
	n.mu.Unlock()
	each(func(rank int) (err error) {
		ends[rank], err = sockets.Connect(t.Context(), sockets.Config{Rank: rank, Size: ranks, Network: network{n, byte(rank)}, Address: mpi.Address, Owner: owner})
		return err
	})
	c := transporttest.Cluster{Close: func() { each(func(rank int) error { return ends[rank].Close() }) }}
	for _, e := range ends {
		c.Ends = append(c.Ends, e)
	}
	c.Kill = func(rank int) {
		n.mu.Lock()
		defer n.mu.Unlock()
		l := n.listening[byte(rank)]
		l.dead.Store(true)
		for _, c := range l.conns {
			c.Close()
		}
	}
	return c
}

// network is the network of one end.
type network struct {
	*detour
	rank byte
}

func (n network) DialContext(_ context.Context, _, to string) (net.Conn, error) {
	var rank byte
	if _, err := fmt.Sscanf(to, "mpi:%d", &rank); err != nil {
		return nil, err
	}
	n.mu.Lock()
	own := n.listening[n.rank]
	n.mu.Unlock()
	c, err := n.dial(1+int(n.rank+rank)%(n.w.Size()-1), rank)
	return own.keep(c), err
}

func (n network) Listen(context.Context, string, string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.listening[n.rank], nil
}

// listener is where an end listens, and its connections.
type listener struct {
	network
	came   chan net.Conn
	closed chan struct{}
	conns  []net.Conn
	dead   atomic.Bool
}

// keep makes a connection end with this end.
func (l *listener) keep(c net.Conn) net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, c)
	return mortal{c, &l.dead}
}

// mortal is a connection of an end that says nothing more once it is dead.
type mortal struct {
	net.Conn
	dead *atomic.Bool
}

func (m mortal) Write(b []byte) (int, error) {
	if m.dead.Load() {
		return 0, net.ErrClosed
	}
	return m.Conn.Write(b)
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.came:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error   { close(l.closed); return nil }
func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: fmt.Sprintf("mpi:%d", l.rank)} }
