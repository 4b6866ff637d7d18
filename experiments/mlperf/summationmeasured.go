package mlperf

import (
	"context"
	"fmt"
	"slices"

	"gpipebench/internal/kernel"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/exchange"
	"gpipebench/lab/records"
	"gpipebench/lab/shown"
	"gpipebench/lab/timed"
	"gpipebench/nn/philox"
	"gpipebench/train"
)

// summationMeasuredSpec is the spec of summation-measured.
type summationMeasuredSpec struct {
	timed.Profiled[summationMeasuredProfile] `yaml:",inline"`
	Model                                    train.Model  `yaml:"model"`
	Processes                                int          `yaml:"processes" want:"2..64"`
	Networks                                 []string     `yaml:"networks" want:"network"`
	Paper                                    lab.Verbatim `yaml:"paper"`
}

type summationMeasuredProfile struct {
	timed.Size `yaml:",inline"`
	Times      int `yaml:"times" want:"1..999"`
}

// summationMeasured adds up the gradients of a network between processes, with gathers before
// the sum or pipelined with it.
type summationMeasured = timed.Compared[summationMeasuredSpec, summationMeasuredProfile, sumOver, summationRecord]

// sumOver is a way over a network.
type sumOver struct{ network, way string }

type summationRuns = timed.Comparison[summationMeasuredProfile, sumOver, summationRecord]

func newSummationMeasured() (lab.Experiment, error) {
	x := &summationMeasured{Starts: true}
	s := &x.Spec
	x.Also, x.Show = s.also, s.show
	x.Runs = func(summationMeasuredProfile) (all []sumOver) {
		for _, network := range s.Networks {
			for _, way := range sumWays {
				all = append(all, sumOver{network, way})
			}
		}
		return all
	}
	x.Name = func(o sumOver) string { return o.network + "/" + o.way }
	x.Network = func(o sumOver) string { return o.network }
	x.Make = func(ctx context.Context, p summationMeasuredProfile, over sumOver) (*summationRecord, error) {
		made, err := s.record(p, over)
		if err != nil {
			return nil, err
		}
		return made, x.Run(ctx, s.Processes, over.network, made.Command, &made.Ranks)
	}
	return x, nil
}

func (x *summationMeasuredSpec) also() []lab.PlannedRun {
	return []lab.PlannedRun{{Path: []string{"model"}, Run: lab.ModelledRun{Model: x.Model, Most: 1}}}
}

// summationRecord is what the processes of a run have done.
type summationRecord struct {
	Command []string          `json:"command"` // of each process
	Ranks   []gradientsSummed `json:"ranks"`
}

// Check requires ranks in their order, each with as many times as the others, and one hash.
func (r *summationRecord) Check() error {
	if len(r.Ranks) < 2 {
		return fmt.Errorf("%d ranks: want 2 or more", len(r.Ranks))
	}
	for i, o := range r.Ranks {
		if o.Rank != i || o.Received < 1 || len(o.Sums) < 2 || len(o.Sums) != len(r.Ranks[0].Sums) || len(o.Copies) != len(o.Sums) || slices.Min(o.Sums) <= 0 {
			return fmt.Errorf("rank %d: rank %d, %d bytes received, sums of %v s, copies of %v s", i, o.Rank, o.Received, o.Sums, o.Copies)
		}
		if err := records.CheckHash("sha256", o.SHA256); err != nil {
			return err
		}
	}
	return nil
}

// median is the median of the slowest rank's figure of each sum but the first.
func (r *summationRecord) median(of func(o *gradientsSummed, i int) float64) float64 {
	var all []float64
	for i := 1; i < len(r.Ranks[0].Sums); i++ {
		longest := 0.0
		for rank := range r.Ranks {
			longest = max(longest, of(&r.Ranks[rank], i))
		}
		all = append(all, longest)
	}
	return stats.Median(all)
}

func (r *summationRecord) whole() float64 {
	return r.median(func(o *gradientsSummed, i int) float64 { return o.Sums[i] + o.Copies[i] })
}

func (r *summationRecord) copies() float64 {
	return r.median(func(o *gradientsSummed, i int) float64 { return o.Copies[i] })
}

// sums reports whether all ranks have a sum, and together received that many bytes.
func (r *summationRecord) sums(hash string, bytes int64) bool {
	for _, o := range r.Ranks {
		bytes -= o.Received
		if o.SHA256 != hash {
			return false
		}
	}
	return bytes == 0
}

// record has the command of each process.
func (x *summationMeasuredSpec) record(p summationMeasuredProfile, over sumOver) (*summationRecord, error) {
	sizes, err := x.Model.TrainedSizes()
	return &summationRecord{Command: exchange.Arguments(gradientSumName, &gradientSum{Sizes: sizes, Way: over.way, Seed: x.Seed, Times: p.Times + 1})}, err
}

func (x *summationMeasuredSpec) show(c *summationRuns) (shown.Rows, error) {
	sizes, err := x.Model.TrainedSizes()
	if err != nil {
		return nil, err
	}
	total := 0
	for _, n := range sizes {
		total += n
	}
	whole := func(c *summationRuns, network, way string) []float64 {
		return c.Each(sumOver{network, way}, (*summationRecord).whole)
	}
	var rows []shown.Values
	for _, n := range x.Networks {
		if c.Lacks[sumOver{n, gatheredFirst}] != "" {
			continue
		}
		first, piped := c.Of[sumOver{n, gatheredFirst}], c.Of[sumOver{n, pipelined}]
		hash := first[0].Ranks[0].SHA256
		same := !slices.ContainsFunc(slices.Concat(first, piped), func(r *summationRecord) bool {
			return !r.sums(hash, int64(4*2*total)*int64(x.Processes-1))
		})
		if !same {
			c.Verdict = fmt.Errorf("%s: the ways end with other bits, or send OTHER bytes than an all-reduce", n)
		}
		rows = append(rows, shown.Values{
			"network": n, "tensors": len(sizes), "bytes": 4 * total, "paper": x.Paper, "same": same, "hash": hash[:16],
			"first": whole(c, n, gatheredFirst), "piped": whole(c, n, pipelined), "copies": c.Each(sumOver{n, gatheredFirst}, (*summationRecord).copies),
			"before_first": whole(c.Before, n, gatheredFirst), "before_piped": whole(c.Before, n, pipelined),
		})
	}
	return shown.Rows{"": rows}, nil
}

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
