package sockets

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"gpipebench/internal/units"
)

// arrival is a connection for frames that another rank has made to this one.
type arrival struct {
	*reader
	said hello
}

// listed is a rank in rank 0's table.
type listed struct{ Address, Host string }

// Connect brings the processes of a run together: each calls it, in any order. It
// fails, everywhere with a line about the same reason, if a fact differs, or if a
// process has not come within the limit.
func Connect(ctx context.Context, c Config) (*End, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	e := newEnd(c)
	if c.Size == 1 {
		return e, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, e.Limit, errLate)
	defer cancel()
	meet := e.call
	if c.Rank == 0 {
		meet = e.host0
	}
	if err := meet(ctx); err != nil {
		e.shut()
		return nil, err
	}
	close(e.met)
	for _, p := range e.peers {
		if p != nil {
			p.start()
		}
	}
	return e, nil
}

var errLate = errors.New("the time is over")

// host0 is rank 0's part: it waits for all others, compares the facts and tells each
// where the others are.
func (e *End) host0(ctx context.Context) error {
	if err := e.listen(e.Address); err != nil {
		return fmt.Errorf("rank 0 cannot listen at %s: %s", e.Address, system(err))
	}
	came, err := e.await(ctx)
	for rank := 1; err == nil && rank < e.Size; rank++ {
		err = differs(rank, came[rank].said, e.Facts)
	}
	if err != nil {
		for _, a := range came {
			if a != nil {
				refuse(a.Conn, err)
			}
		}
		return err
	}
	all := []listed{{e.Address, e.Host(0)}}
	for _, a := range came[1:] {
		all = append(all, listed{a.said.Address, a.said.Host})
	}
	for rank, a := range came {
		if a != nil {
			e.peers[rank] = newPeer(e, rank, all[rank], a.reader)
			_ = e.peers[rank].w.writeFrame(frame{kind: table, news: news{Ranks: all}}) // an error: the rank is gone, which its reader finds out and tells the others
		}
	}
	return nil
}

// await waits for all ranks after this one, and returns by rank those that came.
func (e *End) await(ctx context.Context) (came []*arrival, err error) {
	came = make([]*arrival, e.Size)
	for left := e.Size - 1 - e.Rank(); left > 0; {
		select {
		case a := <-e.arrivals:
			if rank := a.said.Rank; rank > e.Rank() && rank < e.Size && came[rank] == nil {
				send(a.Conn, frame{kind: noted})
				came[rank] = &a
				left--
				continue
			}
			refuse(a.Conn, fmt.Errorf("rank %d on %s comes to rank %d of %d, which does not expect it: want each rank once, and one run at an address", a.said.Rank, a.said.Host, e.Rank(), e.Size))
			e.drop(a.Conn)
		case <-ctx.Done():
			err := context.Cause(ctx)
			if errors.Is(err, errLate) {
				where := e.Address
				if e.Rank() > 0 {
					where = fmt.Sprintf("rank %d on %s", e.Rank(), e.host)
				}
				err = fmt.Errorf("%s of %d did not come to %s within %s%s", missing(came, e.Rank()), e.Size, where, units.FormatSeconds(e.Limit.Seconds()), e.lastRefused())
			}
			return came, err
		}
	}
	return came, nil
}

// send answers the other side of a connection.
func send(conn net.Conn, f frame) {
	w := writer{conn: conn, limit: time.Second}
	_ = w.writeFrame(f) // an error: it has gone
}

func refuse(conn net.Conn, why error) { send(conn, frame{kind: refused, news: causeOf(why)}) }

// missing names the ranks after one that have not come to it.
func missing(came []*arrival, to int) string {
	var names []string
	for rank, a := range came {
		if rank > to && a == nil {
			names = append(names, strconv.Itoa(rank))
		}
	}
	if len(names) == 1 {
		return "rank " + names[0]
	}
	if more := len(names) - 8; more > 0 {
		names = append(names[:8], fmt.Sprintf("%d more", more))
	}
	return "ranks " + strings.Join(names, ", ")
}

// lastRefused says that somebody came who was refused.
func (e *End) lastRefused() string {
	if why, ok := e.refused.Load().(string); ok {
		return " (a connection was refused: " + why + ")"
	}
	return ""
}

// differs compares what a rank says with rank 0's facts.
func differs(rank int, said hello, facts []Fact) error {
	for i, f := range facts {
		if i >= len(said.Facts) || said.Facts[i].Name != f.Name {
			return fmt.Errorf("rank %d on %s does not state its %s: want the same program on all ranks", rank, said.Host, f.Name)
		}
		if got := said.Facts[i].Value; got != f.Value {
			return fmt.Errorf("rank %d on %s has another %s than rank 0: %q, rank 0 %q: want the same on all ranks", rank, said.Host, f.Name, short(got), short(f.Value))
		}
	}
	if len(said.Facts) > len(facts) {
		return fmt.Errorf("rank %d on %s states %d facts, rank 0 %d: want the same program on all ranks", rank, said.Host, len(said.Facts), len(facts))
	}
	return nil
}

// short is a value that fits into a line.
func short(value string) string {
	if len(value) > 100 {
		return value[:100] + "..."
	}
	return value
}

// call is the part of the ranks after 0.
func (e *End) call(ctx context.Context) error {
	first, err := e.contact(ctx, 0, e.Address, hello{Rank: e.Rank(), Host: e.host})
	if err != nil {
		return e.unmet(err)
	}
	var ranks []listed
	if err := during(ctx, first.Conn, func() error {
		f, err := first.frame()
		switch {
		case err != nil:
			return err
		case f.kind == refused:
			return &Refusal{f.Text}
		case f.kind != table:
			return fmt.Errorf("a frame of kind %d where the table of ranks was due", f.kind)
		}
		ranks = f.Ranks
		return nil
	}); err != nil {
		return e.unmet(err)
	}
	if len(ranks) != e.Size {
		return fmt.Errorf("rank 0 knows %d ranks, rank %d is one of %d: want one number", len(ranks), e.Rank(), e.Size)
	}
	ranks[0].Address = e.Address
	e.peers[0] = newPeer(e, 0, ranks[0], first)
	err = e.callRest(ctx, ranks)
	if err != nil && e.peers[0].w.writeFrame(frame{kind: left, news: causeOf(err)}) == nil {
		return &Refusal{err.Error()} // rank 0 says it, which would otherwise only see that this rank is gone
	}
	return err
}

// callRest makes the connections with the ranks after 0: to those before this one, and
// from those after it.
func (e *End) callRest(ctx context.Context, ranks []listed) error {
	for rank := 1; rank < e.Rank(); rank++ {
		r, err := e.contact(ctx, rank, ranks[rank].Address, hello{Rank: e.Rank(), Host: e.host})
		if err != nil {
			return fmt.Errorf("rank %d on %s does not reach rank %d on %s: %s", e.Rank(), e.host, rank, ranks[rank].Host, system(err))
		}
		e.peers[rank] = newPeer(e, rank, ranks[rank], r)
	}
	came, err := e.await(ctx)
	for rank, a := range came {
		if a != nil {
			e.peers[rank] = newPeer(e, rank, ranks[rank], a.reader)
		}
	}
	return err
}

// Refusal is the error of a rank after 0 if there will be no run and rank 0 says why.
type Refusal struct{ Text string }

func (r *Refusal) Error() string { return r.Text }

// unmet is the error of a rank that has not met rank 0.
func (e *End) unmet(err error) error {
	var no *Refusal
	var never *unreached
	own := fmt.Sprintf("rank %d on %s", e.Rank(), e.host)
	switch {
	case errors.As(err, &no), errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, errSecret):
		return fmt.Errorf("%s has another secret than what listens at %s: want the same on all ranks", own, e.Address)
	case errors.As(err, &never):
		return fmt.Errorf("%s: no rank 0 at %s within %s: %s", own, e.Address, units.FormatSeconds(e.Limit.Seconds()), system(never.error))
	case errors.Is(err, errLate):
		return fmt.Errorf("%s: no answer from rank 0 at %s within %s", own, e.Address, units.FormatSeconds(e.Limit.Seconds()))
	}
	return fmt.Errorf("%s: rank 0 at %s: %s", own, e.Address, reason(err, e.Limit))
}

// unreached is why the last attempt to reach a rank has failed, of several.
type unreached struct{ error }

// contact connects to a rank, says hello and waits until that takes the connection. What
// is at the address may not listen yet, may be something else that listens there, or may
// have dropped a connection that had no time to prove itself: then it tries again.
func (e *End) contact(ctx context.Context, rank int, address string, say hello) (*reader, error) {
	var last error = os.ErrDeadlineExceeded // why it was not there
	for {
		conn, err := e.dial(ctx, rank, address)
		if err == nil {
			if e.listener == nil {
				if err := e.listenBeside(conn); err != nil {
					return nil, fmt.Errorf("rank %d cannot listen: %s", e.Rank(), system(err))
				}
			}
			if rank == 0 && say.Line == nil {
				say.Address, say.Facts = e.own(), e.Facts
			}
			r := newReader(ctx, conn, e.Limit)
			if err = during(ctx, conn, func() error { return r.introduce(e.Secret, say) }); err == nil {
				return r, nil
			}
			e.drop(conn)
		}
		var no *Refusal
		if errors.Is(err, errSecret) || errors.As(err, &no) {
			return nil, err
		}
		if ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) { // which a dial may notice first
			last = err
		}
		if wait(ctx, 20*time.Millisecond); ctx.Err() != nil {
			if why := context.Cause(ctx); !errors.Is(why, errLate) {
				return nil, why
			}
			return nil, &unreached{last}
		}
	}
}

// introduce says hello and waits for the answer.
func (r *reader) introduce(secret []byte, say hello) error {
	if err := call(r.Conn, secret, say); err != nil {
		return err
	}
	f, err := r.frame()
	switch {
	case err != nil:
		return err
	case f.kind == refused:
		return &Refusal{f.Text}
	case f.kind != noted:
		return fmt.Errorf("a frame of kind %d where the answer to a hello was due", f.kind)
	}
	return nil
}

// own is the address of this process.
func (e *End) own() string {
	if _, unix := directory(e.Address); unix {
		return e.Address
	}
	return e.listener.Addr().String()
}

// dial connects to a rank at its address.
func (e *End) dial(ctx context.Context, rank int, address string) (net.Conn, error) {
	network := "tcp"
	if dir, unix := directory(address); unix {
		if err := checkDirectory(dir); err != nil {
			return nil, err
		}
		network, address = "unix", socketIn(dir, rank)
	} else if overMPI(address) {
		network = "mpi"
	}
	conn, err := e.Network.DialContext(ctx, network, address)
	if err == nil && !e.keep(conn) {
		err = net.ErrClosed
	}
	return conn, err
}

// system is what the system says of an error, without addresses.
func system(err error) string {
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return "it does not answer"
	}
	return reason(err, 0)
}
