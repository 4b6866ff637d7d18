package accelerator

import (
	"math"

	"gpipebench/gpipe/internal/named"
	"gpipebench/gpipe/reduction"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// Kernels is how a GPU runs operations, each as one kernel: what limits small products, and the
// host that starts kernels. Files without it time products by their FLOPs alone.
//
// A product is cut into tiles of its result (NVIDIA, Matrix Multiplication Background User's
// Guide, sections 2.3 and 3). Each processor computes one at a time, so that the last wave may
// leave most of them idle, and rows and columns beyond the result are computed as well. Of the
// tile's shapes, and of ways to cut its terms over several tiles, the fastest is taken, as the
// library's heuristics try to. A tile computes at its processor's share of the rate, or as fast as
// the second-level cache gives it the operands.
type Kernels struct {
	Processors int      // streaming multiprocessors
	Tiles      [][2]int // rows and columns of the tiles that products may be cut into
	Cache      float64  // bytes per second from the second-level cache to all processors
	Start      float64  // seconds of a tile before and after its loop over terms
	// Unaligned is the peak of products in 16 bits without matrix units, in floating-point operations
	// per second, at which they run if the lanes do not divide a width; 0: as all others.
	Unaligned float64
	// Issue is the seconds in which the host starts an operation. It runs ahead of the device, so
	// that a task takes at least as long as all of its operations' starts.
	Issue float64
}

// Attention is how a modelled device computes attention.
type Attention uint8

const (
	// OurAttention is this program's kernel: one operation that moves its operands once.
	OurAttention Attention = iota
	// UnfusedAttention has a kernel for each product, and one for scale, mask and softmax, between
	// which the scores are in memory: Megatron-LM's until 2022. All of the scores are computed.
	UnfusedAttention
	// FlashAttention never has the scores in memory, and skips what a causal mask hides (Dao,
	// arXiv 2307.08691).
	FlashAttention
)

var attentions = [...]string{"ours", "unfused", "flash"}

func (a Attention) String() string { return named.String(a, attentions[:], "Attention") }

// ParseAttention reads what String writes.
func ParseAttention(s string) (Attention, error) {
	return named.Parse[Attention](s, attentions[:], "attention")
}

// Running is what a simulation adds to a device's figures.
type Running struct {
	Parts      reduction.Groups // the links of the T parts of a stage, as they are reached
	Attention  Attention
	DropScores bool // the softmax of unfused attention has a dropout
	// Apart makes a kernel of its own add each gradient of a weight to its accumulator.
	Apart   bool
	Overlap bool // parts add up gradients of activations beside the products of weights
	// Narrow is the factor of the products of weights' rate: above 1 in 8 bits; 0: 1.
	Narrow float64
}

// Timing is the time of a program by cause, in seconds.
type Timing struct {
	Operations float64 // computing, without what the host lacks
	Parts      float64 // exposed sums and gathers of the T parts of a stage
	Issue      float64 // that the host needs to start all operations
	Scores     float64 // the part of Operations that is the core of attention
}

// Add adds another timing.
func (t *Timing) Add(o Timing) {
	t.Operations += o.Operations
	t.Parts += o.Parts
	t.Issue += o.Issue
	t.Scores += o.Scores
}

// Computing is the time of all operations as the device and the host allow it.
func (t Timing) Computing() float64 { return max(t.Operations, t.Issue-t.Parts) }

// Seconds is the time of the whole.
func (t Timing) Seconds() float64 { return t.Computing() + t.Parts }

// Timings calls each for every operation of a program, with the layer in which it begins and its
// time by cause.
func (a *Accelerator) Timings(p *program.Program, dt graph.DType, each func(layer int, t Timing)) {
	var weights float64 // of the product for weights before, beside which parts may add up
	a.Starts(p, dt, func(first int, seconds float64) {
		in := &p.Instrs[first]
		var t Timing
		kernels := 1
		if a.Apart && in.Accumulates() && in.Dims().M > 0 {
			seconds += a.added(in)
			kernels++
		}
		what, _, _, besides := in.Collective()
		switch {
		case what != program.NoCollective || besides > 0:
			if a.Overlap && what != program.AllGather && in.Op == "enter-grad" {
				seconds = max(0, seconds-weights)
			}
			t.Parts = seconds
		case opName(in.Op) == "attention", opName(in.Op) == "attention-grad":
			t.Scores, t.Operations = seconds, seconds
			kernels = a.attentionKernels(in)
		case opName(in.Op) == "enter":
			kernels = 0
		default:
			t.Operations = seconds
		}
		weights = 0
		if in.Accumulates() && in.Dims().M > 0 {
			weights = seconds
		}
		if a.Kernels != nil {
			t.Issue = float64(float64(kernels) * a.Kernels.Issue)
		}
		each(in.Layer, t)
	})
}

// added is the time in which a gradient of a weight is added to its accumulator, once it is in memory.
func (a *Accelerator) added(in *program.Instr) (seconds float64) {
	for m := range in.Moves() {
		if m.Space == program.Grads && m.Written {
			seconds += 3*float64(m.Elems*m.ElemBytes)/a.bandwidth() + a.Overhead
		}
	}
	return seconds
}

// loss is the time in which a softmax over logits and its loss, or their gradient, run as frameworks
// do it: in float32, one pass after another over all logits. Forward they are converted (2 and 4
// bytes), and then go through a maximum (4), a difference, exponentials (8 each), a sum (4) and a
// quotient (8); backward, through a product (8) and a conversion (6).
func (a *Accelerator) loss(in *program.Instr) float64 {
	var logits int64
	for m := range in.Moves() {
		if m.Activation {
			logits = max(logits, m.Elems)
		}
	}
	bytes, kernels := 38.0, 6.0
	if opName(in.Op) == "cross-entropy-grad" {
		bytes, kernels = 14, 2
	}
	return bytes*float64(logits)/a.bandwidth() + float64(kernels*a.Overhead)
}

// collective is the time of what T parts do together at an instruction.
func (a *Accelerator) collective(in *program.Instr) float64 {
	what, parts, bytes, besides := in.Collective()
	reduce, gather := a.Parts.Cost(parts, float64(bytes))
	var seconds float64
	switch what {
	case program.AllReduce, program.ReduceScatterAndGather:
		seconds = reduce + gather
	case program.AllGather:
		seconds = gather
	case program.ReduceScatter:
		seconds = reduce
	}
	if besides > 0 {
		reduce, gather := a.Parts.Cost(parts, float64(besides))
		seconds += reduce + gather
	}
	return seconds
}

// product is the time in seconds of a product cut into tiles, at a rate of all processors in
// floating-point operations per second, without that of its operands' way from memory.
func (k *Kernels) product(d program.Dims, rate float64, elemBytes float64) float64 {
	best := math.Inf(1)
	flops, cache := rate/float64(k.Processors), k.Cache/float64(k.Processors)
	for _, tile := range k.Tiles {
		m, n := float64(tile[0]), float64(tile[1])
		term := max(2*m*n/flops, (m+n)*elemBytes/cache)
		tiles := d.Count * ((d.M + tile[0] - 1) / tile[0]) * ((d.N + tile[1] - 1) / tile[1])
		for split := 1; split == 1 || split <= 16 && d.K/split >= 128 && tiles*split/2 < k.Processors; split *= 2 {
			waves := (tiles*split + k.Processors - 1) / k.Processors
			seconds := float64(float64(waves) * (float64(term*float64((d.K+split-1)/split)) + k.Start))
			if split > 1 { // sums of parts in float32, written, and read by who adds them up
				seconds += 2 * 4 * float64(split*d.Count*d.M*d.N) / k.Cache
			}
			best = min(best, seconds)
		}
	}
	return best
}

// aligned is the rate of a product, of those whose widths are multiples of the lanes.
func (a *Accelerator) aligned(in *program.Instr, rate float64) float64 {
	if a.Kernels.Unaligned > 0 && in.PaddedFLOPs(a.Lanes) != in.FLOPs {
		return min(rate, a.Kernels.Unaligned*a.Share("dense"))
	}
	return rate
}

// attention is the time in seconds of the core of attention, or of its gradient.
func (a *Accelerator) attention(in *program.Instr, dt graph.DType) float64 {
	d, grad := in.Dims(), opName(in.Op) == "attention-grad"
	bytes := float64(dt.Bytes())
	scores := float64(float64(d.Count) * float64(d.M) * float64(d.N))
	heads := float64(float64(d.Count) * float64(d.K) * float64(d.M+d.N))
	if a.Attention == FlashAttention {
		flops := 4 * scores * float64(d.K) // two products, and five of the gradient
		kind := "attention"
		if grad {
			flops, kind = 2.5*flops, "attention-grad"
		}
		if d.Causal {
			flops /= 2
		}
		moved := float64(2 * heads * bytes)
		if grad {
			moved *= 2
		}
		return max(flops/(a.Rate(dt)*a.share(kind, dt, d.K)), moved/a.bandwidth()) + a.Overhead
	}
	rate := a.aligned(in, a.Rate(dt)*a.share("dense", dt, min(d.K, d.M)))
	queries, values := d, program.Dims{Count: d.Count, M: d.M, N: d.K, K: d.N}
	products := func(list ...program.Dims) (seconds float64) {
		for _, d := range list {
			seconds += max(a.Kernels.product(d, rate, bytes), float64((scores+heads)*bytes)/a.bandwidth()) + a.Overhead
		}
		return seconds
	}
	// Frameworks add the bias to queries, keys and values, and copy the result into rows.
	rearranged := float64(4 * heads * bytes)
	softmax, dropout := 2*bytes, 2*bytes+1
	if grad {
		softmax = 3 * bytes
	}
	seconds := (float64(scores*softmax)+rearranged)/a.bandwidth() + float64(3*a.Overhead)
	if a.DropScores {
		seconds += scores*dropout/a.bandwidthOf("dropout") + a.Overhead
	}
	if grad { // of the values and of the probabilities, then of queries and keys
		return seconds + products(values, queries, values, values)
	}
	return seconds + products(queries, values)
}

// attentionKernels is how many operations the host starts for an attention.
func (a *Accelerator) attentionKernels(in *program.Instr) int {
	switch {
	case a.Attention != UnfusedAttention:
		return 1
	case opName(in.Op) == "attention-grad":
		return 8
	}
	return 6
}
