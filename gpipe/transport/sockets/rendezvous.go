package sockets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"gpipebench/gpipe/transport"
	"gpipebench/internal/units"
)

// arrival is a connection for frames that another rank has made to this one.
type arrival struct {
	conn net.Conn
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
	came := make([]*arrival, e.Size)
	refuse := func(err error) error {
		for _, a := range came {
			if a != nil {
				sendText(a.conn, refused, err.Error())
			}
		}
		return err
	}
	for range e.Size - 1 {
		a, err := e.arrival(ctx, came)
		if err != nil {
			if errors.Is(err, errLate) {
				err = fmt.Errorf("%s of %d did not come to %s within %s%s", missing(came, 0), e.Size, e.Address, units.FormatSeconds(e.Limit.Seconds()), e.lastRefused())
			}
			return refuse(err)
		}
		came[a.said.Rank] = a
	}
	all := []listed{{e.Address, e.Host(0)}}
	for rank, a := range came[1:] {
		if err := differs(rank+1, a.said, e.Facts); err != nil {
			return refuse(err)
		}
		all = append(all, listed{a.said.Address, a.said.Host})
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	for rank, a := range came[1:] {
		p := newPeer(e, rank+1, a.said.Host, a.said.Address, a.conn)
		e.peers[rank+1] = p
		_ = p.writeFrame(frame{table, 0, [][]byte{text}}) // an error: the rank is gone, which its reader finds out and tells the others
	}
	return nil
}

// arrival waits for the next rank that has not come yet.
func (e *End) arrival(ctx context.Context, came []*arrival) (*arrival, error) {
	for {
		select {
		case a := <-e.arrivals:
			if rank := a.said.Rank; rank > e.Rank() && rank < e.Size && came[rank] == nil {
				return &a, nil
			}
			sendText(a.conn, refused, fmt.Sprintf("rank %d on %s comes to rank %d of %d, which does not expect it: want each rank once, and one run at an address", a.said.Rank, a.said.Host, e.Rank(), e.Size))
			e.drop(a.conn)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// sendText tells the other side of a connection, which is then closed, a reason.
func sendText(conn net.Conn, k kind, text string) {
	f := textFrame(k, 0, text)
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second)) // an error: nobody listens
	_, _ = conn.Write(append(f.header(), f.body[0]...))
}

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
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refused == "" {
		return ""
	}
	return " (a connection was refused: " + e.refused + ")"
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
	first, err := e.reach(ctx)
	if err != nil {
		return err
	}
	var ranks []listed
	if err := during(ctx, first, func() error {
		f, err := readFrame(first)
		switch {
		case err != nil:
			return err
		case f.kind == refused:
			return &Refusal{f.text()}
		case f.kind != table:
			return fmt.Errorf("a frame of kind %d where the table of ranks was due", f.kind)
		}
		return json.Unmarshal(f.body[0], &ranks)
	}); err != nil {
		return e.unmet(err)
	}
	if len(ranks) != e.Size {
		return fmt.Errorf("rank 0 knows %d ranks, rank %d is one of %d: want one number", len(ranks), e.Rank(), e.Size)
	}
	e.peers[0] = newPeer(e, 0, ranks[0].Host, e.Address, first)
	err = e.callRest(ctx, ranks)
	if err != nil && e.peers[0].writeFrame(causeFrame(left, 0, err)) == nil {
		return &Refusal{err.Error()} // rank 0 says it, which would otherwise only see that this rank is gone
	}
	return err
}

// callRest makes the connections with the ranks after 0: to those before this one, and
// from those after it.
func (e *End) callRest(ctx context.Context, ranks []listed) error {
	for rank := 1; rank < e.Rank(); rank++ {
		conn, err := e.dial(ctx, rank, ranks[rank].Address)
		if err == nil {
			err = during(ctx, conn, func() error { return call(conn, e.Secret, hello{Rank: e.Rank(), Host: e.host}) })
		}
		if err != nil {
			return fmt.Errorf("rank %d on %s does not reach rank %d on %s: %s", e.Rank(), e.host, rank, ranks[rank].Host, system(err))
		}
		e.peers[rank] = newPeer(e, rank, ranks[rank].Host, ranks[rank].Address, conn)
	}
	came := make([]*arrival, e.Size)
	for range e.Size - 1 - e.Rank() {
		a, err := e.arrival(ctx, came)
		if errors.Is(err, errLate) {
			return fmt.Errorf("%s did not come to rank %d on %s within %s%s", missing(came, e.Rank()), e.Rank(), e.host, units.FormatSeconds(e.Limit.Seconds()), e.lastRefused())
		}
		if err != nil {
			return err
		}
		rank := a.said.Rank
		came[rank] = a
		e.peers[rank] = newPeer(e, rank, ranks[rank].Host, ranks[rank].Address, a.conn)
	}
	return nil
}

// Refusal is the error of a rank after 0 if there will be no run and rank 0 says why.
type Refusal struct{ Text string }

func (r *Refusal) Error() string { return r.Text }

// unmet is the error of a rank that has not met rank 0.
func (e *End) unmet(err error) error {
	var no *Refusal
	switch {
	case errors.As(err, &no):
		return err
	case errors.Is(err, errLate):
		return fmt.Errorf("rank %d on %s: no answer from rank 0 at %s within %s", e.Rank(), e.host, e.Address, units.FormatSeconds(e.Limit.Seconds()))
	case errors.Is(err, context.Canceled):
		return err
	}
	return fmt.Errorf("rank %d on %s: rank 0 at %s: %s", e.Rank(), e.host, e.Address, reason(err, e.Limit))
}

// reach connects to rank 0 and says hello. Rank 0 may not listen yet, also behind
// something that does.
func (e *End) reach(ctx context.Context) (net.Conn, error) {
	last := os.ErrDeadlineExceeded // why it was not there
	for {
		conn, err := e.dial(ctx, 0, e.Address)
		if err == nil {
			if e.listener == nil {
				if err := e.listenBeside(conn); err != nil {
					return nil, fmt.Errorf("rank %d cannot listen: %s", e.Rank(), system(err))
				}
			}
			if err = during(ctx, conn, func() error { return call(conn, e.Secret, e.hello()) }); err == nil {
				return conn, nil
			}
			e.drop(conn)
		}
		if errors.Is(err, errSecret) {
			return nil, fmt.Errorf("rank %d on %s has another secret than what listens at %s: want the same on all ranks", e.Rank(), e.host, e.Address)
		}
		if ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) { // which a dial may notice first
			last = err
		}
		select {
		case <-ctx.Done():
			if why := context.Cause(ctx); !errors.Is(why, errLate) {
				return nil, why
			}
			return nil, fmt.Errorf("rank %d on %s: no rank 0 at %s within %s: %s", e.Rank(), e.host, e.Address, units.FormatSeconds(e.Limit.Seconds()), system(last))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// hello is what rank 0 must know.
func (e *End) hello() hello {
	address := e.listener.Addr().String()
	if _, unix := directory(e.Address); unix {
		address = e.Address
	}
	return hello{Rank: e.Rank(), Host: e.host, Address: address, Facts: e.Facts}
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

// dialLine makes a line of tensors to a rank.
func (e *End) dialLine(ctx context.Context, rank int, r transport.Route) (net.Conn, error) {
	conn, err := e.dial(ctx, rank, e.peers[rank].address)
	if err != nil {
		return nil, err
	}
	if err := during(ctx, conn, func() error {
		return call(conn, e.Secret, hello{Rank: e.Rank(), Host: e.host, Line: &r})
	}); err != nil {
		e.drop(conn)
		return nil, err
	}
	return conn, nil
}
