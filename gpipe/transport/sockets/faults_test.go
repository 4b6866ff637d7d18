package sockets

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/transport"
	"gpipebench/gpipe/transport/transporttest"
	"gpipebench/internal/testkit"
)

// errHang is how an operation ends here that would never end.
var errHang = errors.New("it hangs")

// play is a rank's part of a short run of two, with what a training sends: boundary tensors,
// sums of replicas, evaluations and a snapshot. It returns a digest of all that came.
func play(ctx context.Context, e *End) (digest uint32, err error) {
	own, other := place.Stage(e.Rank()), place.Stage(1-e.Rank())
	values := func(from place.Place, i, n int) []float32 {
		x := make([]float32, n)
		for j := range x {
			x[j] = float32(from.Stage+2) * float32(i*n+j+1)
		}
		return x
	}
	session := func(do func(s transport.Session) error) {
		s := e.Begin()
		defer s.End()
		if err == nil {
			if err = do(s); err != nil {
				s.Abort(err)
			}
		}
	}
	send := func(s transport.Session, what transport.Payload, i, n int) error {
		return s.Send(ctx, transport.Route{From: own, To: other, What: what, Index: i}, [][]float32{values(own, i, n)})
	}
	receive := func(s transport.Session, what transport.Payload, i, n int) error {
		x := make([]float32, n)
		err := s.Receive(ctx, transport.Route{From: other, To: own, What: what, Index: i}, [][]float32{x}, func() {})
		digest = crc32.Update(digest, crc32.IEEETable, memoryOf(x))
		return err
	}
	gather := func(s transport.Session, text string) error {
		all, err := s.Gather(ctx, own, place.Stages(2), []byte(text))
		digest = crc32.Update(digest, crc32.IEEETable, slices.Concat(all...))
		return err
	}
	there, back := send, receive // along the pipeline
	if e.Rank() == 1 {
		there, back = receive, send
	}
	for step := range 2 {
		session(func(s transport.Session) error {
			for i := range 2 {
				if err := there(s, transport.Activation, i, 300); err != nil {
					return err
				}
			}
			for i := range 2 {
				if err := back(s, transport.Gradient, i, 300); err != nil {
					return err
				}
			}
			var all sync.WaitGroup
			var failed error
			all.Go(func() { failed = send(s, transport.GroupGradient, 0, 20_000) })
			err := receive(s, transport.GroupGradient, 0, 20_000)
			all.Wait()
			if err = errors.Join(failed, err); failed != nil {
				err = failed
			}
			if err == nil {
				err = gather(s, fmt.Sprint("norms of step ", step))
			}
			return err
		})
		session(func(s transport.Session) error { // an evaluation
			if err := there(s, transport.Activation, 0, 300); err != nil {
				return err
			}
			return gather(s, "loss")
		})
	}
	session(func(s transport.Session) error { return gather(s, strings.Repeat("snapshot", 1000)) })
	return digest, err
}

// outcome is how a rank's part has ended.
type outcome struct {
	digest uint32
	err    error
}

// playAll plays a run of two in a network. met is called with the ends when they have met.
func playAll(m memory, limit time.Duration, met func(ends []*End)) (out [2]outcome) {
	ends, errs := connect(m.inMemory(2), func(rank int, c *Config) {
		m.at(rank, c)
		c.Limit = limit
	})
	if met != nil {
		met(ends)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), 12*limit, errHang)
	defer cancel()
	var all sync.WaitGroup
	for rank, e := range ends {
		all.Go(func() {
			o := &out[rank]
			if o.err = errs[rank]; o.err != nil {
				return
			}
			if o.digest, o.err = play(ctx, e); o.err != nil {
				e.Fail(o.err)
			} else {
				o.err = e.Close()
			}
		})
	}
	all.Wait()
	return out
}

// limited is the limit of these runs. Nothing waits for it: time is fake.
const limited = 200 * time.Millisecond

// Whatever happens to the bytes between two ranks, at any place of any connection, each ends
// with the right bits or with one line, within five limits and what a rank takes to end.
func TestFaults(t *testing.T) {
	var carried [][2]int
	var want [2]outcome
	run := func(t *testing.T, faults ...transporttest.Fault) (out [2]outcome, m memory, took time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			m = newMemory(faults...)
			start := time.Now()
			out = playAll(m, limited, nil)
			took = time.Since(start)
		})
		return out, m, took
	}
	want, m, took := run(t)
	if carried = m.Carried(); want[0].err != nil || want[1].err != nil || took > limited || len(carried) != 5 {
		t.Fatalf("without a fault: %v after %v, by %d connections", want, took, len(carried))
	}
	const handshake = 300 // bytes at most, by either side
	cases := 0
	for conn, sides := range carried {
		for side, bytes := range sides {
			var places []int
			for _, at := range []int{0, 30, 70, 100, handshake, bytes / 3, bytes / 2, bytes - 400, bytes - 20, bytes - 1} {
				if at >= 0 && at < bytes && !slices.Contains(places, at) {
					places = append(places, at)
				}
			}
			for _, at := range places {
				for what := transporttest.Reset; what <= transporttest.Stall; what++ {
					f := transporttest.Fault{Conn: conn, Back: side == 1, Byte: at, What: what, Length: 3 * limited}
					if cases++; testing.Short() && cases%9 > 0 {
						continue
					}
					t.Run(fmt.Sprintf("connection %d, back %v, byte %d, %v", conn, f.Back, at, what), func(t *testing.T) {
						out, m, took := run(t, f)
						if m.Happened() == 0 {
							t.Skip("the run has ended before")
						}
						if most := 9 * limited; took > most+2*time.Second {
							t.Errorf("ends after %v, want %v", took, most)
						}
						for rank, o := range out {
							var link *transport.LinkError
							switch {
							case errors.Is(o.err, errHang):
								t.Errorf("rank %d hangs", rank)
							case o.err == nil && o.digest != want[rank].digest:
								t.Errorf("rank %d: other bits, and no error", rank)
							case o.err != nil && (strings.Contains(o.err.Error(), "\n") || !strings.Contains(o.err.Error(), "rank ")):
								t.Errorf("rank %d: %q", rank, o.err)
							case conn == 0 || side == 1 || at < handshake:
							case what == transporttest.Stall && o.err != nil:
								t.Errorf("rank %d: a stall of %v: %v", rank, f.Length, o.err)
							case what == transporttest.Flip && (!errors.As(o.err, &link) || !strings.HasSuffix(o.err.Error(), " is damaged")):
								t.Errorf("rank %d: %v, want what is damaged", rank, o.err)
							case what < transporttest.Flip && !errors.As(o.err, &link) && !errors.As(o.err, new(*transport.PeerError)):
								t.Errorf("rank %d: %v, want what is lost", rank, o.err)
							}
						}
					})
				}
			}
		}
	}
	if cases < 300 {
		t.Errorf("%d cases, want 300", cases)
	}
	t.Logf("%d cases", cases)
}

// A stranger who knows the secret takes nothing that is alive from its owner: the run goes
// on, and he is refused.
func TestWhatLivesIsNotReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		ends := m.met(t, 2)
		works(t, ends)
		for _, say := range []hello{
			{Rank: 1, Host: "stranger", Line: &transport.Route{From: place.Stage(1), To: place.Stage(0)}},
			{Rank: 1, Host: "stranger", Address: "10.0.0.9:1"},
		} {
			conn := testkit.Must(m.Host("10.0.0.9").DialContext(t.Context(), "tcp", hostOf(0)+":61000"))(t)
			var no *Refusal
			if err := newReader(t.Context(), conn, time.Minute).introduce(secret, say); !errors.As(err, &no) {
				t.Errorf("%+v: %v, want to be refused", say, err)
			}
			works(t, ends)
			conn.Close()
		}
		works(t, ends)
		closeAll(ends)
	})
}

// Who speaks of sessions that are not the next ends the run, as does a rank that ends before
// it has sent what others wait for.
func TestSessionsOutOfOrder(t *testing.T) {
	among := place.Stages(2)
	message := func(session uint64, of []place.Place, from place.Place, waits ...place.Place) frame {
		return frame{kind: message, session: session, news: news{Group: groupOf(of), Place: from, Waits: waits}}
	}
	others := []place.Place{place.Stage(3), place.Stage(1), place.Stage(0), place.Stage(5)}
	for name, c := range map[string]struct {
		frames []frame
		says   string
	}{
		"a session that is not the next":      {[]frame{{kind: began, session: 1}}, "session 1 where 0 is its next"},
		"an end after sessions that were not": {[]frame{{kind: left, session: 1 << 40}}, "session 1099511627776 where 0 is its next"},
		"a message of none":                   {[]frame{message(7, among, among[1], among[0])}, "session 7 of 0 that it has begun"},
		"an end without what is due":          {[]frame{{kind: began}, {kind: left, session: 1}}, "it has ended its part of the run"},
		"a message of another's place":        {[]frame{{kind: began}, message(0, among, among[0], among[0])}, "which is rank 0's"},
		"a message for nobody":                {[]frame{{kind: began}, message(0, among, among[1])}, "which are not all rank 0's"},
		"a message for another's place":       {[]frame{{kind: began}, message(0, among, among[1], among[1])}, "which are not all rank 0's"},
		"a gathering of others":               {[]frame{{kind: began}, message(0, others, among[1], among[0])}, "want the same places"},
		"two messages at a time": {[]frame{{kind: began}, message(0, others, among[1], among[0]),
			message(0, among, among[1], among[0])}, "whose first gathering waits"},
		"a kind of the rendezvous": {[]frame{{kind: table}}, "in the middle of a run"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ends := newMemory().met(t, 2)
				for _, f := range c.frames {
					ends[1].peers[0].push(f)
				}
				s := ends[0].Begin()
				start := time.Now()
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, errHang)
				defer cancel()
				_, err := s.Gather(ctx, among[0], among, nil)
				if err == nil || !strings.Contains(err.Error(), c.says) || time.Since(start) > ends[0].Limit {
					t.Errorf("%v after %v, want %q", err, time.Since(start), c.says)
				}
				s.End()
				closeAll(ends)
			})
		})
	}
}

// Connections that say nothing, or drip, do not keep the ranks from coming together, though
// there are many more of them than places, and they come before and come again.
func TestManyStrangers(t *testing.T) {
	many := 10_000
	if testing.Short() {
		many = 1000
	}
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		var all, strangers sync.WaitGroup
		ctx, leave := context.WithCancel(t.Context())
		for i := range many {
			strangers.Go(func() {
				for ctx.Err() == nil {
					conn, err := m.Host(fmt.Sprintf("10.1.0.%d", i%3)).DialContext(ctx, "tcp", hostOf(0)+":61000")
					if err != nil {
						wait(ctx, time.Millisecond)
						continue
					}
					if i%2 == 0 { // drips
						for j := 0; err == nil && ctx.Err() == nil; j++ {
							_, err = conn.Write([]byte{magic[j%len(magic)]})
							wait(ctx, 100*time.Millisecond)
						}
					}
					conn.Read(make([]byte, 1)) // until it is dropped
					conn.Close()
					wait(ctx, 2*time.Second)
				}
			})
		}
		start := time.Now()
		ends := make([]*End, 2)
		for rank := range ends {
			all.Go(func() {
				time.Sleep(time.Duration(rank) * 3 * time.Second)
				c := m.inMemory(2)
				c.Limit = 30 * time.Second
				m.at(rank, &c)
				e, err := Connect(context.Background(), c)
				testkit.Equal(t, err, nil)
				ends[rank] = e
			})
		}
		all.Wait()
		if took := time.Since(start) - 3*time.Second; took > 5*time.Second {
			t.Errorf("met %v after the last had come", took)
		}
		if !t.Failed() {
			works(t, ends)
			if n := len(ends[0].knocking); n > places {
				t.Errorf("%d are proving themselves, want %d at most", n, places)
			}
		}
		leave()
		closeAll(ends)
		strangers.Wait()
	})
}

// caught is a connection from a host.
type caught struct {
	net.Conn
	from   string
	closed bool
}

func (c *caught) RemoteAddr() net.Addr { return &net.UnixAddr{Name: c.from + ":1"} }
func (c *caught) Close() error         { c.closed = true; return nil }

// When all places are taken, the oldest caller is dropped of the host that has the most of
// them: neither the one that comes, nor the few of other hosts.
func TestOldestIsDropped(t *testing.T) {
	e := newEnd(Config{Size: 2, Owner: stages(2)})
	first := &caught{from: "10.0.0.2"}
	e.knock(first)
	var crowd []*caught
	for range places + 20 {
		c := &caught{from: "10.0.0.9"}
		e.knock(c)
		crowd = append(crowd, c)
	}
	last := &caught{from: "10.0.0.3"}
	k := e.knock(last)
	if first.closed || last.closed || len(e.knocking) != places {
		t.Errorf("first dropped: %v, last dropped: %v, %d are left, want %d", first.closed, last.closed, len(e.knocking), places)
	}
	for i, c := range crowd {
		testkit.Equal(t, c.closed, i < 22, "number %d dropped", i)
	}
	if e.proved(k); len(e.knocking) != places-1 || slices.Contains(e.knocking, k) {
		t.Error("who has proved himself holds a place")
	}
}

// The first message of a handshake comes within a second, all of it within five.
func TestHandshakeLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		c := m.inMemory(2)
		c.Limit = time.Minute
		m.at(0, &c)
		failed := make(chan error)
		go func() { _, err := Connect(context.Background(), c); failed <- err }()
		synctest.Wait()
		for says, want := range map[string]time.Duration{"": openingLimit, magic + strings.Repeat("n", nonceBytes): handshakeLimit} {
			conn := testkit.Must(m.Host("10.1.0.1").DialContext(t.Context(), "tcp", c.Address))(t)
			start := time.Now()
			conn.Write([]byte(says))
			_, _ = io.Copy(io.Discard, conn)
			testkit.Equal(t, time.Since(start), want, "%q is dropped after", says)
			conn.Close()
		}
		testkit.Fails(t, <-failed)
	})
}
