// Package transport is the only connection between the places of a run: it carries
// boundary tensors and gradients on routes, and small messages at gatherings. The
// places share nothing else, so they may lie in different processes.
//
// A run has one or more processes, numbered from 0, each with its end of the
// transport. All of them begin the same sessions (a step, an evaluation, an
// exchange between steps) in the same order. [Channels] is the implementation for
// one process; package transporttest has the conformance suite that every
// implementation passes.
package transport

import (
	"context"
	"fmt"
	"time"

	"gpipebench/gpipe/place"
)

// Transport is a process's end of the connection between the processes of a run.
type Transport interface {
	// Rank is the number of this process.
	Rank() int
	// Owner is the number of the process that a place runs in; the same on every end.
	Owner(p place.Place) int
	// Begin begins this process's next session. It does not wait; the session's
	// operations report what is wrong with the others.
	Begin() Session
}

// Clocked is a Transport that knows how far its process's clock is from that of rank 0.
type Clocked interface {
	// Clock returns what to add to this process's wall clock for that of rank 0, and how
	// far that may be wrong.
	Clock() (offset, within time.Duration)
}

// Lender is a Session of a run in one process: a receiver may read tensors where the
// sender has them.
type Lender interface {
	// Lend waits, as Receive does, for the next tensors on the route, which have the sizes
	// of like, and calls use with them. They must not be written to, nor kept.
	Lend(ctx context.Context, from Route, like [][]float32, use func(tensors [][]float32)) error
}

// Session is one step of a run, or another exchange. What it carries never reaches
// another session, even if it ends early. Its methods may be used concurrently, with
// at most one Send and one Receive at a time for each route.
//
// An operation that waits returns the context's cause when the context is done, an
// *[AbortError] when a process has aborted the session, a *[PeerError] when a process
// has died, and a *[LinkError] when something between two processes was lost or changed.
type Session interface {
	// Send hands tensors of this process's place to.From to to.To and returns when
	// their memory may be written again. On routes that differ only in Index, tensors
	// are received in the order in which they are sent.
	Send(ctx context.Context, to Route, tensors [][]float32) error
	// Receive waits for the next tensors on the route, calls arrived, and copies them
	// to dst. It is an error if they have another index or other sizes than dst.
	// Between the call of arrived and its own return it waits for nothing but the
	// sender's bytes.
	Receive(ctx context.Context, from Route, dst [][]float32, arrived func()) error
	// Gather waits for a message from each of the places among and returns them all,
	// in the order of among, which is the same for all of them. The messages are then
	// shared and must not be written to. A place may gather again; gatherings at the
	// same time have no places in common.
	Gather(ctx context.Context, from place.Place, among []place.Place, message []byte) ([][]byte, error)
	// Abort makes the session's waiting and later operations, here and in all other
	// processes, return an *AbortError with this cause. The first Abort counts.
	Abort(cause error)
	// End is this process's last use of the session. It does not wait.
	End()
}

// Route names a transfer: from where to where, and what.
type Route struct {
	From, To place.Place
	What     Payload
	Index    int // micro-batch of a boundary tensor; parameter and use of a tied gradient; first chunk of a message of group gradients; first of gathered rows; count of statistics within the step
}

// Line is the route without its Index: it is the same for routes that differ only in
// that.
func (r Route) Line() Route {
	r.Index = 0
	return r
}

func (r Route) String() string {
	return fmt.Sprintf("%v %d from %v to %v", r.What, r.Index, r.From, r.To)
}

// Payload is a kind of transfer.
type Payload uint8

const (
	Activation Payload = iota
	Gradient
	TiedGradient
	GroupGradient // chunks of a replica's sums, of those over all replicas, or of updated weights
	Statistics    // of a micro-batch: a replica's, or those of several together
	GatheredRows  // of a replica's gradient of a tied table
)

var payloads = [...]string{Activation: "activation", Gradient: "gradient", TiedGradient: "tied gradient", GroupGradient: "group gradient", Statistics: "statistics", GatheredRows: "gathered rows"}

func (p Payload) String() string {
	if int(p) < len(payloads) {
		return payloads[p]
	}
	return fmt.Sprintf("Payload(%d)", uint8(p))
}

// Fits is the error of a Receive that got something else than what was due, or nil.
func Fits(got, due Route, tensors, dst [][]float32) error {
	if got != due {
		return fmt.Errorf("transport: %v arrived where %v was due", got, due)
	}
	if len(tensors) != len(dst) {
		return fmt.Errorf("transport: %v has %d tensors: want %d", due, len(tensors), len(dst))
	}
	for i := range dst {
		if len(tensors[i]) != len(dst[i]) {
			return fmt.Errorf("transport: %v: tensor %d has %d elements: want %d", due, i, len(tensors[i]), len(dst[i]))
		}
	}
	return nil
}

// AbortError says that a process aborted a session, and why.
type AbortError struct {
	Rank  int
	Cause string
	// Canceled: the process was told to end. Then the error is a context.Canceled.
	Canceled bool
}

func (e *AbortError) Is(target error) bool { return e.Canceled && target == context.Canceled }

func (e *AbortError) Error() string { return fmt.Sprintf("rank %d: %s", e.Rank, e.Cause) }

// PeerError says that a process has died, or cannot be reached.
type PeerError struct {
	Rank  int
	Where string // what it runs and where, if that is known
	Cause string
	// Canceled: the process was told to end. Then the error is a context.Canceled.
	Canceled bool
}

func (e *PeerError) Is(target error) bool { return e.Canceled && target == context.Canceled }

func (e *PeerError) Error() string {
	if e.Where == "" {
		return fmt.Sprintf("rank %d is gone: %s", e.Rank, e.Cause)
	}
	return fmt.Sprintf("rank %d (%s) is gone: %s", e.Rank, e.Where, e.Cause)
}

// LinkError says that what went from one process to another was lost or changed, and so
// ended the run. It is the same in all processes.
type LinkError struct {
	From, To int
	What     string // and what became of it
}

func (e *LinkError) Error() string {
	return fmt.Sprintf("rank %d to rank %d: %s", e.From, e.To, e.What)
}
