package plan

import (
	"cmp"
	"fmt"
	"os"
	"reflect"
	"slices"

	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/internal/named"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/schedule"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// Config is what plans depend on: a gpipe.Pipeline, which says what the fields are, without
// what only a run needs.
type Config struct {
	Layers []nn.Layer
	Loss   nn.Loss

	Partitions, MicroBatches int
	Schedule                 schedule.Schedule
	Window                   int
	Checkpoint               schedule.Checkpoint
	LateRecompute            bool
	Devices                  []Device
	Evaluating, Predicting   Input
	Cut
	Replication
	Numerics

	InProcess bool // replicas read each other's gradients where they lie
}

// Cut says how the layers are cut over the devices. The zero value: by their FLOPs, into one
// partition for each device, in order.
type Cut struct {
	// Balance is the number of layers of each partition, or, with several chunks on a device,
	// of each piece of the network, in their order. If it is nil,
	// Partitioner cuts the layers by Costs (nil: FLOPs of the layers).
	Balance     []int
	Partitioner partition.Partitioner
	Costs       []float64

	// Chunks is V, the number of pieces of the network that each device has; 0 means as many
	// as the schedule has: one or two, and two of interleaved, which may have any number.
	Chunks int
	// Tasks, if not nil, returns the stages' lists for a mini-batch and its
	// micro-batches, in place of Schedule, Checkpoint and LateRecompute. They must have the
	// properties that package schedule lists, and no stages may wait for each other in a
	// circle: both are checked before anything runs. Mini-batches of fewer micro-batches,
	// such as the one at an epoch's end, must not hold more than the largest ones.
	//
	// If Placement says that devices have several pieces, or a task is I or W, the lists
	// have a group's micro-batches, and must be what schedule.Verify accepts; groups of
	// fewer take them without the tasks of the micro-batches that they lack.
	Tasks func(stages, micro int) [][]schedule.Task
	// Placement says which device has which piece of the network, with Tasks; zero: each has
	// one, in order.
	Placement schedule.Placement
}

// Numerics decides what is computed, whatever it runs on.
type Numerics struct {
	// DType is the type of activations and their gradients on devices that compute: F32, or
	// BF16, where the result of every operation is rounded and stored in two bytes.
	// Parameters, accumulators, statistics, losses and the update stay float32, and so do
	// the sums of products, whose operands are rounded. Modelled devices take theirs from
	// Modelling.
	DType graph.DType

	Seed      uint64
	Optimizer nn.Optimizer  // nil: plain SGD
	LR        nn.LRSchedule // nil: 0.1, constant
	Rates     []Rate        // of the parameters' learning rates: the first with a parameter's path counts; else the factor is 1
	ClipNorm  float64       // largest global norm of the gradient; 0: no clipping
	L2        float64       // added to the gradient, times the weight; 0: none
	EMA       nn.EMA        // an average of the weights to evaluate with (Trainer.Averaged); zero: none

	// AllowNonFinite turns off the errors for NaN or infinite losses and gradients.
	AllowNonFinite bool
}

// Input describes the mini-batches that a pipeline is opened for.
type Input struct {
	Examples        int          // N of the largest mini-batch; 0: none will come
	Inputs, Targets []graph.Type // of one example: shapes without the leading dimension
}

// InputOf describes a batch, and others no larger than it.
func InputOf(b nn.Batch) Input {
	in := Input{Examples: b.Examples()}
	of := func(ts []nn.Tensor) (types []graph.Type) {
		for _, t := range ts {
			dt := graph.F32
			if t.I32 != nil {
				dt = graph.I32
			}
			types = append(types, graph.Type{Shape: slices.Clone(t.Shape[1:]), DType: dt})
		}
		return types
	}
	in.Inputs, in.Targets = of(b.Inputs), of(b.Targets)
	return in
}

// Accepts checks mini-batches against what the pipeline was opened for.
func (n *Network) Accepts(got Input, what Purpose) error {
	want := n.largestInput(what)
	switch {
	case want.Examples == 0:
		return fmt.Errorf("%v: the pipeline was not opened for any: want its largest mini-batch in %s", what, [...]string{"Open's Input", "Pipeline.Evaluating", "Pipeline.Predicting"}[what])
	case got.Examples > want.Examples:
		return fmt.Errorf("a mini-batch of %d examples: want at most %d, for which the pipeline was opened", got.Examples, want.Examples)
	case n.Spatial > 1 && !reflect.DeepEqual(got.Inputs, want.Inputs):
		return fmt.Errorf("images of shapes %v in parts: want %v, for which the pipeline was opened", got.Inputs, want.Inputs)
	case !within(got.Inputs, want.Inputs) || !within(got.Targets, want.Targets):
		return fmt.Errorf("examples of shapes %v, %v: want %v, %v or less, for which the pipeline was opened", got.Inputs, got.Targets, want.Inputs, want.Targets)
	}
	return nil
}

// OpensFor is the first of the mini-batches to train on, to evaluate and to predict
// that has examples.
func (p Config) OpensFor(in Input) Input {
	for _, next := range []Input{p.Evaluating, p.Predicting} {
		if in.Examples == 0 {
			in = next
		}
	}
	return in
}

// bytes is the size of a mini-batch in bytes.
func (in Input) bytes() (sum float64) {
	for _, t := range slices.Concat(in.Inputs, in.Targets) {
		sum += float64(float64(in.Examples) * elements(t.Shape) * FloatBytes)
	}
	return sum
}

// BatchOf returns the types of n examples: one example's types with a leading dimension added.
func BatchOf(types []graph.Type, n int) []graph.Type {
	out := make([]graph.Type, len(types))
	for i, t := range types {
		out[i] = graph.Type{Shape: append(graph.Shape{n}, t.Shape...), DType: t.DType}
	}
	return out
}

// WithDefaults fills in what a zero value stands for.
func (p Config) WithDefaults() Config {
	for _, n := range []*int{&p.Partitions, &p.MicroBatches, &p.Replicas, &p.Spatial, &p.Tensor, &p.Blocks} {
		*n = cmp.Or(*n, 1)
	}
	p.Groups = cmp.Or(p.Groups, p.Replicas)
	if len(p.Devices) == 0 {
		p.Devices = []Device{{}}
	}
	if len(p.Devices) == 1 {
		p.Devices = slices.Repeat(p.Devices, p.Partitions)
	}
	p.Optimizer, p.LR = cmp.Or[nn.Optimizer](p.Optimizer, nn.SGD{}), cmp.Or[nn.LRSchedule](p.LR, nn.ConstantLR(0.1))
	return p
}

// Asynchronous reports whether stages update within their lists.
func (p Config) Asynchronous() bool { return p.Tasks == nil && p.Schedule.Asynchronous() }

// WithoutState replaces the optimiser by one without state if nothing is trained.
func (p Config) WithoutState(in Input) Config {
	if in.Examples == 0 {
		p.Optimizer = nn.SGD{}
	}
	return p
}

// MicroBatchSizes splits n examples over m micro-batches; the first n mod m
// have one more. m larger than n counts as n, for the short mini-batch at an
// epoch's end.
func MicroBatchSizes(n, m int) []int { return evenly(n, min(m, n)) }

// evenly divides n into parts; the first n mod parts have one more.
func evenly(n, parts int) []int {
	sizes := make([]int, parts)
	for i := range sizes {
		sizes[i] = n / parts
		if i < n%parts {
			sizes[i]++
		}
	}
	return sizes
}

// within reports whether examples of types a fit where examples of types b do: the
// same kinds of tensors, in no dimension larger.
func within(a, b []graph.Type) bool {
	return slices.EqualFunc(a, b, func(a, b graph.Type) bool {
		return a.DType == b.DType && slices.EqualFunc(a.Shape, b.Shape, func(a, b int) bool { return a <= b })
	})
}

// stateSlots is the number of tensors of state that a parameter has. The average of the
// weights (EMA) is one more of the optimiser's.
func (n *Numerics) stateSlots() int {
	slots := len(n.Optimizer.Slots())
	if n.EMA.Kept() {
		slots++
	}
	return slots
}

// StateBytes is the size of the tensors of a training's state, in bytes.
func (p Config) StateBytes() (sum float64) {
	eachParam(p.Layers, func(_ int, q *nn.Param) {
		switch {
		case q.State:
			sum += float64(elements(q.Shape) * FloatBytes)
		case !q.Frozen:
			sum += float64(elements(q.Shape) * FloatBytes * float64(1+p.stateSlots()))
		}
	})
	return sum
}

// LeastBytes is the size of what devices hold of weights, gradients and the optimiser's
// state, however the network is cut.
func (p Config) LeastBytes(in Input) (sum float64) {
	copies := 1 // the weight
	if in.Examples > 0 {
		copies = 2 // and its gradient
	}
	state := float64(p.stateSlots())
	if p.ShardUpdate {
		state /= float64(p.Replicas)
	}
	eachParam(p.Layers, func(_ int, q *nn.Param) {
		if q.Frozen {
			sum += float64(elements(q.Shape) * FloatBytes * float64(p.Spatial))
			return
		}
		sum += float64(elements(q.Shape) * FloatBytes * (float64(copies+p.Spatial-1) + state))
	})
	return sum
}

// eachParam calls f with each parameter of the layers once, and with the first layer that
// lists it.
func eachParam(layers []nn.Layer, f func(layer int, q *nn.Param)) {
	seen := map[*nn.Param]bool{}
	for i, l := range layers {
		for _, q := range l.Params() {
			if !seen[q] {
				seen[q] = true
				f(i, q)
			}
		}
	}
}

// LargestBatch is the size in bytes of the largest mini-batch of any purpose.
func (p Config) LargestBatch(in Input) float64 {
	return max(in.bytes(), p.Evaluating.bytes(), p.Predicting.bytes())
}

// Kind is a kind of device.
type Kind uint8

const (
	// Host computes and is timed by the wall clock. K host devices overlap
	// only as far as there are cores.
	Host Kind = iota
	// Emulated computes the same bits, one task at a time so that each is
	// timed alone, and its clock is virtual: the schedule's dependencies are
	// replayed with the measured times. It stands for K accelerators on fewer
	// cores. While a step runs the process's garbage collector is off (see
	// pauseCollector).
	Emulated
	// Modelled computes nothing: it has shapes only, and a roofline as its clock.
	Modelled
)

var kinds = [...]string{"host", "emulated", "modelled"}

func (k Kind) String() string { return named.String(k, kinds[:], "Kind") }

// ParseKind reads what String writes.
func ParseKind(s string) (Kind, error) { return named.Parse[Kind](s, kinds[:], "device") }

// Device describes what one partition runs on.
type Device struct {
	Kind     Kind
	Threads  int   // workers of its kernels; 0 means 1
	Capacity int64 // bytes of memory; 0 means no limit
	// Overcommit enforces the capacity at run time instead of comparing it with the
	// plan: the memory after it is protected, and the first access to that fails with
	// an *OutOfMemoryError. For host devices on unix systems, with a capacity that is
	// a multiple of the page size.
	Overcommit bool
	// Link carries boundary tensors, on emulated and modelled devices. The zero value
	// takes no time.
	Link        clock.Link
	Accelerator *accelerator.Accelerator // of a modelled device
}

// DeviceOf is a modelled device of an accelerator's kind, with its memory as
// capacity and its link as it is reached.
func DeviceOf(a *accelerator.Accelerator) Device {
	return Device{Kind: Modelled, Accelerator: a, Capacity: a.Memory, Link: a.Hop()}
}

func (d Device) Workers() int { return max(d.Threads, 1) }

func (d Device) validate() error {
	switch {
	case int(d.Kind) >= len(kinds):
		return fmt.Errorf("unknown kind %d: want host, emulated or modelled", d.Kind)
	case d.Threads < 0 || d.Threads > MaxThreads:
		return fmt.Errorf("%d threads: want 1 to %d", d.Threads, MaxThreads)
	case d.Capacity < 0:
		return fmt.Errorf("a capacity of %d bytes: want a positive one, or 0 for no limit", d.Capacity)
	case (d.Kind == Modelled) != (d.Accelerator != nil):
		return fmt.Errorf("a modelled device needs an accelerator, and no other has one")
	case d.Overcommit:
		return checkWall(d.Kind, d.Capacity)
	}
	return nil
}

// MaxThreads is the most threads that a device may have.
const MaxThreads = 256

// checkWall refuses a device or capacity that cannot be overcommitted.
func checkWall(kind Kind, capacity int64) error {
	page := int64(os.Getpagesize())
	switch {
	case kind != Host:
		return fmt.Errorf("an overcommitted capacity on a device of kind %v: want a host device", kind)
	case capacity < page || capacity%page != 0:
		return fmt.Errorf("an overcommitted capacity of %d bytes: want a multiple of the page size, %d", capacity, page)
	}
	return nil
}
