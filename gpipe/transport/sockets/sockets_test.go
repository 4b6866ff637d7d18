package sockets

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
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

var (
	_ transport.Transport = (*End)(nil)
	_ transport.Clocked   = (*End)(nil)
)

var secret = []byte("a secret of this test's own")

// freeAddress is a loopback address at which nothing listens: on Linux, where all of
// 127.0.0.0/8 is this machine's, of a host that no other process asks for a port of.
func freeAddress(t testing.TB) string {
	host := [4]byte{127, 0, 0, 1}
	if runtime.GOOS == "linux" {
		rand.Read(host[1:])
		host[1] |= 1
		host[3] = host[3]%254 + 1
	}
	l := testkit.Must(net.Listen("tcp", netip.AddrPortFrom(netip.AddrFrom4(host), 0).String()))(t)
	defer l.Close()
	return l.Addr().String()
}

// unixAddress is in a directory of a short name, as names of sockets are bounded.
func unixAddress(t testing.TB) string {
	dir := testkit.Must(os.MkdirTemp("", "sockets"))(t)
	t.Cleanup(func() {
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%v is left in the directory", left)
		}
		os.RemoveAll(dir)
	})
	return "unix:" + dir + "/run"
}

// connect connects ranks, each with its own config made of c.
func connect(c Config, change func(rank int, c *Config)) (ends []*End, errs []error) {
	ends, errs = make([]*End, c.Size), make([]error, c.Size)
	var all sync.WaitGroup
	for rank := range c.Size {
		all.Go(func() {
			own := c
			own.Rank = rank
			if change != nil {
				change(rank, &own)
			}
			ends[rank], errs[rank] = Connect(context.Background(), own)
		})
	}
	all.Wait()
	return ends, errs
}

func stages(ranks int) func(place.Place) int {
	return func(p place.Place) int { return p.Stage % ranks }
}

func opens(address func(testing.TB) string, secret []byte) func(*testing.T, int, func(place.Place) int) transporttest.Cluster {
	return func(t *testing.T, ranks int, owner func(place.Place) int) transporttest.Cluster {
		ends, errs := connect(Config{Size: ranks, Address: address(t), Secret: secret, Owner: owner}, nil)
		testkit.NoError(t, errors.Join(errs...))
		c := transporttest.Cluster{Kill: func(rank int) { ends[rank].shut() }}
		for _, e := range ends {
			c.Ends = append(c.Ends, e)
		}
		c.Close = func() {
			var all sync.WaitGroup
			for _, e := range ends {
				all.Go(func() {
					testkit.Equal(t, e.Close(), nil)
				})
			}
			all.Wait()
		}
		return c
	}
}

func TestTCP(t *testing.T) {
	transporttest.Run(t, transporttest.Suite{Real: true, Open: opens(freeAddress, secret)})
}

func TestUnix(t *testing.T) {
	transporttest.Run(t, transporttest.Suite{Real: true, Open: opens(unixAddress, nil)})
}

// Sockets without a file connect like others, and want a secret, as any user may come.
func TestNameless(t *testing.T) {
	if !Nameless {
		t.Skip("the system has no Unix sockets without a file")
	}
	name := func(testing.TB) string { return "unix:@gpipebench-test-" + rand.Text() }
	transporttest.Run(t, transporttest.Suite{Real: true, Open: opens(name, secret)})
	testkit.Refused(Connect(t.Context(), Config{Size: 2, Address: name(t), Owner: stages(2)}))(t, "a secret of 0 bytes")
	if left, err := filepath.Glob("@gpipebench-test-*"); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// What must be the same and is not ends the run on every rank with the same line.
func TestFactsDiffer(t *testing.T) {
	facts := []Fact{{"program", "1"}, {"--batch", "32"}}
	for _, test := range []struct {
		theirs []Fact
		says   string
	}{
		{[]Fact{{"program", "1"}, {"--batch", "16"}}, `has another --batch than rank 0: "16", rank 0 "32"`},
		{facts[:1], "does not state its --batch"},
		{append(facts[:2:2], Fact{"x", "y"}), "states 3 facts, rank 0 2"},
		{[]Fact{{"program", "1"}, {"--seed", "32"}}, "does not state its --batch"},
	} {
		defer transporttest.NoneLeft(t)()
		_, errs := connect(Config{Size: 3, Address: unixAddress(t), Owner: stages(3), Facts: facts}, func(rank int, c *Config) {
			if rank == 2 {
				c.Facts = test.theirs
			}
		})
		for rank, err := range errs {
			if err == nil || !strings.Contains(err.Error(), "rank 2 on ") || !strings.Contains(err.Error(), test.says) || err.Error() != errs[0].Error() {
				t.Errorf("rank %d: %v, want %q", rank, err, test.says)
			}
		}
	}
}

// A run for which not all come ends at the limit, and names those who are missing.
func TestSomeDoNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		c := m.inMemory(4)
		start := time.Now()
		var all sync.WaitGroup
		for _, rank := range []int{0, 2} {
			all.Go(func() {
				own := c
				m.at(rank, &own)
				if rank == 2 {
					own.Limit = time.Hour
				}
				_, err := Connect(t.Context(), own)
				testkit.Equal(t, fmt.Sprint(err), "ranks 1, 3 of 4 did not come to "+c.Address+" within 2 s", "rank %d", rank)
			})
		}
		all.Wait()
		testkit.Equal(t, time.Since(start), c.Limit, "ended after")
		for _, alone := range []struct{ address, says string }{
			{c.Address, " within 2 s: connection refused"},
			{"unix:/nowhere/at/all", " within 2 s: no such file or directory"},
		} {
			own := c
			m.at(1, &own)
			own.Address = alone.address
			if _, err := Connect(t.Context(), own); err == nil || !strings.HasSuffix(err.Error(), "no rank 0 at "+own.Address+alone.says) {
				t.Errorf("alone: %v", err)
			}
		}
	})
}

// A rank that is killed, or cut off without a word, while the ranks come together ends the
// run on all of them, wherever they are in that. Rank 0 names it; if it is rank 0, another
// rank does that says its error itself.
func TestLostWhileMeeting(t *testing.T) {
	for name, lose := range map[string]func(m memory, host string){"killed": func(m memory, h string) { m.Kill(h) }, "cut off": func(m memory, h string) { m.Silence(h) }} {
		for victim := range 3 {
			met := false // before it was lost
			for at := 1; !met && !t.Failed(); at++ {
				synctest.Test(t, func(t *testing.T) {
					m := newMemory()
					m.Written = func(number int) {
						if number == at {
							lose(m, hostOf(victim))
						}
					}
					start := time.Now()
					var all sync.WaitGroup
					ends, errs := make([]*End, 3), make([]error, 3)
					for rank := range ends {
						all.Go(func() {
							own := m.inMemory(3)
							m.at(rank, &own)
							if rank == 0 { // comes last: the others give up before it takes them for dead
								time.Sleep(10 * time.Millisecond)
							}
							e, err := Connect(context.Background(), own)
							if ends[rank] = e; err == nil {
								s := e.Begin()
								_, err = s.Gather(context.Background(), place.Stage(rank), place.Stages(3), nil)
								s.End()
							}
							if took := time.Since(start); took > 2*own.Limit {
								t.Errorf("rank %d %s at write %d: rank %d ends after %v: %v", victim, name, at, rank, took, err)
							}
							errs[rank] = err
						})
					}
					all.Wait()
					named := func(rank int) bool {
						var silent *Refusal
						return errs[rank] != nil && strings.Contains(errs[rank].Error(), fmt.Sprintf("rank %d", victim)) && !errors.As(errs[rank], &silent)
					}
					switch met = slices.Contains(errs, nil); {
					case met:
					case victim > 0 && !named(0), victim == 0 && !named(1) && !named(2):
						t.Errorf("rank %d %s at write %d: %q", victim, name, at, errs)
					}
					closeAll(ends)
				})
			}
		}
	}
}

// A rank that comes twice is refused; the run comes together without it.
func TestRankComesTwice(t *testing.T) {
	defer transporttest.NoneLeft(t)()
	c := Config{Size: 3, Address: freeAddress(t), Secret: secret, Owner: stages(3)}
	twice := make(chan error, 2)
	ends := make([]*End, 3)
	var all sync.WaitGroup
	for _, rank := range []int{0, 1, 1} {
		all.Go(func() {
			own := c
			own.Rank = rank
			e, err := Connect(t.Context(), own)
			switch {
			case err != nil:
				twice <- err
			default:
				ends[rank] = e
			}
		})
	}
	if err := <-twice; !strings.Contains(err.Error(), "rank 1 on ") || !strings.Contains(err.Error(), "want each rank once") {
		t.Error(err)
	}
	c.Rank = 2
	ends[2] = testkit.Must(Connect(t.Context(), c))(t)
	all.Wait()
	closeAll(ends)
}

func TestConfigRefused(t *testing.T) {
	good := Config{Size: 2, Address: "127.0.0.1:1", Secret: secret, Owner: stages(2)}
	for says, change := range map[string]func(c *Config){
		"rank 2 of 2":                       func(c *Config) { c.Rank = 2 },
		"rank 0 of 0":                       func(c *Config) { c.Size = 0 },
		"a secret of 15 bytes":              func(c *Config) { c.Secret = secret[:15] },
		"a secret of 0 bytes":               func(c *Config) { c.Secret = nil },
		"a time limit of -1s":               func(c *Config) { c.Limit = -time.Second },
		"no owner":                          func(c *Config) { c.Owner = nil },
		"want HOST:PORT":                    func(c *Config) { c.Address = ":1" },
		"want a directory of this":          func(c *Config) { c.Address = "unix:/" },
		"want a directory with at most 101": func(c *Config) { c.Address = "unix:/" + strings.Repeat("n", 101) },
	} {
		c := good
		change(&c)
		testkit.Refused(Connect(t.Context(), c))(t, says)
	}
	good.Size = 1
	testkit.Must(Connect(t.Context(), good))(t).Close()
}

// works runs a session between the ranks.
func works(t *testing.T, ends []*End) {
	t.Helper()
	var all sync.WaitGroup
	for rank, e := range ends {
		s := e.Begin()
		defer s.End()
		all.Go(func() {
			at, next := place.Stage(rank), place.Stage((rank+1)%len(ends))
			before := place.Stage((rank + len(ends) - 1) % len(ends))
			got := make([]float32, 1)
			err := s.Send(t.Context(), transport.Route{From: at, To: next}, [][]float32{{float32(rank)}})
			if err == nil {
				err = s.Receive(t.Context(), transport.Route{From: before, To: at}, [][]float32{got}, func() {})
			}
			if err == nil {
				_, err = s.Gather(t.Context(), at, place.Stages(len(ends)), nil)
			}
			if err != nil || got[0] != float32(before.Stage) {
				t.Errorf("rank %d: %v, %v", rank, got, err)
			}
		})
	}
	all.Wait()
}

// strangers are what else may come to a port.
var strangers = map[string]func(conn net.Conn){
	"nothing":  func(conn net.Conn) {},
	"half":     func(conn net.Conn) { io.WriteString(conn, magic[:7]) },
	"garbage":  func(conn net.Conn) { io.WriteString(conn, strings.Repeat("GET / HTTP/1.1\r\n", 10000)) },
	"a secret": func(conn net.Conn) { call(conn, []byte("another secret, as long"), hello{Rank: 1}) },
	"none":     func(conn net.Conn) { call(conn, nil, hello{Rank: 1}) },
	"a hello without proof": func(conn net.Conn) {
		own := make([]byte, nonceBytes)
		conn.Write(append([]byte(magic), own...))
		their := make([]byte, nonceBytes+sha256.Size)
		io.ReadFull(conn, their)
		text := []byte(`{"Rank":1,"Order":"` + byteOrder() + `"}`)
		conn.Write(slices.Concat([]byte{byte(len(text)), 0, 0, 0}, text, proof([]byte("another secret, as long"), "caller", own, their[:nonceBytes], text)))
	},
	"a long hello": func(conn net.Conn) {
		conn.Write(append([]byte(magic), make([]byte, nonceBytes)...))
		io.CopyN(io.Discard, conn, nonceBytes+32)
		conn.Write([]byte{255, 255, 255, 255})
	},
	"a frame of 2^40 bytes": func(conn net.Conn) {
		conn.Write([]byte{byte(message), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0})
	},
	// These know the secret, and are wrong.
	"a rank that is there": func(conn net.Conn) { call(conn, secret, hello{Rank: 1}) },
	"a rank of none":       func(conn net.Conn) { call(conn, secret, hello{Rank: 99}) },
	"a line of another": func(conn net.Conn) {
		call(conn, secret, hello{Rank: 1, Line: &transport.Route{From: place.Stage(0), To: place.Stage(1)}})
	},
}

// Strangers at any rank's port harm neither the coming together nor the run, also if
// they keep their connections open.
func TestStrangers(t *testing.T) {
	defer transporttest.NoneLeft(t)()
	address := freeAddress(t)
	var held []net.Conn
	come := func(to string, who map[string]func(net.Conn)) {
		for name, f := range who {
			conn, err := net.Dial("tcp", to)
			for ; err != nil && t.Context().Err() == nil; conn, err = net.Dial("tcp", to) { // rank 0 does not listen yet
				time.Sleep(5 * time.Millisecond)
			}
			testkit.NoError(t, err, "%s", name)
			held = append(held, conn)
			conn.SetDeadline(time.Now().Add(time.Minute))
			f(conn)
		}
	}
	c := Config{Size: 2, Address: address, Secret: secret, Owner: stages(2), Limit: time.Minute}
	first := make(chan *End)
	go func() {
		e, err := Connect(context.Background(), c)
		testkit.Equal(t, err, nil)
		first <- e
	}()
	before := map[string]func(net.Conn){} // a process that knows the secret may take rank 1's place
	for name, f := range strangers {
		if name != "a rank that is there" {
			before[name] = f
		}
	}
	come(address, before)
	second := c
	second.Rank = 1
	last := testkit.Must(Connect(t.Context(), second))(t)
	ends := []*End{<-first, last}
	works(t, ends)
	for _, e := range ends {
		come(e.listener.Addr().String(), strangers)
	}
	works(t, ends)
	for _, conn := range held {
		conn.Close()
	}
	works(t, ends)
	closeAll(ends)
}

// A process that is stopped, or cut off without a word, counts as dead at the limit,
// everywhere.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		ends := m.met(t, 3)
		time.Sleep(time.Minute)
		m.Silence(hostOf(2))
		start := time.Now()
		var all sync.WaitGroup
		for rank, e := range ends {
			all.Go(func() {
				s := e.Begin()
				defer s.End()
				_, err := s.Gather(t.Context(), place.Stage(rank), append(place.Stages(3), place.Stage(3)), nil)
				var gone *transport.PeerError
				switch took := time.Since(start); {
				case !errors.As(err, &gone) || gone.Cause != "it has been silent for 2 s" || took > e.Limit:
					t.Errorf("rank %d after %v: %v", rank, took, err)
				case rank < 2 && !strings.HasPrefix(err.Error(), "rank 2 (stage 2, on ") || rank == 2 && gone.Rank == 2:
					t.Errorf("rank %d: %v", rank, err)
				}
			})
		}
		all.Wait()
		closeAll(ends)
	})
}

// A process that fails says why, and those that only hear of it do not wait.
func TestFail(t *testing.T) {
	defer transporttest.NoneLeft(t)()
	ends, errs := connect(Config{Size: 3, Address: unixAddress(t), Owner: stages(3)}, nil)
	testkit.NoError(t, errors.Join(errs...))
	works(t, ends)
	ends[1].Fail(errors.New("no space left"))
	for _, e := range []*End{ends[0], ends[2]} {
		s := e.Begin()
		err := s.Send(t.Context(), transport.Route{From: place.Stage(e.Rank()), To: place.Stage(1)}, nil)
		var gone *transport.PeerError
		if !errors.As(err, &gone) || gone.Rank != 1 || gone.Cause != "no space left" {
			t.Errorf("rank %d: %v", e.Rank(), err)
		}
		s.Abort(err) // is not told, as the others know
		s.End()
		e.Close()
	}
}

// A process that has ended its part has sent everything; only sessions that it does not
// take part in fail.
func TestLeaveEarly(t *testing.T) {
	defer transporttest.NoneLeft(t)()
	ends, errs := connect(Config{Size: 2, Address: freeAddress(t), Secret: secret, Owner: stages(2)}, nil)
	testkit.NoError(t, errors.Join(errs...))
	r := transport.Route{From: place.Stage(1), To: place.Stage(0)}
	own, their := ends[0].Begin(), ends[1].Begin()
	var all sync.WaitGroup
	all.Go(func() {
		testkit.Equal(t, their.Send(t.Context(), r, [][]float32{{7}}), nil)
		if _, err := their.Gather(t.Context(), place.Stage(1), place.Stages(2), []byte("bye")); err != nil {
			t.Error(err)
		}
		their.End()
		ends[1].Close()
	})
	testkit.Equal(t, string(testkit.Must(own.Gather(t.Context(), place.Stage(0), place.Stages(2), nil))(t)[1]), "bye")
	all.Wait()
	x := make([]float32, 1)
	if err := own.Receive(t.Context(), r, [][]float32{x}, func() {}); err != nil || x[0] != 7 {
		t.Errorf("%v, %v", x, err)
	}
	own.End()
	s := ends[0].Begin()
	testkit.Refused(s.Gather(t.Context(), place.Stage(0), place.Stages(2), nil))(t, "it has ended its part of the run")
	s.End()
	ends[0].Close()
}
