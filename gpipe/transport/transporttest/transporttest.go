// Package transporttest is the conformance suite of package transport: what the
// runtime relies on, for every implementation.
package transporttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/transport"
)

// Cluster is the ends of one run, and what a test does to them from outside.
type Cluster struct {
	Ends  []transport.Transport // by rank
	Kill  func(rank int)        // ends a process, or its substitute, at once
	Close func()                // frees what is left, after all sessions have ended
}

// Suite is an implementation to be tested.
type Suite struct {
	// Open connects processes; owner says which of them runs a place. It is called
	// once for each case.
	Open func(t *testing.T, ranks int, owner func(place.Place) int) Cluster
	// Real says that the implementation waits for something besides channels, mutexes
	// and clocks, such as sockets, and so cannot run in a synctest bubble.
	Real bool
}

// Run runs all cases. A case fails if it leaves a goroutine running, or if an operation
// waits that should not.
func Run(t *testing.T, s Suite) {
	for _, c := range []struct {
		name  string
		ranks int
		test  func(*run)
	}{
		{"order and sizes", 2, orderAndSizes},
		{"one process", 1, orderAndSizes},
		{"memory may be written again", 2, writtenAgain},
		{"arrival", 2, arrival},
		{"lending", 1, lending},
		{"what is not due", 2, notDue},
		{"concurrent routes", 3, concurrentRoutes},
		{"a lot both ways", 2, bothWays},
		{"gather", 3, gather},
		{"gather a lot", 2, gatherLot},
		{"groups", 4, groups},
		{"a slow peer", 2, slowPeer},
		{"cancel", 2, cancel},
		{"abort", 3, abort},
		{"abort before the others begin", 2, abortEarly},
		{"abort by an interrupt", 2, abortInterrupted},
		{"nothing stale", 2, nothingStale},
		{"a peer dies", 3, peerDies},
	} {
		t.Run(c.name, func(t *testing.T) {
			if s.Real {
				defer NoneLeft(t)()
				s.run(t, c.ranks, 20*time.Millisecond, c.test)
				return
			}
			synctest.Test(t, func(t *testing.T) { s.run(t, c.ranks, time.Hour, c.test) })
		})
	}
}

// run is one case.
type run struct {
	*testing.T
	Cluster
	while    time.Duration // a long wait
	sessions []transport.Session
}

func (s Suite) run(t *testing.T, ranks int, while time.Duration, test func(*run)) {
	owner := func(p place.Place) int { return p.Stage % ranks } // stages are dealt out to the processes in turn
	r := &run{T: t, Cluster: s.Open(t, ranks, owner), while: while}
	defer r.Close()
	for rank, end := range r.Ends {
		if end.Rank() != rank || end.Owner(place.Stage(rank+ranks)) != rank {
			t.Fatalf("end %d has rank %d and stage %d on %d", rank, end.Rank(), rank+ranks, end.Owner(place.Stage(rank+ranks)))
		}
	}
	r.begin()
	defer r.end()
	test(r)
}

// begin begins a session on all ends.
func (r *run) begin() {
	r.sessions = nil
	for _, end := range r.Ends {
		r.sessions = append(r.sessions, end.Begin())
	}
}

func (r *run) end() {
	for _, s := range r.sessions {
		s.End()
	}
}

// of is the session of the process that runs a place.
func (r *run) of(p place.Place) transport.Session { return r.sessions[p.Stage%len(r.Ends)] }

func (r *run) send(to transport.Route, tensors ...[]float32) error {
	return r.of(to.From).Send(r.Context(), to, tensors)
}

func (r *run) receive(from transport.Route, dst ...[]float32) error {
	return r.of(from.To).Receive(r.Context(), from, dst, func() {})
}

// sends returns a function that sends n times, and receives one that receives as often, and compares.
func (r *run) sends(n int, to func(i int) transport.Route, value func(i int) [][]float32) func() error {
	return func() error {
		for i := range n {
			if err := r.send(to(i), value(i)...); err != nil {
				return err
			}
		}
		return nil
	}
}

func (r *run) receives(n int, from func(i int) transport.Route, value func(i int) [][]float32) func() error {
	return func() error {
		for i := range n {
			want := value(i)
			dst := make([][]float32, len(want))
			for j := range dst {
				dst[j] = make([]float32, len(want[j]))
			}
			if err := r.receive(from(i), dst...); err != nil {
				return err
			}
			if !slices.EqualFunc(dst, want, slices.Equal) {
				r.Errorf("%d came as another", i)
			}
		}
		return nil
	}
}

// both runs functions at once and waits for them.
func (r *run) both(all ...func() error) {
	r.Helper()
	for i, err := range together(all...) {
		if err != nil {
			r.Errorf("%d: %v", i, err)
		}
	}
}

func together(all ...func() error) []error {
	errs := make([]error, len(all))
	var wait sync.WaitGroup
	for i, f := range all {
		wait.Go(func() { errs[i] = f() })
	}
	wait.Wait()
	return errs
}

// route is from stage 0 to stage 1.
func route(index int) transport.Route {
	return transport.Route{From: place.Stage(0), To: place.Stage(1), Index: index}
}

// filled returns n numbers that no other seed gives.
func filled(n int, seed float32) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = seed + float32(i%1000)/1024
	}
	return x
}

// NoneLeft returns a function that waits until there are no more goroutines than now.
func NoneLeft(t *testing.T) func() {
	before := runtime.NumGoroutine()
	return func() {
		t.Helper()
		for range 6000 { // a minute
			if runtime.NumGoroutine() <= before {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		buf := make([]byte, 1<<16)
		t.Errorf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
	}
}

// Tensors on a line arrive in order and whole, whatever their number and sizes, also 0.
func orderAndSizes(r *run) {
	sizes := [][]int{{}, {0}, {1}, {3, 0, 5}, {1 << 12}, {1 << 18, 7}, {}, {16}}
	value := func(i int) (tensors [][]float32) {
		for j, n := range sizes[i] {
			tensors = append(tensors, filled(n, float32(10*i+j)))
		}
		return tensors
	}
	r.both(r.sends(len(sizes), route, value), r.receives(len(sizes), route, value))
}

// After Send its tensors may be written over: the receiver has the former values.
func writtenAgain(r *run) {
	const times = 20
	x := make([]float32, 1<<10)
	value := func(i int) [][]float32 { return [][]float32{filled(len(x), float32(i))} }
	r.both(func() error {
		for i := range times {
			copy(x, value(i)[0])
			if err := r.send(route(i), x); err != nil {
				return err
			}
			clear(x)
		}
		return nil
	}, r.receives(times, route, value))
}

// arrived is called once, after something has arrived and before dst changes.
func arrival(r *run) {
	x, dst := filled(9, 1), make([]float32, 9)
	start := time.Now()
	calls := 0
	r.both(func() error {
		time.Sleep(r.while)
		return r.send(route(0), x)
	}, func() error {
		return r.of(place.Stage(1)).Receive(r.Context(), route(0), [][]float32{dst}, func() {
			calls++
			if waited := time.Since(start); waited < r.while {
				r.Errorf("arrived after %v, sent after %v", waited, r.while)
			}
			if !slices.Equal(dst, make([]float32, 9)) {
				r.Error("copied before it had arrived")
			}
			time.Sleep(r.while) // the receiver may keep the sender waiting
		})
	})
	if calls != 1 || !slices.Equal(dst, x) {
		r.Errorf("arrived %d times, received %v", calls, dst)
	}
}

// In one process tensors may be read where their sender has them, which waits meanwhile;
// another index or another size than was due is an error. Sessions that do not lend have
// nothing to test.
func lending(r *run) {
	lender, ok := r.sessions[0].(transport.Lender)
	if !ok {
		return
	}
	x, like := filled(9, 1), make([]float32, 9)
	sent := make(chan struct{})
	calls := 0
	r.both(func() error {
		defer close(sent)
		return r.send(route(0), x)
	}, func() error {
		return lender.Lend(r.Context(), route(0), [][]float32{like}, func(tensors [][]float32) {
			calls++
			time.Sleep(r.while)
			select {
			case <-sent:
				r.Error("sent while its tensors were lent")
			default:
			}
			if len(tensors) != 1 || &tensors[0][0] != &x[0] {
				r.Error("lent something else than the sender's tensor")
			}
		})
	})
	if calls != 1 || !slices.Equal(like, make([]float32, 9)) {
		r.Errorf("lent %d times, and wrote %v", calls, like)
	}
	for _, late := range []transport.Route{route(1), route(2)} {
		errs := together(func() error { return r.send(route(1), filled(8, 1)) }, func() error {
			return lender.Lend(r.Context(), late, [][]float32{like}, func([][]float32) { r.Errorf("%v was lent", late) })
		})
		if errs[0] != nil || errs[1] == nil {
			r.Errorf("%v: %v", late, errs)
		}
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	gone := errors.New("gone")
	cancel(gone)
	if err := lender.Lend(ctx, route(3), [][]float32{like}, func([][]float32) {}); !errors.Is(err, gone) {
		r.Errorf("%v, want %v", err, gone)
	}
}

// What arrives where another index or another size was due is an error.
func notDue(r *run) {
	for i, c := range []struct {
		sent transport.Route
		dst  [][]float32
	}{
		{route(2), [][]float32{make([]float32, 4)}},
		{route(1), [][]float32{make([]float32, 5)}},
		{route(1), [][]float32{make([]float32, 3)}},
		{route(1), nil},
		{route(1), [][]float32{make([]float32, 4), nil}},
	} {
		errs := together(func() error { return r.send(c.sent, filled(4, 0)) }, func() error {
			return r.of(place.Stage(1)).Receive(r.Context(), route(1), c.dst, func() {})
		})
		if errs[1] == nil {
			r.Errorf("%d: no error", i)
		}
		// After a failure the session is aborted, and the next one works.
		r.sessions[0].Abort(errs[1])
		r.end()
		r.begin()
	}
}

// Every place sends every other a lot at once, of every payload.
func concurrentRoutes(r *run) {
	const places, times = 4, 12
	var all []func() error
	for from := range places {
		for to := range places {
			if from == to {
				continue
			}
			for _, what := range []transport.Payload{transport.Activation, transport.Gradient, transport.TiedGradient} {
				at := func(i int) transport.Route {
					return transport.Route{From: place.Stage(from), To: place.Stage(to), What: what, Index: i}
				}
				value := func(i int) [][]float32 {
					return [][]float32{filled(100+i, float32(((from*places+to)*4+int(what))*times+i))}
				}
				rng := rand.New(rand.NewPCG(uint64(from), uint64(to)))
				all = append(all, r.sends(times, at, value), r.receives(times, func(i int) transport.Route {
					time.Sleep(time.Duration(rng.Int64N(int64(r.while) / times)))
					return at(i)
				}, value))
			}
		}
	}
	r.both(all...)
}

// Two places that send each other more than any buffer holds do not wait for each other.
func bothWays(r *run) {
	back := transport.Route{From: place.Stage(1), To: place.Stage(0), What: transport.Gradient}
	var all []func() error
	for i, to := range []transport.Route{route(0), back} {
		want := filled(3<<20, float32(i))
		at, value := func(int) transport.Route { return to }, func(int) [][]float32 { return [][]float32{want[:1<<20], nil, want[1<<20:]} }
		all = append(all, r.sends(1, at, value), r.receives(1, at, value))
	}
	r.both(all...)
}

// Messages may be large, such as all weights of a process.
func gatherLot(r *run) {
	among := place.Stages(2)
	var all []func() error
	for i, p := range among {
		all = append(all, func() error {
			got, err := r.of(p).Gather(r.Context(), p, among, bytes.Repeat([]byte{byte(i)}, 5<<20+i))
			if err != nil {
				return err
			}
			for j := range among {
				if !bytes.Equal(got[j], bytes.Repeat([]byte{byte(j)}, 5<<20+j)) {
					return fmt.Errorf("the message of %v came as another, of %d bytes", among[j], len(got[j]))
				}
			}
			return nil
		})
	}
	r.both(all...)
}

// gathering returns a function that takes a place's part in the given number of gatherings.
func (r *run) gathering(p place.Place, among []place.Place, times int) func() error {
	message := func(q place.Place, i int) []byte {
		if i == 1 {
			return nil // nothing to say
		}
		return []byte(fmt.Sprintf("%v says %d", q, i))
	}
	return func() error {
		for i := range times {
			time.Sleep(time.Duration(p.Stage) * r.while / 10)
			got, err := r.of(p).Gather(r.Context(), p, among, message(p, i))
			if err != nil {
				return err
			}
			if len(got) != len(among) {
				return fmt.Errorf("%d messages of %d places", len(got), len(among))
			}
			for j, q := range among {
				if string(got[j]) != string(message(q, i)) {
					return fmt.Errorf("gathering %d: %v is said to say %q", i, q, got[j])
				}
			}
		}
		return nil
	}
}

// Every place gets the messages of all, in one gathering after another.
func gather(r *run) {
	among := place.Stages(5)
	var all []func() error
	for _, p := range among {
		all = append(all, r.gathering(p, among, 4))
	}
	r.both(all...)
	if _, err := r.of(place.Stage(9)).Gather(r.Context(), place.Stage(9), among, nil); err == nil {
		r.Error("a place gathers among places of which it is none")
	}
}

// Groups with no place in common gather at the same time, while boundary tensors are sent.
func groups(r *run) {
	even := []place.Place{place.Stage(0), place.Stage(2), place.Stage(4)}
	odd := []place.Place{place.Stage(3), place.Stage(1)}
	var all []func() error
	for _, group := range [][]place.Place{even, odd} {
		for _, p := range group {
			all = append(all, r.gathering(p, group, 3))
		}
	}
	x := make([]float32, 3)
	r.both(append(all, func() error { return r.send(route(0), filled(3, 1)) }, func() error { return r.receive(route(0), x) })...)
}

// A slow receiver delays its own route and no other.
func slowPeer(r *run) {
	other := func(i int) transport.Route {
		to := route(i)
		to.What = transport.Gradient
		return to
	}
	value := func(i int) [][]float32 { return [][]float32{filled(1<<10, float32(i))} }
	past := make(chan struct{})
	r.both(r.sends(1, route, value), func() error {
		select {
		case <-past:
		case <-time.After(1000 * r.while):
			r.Error("the other route waits")
		}
		return r.receives(1, route, value)()
	}, r.sends(3, other, value), func() error {
		defer close(past)
		return r.receives(3, other, value)()
	})
}
