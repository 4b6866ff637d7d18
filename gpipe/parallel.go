package gpipe

import (
	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/internal/named"
	"gpipebench/gpipe/plan"
)

// Parallel says how a step of large networks is spread over the devices of a modelled cluster,
// and what its devices keep: what today's frameworks have beside GPipe's K and M. The zero value
// is GPipe's: one device a stage, float32 weights, one link, and recomputation as Checkpoint says.
type Parallel struct {
	// Tensor is T, the number of devices that divide the operations of each stage, as Megatron-LM
	// does (Shoeybi et al., arXiv 1909.08053): attention by heads, feed-forward layers by columns
	// and then rows, embedding and softmax by the vocabulary. Each is a part of the stage, which
	// is itself a network, and the parts add up activations on their link; 0: 1. It divides the
	// heads, the feed-forward's width and the vocabulary.
	Tensor int
	// SequenceParallel divides what is between these operations (norms, dropouts, additions) by
	// tokens over the T parts, so that an all-gather and a reduce-scatter take the place of each
	// all-reduce (Korthikanti et al., arXiv 2205.05198, section 4.2.2).
	SequenceParallel bool
	// Zero is what replicas divide (Rajbhandari et al., arXiv 1910.02054): 0 nothing, 1 the
	// optimiser's state and the update, 2 gradients too, which are added up after each micro-batch,
	// 3 weights too, which are gathered for each layer's forward and backward beside the layer before (FSDP). 1 is what
	// Replication.ShardUpdate makes of devices that compute, and alone is modelled as that.
	Zero int
	// Recompute is what each backward computes again; see the constants.
	Recompute Recompute
	// Precision is the type of weights, beside which there are float32 master copies if it has
	// two bytes; activations have Modelling.DType. WideGradients adds up gradients of two bytes in
	// float32 accumulators beside them, as DeepSpeed's optimiser of bfloat16 does.
	Precision     Precision
	WideGradients bool
	// Attention is how it is computed; see the constants: ours alone on an accelerator without Kernels.
	// DropScores is a dropout of its probabilities, as most frameworks have beside that of the
	// network's branches.
	Attention  Attention
	DropScores bool
	// Order is the placement of the T parts, K stages and R replicas on the cluster's devices.
	Order Order
	// Scatter makes each of T parts send its share of a boundary's activations to another node,
	// where the parts gather them on the near link (Narayanan et al., arXiv 2104.04473, section
	// 4.1); otherwise each sends all. With SequenceParallel each has its share only.
	Scatter bool
	// AwaitTransfers makes both devices of a transfer between stages wait for it, as the pipelines of
	// Megatron-LM (megatron/p2p_communication.py waits for its requests) and DeepSpeed do.
	// Otherwise they compute meanwhile.
	AwaitTransfers bool
	// GradientsApart makes a kernel of its own add the gradient of each weight to its accumulator, as
	// frameworks did before products that accumulate (Megatron-LM until 2022, DeepSpeed).
	GradientsApart bool
	// Overlap runs sums of replicas' gradients beside the backward functions that follow, and
	// those of T parts beside the products for weights, as later frameworks do; what does not fit
	// beside them is exposed. Otherwise all is exposed.
	Overlap bool

	// NodeDevices is the number of devices of a node, which have the near link; 0: far_link.devices
	// of the accelerator's file, and without one all devices are in one node.
	NodeDevices int
	// Near and Far are the links of each device within and between nodes, in place of the
	// accelerator's own, before the shares of the bandwidth that are reached. Zero: the
	// accelerator's.
	Near, Far clock.Link
	// TensorOverNodes allows the T parts of a stage to be in several nodes, which is refused
	// otherwise: their link is then the far one.
	TensorOverNodes bool
}

// Used reports whether a step is modelled as Parallel says; otherwise it is GPipe's, as ever. One
// part of each stage is the same as none, and GPipe's replicas can divide the update (ZeRO 1).
func (p Parallel) Used() bool {
	if p.Tensor == 1 {
		p.Tensor = 0
	}
	if p.Zero == 1 {
		p.Zero = 0
	}
	return p != Parallel{}
}

// Recompute is what a backward function computes again (re-materialises).
type Recompute uint8

const (
	// RecomputeStage is GPipe's: whole stages, as Checkpoint says.
	RecomputeStage Recompute = iota
	// RecomputeNone keeps all residuals.
	RecomputeNone
	// RecomputeSelective computes the core of attention again (scores, softmax, their dropout)
	// and keeps everything else (Korthikanti et al., section 5).
	RecomputeSelective
	// RecomputeFull keeps the input of each layer, and computes each layer again just before its
	// backward (Megatron-LM's, one layer at a time). The first and the last layer, embedding and
	// softmax, are not.
	RecomputeFull
)

var recomputes = [...]string{"stage", "none", "selective", "full"}

func (r Recompute) String() string { return named.String(r, recomputes[:], "Recompute") }

// ParseRecompute reads what String writes.
func ParseRecompute(s string) (Recompute, error) {
	return named.Parse[Recompute](s, recomputes[:], "recomputation")
}

// Precision is the type of a modelled training's weights, products and gradients. Bytes a
// parameter of weights, gradients, master copies and Adam's moments, as Megatron-LM counts them
// (docs/source/api-guide/dist_optimizer.md): 16 in float32, 18 with BF16, and 20 with FP16, of
// which a float32 copy of the gradients is there in the update alone; 20 with WideGradients.
type Precision uint8

const (
	F32Weights  Precision = iota // float32 weights and gradients, no copies: GPipe's
	BF16Weights                  // bfloat16 weights with float32 copies, float32 gradients
	FP16Weights                  // float16 weights with float32 copies, float16 gradients
	FP8Products                  // as BF16, with the products of layers' weights in 8 bits
)

var precisions = [...]string{"f32", "bf16", "fp16", "fp8"}

func (p Precision) String() string { return named.String(p, precisions[:], "Precision") }

// ParsePrecision reads what String writes.
func ParsePrecision(s string) (Precision, error) {
	return named.Parse[Precision](s, precisions[:], "precision")
}

// PerParameter returns the bytes of a parameter's weights, gradients, and state: a float32 copy of
// narrow weights and an optimiser's slots.
func (p Parallel) PerParameter(slots int) (weights, gradients, state int64) {
	weights, gradients, state = p.weightBytes(), p.gradientBytes(), int64(plan.FloatBytes*slots)
	if weights < plan.FloatBytes {
		state += plan.FloatBytes
	}
	return weights, gradients, state
}

// share is the part that each of a number of replicas has of what is divided from a stage of ZeRO on.
func (p Parallel) share(from, replicas int) float64 {
	if p.Zero >= from {
		return 1 / float64(replicas)
	}
	return 1
}

// PerReplica returns PerParameter's bytes without what others of a number of replicas keep.
func (p Parallel) PerReplica(slots, replicas int) (weights, gradients, state float64) {
	w, g, s := p.PerParameter(slots)
	return p.share(3, replicas) * float64(w), p.share(2, replicas) * float64(g), p.share(1, replicas) * float64(s)
}

// Attention is how a modelled device computes it: see package accelerator.
type Attention = accelerator.Attention

const (
	OurAttention     = accelerator.OurAttention
	UnfusedAttention = accelerator.UnfusedAttention
	FlashAttention   = accelerator.FlashAttention
)

// ParseAttention reads what Attention.String writes.
func ParseAttention(s string) (Attention, error) { return accelerator.ParseAttention(s) }

// Order says which of the T parts, K stages and R replicas are on neighbouring devices of the
// cluster: the first changes fastest from one device to the next.
type Order uint8

const (
	TensorDataPipeline Order = iota // Megatron-LM's
	TensorPipelineData
)

var orders = [...]string{"tp-dp-pp", "tp-pp-dp"}

func (o Order) String() string { return named.String(o, orders[:], "Order") }

// ParseOrder reads what String writes.
func ParseOrder(s string) (Order, error) { return named.Parse[Order](s, orders[:], "order") }

// StepParts is what a step's seconds consist of, averaged over devices.
type StepParts struct {
	Computing  float64 `json:"computing"`  // operations, recomputation included
	Recomputed float64 `json:"recomputed"` // the part of Computing that is computed again
	Tensor     float64 `json:"tensor"`     // exposed sums and gathers of the T parts
	Pipeline   float64 `json:"pipeline"`   // exposed transfers between stages
	Bubble     float64 `json:"bubble"`     // waiting that the schedule and unequal stages cause
	Replicas   float64 `json:"replicas"`   // exposed sums of gradients and gathers of weights
	Optimizer  float64 `json:"optimizer"`  // the update, and clearing gradients
}

// Sum adds up the parts, without Recomputed, which is part of Computing.
func (p StepParts) Sum() float64 {
	return p.Computing + p.Tensor + p.Pipeline + p.Bubble + p.Replicas + p.Optimizer
}

// DeviceMemory is what a modelled device's peak consists of, in bytes.
type DeviceMemory struct {
	Weights     int64 `json:"weights"`
	Gradients   int64 `json:"gradients"`
	State       int64 `json:"state"`       // float32 copies of weights, and the optimiser's slots
	Activations int64 `json:"activations"` // kept for the backward: residuals and boundaries
	Workspace   int64 `json:"workspace"`   // within one task, with gathered weights of Zero 3
}

// Sum adds up the kinds: the peak.
func (m DeviceMemory) Sum() int64 {
	return m.Weights + m.Gradients + m.State + m.Activations + m.Workspace
}
