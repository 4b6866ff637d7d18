// Package mpi makes the connections of package sockets from messages of MPI, so that
// processes which mpirun has started use the network that their MPI is made for. The
// program must be built with MPI:
//
//	go build -tags mpi ./cmd/gpipebench      # Open MPI
//	go build -tags mpich ./cmd/gpipebench    # MPICH
//
// Everything above connections is package sockets': the comparison of facts,
// sessions, lines of tensors, signs of life, clocks and errors. So are the sums of what is
// sent, which cannot be switched off: an MPI checks its network's links at best, not the
// memory that messages pass through on the way.
//
// All messages have one tag, and MPI keeps those of a process in order. A connection's
// receiver grants its sender room for a window of bytes; so a receiver takes every message
// as it comes, a slow reader delays its own connection alone, and no message is left
// for MPI_Finalize to wait for. One thread of the operating system makes all calls of
// MPI, none of which waits. While nothing comes it sleeps, a millisecond at most.
package mpi

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"gpipebench/gpipe/transport/sockets"
	"gpipebench/internal/units"
)

var _ sockets.Network = (*World)(nil)

// Address is rank 0's address.
const Address = "mpi:0"

// World is a process's part of an MPI program, in which all processes of
// MPI_COMM_WORLD take part.
type World struct {
	*connections
	limit time.Duration
}

// carrier carries messages between the processes of a run. Those of a process arrive at
// another one in the order in which they are sent.
type carrier interface {
	// send sends a message and does not wait. The message is the carrier's from now on.
	send(rank int, message []byte)
	// flush waits until all that was sent may be forgotten here, or the context is done.
	flush(ctx context.Context) error
	// finish ends MPI, after the last message was sent and received, or fails when the
	// context is done. It is called once.
	finish(ctx context.Context) error
}

// Join initialises MPI, once in a process, and waits until all processes have done so,
// at most for a time limit (0: sockets.DefaultLimit). Without MPI in this program the
// error says how to build it.
func Join(ctx context.Context, limit time.Duration) (*World, error) {
	if err := Built(); err != nil {
		return nil, err
	}
	limit = cmp.Or(limit, sockets.DefaultLimit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s: not all processes have called MPI_Init within %s", Implementation, units.FormatSeconds(limit.Seconds())))
	defer cancel()
	c, err := initialise(ctx)
	if err != nil {
		return nil, err
	}
	return &World{c, limit}, nil
}

// Close ends this process's use of MPI. It waits until all others call it, at most for
// the time limit.
func (w *World) Close() error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), w.limit, fmt.Errorf("not all processes have ended their part within %s", units.FormatSeconds(w.limit.Seconds())))
	defer cancel()
	err := w.part(ctx)
	if err == nil {
		err = w.carrier.finish(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", Implementation, err)
	}
	return nil
}

// Leave makes sure that what was sent arrives, for a process that is to end without the
// others: MPI then ends them, too.
func (w *World) Leave() {
	ctx, cancel := context.WithTimeout(context.Background(), min(w.limit, time.Second))
	defer cancel()
	_ = w.carrier.flush(ctx) // an error: a process that takes nothing more
}
