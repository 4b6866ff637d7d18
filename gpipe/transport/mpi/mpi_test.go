package mpi_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/transport"
	"gpipebench/gpipe/transport/mpi"
	"gpipebench/gpipe/transport/mpi/mpitest"
	"gpipebench/gpipe/transport/sockets"
	"gpipebench/gpipe/transport/transporttest"
)

// meetingPlace is the variable with the directory in which the suite's processes meet.
const meetingPlace = "GPIPEBENCH_MPI_TEST"

// The conformance suite, with each end in a process that mpirun has started.
func TestMPI(t *testing.T) {
	if dir := os.Getenv(meetingPlace); dir != "" {
		takePart(t, dir)
		return
	}
	dir, err := os.MkdirTemp("", "mpi") // short, as names of sockets are bounded
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := mpitest.Command(t, 4, executable, "-test.run", "^TestMPI$", "-test.v", "-test.timeout", "5m")
	c.Env = append(c.Env, meetingPlace+"="+dir)
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	if err := c.Run(); err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	if n := strings.Count(said.String(), "--- PASS: TestMPI/"); n < 16 {
		t.Errorf("%d cases have passed, want those of the suite\n%s", n, said.String())
	}
	t.Logf("%s", said.String())
}

// takePart is a process's part: rank 0 runs the suite, with the others' ends.
func takePart(t *testing.T, dir string) {
	w, err := mpi.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			w.Leave()
			return
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}()
	h := &host{World: w}
	if w.Rank() > 0 {
		serve(t, filepath.Join(dir, strconv.Itoa(w.Rank())), h.host())
		return
	}
	var others []*transporttest.Remote // by rank, from 1
	for rank := 1; rank < w.Size(); rank++ {
		r := transporttest.Call(dial(t, filepath.Join(dir, strconv.Itoa(rank))))
		defer r.Leave()
		others = append(others, r)
	}
	transporttest.Run(t, transporttest.Suite{Real: true, Open: func(t *testing.T, ranks int, owner func(place.Place) int) transporttest.Cluster {
		each := func(own func() error, of func(rank int, r *transporttest.Remote) error) {
			var all sync.WaitGroup
			do := func(rank int, f func() error) {
				all.Go(func() {
					if err := f(); err != nil {
						t.Errorf("rank %d: %v", rank, err)
					}
				})
			}
			do(0, own)
			for i, r := range others[:ranks-1] {
				do(i+1, func() error { return of(i+1, r) })
			}
			all.Wait()
		}
		each(func() error { _, err := h.open(0, ranks, owner); return err }, func(rank int, r *transporttest.Remote) error { return r.Open(rank, ranks) })
		if t.Failed() {
			t.FailNow()
		}
		c := transporttest.Cluster{
			Ends: []transport.Transport{h.end},
			Kill: func(rank int) {
				if err := others[rank-1].Kill(); err != nil {
					t.Error(err)
				}
			},
			Close: func() { each(h.close, func(_ int, r *transporttest.Remote) error { return r.Close() }) },
		}
		for _, r := range others[:ranks-1] {
			c.Ends = append(c.Ends, r)
		}
		return c
	}})
}

// host is a process's end in the case that runs.
type host struct {
	*mpi.World
	end *sockets.End
}

func (h *host) open(rank, ranks int, owner func(place.Place) int) (transport.Transport, error) {
	end, err := sockets.Connect(context.Background(), sockets.Config{Rank: rank, Size: ranks, Network: h.World, Address: mpi.Address, Owner: owner})
	h.end = end
	return end, err
}

func (h *host) close() error { return h.end.Close() }

func (h *host) host() transporttest.Host {
	return transporttest.Host{Open: h.open, Kill: func() { mpi.Drop(h.World) }, Close: h.close}
}

// serve serves one connection.
func serve(t *testing.T, at string, h transporttest.Host) {
	l, err := net.Listen("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := transporttest.Serve(conn, h); err != nil {
		t.Error(err)
	}
}

// dial waits until a process serves.
func dial(t *testing.T, at string) net.Conn {
	for range 3000 {
		if conn, err := net.Dial("unix", at); err == nil {
			return conn
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("nobody listens at %s", at)
	return nil
}
