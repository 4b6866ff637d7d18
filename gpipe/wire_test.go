package gpipe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gpipebench/gpipe/cluster"
	"gpipebench/gpipe/transport"
	"gpipebench/gpipe/transport/sockets"
	"gpipebench/gpipe/transport/transporttest"
	"gpipebench/internal/testkit"
)

// wired is how a process of a training has ended: with a hash of its weights, or an error.
type wired struct {
	hash string
	err  error
}

// errWaits is how a training ends here that would never end.
var errWaits = errors.New("it waits for ever")

// trainWired trains two replicas of two stages in two processes, over a network in memory:
// two steps, an evaluation and a copy of the state.
func trainWired(t *testing.T, faults ...transporttest.Fault) (out [2]wired, n *transporttest.Network, took time.Duration) {
	const limit = 200 * time.Millisecond // nothing waits for it: time is fake
	spread := cluster.Spread{Replicas: 2, Stages: 2, Processes: 2, ByStage: true}
	batch := small.data(0)
	synctest.Test(t, func(t *testing.T) {
		n = transporttest.NewNetwork(faults...)
		ctx, cancel := context.WithTimeoutCause(t.Context(), 20*limit, errWaits)
		defer cancel()
		part := func(rank int) (hash string, err error) {
			e, err := sockets.Connect(ctx, sockets.Config{
				Rank: rank, Size: 2, Address: "10.0.0.1:61000", Secret: []byte("a secret of this test's own"), Limit: limit,
				Network: n.Host(fmt.Sprintf("10.0.0.%d", rank+1)), Owner: spread.Owner, Where: spread.Of,
			})
			if err != nil {
				return "", err
			}
			defer func() {
				if err != nil {
					e.Fail(err)
					return
				}
				err = e.Close()
			}()
			p := small.pipeline(t)
			p.MicroBatches, p.Replicas, p.Partitions, p.Transport = 2, spread.Replicas, spread.Stages, e
			tr, err := openForAll(p, InputOf(batch))
			if err != nil {
				return "", err
			}
			defer tr.Close()
			for range 2 {
				if _, err := tr.Step(ctx, batch); err != nil {
					return "", err
				}
			}
			if _, err := tr.Evaluate(ctx, batch); err != nil {
				return "", err
			}
			if _, err := tr.State(nil); err != nil {
				return "", err
			}
			if hash = tr.Hash(); hash == "" { // weights of a process that is lost
				_, err = tr.State(nil)
			}
			return hash, err
		}
		start := time.Now()
		var all sync.WaitGroup
		for rank := range out {
			all.Go(func() { out[rank].hash, out[rank].err = part(rank) })
		}
		all.Wait()
		took = time.Since(start)
	})
	return out, n, took
}

// A training over a network that loses, changes or keeps bytes ends with the right bits, or
// with one line in each process, which names the ranks.
func TestWire(t *testing.T) {
	p := small.pipeline(t)
	p.MicroBatches, p.Replicas, p.Partitions = 2, 2, 2
	tr := openedForAll(t, p, InputOf(small.data(0)))
	for range 2 {
		stepped(t, tr, small.data(0))
	}
	want := tr.Hash()
	out, n, _ := trainWired(t)
	carried := n.Carried()
	if out[0] != (wired{want, nil}) || out[1] != out[0] || len(carried) < 5 {
		t.Fatalf("without a fault: %v over %d connections, want hash %s", out, len(carried), want)
	}
	try := func(conn, side, at int, what transporttest.FaultKind, short bool) {
		t.Run(fmt.Sprintf("connection %d, back %v, byte %d, %v", conn, side == 1, at, what), func(t *testing.T) {
			if !short {
				testkit.CI(t)
			}
			t.Parallel()
			out, n, took := trainWired(t, transporttest.Fault{Conn: conn, Back: side == 1, Byte: at, What: what, Length: 600 * time.Millisecond})
			if most := 4 * time.Second; took >= most {
				t.Errorf("ends after %v, want %v", took, most)
			}
			for rank, o := range out {
				var link *transport.LinkError
				switch {
				case o.err == nil && o.hash != want:
					t.Errorf("rank %d: hash %s, want %s", rank, o.hash, want)
				case o.err != nil && (errors.Is(o.err, errWaits) || strings.Contains(o.err.Error(), "\n") || !strings.Contains(o.err.Error(), "rank ")):
					t.Errorf("rank %d: %v", rank, o.err)
				case conn == 0 || side == 1 || at < 400 || n.Happened() == 0:
				case what == transporttest.Stall && o.err != nil:
					t.Errorf("rank %d: a stall: %v", rank, o.err)
				case what == transporttest.Flip && !errors.As(o.err, &link):
					t.Errorf("rank %d: %v, want what is damaged", rank, o.err)
				}
			}
		})
	}
	for conn, sides := range carried {
		for side, bytes := range sides {
			for i, at := range []int{bytes / 2, bytes - 30, 50} {
				if i == 2 && conn > 1 { // lines begin alike
					continue
				}
				for what := transporttest.Reset; at >= 0 && at < bytes && what <= transporttest.Stall; what++ {
					try(conn, side, at, what, i == 0 && conn < 2 && side == 0)
				}
			}
		}
	}
	for at := 250; at < 350; at += 8 { // the end of the first line's handshake, and its first header
		try(1, 0, at, transporttest.Flip, true)
	}
}
