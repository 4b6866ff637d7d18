package plan

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"path"
	"slices"
	"strings"

	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/schedule"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
	"gpipebench/nn/trace"
)

// Validate is gpipe.Pipeline.Validate: it reports the first thing that cannot be run, and what would be accepted.
func (p Config) Validate(in Input) (err error) {
	defer Misfit(&err) // of a constructor, which Params raises
	if p.Partitions < 0 {
		return fmt.Errorf("%d partitions: want 1 to %d, the number of layers", p.Partitions, len(p.Layers))
	}
	in = p.OpensFor(in)
	if p.MicroBatches < 0 {
		return fmt.Errorf("%d micro-batches: want 1 to %d, the mini-batch", p.MicroBatches, in.Examples)
	}
	if p.Partitions > max(len(p.Layers), 1) {
		return fmt.Errorf("%d partitions of %d layers: want at most one partition a layer (embedding, stem and classifier are layers as well)", p.Partitions, len(p.Layers))
	}
	if p.Chunks < 0 || p.Chunks > MaxTasks {
		return fmt.Errorf("%d chunks on each device: want 1 to %d, the number of layers", p.Chunks, len(p.Layers))
	}
	if n := len(p.Devices); n > 1 && n != max(p.Partitions, 1) {
		return fmt.Errorf("%d devices for %d partitions: want one for each, or one that stands for all", n, max(p.Partitions, 1))
	}
	p = p.WithDefaults()
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
	if err := cmp.Or(p.validateGroups(in), p.validateScope(), p.validateWindow()); err != nil {
		return err
	}
	pieces := max(p.Partitions, p.Partitions*p.Chunks)
	if tasks := p.MicroBatches * p.Groups * max(p.Window, 1); tasks > MaxCells/pieces {
		return fmt.Errorf("%d micro-batches on %d partitions: want a product of at most %d", tasks, pieces, MaxCells)
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
	splits := p.Schedule.Splits()
	placed, err := schedule.Place(p.Schedule.String(), p.Partitions, p.Chunks, p.MicroBatches)
	if p.Tasks != nil || p.Asynchronous() { // of others the name says all that is asked here
		var lists [][]schedule.Task
		lists, placed, err = p.wholeLists()
		splits = schedule.Splits(lists)
	}
	if err != nil {
		return err
	}
	if err := p.validateParts(in, splits); err != nil {
		return err
	}
	if pieces = placed.Stages(); pieces > len(p.Layers) {
		return tooMany()
	}
	if p.Partitioner > partition.Block {
		return fmt.Errorf("unknown partitioner %v: want min-max, min-variance, lingvo or block", p.Partitioner)
	}
	if err := cmp.Or(p.Optimizer.Validate(), p.EMA.Validate()); err != nil {
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
	return p.validateTensor()
}

// validateGroups checks replicas and groups of a pipeline that has its defaults.
func (p Config) validateGroups(in Input) error {
	r, g := p.Replicas, p.Groups
	switch {
	case r < 1 || r > MaxReplicas:
		return fmt.Errorf("%d replicas: want 1 to %d", r, MaxReplicas)
	case g < 1:
		return fmt.Errorf("%d groups: want 1 or more", g)
	case g > in.Examples:
		return fmt.Errorf("%d groups of a mini-batch of %d: want at most one group an example", g, in.Examples)
	case g%r != 0 || r > 1 && bits.OnesCount(uint(g/r)) != 1:
		return fmt.Errorf("%d groups on %d replicas: want %d, %d, %d, ... groups (a power of two on each replica), or one replica, which takes any number", g, r, r, 2*r, 4*r)
	case p.AllReduce.Kind == reduction.Torus && r > 1 && p.AllReduce.Torus[0]*p.AllReduce.Torus[1] != r:
		if p.AllReduce.Torus == [2]int{} {
			return fmt.Errorf("a 2d all-reduce of %d replicas without a torus: want its sides, such as torus:1x%d", r, r)
		}
		return fmt.Errorf("a torus of %d x %d for %d replicas: want as many", p.AllReduce.Torus[0], p.AllReduce.Torus[1], r)
	case p.TiedGradients > GatherTied:
		return fmt.Errorf("unknown way %d of tied gradients: want reduce or gather", p.TiedGradients)
	case p.TiedGradients == GatherTied && p.ShardUpdate:
		return fmt.Errorf("gathered gradients of tied tables with divided updates: want one of them, since every replica adds up all gathered rows")
	case p.MicroBatches > in.Examples/g:
		return fmt.Errorf("%d micro-batches in each of %d groups of a mini-batch of %d: want at most one micro-batch an example", p.MicroBatches, g, in.Examples)
	}
	return nil
}

// validateScope checks the scope of a pipeline that has its defaults.
func (p Config) validateScope() error {
	n := p.Together()
	switch over := p.BatchNormScope; {
	case over < AllScope:
		return fmt.Errorf("unknown scope %d of batch norm: want replica, all or a number of replicas", int(over))
	case over == ReplicaScope:
	case p.Replicas%n != 0:
		return fmt.Errorf("batch norm over %d replicas of %d: want a number that divides them, or the scope replica", n, p.Replicas)
	case p.Groups != p.Replicas:
		return fmt.Errorf("batch norm over %s replicas with %d groups on %d replicas: want one group on each, that is %d groups or %d replicas, or the scope replica",
			over, p.Groups, p.Replicas, p.Replicas, p.Groups)
	}
	return nil
}

// validateWindow checks what asynchronous schedules need of a pipeline that has its defaults.
func (p Config) validateWindow() error {
	s := p.Schedule
	if !p.Asynchronous() {
		if p.Window != 0 {
			return fmt.Errorf("a window of %d mini-batches with updates by all stages together: want 0, or one of the schedules %s", p.Window, strings.Join(schedule.AsynchronousNames(), ", "))
		}
		return nil
	}
	switch {
	case p.Window < 1 || p.Window > MaxTasks:
		return fmt.Errorf("%v with a window of %d mini-batches: want 1 or more between two drains", s, p.Window)
	case p.ClipNorm > 0:
		return fmt.Errorf("%v with clipping at a global norm, which no stage knows when it updates: want 0", s)
	case p.Replicas > 1 || p.Groups > 1:
		return fmt.Errorf("%v with %d replicas and %d groups: want one of each, since each mini-batch has an update of its own", s, p.Replicas, p.Groups)
	case p.Spatial > 1:
		return fmt.Errorf("%v with %d parts of images: want 1", s, p.Spatial)
	case p.LateRecompute:
		return fmt.Errorf("%v with late recomputation: want early, or checkpoint mode never", s)
	case p.Chunks > 1:
		return fmt.Errorf("%v with %d chunks on each device: want 1", s, p.Chunks)
	case p.TiedGradients == GatherTied:
		return fmt.Errorf("%v with gathered gradients of tied tables: want reduced ones", s)
	case s == schedule.PipeDream2BW && p.MicroBatches < p.Partitions:
		return fmt.Errorf("%v with %d micro-batches on %d partitions: want as many micro-batches as partitions, or more", s, p.MicroBatches, p.Partitions)
	case s != schedule.PipeDream2BW && p.MicroBatches > 1:
		return fmt.Errorf("%v with %d micro-batches: want 1, since each mini-batch goes through the pipeline as a whole, or pipedream-2bw", s, p.MicroBatches)
	case s == schedule.PipeDreamNoStash && p.Checkpoint != schedule.Never:
		return fmt.Errorf("%v with checkpoint mode %v: want never, since B reads the residuals of the weights that F has read", s, p.Checkpoint)
	}
	return nil
}

// validateTies refuses a weight that stages update by themselves and share.
func (n *Network) validateTies() error {
	for i := range n.Params {
		p := &n.Params[i]
		if !p.Shared() {
			continue
		}
		if n.Divides() {
			return fmt.Errorf("%d parts and %d blocks of operations with %s on partitions %d and %d: want each weight on one partition, by another cut or a network that does not tie it",
				n.Tensor, n.Blocks, p.Path, p.Uses[0].Stage, p.Uses[len(p.Uses)-1].Stage)
		}
		if n.Asynchronous() {
			return fmt.Errorf("%v with %s on partitions %d and %d, which would update it at different times: want each weight on one partition, by another cut or a network that does not tie it",
				n.Schedule, p.Path, p.Uses[0].Stage, p.Uses[len(p.Uses)-1].Stage)
		}
	}
	return nil
}

// validateParts checks the number of parts of a pipeline that has its defaults, whose lists
// are given.
func (p Config) validateParts(in Input, splits bool) error {
	if p.Spatial < 1 || p.Spatial > MaxParts {
		return fmt.Errorf("%d parts of images: want 1 to %d", p.Spatial, MaxParts)
	}
	if p.Spatial == 1 {
		return nil
	}
	if p.Divides() {
		return fmt.Errorf("%d parts of images with %d parts and %d blocks of operations: want 1 of either", p.Spatial, p.Tensor, p.Blocks)
	}
	in = p.OpensFor(in)
	i := slices.IndexFunc(in.Inputs, func(t graph.Type) bool { return len(t.Shape) == 3 && t.DType == graph.F32 })
	switch {
	case i < 0:
		return fmt.Errorf("%d parts of images, and no input has images: want 1", p.Spatial)
	case in.Inputs[i].Shape[0] < p.Spatial:
		return fmt.Errorf("%d parts of images of %d rows: want a row for each at least", p.Spatial, in.Inputs[i].Shape[0])
	case p.DType != graph.F32:
		return fmt.Errorf("%d parts of images with activations of type %v: want f32, or 1", p.Spatial, p.DType)
	case p.wide():
		return fmt.Errorf("%d parts of images with batch norm over replicas: want the scope replica, or 1", p.Spatial)
	case splits:
		return fmt.Errorf("%d parts of images with a backward function in two: want a schedule without W, or 1", p.Spatial)
	case slices.ContainsFunc(p.Devices, func(d Device) bool { return d.Overcommit }):
		return fmt.Errorf("%d parts of images on overcommitted devices: want others, or 1", p.Spatial)
	}
	return nil
}

// Rate is a factor of the learning rate of some parameters.
type Rate struct {
	// Path is a parameter's path, or its first elements, such as "layer1" for everything
	// in that layer. An element may be a pattern, as of [path.Match]: "layer*/attention".
	Path string
	// Factor multiplies the learning rate; at least 0. With 0 the parameters are frozen:
	// they keep their bits, their gradients are computed and do not count in the norm that
	// is clipped, and their optimiser's state does not move.
	Factor float64
}

// Matches reports whether a rate is for the parameter with a path.
func (r Rate) Matches(param string) bool {
	pattern, elements := strings.Split(r.Path, "/"), strings.Split(param, "/")
	if len(pattern) > len(elements) {
		return false
	}
	for i, p := range pattern {
		if ok, err := path.Match(p, elements[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// rate is the factor of the learning rate of the parameter with a path.
func (n *Numerics) rate(param string) float64 {
	for _, r := range n.Rates {
		if r.Matches(param) {
			return r.Factor
		}
	}
	return 1
}

// checkRates refuses rates that no parameter has. owner has all parameters by path.
func (p Config) checkRates(owner map[string]*nn.Param) error {
	for i, r := range p.Rates {
		if !(r.Factor >= 0) || math.IsInf(r.Factor, 0) {
			return fmt.Errorf("rate %d, of %q: a factor of %v: want 0 or more", i, r.Path, r.Factor)
		}
		if _, err := path.Match(r.Path, ""); err != nil {
			return fmt.Errorf("rate %d: %q: %w: want a path whose elements are patterns such as layer*", i, r.Path, err)
		}
		used := false
		for param, q := range owner {
			used = used || !q.Frozen && r.Matches(param)
		}
		if !used {
			return fmt.Errorf("rate %d: no trained parameter's path begins with %q: want one such as %s", i, r.Path, p.somePath())
		}
	}
	return nil
}

// somePath is the path of the first trained parameter.
func (p Config) somePath() string {
	for _, l := range p.Layers {
		for _, q := range l.Params() {
			if !q.Frozen {
				return nn.ScopeOf(l) + "/" + q.Name
			}
		}
	}
	return "none, since nothing is trained"
}

var errNoTiedTable = errors.New("gathered gradients of tied tables: no embedding's table is that of another layer: want a network with a tied softmax, or reduced gradients")

// shares reports whether two layers have a parameter in common. Whether it is a table with
// rows and dense gradients, the compiled network tells.
func (p Config) shares() bool {
	owner := map[*nn.Param]int{}
	for i, l := range p.Layers {
		for _, q := range l.Params() {
			if other, ok := owner[q]; ok && other != i {
				return true
			}
			owner[q] = i
		}
	}
	return false
}

// Limits of what is planned. They are far beyond any machine, and keep counts of
// elements, bytes and FLOPs within 63 bits for any input.
const (
	MaxExamples = 1 << 24 // N, of a mini-batch
	MaxTasks    = 1 << 20 // K, V, or mini-batches of a window
	MaxCells    = 1 << 24 // K*M: each takes about 500 bytes to simulate

	maxTensor = 1 << 40 // elements of one tensor
	maxTotal  = 1 << 52 // elements of all tensors of a step
	maxFLOPs  = 1 << 61 // of a micro-batch's forward function
)

// MisfitError says that a network cannot run on micro-batches of the given size, or
// on examples of the given shapes. It is known from shapes alone.
type MisfitError struct{ Reason error }

func (e *MisfitError) Error() string {
	return fmt.Sprintf("the network does not fit its input: %v", e.Reason)
}

func (e *MisfitError) Unwrap() error { return e.Reason }

// Misfit, deferred by functions that trace layers, turns a *graph.Misuse panic into a
// *MisfitError: whether layers and input fit together depends on the input. Any other
// panic continues.
func Misfit(err *error) {
	switch v := recover().(type) {
	case nil:
	case *graph.Misuse:
		*err = &MisfitError{v}
	default:
		panic(v)
	}
}

// countable rejects stages whose element or FLOP counts could overflow. Each is
// traced for one of the given number of micro-batches.
func countable(layers []nn.Layer, storage program.Storage, stages []*trace.Stage, micro int) error {
	var total float64
	for k, st := range stages {
		var flops float64
		add := func(what string, s graph.Shape, times float64) error {
			size := elements(s)
			if size > maxTensor {
				return &MisfitError{fmt.Errorf("%s has shape %v: want at most %d elements", what, s, int64(maxTensor))}
			}
			total += float64(size * times)
			return nil
		}
		for i, p := range st.Params {
			if err := add(st.Function.Params[i].Name, p.Shape, 1); err != nil {
				return err
			}
		}
		for _, in := range slices.Concat(st.Function.In, st.Function.Feeds) {
			if err := add(in.Name, in.Shape, float64(micro)); err != nil {
				return err
			}
		}
		for _, c := range st.Function.Graph.Calls {
			where := layerName(layers, c.Layer) + ": a result of " + c.Name()
			for _, o := range c.Out {
				if err := add(where, o.Shape, float64(micro)); err != nil {
					return err
				}
			}
			hidden, each := c.Hidden()
			if hidden == nil {
				flops += float64(c.FLOPs())
				continue
			}
			flops += float64(each * elements(hidden))
			if storage.KeepScores {
				if err := add(where, hidden, float64(micro)); err != nil {
					return err
				}
			}
		}
		if flops > maxFLOPs {
			return &MisfitError{fmt.Errorf("stage %d: %.3g FLOPs for a micro-batch: want at most %d", k, flops, int64(maxFLOPs))}
		}
	}
	if total > maxTotal {
		return &MisfitError{fmt.Errorf("%.3g elements in a step's tensors: want at most %d", total, int64(maxTotal))}
	}
	return nil
}

// elements is Shape.Elems for shapes where that overflows.
func elements(s graph.Shape) float64 {
	n := 1.0
	for _, d := range s {
		n *= math.Max(float64(d), 0)
	}
	return n
}
