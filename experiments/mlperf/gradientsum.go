package mlperf

import (
	"context"
	"fmt"
	"slices"

	"gpipebench/internal/kernel"
	"gpipebench/lab/exchange"
	"gpipebench/nn/philox"
)

// gradientSumName is the registered name of gradientSum.
const gradientSumName = "sum"

func init() { exchange.Register(gradientSumName, func() exchange.Job { return &gradientSum{} }) }

// gradientSum adds up the gradients of a network over ranks, with its tensors gathered into one
// buffer before the sum and scattered after it, or where they lie, so that the gathers and
// scatters of one message run beside the transfer of others. Nothing is trained: the gradients
// are random numbers in tensors of the network's sizes. Both ways end with the same bits, those
// of package reduction's tree.
type gradientSum struct {
	Sizes []int  // of the tensors, in elements
	Way   string // one of sumWays
	Seed  uint64
	Times int // how often it is repeated, each time with the sums of the one before
}

// How tensors come into messages: all of them are copied into one buffer first, and the sums
// from it in the end; or each message is gathered and scattered by itself.
const gatheredFirst, pipelined = "first", "pipelined"

var sumWays = []string{gatheredFirst, pipelined}

// gradientsSummed is what one rank has done.
type gradientsSummed struct {
	Rank     int   `json:"rank"`
	Received int64 `json:"received_bytes"` // of tensors, from other ranks, of one sum
	// Seconds of each sum, in parts, one after another: copies into the buffer and from it,
	// which there are none of if these are pipelined, and the sum.
	Copies []float64 `json:"copy_seconds"`
	Sums   []float64 `json:"sum_seconds"`
	SHA256 string    `json:"sha256"` // of all tensors in the end, in little-endian order
}

func (j *gradientSum) Validate(ranks int) error {
	if len(j.Sizes) == 0 || ranks < 2 || j.Times < 1 {
		return fmt.Errorf("%d tensors, %d ranks, %d times: want a tensor, two ranks and once, or more", len(j.Sizes), ranks, j.Times)
	}
	if !slices.Contains(sumWays, j.Way) {
		return fmt.Errorf("unknown way %q: want first or pipelined", j.Way)
	}
	for i, n := range j.Sizes {
		if n < 1 {
			return fmt.Errorf("tensor %d has %d elements: want 1 or more", i, n)
		}
	}
	return nil
}

// draw makes a rank's gradients: each a piece of memory of its own, with values from -1 to 1.
func (j *gradientSum) draw(rank int) [][]float32 {
	values := philox.NewStream(philox.KeyOf(j.Seed, "mlperf/gradients"), uint64(rank))
	tensors := make([][]float32, len(j.Sizes))
	for i, n := range j.Sizes {
		tensors[i] = make([]float32, n)
		values.Fill(tensors[i], 1, func(s *philox.Stream) float32 { return float32(int32(s.Uint32())) * 0x1p-31 })
	}
	return tensors
}

func (j *gradientSum) Run(ctx context.Context, p *exchange.Party) (any, error) {
	tensors := j.draw(p.Rank())
	summed, sizes := tensors, j.Sizes
	var buffer []float32
	if j.Way == gatheredFirst {
		total := 0
		for _, n := range j.Sizes {
			total += n
		}
		buffer = make([]float32, total)
		kernel.Zero(buffer) // so that the memory is there before anything is timed
		summed, sizes = [][]float32{buffer}, []int{total}
	}
	allReduce := p.AllReduce(sizes...)
	o := gradientsSummed{Rank: p.Rank()}
	for range j.Times {
		if err := p.Begin(); err != nil {
			return nil, err
		}
		var copies, sum float64
		inParts := func(f func(tensor, part []float32)) {
			_ = exchange.Timed(&copies, func() error { eachPart(tensors, buffer, f); return nil })
		}
		inParts(func(t, b []float32) { copy(b, t) })
		before := p.Received()
		if err := exchange.Timed(&sum, func() error { return allReduce(ctx, summed) }); err != nil {
			return nil, err
		}
		o.Received = p.Received() - before
		inParts(func(t, b []float32) { copy(t, b) })
		o.Copies, o.Sums = append(o.Copies, copies), append(o.Sums, sum)
	}
	o.SHA256 = exchange.Digest(slices.Concat(tensors...))
	return o, nil
}

// eachPart calls f for every tensor with its part of the buffer, if there is one.
func eachPart(tensors [][]float32, buffer []float32, f func(tensor, part []float32)) {
	if buffer == nil {
		return
	}
	for _, t := range tensors {
		f(t, buffer[:len(t)])
		buffer = buffer[len(t):]
	}
}
