package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"gpipebench/bench/rows"
	"gpipebench/gpipe"
	"gpipebench/gpipe/cluster"
	"gpipebench/gpipe/transport/sockets"
	"gpipebench/internal/kernel"
)

// rates are what rank 0 of the two processes prints: GB/s of each round.
type rates struct{ Ours, Plain []float64 }

// reductionBetween compares the sums of two replicas' gradients in two processes with the
// least that must be done for it there: each sends one half and adds the other's to its
// own, then they exchange the sums, by plain writes and reads over the same kind of socket.
func (b *bench) reductionBetween() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var program cluster.Program
	program.StartWith(self)
	for _, c := range []struct{ network, name string }{{"tcp", "TCP"}, {"unix", "Unix sockets"}} {
		var r rates
		if err := program.Run(context.Background(), 2, c.network, []string{c.network, strconv.Itoa(b.rounds)}, &r); err != nil {
			return err
		}
		s := &rows.Sample{What: c.name}
		s.Add("ours", "GB/s", r.Ours...)
		s.Add("writes, reads and addition", "GB/s", r.Plain...)
		s.Add("ratio", "", ratios(r.Ours, r.Plain)...)
		if err := b.add(s); err != nil {
			return err
		}
	}
	return nil
}

// beRank is one of the two processes. It returns its exit status.
func beRank() int {
	args, ctx, err := cluster.Obey(context.Background(), os.Stdin)
	if err == nil {
		err = reduceAsRank(ctx, args)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// reduceAsRank measures as one of the two, each of which has a replica.
func reduceAsRank(ctx context.Context, args []string) (err error) {
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	world, err := cluster.FromEnvironment()
	if err != nil {
		return err
	}
	end, err := sockets.Connect(ctx, sockets.Config{
		Rank: world.Rank, Size: world.Size, Address: world.Address, Listener: world.Listener, Secret: world.Secret, Limit: world.Limit,
		Owner: cluster.Spread{Replicas: 2, Stages: 1, Processes: 2}.Owner,
	})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			end.Fail(err)
		} else {
			err = end.Close()
		}
	}()
	p, batch := wide()
	p.Transport = end
	t, err := p.Open(gpipe.InputOf(batch))
	if err != nil {
		return err
	}
	defer t.Close()
	conn, err := beside(ctx, t, args[0], world.Rank)
	if err != nil {
		return err
	}
	defer conn.Close()
	own, other := make([]float32, width*(width+1)), make([]float32, width*(width+1)/2)
	var r rates
	for round := range count + 1 {
		step, err := t.Step(ctx, batch)
		if err != nil {
			return err
		}
		if _, err := t.Exchange(ctx, nil); err != nil { // both begin
			return err
		}
		start := time.Now()
		if err := exchangeAndAdd(conn, own, other, world.Rank); err != nil {
			return err
		}
		if took := time.Since(start).Seconds(); round > 0 { // the first round warms up
			r.Ours = append(r.Ours, 4e-9*float64(len(own))/reduceSeconds(step.Timeline))
			r.Plain = append(r.Plain, 4e-9*float64(len(own))/took)
		}
	}
	if world.Rank > 0 {
		return nil
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// beside makes a connection between both ranks, beside those of the run.
func beside(ctx context.Context, t *gpipe.Trainer, network string, rank int) (conn net.Conn, err error) {
	address := ""
	var l net.Listener
	if rank == 0 {
		at := "127.0.0.1:0"
		if network == "unix" {
			dir, err := os.MkdirTemp("", "bench")
			if err != nil {
				return nil, err
			}
			defer os.RemoveAll(dir)
			at = filepath.Join(dir, "s")
		}
		if l, err = net.Listen(network, at); err != nil {
			return nil, err
		}
		defer l.Close()
		address = l.Addr().String()
	}
	all, err := t.Exchange(ctx, []byte(address))
	if err != nil {
		return nil, err
	}
	if rank > 0 {
		conn, err = net.Dial(network, string(all[0]))
	} else {
		conn, err = l.Accept()
	}
	if err != nil {
		return nil, err
	}
	_, err = t.Exchange(ctx, nil) // the socket's name may go
	return conn, err
}

// exchangeAndAdd makes own the sum of both ranks'. Rank 0 adds up the first half.
func exchangeAndAdd(conn net.Conn, own, other []float32, rank int) error {
	mine, theirs := own[:len(own)/2], own[len(own)/2:]
	if rank > 0 {
		mine, theirs = theirs, mine
	}
	other = other[:len(mine)]
	if err := both(conn, theirs, other); err != nil {
		return err
	}
	kernel.Add(mine, mine, other)
	return both(conn, mine, theirs)
}

// both writes and reads at once.
func both(conn net.Conn, out, in []float32) error {
	var writing sync.WaitGroup
	var wrote error
	writing.Go(func() { _, wrote = conn.Write(memoryOf(out)) })
	_, err := io.ReadFull(conn, memoryOf(in))
	writing.Wait()
	return errors.Join(err, wrote)
}

// memoryOf is the memory of floats.
func memoryOf(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}
