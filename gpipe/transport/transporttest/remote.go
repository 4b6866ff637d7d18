package transporttest

import (
	"context"
	"errors"
	"net"
	"net/rpc"
	"slices"
	"sync"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/transport"
)

// The suite runs in one process. Where ends are in processes of their own, each of these
// serves its end, and the suite's process calls it by package net/rpc.

// Host is a process's part in all cases of the suite.
type Host struct {
	// Open makes this process's end of a case's run.
	Open func(rank, ranks int, owner func(place.Place) int) (transport.Transport, error)
	// Kill ends its connections at once, and Close as they should end.
	Kill  func()
	Close func() error
}

// Serve serves the calls that come by a connection until that ends.
func Serve(conn net.Conn, h Host) error {
	s := rpc.NewServer()
	served := &Served{host: h, calls: map[int]*call{}}
	if err := s.RegisterName("End", served); err != nil {
		return err
	}
	s.ServeConn(conn)
	return nil
}

// Served is an end as package net/rpc calls it.
type Served struct {
	host Host

	mu       sync.Mutex
	end      transport.Transport
	sessions []transport.Session
	calls    map[int]*call // by the caller's number
}

// call is an operation of a session that may wait.
type call struct {
	ctx     context.Context
	cancel  context.CancelFunc
	arrived chan struct{} // closed when tensors have arrived
	proceed chan struct{} // closed when the caller has taken note of that
	done    chan struct{} // closed when the operation has ended
	err     error
	tensors [][]float32
}

// Operation is what an operation is called with, as far as it needs it.
type Operation struct {
	Call, Session int
	Route         transport.Route
	Tensors       [][]float32
	Sizes         []int
	From          place.Place
	Among         []place.Place
	Message       []byte
}

// Outcome is what an operation returns.
type Outcome struct {
	Arrived  bool // and the operation has not ended
	Tensors  [][]float32
	Messages [][]byte

	// The error, as one of these.
	Abort    *transport.AbortError
	Peer     *transport.PeerError
	Canceled bool
	Other    string
}

func (o *Outcome) put(err error) {
	var abort *transport.AbortError
	var peer *transport.PeerError
	switch {
	case err == nil:
	case errors.As(err, &abort):
		o.Abort = abort
	case errors.As(err, &peer):
		o.Peer = peer
	case errors.Is(err, context.Canceled):
		o.Canceled = true
	default:
		o.Other = err.Error()
	}
}

// err is the error for a caller with a context.
func (o *Outcome) err(ctx context.Context) error {
	switch {
	case o.Abort != nil:
		return o.Abort
	case o.Peer != nil:
		return o.Peer
	case o.Canceled:
		return context.Cause(ctx)
	case o.Other != "":
		return errors.New(o.Other)
	}
	return nil
}

// Shape is the size of a case's run, and the rank of an end.
type Shape struct{ Rank, Ranks int }

func (s *Served) Open(shape Shape, _ *struct{}) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions, s.calls = nil, map[int]*call{}
	s.end, err = s.host.Open(shape.Rank, shape.Ranks, Owner(shape.Ranks))
	return err
}

func (s *Served) Kill(struct{}, *struct{}) error {
	s.host.Kill()
	return nil
}

func (s *Served) Close(struct{}, *struct{}) error { return s.host.Close() }

func (s *Served) Begin(_ struct{}, number *int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	*number = len(s.sessions)
	s.sessions = append(s.sessions, s.end.Begin())
	return nil
}

func (s *Served) session(number int) transport.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[number]
}

// call is the one with a number, which may be canceled before it comes.
func (s *Served) call(number int) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.calls[number]
	if c == nil {
		c = &call{arrived: make(chan struct{}), proceed: make(chan struct{}), done: make(chan struct{})}
		c.ctx, c.cancel = context.WithCancel(context.Background())
		s.calls[number] = c
	}
	return c
}

func (s *Served) Cancel(number int, _ *struct{}) error {
	s.call(number).cancel()
	return nil
}

func (s *Served) Send(o Operation, out *Outcome) error {
	out.put(s.session(o.Session).Send(s.call(o.Call).ctx, o.Route, o.Tensors))
	return nil
}

// Receive returns when tensors have arrived, or when it has failed before.
func (s *Served) Receive(o Operation, out *Outcome) error {
	c := s.call(o.Call)
	for _, n := range o.Sizes {
		c.tensors = append(c.tensors, make([]float32, n))
	}
	go func() {
		defer close(c.done)
		c.err = s.session(o.Session).Receive(c.ctx, o.Route, c.tensors, func() {
			close(c.arrived)
			<-c.proceed
		})
	}()
	select {
	case <-c.arrived:
		out.Arrived = true
	case <-c.done:
		out.put(c.err)
	}
	return nil
}

// Proceed lets a Receive go on after something has arrived, and returns its end.
func (s *Served) Proceed(number int, out *Outcome) error {
	c := s.call(number)
	close(c.proceed)
	<-c.done
	out.put(c.err)
	out.Tensors = c.tensors
	return nil
}

func (s *Served) Gather(o Operation, out *Outcome) error {
	messages, err := s.session(o.Session).Gather(s.call(o.Call).ctx, o.From, o.Among, o.Message)
	out.Messages = messages
	out.put(err)
	return nil
}

// Abortion is a session and why it is aborted.
type Abortion struct {
	Session  int
	Cause    string
	Canceled bool // it is an interrupt
}

// interrupt is an error as the end's process has it when it is told to end.
type interrupt struct{ error }

func (interrupt) Is(target error) bool { return target == context.Canceled }

func (s *Served) Abort(a Abortion, _ *struct{}) error {
	cause := errors.New(a.Cause)
	if a.Canceled {
		cause = interrupt{cause}
	}
	s.session(a.Session).Abort(cause)
	return nil
}

func (s *Served) End(number int, _ *struct{}) error {
	s.session(number).End()
	return nil
}

// Remote is an end in another process, which serves it.
type Remote struct {
	shape  Shape
	client *rpc.Client

	mu    sync.Mutex
	calls int
}

var _ transport.Transport = (*Remote)(nil)

// Call returns an end that a process serves by a connection.
func Call(conn net.Conn) *Remote { return &Remote{client: rpc.NewClient(conn)} }

// Open opens the end for a case's run.
func (r *Remote) Open(rank, ranks int) error {
	r.shape = Shape{rank, ranks}
	return r.client.Call("End.Open", r.shape, &struct{}{})
}

// Kill ends the end's connections at once.
func (r *Remote) Kill() error { return r.client.Call("End.Kill", struct{}{}, &struct{}{}) }

// Close closes the end.
func (r *Remote) Close() error { return r.client.Call("End.Close", struct{}{}, &struct{}{}) }

// Leave ends the connection, and so the other process's Serve.
func (r *Remote) Leave() error { return r.client.Close() }

func (r *Remote) Rank() int               { return r.shape.Rank }
func (r *Remote) Owner(p place.Place) int { return Owner(r.shape.Ranks)(p) }

func (r *Remote) Begin() transport.Session {
	s := &remoteSession{Remote: r}
	s.must("End.Begin", struct{}{}, &s.number)
	return s
}

// must calls what cannot fail as long as the other process lives.
func (r *Remote) must(method string, args, reply any) {
	if err := r.client.Call(method, args, reply); err != nil {
		panic(err)
	}
}

// remoteSession is a session of an end in another process.
type remoteSession struct {
	*Remote
	number int
}

// do calls an operation, which ends with the context.
func (s *remoteSession) do(ctx context.Context, number int, method string, args any) (*Outcome, error) {
	out := &Outcome{}
	c := s.client.Go(method, args, out, make(chan *rpc.Call, 1))
	select {
	case <-c.Done:
	case <-ctx.Done():
		s.must("End.Cancel", number, &struct{}{})
		<-c.Done
	}
	if c.Error != nil {
		return out, c.Error
	}
	return out, out.err(ctx)
}

func (s *remoteSession) next(o Operation) Operation {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	o.Call, o.Session = s.calls, s.number
	return o
}

func (s *remoteSession) Send(ctx context.Context, to transport.Route, tensors [][]float32) error {
	o := s.next(Operation{Route: to, Tensors: tensors})
	_, err := s.do(ctx, o.Call, "End.Send", o)
	return err
}

func (s *remoteSession) Receive(ctx context.Context, from transport.Route, dst [][]float32, arrived func()) error {
	o := s.next(Operation{Route: from})
	for _, t := range dst {
		o.Sizes = append(o.Sizes, len(t))
	}
	out, err := s.do(ctx, o.Call, "End.Receive", o)
	if err != nil || !out.Arrived {
		return err
	}
	arrived()
	if out, err = s.do(ctx, o.Call, "End.Proceed", o.Call); err != nil {
		return err
	}
	for i, t := range out.Tensors {
		copy(dst[i], t)
	}
	return nil
}

func (s *remoteSession) Gather(ctx context.Context, from place.Place, among []place.Place, message []byte) ([][]byte, error) {
	o := s.next(Operation{From: from, Among: slices.Clone(among), Message: message})
	out, err := s.do(ctx, o.Call, "End.Gather", o)
	return out.Messages, err
}

func (s *remoteSession) Abort(cause error) {
	s.must("End.Abort", Abortion{s.number, cause.Error(), errors.Is(cause, context.Canceled)}, &struct{}{})
}

func (s *remoteSession) End() { s.must("End.End", s.number, &struct{}{}) }
