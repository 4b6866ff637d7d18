// Package sums adds up the gradients of a network over ranks, with its tensors gathered into
// one buffer before the sum and scattered behind it, or where they lie, so that the gathers
// and scatters of one message run beside the transfer of others. Nothing is trained: the
// gradients are random numbers in tensors of the network's sizes. Both ways end with the
// same bits, those of package reduction's tree.
package sums

import (
	"context"
	"fmt"

	"gpipebench/experiments/party"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/transport"
	"gpipebench/internal/failure"
	"gpipebench/internal/kernel"
	"gpipebench/nn/philox"
)

// Command is the hidden command that runs a sum in the processes that have been started for
// it.
const Command = "sum"

// Way is how tensors come into messages.
type Way uint8

const (
	First     Way = iota // all of them are copied into one buffer first, and the sums from it in the end
	Pipelined            // each message is gathered and scattered by itself
)

var ways = [...]string{"first", "pipelined"}

func (w Way) String() string { return ways[w] }

// Ways lists them.
func Ways() []Way { return []Way{First, Pipelined} }

// ParseWay reads what String writes.
func ParseWay(s string) (Way, error) {
	for _, w := range Ways() {
		if w.String() == s {
			return w, nil
		}
	}
	return 0, fmt.Errorf("unknown way %q: want first or pipelined", s)
}

// Job is one sum. It is the same in all ranks.
type Job struct {
	Sizes []int // of the tensors, in elements
	Way   Way
	Seed  uint64
	Times int // how often it is repeated, each time with the sums of the one before
}

// Outcome is what one rank has done.
type Outcome struct {
	Rank     int   `json:"rank"`
	Received int64 `json:"received_bytes"` // of tensors, from other ranks, of one sum
	// Seconds of each sum, in parts, one after another: copies into the buffer and from it,
	// which there are none of if these are pipelined, and the sum.
	Copies []float64 `json:"copy_seconds"`
	Sums   []float64 `json:"sum_seconds"`
	SHA256 string    `json:"sha256"` // of all tensors in the end, in little-endian order
}

func (j Job) validate(ranks int) error {
	if len(j.Sizes) == 0 || ranks < 2 || j.Times < 1 {
		return fmt.Errorf("%d tensors, %d ranks, %d times: want a tensor, two ranks and once, or more", len(j.Sizes), ranks, j.Times)
	}
	for i, n := range j.Sizes {
		if n < 1 {
			return fmt.Errorf("tensor %d has %d elements: want 1 or more", i, n)
		}
	}
	return nil
}

// draw makes a rank's gradients: each a piece of memory of its own, with values from -1 to 1.
func (j Job) draw(rank int) [][]float32 {
	values := philox.NewStream(philox.KeyOf(j.Seed, "mlperf/gradients"), uint64(rank))
	tensors := make([][]float32, len(j.Sizes))
	for i, n := range j.Sizes {
		tensors[i] = make([]float32, n)
		values.Fill(tensors[i], 1, func(s *philox.Stream) float32 { return float32(int32(s.Uint32())) * 0x1p-31 })
	}
	return tensors
}

// Run adds up with the other ranks, which call it with the same job, and returns what all of
// them have done.
func Run(ctx context.Context, over transport.Transport, ranks, rank int, j Job) (all []Outcome, err error) {
	if err := j.validate(ranks); err != nil {
		return nil, failure.Usage(err)
	}
	p, err := party.Join(ctx, over, ranks, rank)
	if err != nil {
		return nil, err
	}
	defer func() { p.Leave(err) }()
	tensors := j.draw(rank)
	summed, sizes := tensors, j.Sizes
	var buffer []float32
	if j.Way == First {
		total := 0
		for _, n := range j.Sizes {
			total += n
		}
		buffer = make([]float32, total)
		kernel.Zero(buffer) // so that the memory is there before anything is timed
		summed, sizes = [][]float32{buffer}, []int{total}
	}
	layout := reduction.NewLayout(sizes)
	a := reduction.AllReduce{Layout: layout, Peers: p}
	for range reduction.Buffers(ranks, rank, false) {
		b := make([]float32, layout.LargestMessage(ranks, rank))
		kernel.Zero(b)
		a.Buffers = append(a.Buffers, b)
	}
	o := Outcome{Rank: rank}
	for range j.Times {
		if err := p.Begin(); err != nil {
			return nil, err
		}
		var copies, sum float64
		if err := party.Timed(&copies, func() error { return each(tensors, buffer, func(t, b []float32) { copy(b, t) }) }); err != nil {
			return nil, err
		}
		before := p.Received()
		if err := party.Timed(&sum, func() error {
			if err := a.Reduce(ctx, summed); err != nil {
				return err
			}
			return a.Gather(ctx, summed)
		}); err != nil {
			return nil, err
		}
		o.Received = p.Received() - before
		if err := party.Timed(&copies, func() error { return each(tensors, buffer, func(t, b []float32) { copy(t, b) }) }); err != nil {
			return nil, err
		}
		o.Copies, o.Sums = append(o.Copies, copies), append(o.Sums, sum)
	}
	var whole []float32
	for _, t := range tensors {
		whole = append(whole, t...)
	}
	o.SHA256 = party.Digest(whole)
	return party.Collect(p, o)
}

// each calls f for every tensor with its part of the buffer, if there is one.
func each(tensors [][]float32, buffer []float32, f func(tensor, part []float32)) error {
	if buffer == nil {
		return nil
	}
	for _, t := range tensors {
		f(t, buffer[:len(t)])
		buffer = buffer[len(t):]
	}
	return nil
}
