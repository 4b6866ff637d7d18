// Package gpipe trains a sequence of layers cut into K partitions on K devices,
// as GPipe does (Huang et al. 2019): every mini-batch of N examples is split
// into M micro-batches that flow through the partitions as a pipeline,
// activations are recomputed in the backward pass, and one synchronous update
// is applied per mini-batch.
//
// The result does not depend on how the network is run: after n steps the weights
// have the same bits for every K, partition, schedule, checkpoint mode, device
// kind and number of threads, and, for networks without statistics across
// examples, for every M.
//
// [Pipeline] describes a run, [Pipeline.Open] plans and allocates it, and
// [Trainer.Step] executes one mini-batch. [Pipeline.Simulate] plans and times
// the same programs on modelled accelerators without any arithmetic.
package gpipe

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/transport"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// Pipeline is what GPipe's interface requires (section 2.1): the layers, the number
// of partitions K and the number of micro-batches M. The zero value of every other
// field is a documented default.
type Pipeline struct {
	Layers []nn.Layer
	Loss   nn.Loss

	Partitions   int // K; 0 means 1
	MicroBatches int // M, of each group; 0 means 1. It need not divide the group: sizes differ by at most one

	// Replicas is R, the number of copies of the pipeline, each with its own part of
	// every mini-batch and its own K devices; 0 means 1. Groups is G: a mini-batch is cut
	// into that many consecutive groups of examples, whose gradients are added up by a
	// fixed tree (package reduction), so the bits depend on G and not on R; 0 means R.
	// R divides G, and G/R is a power of two; or R is 1.
	Replicas, Groups int
	// ShardUpdate divides the optimiser's state and the update over replicas: each updates
	// the weights whose sums it owns and hands them to the others. The bits stay.
	ShardUpdate bool
	// TiedGradients is how the gradients of tables that embeddings share with other layers
	// are added up. The bits do not depend on it.
	TiedGradients TableGradients
	// Spatial is S, the number of parts over which each stage divides images by their rows
	// (Kumar et al., arXiv 1909.09756, section 2): each has threads of its own and memory of its
	// own, in which are its rows, and all weights; the first has also everything else that the
	// stage has, and runs alone what cannot be divided. The bits do not depend on it. 0 means 1.
	Spatial int
	// BatchNormScope is whose examples batch norm takes its statistics from.
	BatchNormScope Scope
	// AllReduce is how replicas' links are modelled, on emulated and modelled devices.
	AllReduce AllReduce

	Schedule schedule.Schedule // gpipe (fill-drain) or another
	// Chunks is V, the number of pieces of the network that each device has; 0 means as many
	// as the schedule has: one or two, and two of interleaved, which may have any number.
	Chunks     int
	Checkpoint schedule.Checkpoint // always, except-last or never
	// LateRecompute makes recomputation wait for the output gradient. By
	// default it starts earlier (section 2.3), one micro-batch ahead.
	LateRecompute bool
	// Tasks, if not nil, returns the stages' lists for a mini-batch of so many
	// micro-batches, in place of Schedule, Checkpoint and LateRecompute. They must have the
	// properties that package schedule lists, and no stages may wait for each other in a
	// circle: both are checked before anything runs. Mini-batches of fewer micro-batches,
	// such as the one at an epoch's end, must not hold more than the largest ones.
	//
	// If Placement says that devices have several pieces, or a task is I or W, the lists are
	// those of a group's micro-batches, and must be what schedule.Verify accepts; groups of
	// fewer take them without the tasks of the micro-batches that they lack.
	Tasks func(stages, micro int) [][]schedule.Task
	// Placement says which device has which piece of the network, with Tasks; zero: each has
	// one, in order.
	Placement schedule.Placement

	// Balance is the number of layers of each partition, or, with several chunks on a device,
	// of each piece of the network, in their order. If it is nil,
	// Partitioner cuts the layers by Costs (nil: FLOPs of the layers).
	Balance     []int
	Partitioner partition.Partitioner
	Costs       []float64

	// Devices has one entry, which describes the devices of all partitions, or K.
	// Nil means host devices with one thread and no capacity.
	Devices []Device

	// DType is that of activations and their gradients on devices that compute: F32, or
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

	// Transport connects the processes that run the pipeline together. Each process
	// opens the same pipeline with its own end, and makes the same calls with the same
	// mini-batches. Nil: this process runs all stages. An implementation of your own must
	// pass package transporttest, on which the guarantees depend.
	Transport transport.Transport

	// Evaluating and Predicting describe the largest mini-batches that will be
	// evaluated and predicted, so that the memory plan has room for them. Without
	// examples: none, and the trainer refuses them. Predictions have no targets.
	Evaluating, Predicting Input

	// RecordsReductions adds to the timelines of host devices how each tensor is added up over
	// replicas (timeline.Reduction). Otherwise, these are left out: the record grows with the
	// number of messages.
	RecordsReductions bool

	// KeepsState says that this process keeps a copy of the training's state, as package
	// snapshot does. It lies outside of the devices' memory, and counts where that of the
	// machine is checked.
	KeepsState bool

	// AllowNonFinite turns off the errors for NaN or infinite losses and gradients.
	AllowNonFinite bool

	testing hooks
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

// opensFor is the first of the mini-batches to train on, to evaluate and to predict
// that has examples.
func (p Pipeline) opensFor(in Input) Input {
	for _, next := range []Input{p.Evaluating, p.Predicting} {
		if in.Examples == 0 {
			in = next
		}
	}
	return in
}

// BatchOf returns the types of n examples: those of one with a leading dimension.
func BatchOf(types []graph.Type, n int) []graph.Type {
	out := make([]graph.Type, len(types))
	for i, t := range types {
		out[i] = graph.Type{Shape: append(graph.Shape{n}, t.Shape...), DType: t.DType}
	}
	return out
}

func (p Pipeline) withDefaults() Pipeline {
	if p.Partitions == 0 {
		p.Partitions = 1
	}
	if p.MicroBatches == 0 {
		p.MicroBatches = 1
	}
	if p.Replicas == 0 {
		p.Replicas = 1
	}
	if p.Groups == 0 {
		p.Groups = p.Replicas
	}
	if p.Spatial == 0 {
		p.Spatial = 1
	}
	if len(p.Devices) == 0 {
		p.Devices = []Device{{}}
	}
	if len(p.Devices) == 1 {
		p.Devices = slices.Repeat(p.Devices, p.Partitions)
	}
	if p.Optimizer == nil {
		p.Optimizer = nn.SGD{}
	}
	if p.LR == nil {
		p.LR = nn.ConstantLR(0.1)
	}
	return p
}

// withoutState replaces the optimiser by one without state if nothing is trained.
func (p Pipeline) withoutState(in Input) Pipeline {
	if in.Examples == 0 {
		p.Optimizer = nn.SGD{}
	}
	return p
}

// Validate reports the first thing that cannot be run, and what would be accepted.
func (p Pipeline) Validate(in Input) error {
	if p.Partitions < 0 {
		return fmt.Errorf("%d partitions: want 1 to %d, the number of layers", p.Partitions, len(p.Layers))
	}
	in = p.opensFor(in)
	if p.MicroBatches < 0 {
		return fmt.Errorf("%d micro-batches: want 1 to %d, the mini-batch", p.MicroBatches, in.Examples)
	}
	if p.Partitions > max(len(p.Layers), 1) {
		return fmt.Errorf("%d partitions of %d layers: want at most one partition a layer", p.Partitions, len(p.Layers))
	}
	if p.Chunks < 0 || p.Chunks > MaxTasks {
		return fmt.Errorf("%d chunks on each device: want 1 to %d, the number of layers", p.Chunks, len(p.Layers))
	}
	if n := len(p.Devices); n > 1 && n != max(p.Partitions, 1) {
		return fmt.Errorf("%d devices for %d partitions: want one for each, or one that stands for all", n, max(p.Partitions, 1))
	}
	p = p.withDefaults()
	switch {
	case len(p.Layers) == 0:
		return fmt.Errorf("no layers: want at least one")
	case p.Loss == nil:
		return fmt.Errorf("no loss: want one such as nn.CrossEntropy{}, or your own that ends with Trace.EndLoss")
	case in.Examples < 1 || in.Examples > MaxExamples:
		return fmt.Errorf("a mini-batch of %d examples: want 1 to %d", in.Examples, MaxExamples)
	case p.Evaluating.Examples < 0 || p.Evaluating.Examples > MaxExamples || p.Predicting.Examples < 0 || p.Predicting.Examples > MaxExamples:
		return fmt.Errorf("mini-batches of %d examples to evaluate, %d to predict: want 0 to %d", p.Evaluating.Examples, p.Predicting.Examples, MaxExamples)
	case p.MicroBatches > in.Examples:
		return fmt.Errorf("%d micro-batches of a mini-batch of %d: want at most one micro-batch an example", p.MicroBatches, in.Examples)
	case p.DType != graph.F32 && p.DType != graph.BF16:
		return fmt.Errorf("activations of type %v: want f32 or bf16", p.DType)
	case p.DType != graph.F32 && p.Devices[0].Kind == Modelled:
		return fmt.Errorf("activations of type %v for devices that compute: want the type of modelled ones in Modelling", p.DType)
	case !(p.ClipNorm >= 0) || math.IsInf(p.ClipNorm, 0):
		return fmt.Errorf("clipping at norm %v: want a positive norm, or 0 for none", p.ClipNorm)
	case !(p.L2 >= 0) || math.IsInf(p.L2, 0):
		return fmt.Errorf("L2 of %v: want 0 or more", p.L2)
	}
	if err := p.validateGroups(in); err != nil {
		return err
	}
	if err := p.validateScope(); err != nil {
		return err
	}
	pieces := max(p.Partitions, p.Partitions*p.Chunks)
	if tasks := p.MicroBatches * p.Groups; tasks > MaxTasks/pieces {
		return fmt.Errorf("%d micro-batches on %d partitions: want a product of at most %d", tasks, pieces, MaxTasks)
	}
	if err := schedule.Check(p.Schedule, p.Partitions, p.MicroBatches, p.Checkpoint); err != nil {
		return err
	}
	tooMany := func() error {
		return fmt.Errorf("%d chunks on %d devices of %d layers: want at most one chunk a layer", pieces, p.Partitions, len(p.Layers))
	}
	if pieces > len(p.Layers) {
		return tooMany()
	}
	lists, placed, err := p.wholeLists()
	if err != nil {
		return err
	}
	if err := p.validateParts(in, lists); err != nil {
		return err
	}
	if pieces = placed.Stages(); pieces > len(p.Layers) {
		return tooMany()
	}
	if p.Partitioner > partition.Block {
		return fmt.Errorf("unknown partitioner %v: want min-max, min-variance, lingvo or block", p.Partitioner)
	}
	if err := p.Optimizer.Validate(); err != nil {
		return err
	}
	if err := p.EMA.Validate(); err != nil {
		return err
	}
	if p.Balance != nil {
		if err := partition.CheckBalance(p.Balance, len(p.Layers), pieces); err != nil {
			return err
		}
	}
	if p.Costs != nil && len(p.Costs) != len(p.Layers) {
		return fmt.Errorf("%d costs for %d layers: want one for each", len(p.Costs), len(p.Layers))
	}
	seen := map[string]bool{}
	owner := map[string]*nn.Param{}
	for i, l := range p.Layers {
		if l == nil {
			return fmt.Errorf("layer %d of %d is nil: want an nn.Layer", i, len(p.Layers))
		}
		if seen[l.Name()] {
			return fmt.Errorf("two layers named %q: want names of their own, since they key parameters and random numbers", l.Name())
		}
		seen[l.Name()] = true
		for _, q := range l.Params() {
			path := nn.ScopeOf(l) + "/" + q.Name
			if other := owner[path]; other != nil && other != q {
				return fmt.Errorf("two parameters with the path %s: want paths of their own, since they key initial values", path)
			}
			owner[path] = q
		}
	}
	if err := p.checkRates(owner); err != nil {
		return err
	}
	if p.TiedGradients == GatherTied && !p.shares() {
		return errNoTiedTable
	}
	for i, d := range p.Devices {
		if err := d.validate(); err != nil {
			return fmt.Errorf("device %d: %w", i, err)
		}
		if d.Kind != p.Devices[0].Kind {
			return fmt.Errorf("devices of kinds %v and %v in one pipeline: want one kind", p.Devices[0].Kind, d.Kind)
		}
		if d.Link != p.Devices[0].Link {
			return fmt.Errorf("devices with different links: want one kind of link")
		}
	}
	return nil
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

func (k Kind) String() string { return kinds[k] }

// ParseKind reads what String writes.
func ParseKind(s string) (Kind, error) {
	if i := slices.Index(kinds[:], s); i >= 0 {
		return Kind(i), nil
	}
	return 0, fmt.Errorf("unknown device %q: want %s", s, strings.Join(kinds[:], ", "))
}

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

func (d Device) threads() int { return max(d.Threads, 1) }

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
