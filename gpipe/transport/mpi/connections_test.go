package mpi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/transport/sockets"
	"gpipebench/gpipe/transport/transporttest"
	"gpipebench/internal/testkit"
)

// mail carries messages between processes that are all simulated in this one.
type mail struct {
	ranks []*connections

	mu      sync.Mutex
	changed *sync.Cond
	queue   []letter
	closed  bool
	running sync.WaitGroup
}

type letter struct {
	from, to int
	message  []byte
}

// simulated returns the connections of processes, and what ends them.
func simulated(size int) ([]*connections, func()) {
	m := &mail{}
	m.changed = sync.NewCond(&m.mu)
	for rank := range size {
		m.ranks = append(m.ranks, newConnections(rank, size, box{m, rank}))
	}
	m.running.Go(m.deliver)
	return m.ranks, func() {
		m.mu.Lock()
		m.closed = true
		m.changed.Broadcast()
		m.mu.Unlock()
		m.running.Wait()
	}
}

func (m *mail) deliver() {
	for {
		m.mu.Lock()
		for len(m.queue) == 0 && !m.closed {
			m.changed.Wait()
		}
		queue := m.queue
		m.queue = nil
		m.mu.Unlock()
		if len(queue) == 0 {
			return
		}
		for _, l := range queue {
			m.ranks[l.to].receive(l.from, l.message)
		}
	}
}

// box is a process's carrier.
type box struct {
	*mail
	rank int
}

func (b box) send(rank int, message []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue = append(b.queue, letter{b.rank, rank, message})
	b.changed.Broadcast()
}

func (b box) flush(context.Context) error  { return nil }
func (b box) finish(context.Context) error { return nil }

// drop closes all of a process's connections at one moment, as its death does: it must not tell
// over one that another was closed.
func (n *connections) drop() {
	n.mu.Lock()
	all := slices.Collect(maps.Values(n.all))
	n.mu.Unlock()
	for _, c := range all {
		c.mu.Lock()
	}
	for _, c := range all {
		if !c.gone {
			c.gone, c.came = true, nil
			c.send(closed, nil)
		}
	}
	for _, c := range all {
		c.changed.Broadcast()
		c.mu.Unlock()
		n.forget(c)
	}
}

// The conformance suite, with processes that are simulated.
func TestSimulated(t *testing.T) {
	transporttest.Run(t, transporttest.Suite{Open: func(t *testing.T, ranks int, owner func(place.Place) int) transporttest.Cluster {
		networks, stop := simulated(ranks)
		ends, errs := make([]*sockets.End, ranks), make([]error, ranks)
		each := func(do func(rank int) error) {
			var all sync.WaitGroup
			for rank := range ranks {
				all.Go(func() { errs[rank] = do(rank) })
			}
			all.Wait()
			testkit.NoError(t, errors.Join(errs...))
		}
		each(func(rank int) (err error) {
			ends[rank], err = sockets.Connect(t.Context(), sockets.Config{Rank: rank, Size: ranks, Network: networks[rank], Address: Address, Owner: owner})
			return err
		})
		c := transporttest.Cluster{Kill: func(rank int) { networks[rank].drop() }}
		for _, e := range ends {
			c.Ends = append(c.Ends, e)
		}
		c.Close = func() {
			each(func(rank int) error { return ends[rank].Close() })
			each(func(rank int) error { return networks[rank].part(context.Background()) })
			stop()
			for rank, n := range networks {
				if len(n.all) > 0 {
					t.Errorf("rank %d has %d connections left", rank, len(n.all))
				}
			}
		}
		return c
	}})
}

// pair is a connection from rank 0 to rank 1.
func pair(t *testing.T) (dialed, accepted net.Conn, of []*connections) {
	t.Helper()
	of, stop := simulated(2)
	t.Cleanup(stop)
	l := testkit.Must(of[1].Listen(t.Context(), "mpi", "mpi:1"))(t)
	dialed = testkit.Must(of[0].DialContext(t.Context(), "mpi", "mpi:1"))(t)
	return dialed, testkit.Must(l.Accept())(t), of
}

// Bytes arrive in order in both directions, whatever the sizes of writes and reads.
func TestBytes(t *testing.T) {
	a, b, _ := pair(t)
	want := make([]byte, 5*window+17)
	for i := range want {
		want[i] = byte(i * i >> 7)
	}
	var all sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		all.Go(func() {
			for rest, n := want, 1; len(rest) > 0; n = 3*n + 1 {
				n, err := way[0].Write(rest[:min(n, len(rest))])
				if err != nil {
					t.Error(err)
					return
				}
				rest = rest[n:]
			}
		})
		all.Go(func() {
			got := make([]byte, 0, len(want))
			for n := 5; len(got) < len(want); n = n*2%100_003 + 1 {
				k, err := way[1].Read(got[len(got):min(len(got)+n, cap(got))])
				if err != nil {
					t.Error(err)
					return
				}
				got = got[:len(got)+k]
			}
			if !bytes.Equal(got, want) {
				t.Error("other bytes came")
			}
		})
	}
	all.Wait()
}

// A writer is ahead of its reader by a window at most, and a deadline ends its waiting
// and the reader's.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _ := pair(t)
		a.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		n, err := a.Write(make([]byte, 3*window))
		if n != window || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d bytes were written, %v, want %d and the deadline", n, err, window)
		}
		testkit.Must(io.ReadFull(b, make([]byte, n)))(t)
		b.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if n, err := b.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d, %v", n, err)
		}
		a.SetDeadline(time.Time{})
		b.SetDeadline(time.Time{})
		if n, err := a.Write(make([]byte, window)); n != window || err != nil {
			t.Errorf("afterwards: %d, %v", n, err)
		}
		waits := make(chan error)
		go func() {
			_, err := a.Read(make([]byte, 1))
			waits <- err
		}()
		synctest.Wait()
		a.SetDeadline(time.Unix(1, 0))
		testkit.Is(t, <-waits, os.ErrDeadlineExceeded)
	})
}

// What was written before a close is read, then comes the end; writing there is an error.
func TestCloseOneSide(t *testing.T) {
	a, b, _ := pair(t)
	a.Write([]byte("bye"))
	b.Write([]byte("too late"))
	if _, err := a.Read(make([]byte, 3)); err != nil { // the rest is there
		t.Error(err)
	}
	a.Close()
	if got, err := io.ReadAll(b); string(got) != "bye" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := b.Write([]byte{1}); !errors.Is(err, syscall.EPIPE) {
		t.Error(err)
	}
	for _, err := range []error{a.Close(), a.SetDeadline(time.Time{})} {
		testkit.Is(t, err, net.ErrClosed)
	}
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// A process that does not listen, or no longer, closes what others dial.
func TestNobodyListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of, stop := simulated(2)
		defer stop()
		refused := func() {
			c := testkit.Must(of[0].DialContext(t.Context(), "mpi", "mpi:1"))(t)
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Error(err)
			}
		}
		refused()
		l := testkit.Must(of[1].Listen(t.Context(), "mpi", "mpi:1"))(t)
		testkit.Refused(of[1].Listen(t.Context(), "mpi", "mpi:1"))(t)
		c := testkit.Must(of[0].DialContext(t.Context(), "mpi", "mpi:1"))(t)
		synctest.Wait()
		l.Close() // with a connection that was not accepted
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		refused()
	})
}

// Addresses name other processes.
func TestAddresses(t *testing.T) {
	of, stop := simulated(2)
	defer stop()
	for _, to := range []string{"", "mpi:", "mpi:0", "mpi:2", "mpi:-1", "mpi:1x", "1", "localhost:1"} {
		testkit.Refused(of[0].DialContext(t.Context(), "mpi", to))(t, "want mpi:RANK")
	}
	testkit.Refused(of[0].Listen(t.Context(), "mpi", "mpi:1"))(t, "want this process's address, mpi:0")
}

// When MPI fails, so do all connections, for its reason.
func TestLibraryFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, of := pair(t)
		l := testkit.Must(of[0].Listen(t.Context(), "mpi", "mpi:0"))(t)
		broken := errors.New("MPI_Isend: MPI_ERR_PROC_FAILED")
		var all sync.WaitGroup
		for _, wait := range []func() error{
			func() error { _, err := a.Read(make([]byte, 1)); return err },
			func() error { _, err := a.Write(make([]byte, 2*window)); return err },
			func() error { _, err := l.Accept(); return err },
			func() error { return of[0].part(context.Background()) },
		} {
			all.Go(func() {
				testkit.Is(t, wait(), broken)
			})
		}
		synctest.Wait()
		of[0].fail(broken)
		all.Wait()
		if _, err := of[0].DialContext(t.Context(), "mpi", "mpi:1"); !errors.Is(err, broken) {
			t.Error(err)
		}
		b.Close()
	})
}

// A process ends MPI when all others do, and waits no longer than its limit.
func TestPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of, stop := simulated(3)
		defer stop()
		w := &World{of[0], 30 * time.Millisecond}
		if err := w.Close(); err == nil || !strings.HasSuffix(err.Error(), "not all processes have ended their part within 30 ms") {
			t.Error(err)
		}
		var all sync.WaitGroup
		for _, n := range of[1:] {
			all.Go(func() {
				testkit.Equal(t, (&World{n, time.Minute}).Close(), nil)
			})
		}
		all.Wait()
	})
}

// Without MPI in the program there is one line about how to get it.
func TestNotBuilt(t *testing.T) {
	if Implementation != "" {
		t.Skip("built with " + Implementation)
	}
	testkit.Refused(Join(t.Context(), 0))(t, "go build -tags mpi ./cmd/gpipebench")
}

// No message makes a process panic; one that cannot be ends its connections.
func FuzzMessage(f *testing.F) {
	of := identity{peer: 1, number: 0}
	for k := open; k <= parted; k++ {
		f.Add(message(k, of, nil), message(data, of, []byte("abc")))
		f.Add(message(open, of, nil), message(k, of, []byte{1, 0, 0, 0}))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		n := newConnections(0, 2, box{&mail{changed: sync.NewCond(&sync.Mutex{})}, 0})
		testkit.Must(n.Listen(t.Context(), "mpi", "mpi:0"))(t)
		testkit.Must(n.DialContext(t.Context(), "mpi", "mpi:1"))(t)
		for _, m := range [][]byte{first, second} {
			_, _, _, err := parse(1, m)
			n.receive(1, slices.Clone(m))
			if err != nil && n.life.Err() == nil {
				t.Errorf("%v, and nothing fails", err)
			}
		}
	})
}
