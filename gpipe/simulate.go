package gpipe

import (
	"errors"
	"fmt"
	"slices"

	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/internal/named"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// Modelling says how a simulation counts. The zero value: float32 activations, the
// paper's accounting, attention as in our kernel.
type Modelling struct {
	// DType is the type of activations and their gradients; parameters, their
	// gradients, optimiser state and statistics are float32, ids int32.
	DType      graph.DType
	Accounting Accounting
	// KeepScores makes attention write its probabilities and keep them for the
	// backward, as was usual before kernels that recompute them.
	KeepScores bool
	// Brief leaves out the breakdown of the step (Parts and Step), which takes four more replays
	// ([Simulation.Bubble] takes one), and on a cluster all times of a step that does not fit, or that is
	// sure to take longer than Enough seconds (0: any): its Seconds are 0.
	Brief  bool
	Enough float64
	// Costs keeps what layers cost on a cluster for other simulations; nil: it is not kept.
	Costs *Costs
	Parallel
}

// Accounting is what counts as a device's peak.
type Accounting uint8

const (
	// PaperAccounting counts as GPipe's Table 1 does: parameters and optimiser
	// state (12 bytes a parameter with two slots), and activations.
	PaperAccounting Accounting = iota
	// FullAccounting is all that is allocated: gradients too.
	FullAccounting
)

var accountings = [...]string{"paper", "full"}

func (a Accounting) String() string { return named.String(a, accountings[:], "Accounting") }

// ParseAccounting reads what String writes.
func ParseAccounting(s string) (Accounting, error) {
	return named.Parse[Accounting](s, accountings[:], "accounting")
}

// Simulation is a step on modelled devices: the programs, schedules, plans and clock
// are as on emulated devices, and the times come from a roofline.
type Simulation struct {
	Sizes     []int              // layers of each partition, or of each piece of the network
	Placement schedule.Placement // where these are; zero: one on each device, in order
	Note      string
	// Seconds, Timeline and Parts, the breakdown, are of a step, or of a window of several mini-batches.
	Seconds  float64
	Timeline *timeline.Timeline
	Parts    clock.Parts
	Window   int // the number of mini-batches: 1, but with asynchronous schedules
	// Devices lists the devices of one replica, or, if replicas have micro-batches of different
	// sizes, of one of each kind; so are the timeline's. Of a divided update, each stage is
	// from the replica that updates most of it.
	Devices []DeviceEstimate
	// ReduceSeconds and UpdateSeconds are the longest of a stage.
	ReduceSeconds, UpdateSeconds float64
	Step                         StepParts // what Seconds consists of
	// Recomputed is, of each piece, how many of the mini-batch's examples have their forward function
	// run again; of a window, of one of its mini-batches, rounded down.
	Recomputed []int

	times *Times // of a brief simulation
}

// DeviceEstimate is one modelled device; of a stage in parts (Pipeline.Spatial), that of the
// first, except that PeakBytes is the fullest one's.
type DeviceEstimate struct {
	ParamBytes      int64   `json:"param_bytes"`      // parameters and optimiser state, as the paper counts (12 bytes a parameter for two slots)
	ActivationBytes int64   `json:"activation_bytes"` // boundary stash, residuals and workspace
	PeakBytes       int64   `json:"peak_bytes"`       // as the accounting counts
	BusySeconds     float64 `json:"busy_seconds"`     // F, R and B
	BoundaryBytes   int64   `json:"boundary_bytes"`   // the first part of the activations
	ResidualBytes   int64   `json:"residual_bytes"`   // the second: of the micro-batches in flight without recomputation, or of the one that is recomputed
	WorkspaceBytes  int64   `json:"workspace_bytes"`  // the third
	GradientBytes   int64   `json:"gradient_bytes"`   // float32 accumulators
	// Versions of the weights that an asynchronous schedule keeps, in ParamBytes, and by how many
	// updates the oldest is behind when its gradient is applied. 0: all updates are synchronous.
	Versions  int   `json:"versions,omitempty"`
	Staleness int   `json:"staleness,omitempty"`
	Capacity  int64 `json:"capacity_bytes"` // of the accelerator

	Memory DeviceMemory `json:"memory,omitzero"` // what the peak consists of

	// Footprints are what a micro-batch holds of each chunk, in bytes, if its F keeps its
	// residuals and its B is in two; without the input, which has a slot throughout.
	Footprints []schedule.Footprint `json:"-"`

	kept []micro // of a micro-batch, for each chunk
}

// Fits reports whether the plan fits the accelerator's memory.
func (d DeviceEstimate) Fits() bool { return d.Capacity == 0 || d.PeakBytes <= d.Capacity }

// Simulate plans the pipeline and runs one step on the virtual clock. A plan
// that exceeds a capacity is not an error: see Fits.
func (p Pipeline) Simulate(in Input, how Modelling) (*Simulation, error) {
	if how.Parallel.Used() {
		c, err := p.cluster(in, how)
		if err != nil {
			return nil, err
		}
		return c.simulate()
	}
	n, err := p.modelled(in, how)
	if err != nil {
		return nil, err
	}
	return simulated(n, how)
}

// modelled is the network on modelled devices, planned and compiled.
func (p Pipeline) modelled(in Input, how Modelling) (*plan.Network, error) {
	if len(p.Devices) == 0 || p.Devices[0].Kind != Modelled {
		return nil, errors.New("simulation runs on modelled devices only")
	}
	if how.Parallel.Used() {
		return nil, errors.New("a cluster is not planned without its step: want Simulate")
	}
	if in.Examples == 0 {
		return nil, errors.New("a simulation trains: want a mini-batch of examples")
	}
	if p.TiedGradients == GatherTied {
		return nil, errors.New("gathered gradients of tied tables on modelled devices: want devices that compute, or reduced ones")
	}
	for _, d := range p.Devices {
		if a := d.Accelerator; a != nil && a.Rate(how.DType) == 0 {
			return nil, fmt.Errorf("%s has no rate for %v: want activations of another dtype", a.Name, how.DType)
		}
	}
	p.ShardUpdate = p.ShardUpdate || how.Zero == 1
	return plan.New(p.config(), in, how.storage(p.Devices[0].Accelerator))
}

// storage is how values are stored in the accelerator's memory.
func (how Modelling) storage(a *accelerator.Accelerator) program.Storage {
	return program.Storage{DType: how.DType, NoPacking: !a.Packing, KeepScores: how.KeepScores}
}

func simulated(n *plan.Network, how Modelling) (*Simulation, error) {
	// One of the replicas that are alike stands for all of them.
	alike := n.Alike()
	var portions []plan.Portion
	for _, of := range alike {
		portions = append(portions, *of.Portions[plan.Training])
	}
	times := newTimes(n, portions, togetherOf(n, alike))
	s := &Simulation{Sizes: n.Sizes, Placement: n.OwnPlacement(), Note: n.Note, Window: max(n.Window, 1), Recomputed: recomputed(n, alike)}
	for i, planned := range n.FullestPlans(alike) {
		s.Devices = append(s.Devices, estimate(planned, n.Devices[planned.At.Stage].Capacity, how.Accounting))
		if n.Asynchronous() {
			s.Devices[i].Versions, s.Devices[i].Staleness = planned.Versions(), schedule.Staleness(portions[0].Lists[planned.At.Stage])
		}
		for _, piece := range n.Pieces.On(planned.At.Stage) {
			at := n.Pieces.At(planned.At.Replica, piece)
			t := model(n, planned, at, &portions[i/n.Partitions], how.DType)
			addLinks(n, &t, at, nil)
			s.ReduceSeconds, s.UpdateSeconds = max(s.ReduceSeconds, t.Reduce+t.Gather), max(s.UpdateSeconds, t.Update)
			for _, u := range t.U {
				s.UpdateSeconds = max(s.UpdateSeconds, u)
			}
			times.Stages = append(times.Stages, t)
		}
	}
	return s, s.replay(times, how)
}

// replay sets all that comes from the virtual clock.
func (s *Simulation) replay(times *Times, how Modelling) error {
	step, err := times.Run()
	if err != nil {
		return err
	}
	s.Timeline, s.Seconds = step.Timeline(), step.Span()
	for k, busy := range step.Busy() {
		s.Devices[k].BusySeconds = busy
	}
	if how.Brief {
		s.times = times
		times.Boundary = nil // which holds all programs, and a bubble has free links
		return nil
	}
	s.Parts, err = step.Breakdown()
	return err
}

// Bubble is Parts.Bubble in seconds, also of a brief simulation. One that has left out the times of a
// step gets its Seconds and Timeline first.
func (s *Simulation) Bubble() (float64, error) {
	if s.times == nil {
		return s.Parts.Bubble, nil
	}
	if s.Seconds == 0 {
		if err := s.replay(s.times, Modelling{Brief: true}); err != nil {
			return 0, err
		}
	}
	return s.times.Bubble()
}

// recomputed counts the examples of all replicas that each piece recomputes.
func recomputed(n *plan.Network, alike []plan.Replicas) []int {
	examples := make([]int, n.Pieces.Len())
	before := 0
	for _, of := range alike {
		portion := of.Portions[plan.Training]
		for k, list := range portion.Lists {
			for _, t := range list {
				if t.Kind == schedule.Recompute {
					examples[n.Pieces.On(k)[t.Chunk]] += (of.To - before) * portion.Sizes[t.Micro]
				}
			}
		}
		before = of.To
	}
	for i := range examples {
		examples[i] /= max(n.Window, 1)
	}
	return examples
}

// estimate is the estimate of a device with the given plan.
func estimate(planned *Plan, capacity int64, how Accounting) DeviceEstimate {
	est := DeviceEstimate{
		ParamBytes:    planned.Bytes[Parameters] + planned.Bytes[OptimizerState],
		GradientBytes: planned.Bytes[Gradients],
		BoundaryBytes: planned.Bytes[Boundary], ResidualBytes: planned.Bytes[Residuals], WorkspaceBytes: planned.Bytes[Workspace],
		Capacity: capacity,
		Memory: DeviceMemory{
			Weights: planned.Bytes[Parameters], Gradients: planned.Bytes[Gradients], State: planned.Bytes[OptimizerState],
			Activations: planned.Bytes[Boundary] + planned.Bytes[Residuals], Workspace: planned.Bytes[Workspace],
		},
	}
	for _, slots := range planned.Chunks {
		var of micro
		for s, floats := range map[program.Space]*int64{program.Residual: &of.residual, program.Lasting: &of.lasting, program.Between: &of.between} {
			if len(slots[s]) > 0 {
				*floats = int64(slots[s][0].Span)
			}
		}
		est.Footprints = append(est.Footprints, schedule.Footprint{Residuals: float64(plan.FloatBytes * (of.residual + of.lasting)), Weights: float64(plan.FloatBytes * (of.lasting + of.between))})
		if len(planned.Chunks) == 1 && of.between == 0 {
			of = micro{residual: 1} // only their number counts
		}
		est.kept = append(est.kept, of)
	}
	est.ActivationBytes = est.BoundaryBytes + est.ResidualBytes + est.WorkspaceBytes
	est.PeakBytes = est.ParamBytes + est.ActivationBytes
	if how == FullAccounting {
		est.PeakBytes = planned.Peak
	}
	for _, part := range planned.Parts { // which may have a row more than the first
		est.PeakBytes = max(est.PeakBytes, estimate(part, capacity, how).PeakBytes)
	}
	return est
}

// model times a chunk's tasks, for a replica's portion, by the roofline.
func model(n *plan.Network, plan *Plan, at place.Place, of *plan.Portion, dt graph.DType) StageTimes {
	k := at.Stage
	a := n.Devices[k].Accelerator
	t := newStageTimes(len(of.Sizes))
	for m, size := range of.Sizes {
		if m > 0 && size == of.Sizes[m-1] {
			t.F[m], t.R[m], t.B[m] = t.F[m-1], t.R[m-1], t.B[m-1]
			if t.I != nil {
				t.I[m], t.W[m] = t.I[m-1], t.W[m-1]
			}
			t.meet(timeline.Forward, m, slices.Clone(t.Meetings(schedule.Task{Kind: schedule.Forward, Micro: m - 1})), 1)
			t.meet(timeline.Backward, m, slices.Clone(t.Meetings(schedule.Task{Kind: schedule.Backward, Micro: m - 1})), 1)
			continue
		}
		st := of.Programs[m][n.Pieces.Piece(at)]
		if n.Spatial > 1 { // nothing meets, and no B is in two
			d := divided{a, dt, n.Spatial, size}
			keep, backward := d.kept(st)
			t.F[m], t.R[m], t.B[m] = d.seconds(d.forward(st)), d.seconds(keep), d.seconds(backward)
			continue
		}
		t.F[m] = a.Seconds(st.Forward, dt)
		t.R[m] = a.Seconds(st.Keep.Again(), dt)
		t.B[m] = a.Seconds(st.Backward, dt)
		t.meet(timeline.Forward, m, modelMeetings(a, st.Forward, dt), 1)
		backward := st.Backward
		if st.Input != nil { // all meetings are in I
			backward = st.Input
			t.add(timeline.BackwardInput, m, a.Seconds(st.Input, dt))
			t.add(timeline.BackwardWeights, m, a.Seconds(st.Weights, dt))
		}
		t.meet(timeline.Backward, m, modelMeetings(a, backward, dt), 1)
	}
	if at.Chunk > 0 { // what is the device's is counted with its first chunk
		return *t
	}
	// Setup clears the gradients. The update reads everything and writes all but them.
	t.Setup = a.Moving(accelerator.Clear, plan.ClearBytes())
	t.Update = a.Moving(accelerator.Update, plan.UpdateBytes())
	if n.Asynchronous() {
		t.modelUpdates(a, plan, of.Lists[k])
		return *t
	}
	if last := len(of.Ends) - 1; last > 0 {
		t.Groups = make([]float64, len(of.Sizes))
		for g, end := range of.Ends[:last] {
			if !of.GroupIsEmpty(g) { // its gradients and a sum are read, the sum is written, and they are cleared
				t.Groups[end-1] = a.Moving(accelerator.Update, 3*n.GradientBytes(k)) + a.Moving(accelerator.Clear, plan.ClearBytes())
			}
		}
	}
	return *t
}

// modelUpdates times the updates within a list, in place of the one after it. Those that stash the
// version that they replace copy it, and all but the last clear the gradients.
func (t *StageTimes) modelUpdates(a *accelerator.Accelerator, plan *Plan, list []schedule.Task) {
	t.U = make([]float64, len(t.F))
	slots, _ := schedule.WeightSlots(list)
	for i, task := range list {
		if task.Kind != schedule.Update {
			continue
		}
		u := &t.U[task.Micro]
		*u = t.Update
		if slots[i] > 0 {
			*u += a.Moving(accelerator.Update, plan.StashBytes())
		}
		if i < len(list)-1 {
			*u += a.Moving(accelerator.Clear, plan.ClearBytes())
		}
	}
	t.Update = 0
}

// LayerEstimate is the cost of one layer on a modelled device, for the largest
// micro-batch.
type LayerEstimate struct {
	Forward, Recompute, Backward float64 // seconds; the last layer includes the loss
	Input, Weights               float64 // the parts of Backward, if the schedule has it in two
	Residual                     int64   // bytes that its backward needs

	timings layerTimings // since the seconds of layers do not add up to those of a stage, where a host starts operations
}

// layerTimings are what the seconds of a layer, or of several, come from.
type layerTimings struct{ forward, recompute, backward, input, weights accelerator.Timing }

func (t layerTimings) estimate(residual int64) LayerEstimate {
	return LayerEstimate{
		Forward: t.forward.Seconds(), Recompute: t.recompute.Seconds(), Backward: t.backward.Seconds(),
		Input: t.input.Seconds(), Weights: t.weights.Seconds(), Residual: residual, timings: t,
	}
}

func (t *layerTimings) add(o layerTimings) {
	t.forward.Add(o.forward)
	t.recompute.Add(o.recompute)
	t.backward.Add(o.backward)
	t.input.Add(o.input)
	t.weights.Add(o.weights)
}

// Together returns what consecutive layers cost as one stage.
func Together(layers []LayerEstimate) (sum LayerEstimate) {
	for _, l := range layers {
		sum.Forward, sum.Recompute, sum.Backward = sum.Forward+l.Forward, sum.Recompute+l.Recompute, sum.Backward+l.Backward
		sum.Input, sum.Weights, sum.Residual = sum.Input+l.Input, sum.Weights+l.Weights, sum.Residual+l.Residual
		sum.timings.add(l.timings)
	}
	if sum.timings != (layerTimings{}) {
		return sum.timings.estimate(sum.Residual)
	}
	return sum
}

// LayerSeconds are the times that layers add to a stage in a mode, as costs to cut by.
func LayerSeconds(layers []LayerEstimate, mode schedule.Checkpoint) []float64 {
	costs := make([]float64, len(layers))
	for i, l := range layers {
		if mode == schedule.Never {
			l.Recompute = 0
		}
		costs[i] = l.Forward + l.Recompute + l.Backward
	}
	return costs
}

// onOne plans the whole network on the first of the modelled devices, for the examples of in
// as one micro-batch.
func (p Pipeline) onOne(in Input, how Modelling) (*plan.Network, error) {
	p.Partitions, p.Chunks, p.Balance, p.Costs = 1, 1, []int{len(p.Layers)}, nil
	p.Tasks, p.Placement = nil, schedule.Placement{} // which has one piece of the network
	p.Window = 0
	switch {
	case p.Schedule == schedule.Interleaved || p.Schedule.Asynchronous():
		p.Schedule = schedule.OneFOneB
	case p.Schedule >= schedule.ZBV:
		p.Schedule = schedule.ZBH1
	}
	p.Devices = p.Devices[:min(1, len(p.Devices))]
	p.Replicas, p.Groups, p.Spatial, p.MicroBatches, p.BatchNormScope = 1, 1, 1, 1, ReplicaScope
	return p.modelled(in, how)
}

// ModelLayers times every layer on the first of the modelled devices, or, if its images are
// divided over parts, on as many of them.
func (p Pipeline) ModelLayers(in Input, how Modelling) ([]LayerEstimate, error) {
	if how.Parallel.Used() {
		c, err := p.cluster(in, how)
		if err != nil {
			return nil, err
		}
		return c.estimates(), nil
	}
	in.Examples = p.largestMicroBatch(in.Examples)
	n, err := p.onOne(in, how)
	if err != nil {
		return nil, err
	}
	if p.Spatial > 1 {
		return p.modelParts(n.ProgramsFor(in.Examples, plan.Training)[0], in.Examples, how.DType, len(n.Layers))
	}
	return (&Compiled{n, in, how}).Layers(n.Devices[0].Accelerator), nil
}

// largestMicroBatch is how many of a mini-batch's examples the largest micro-batch has; each group has M.
func (p Pipeline) largestMicroBatch(examples int) int {
	for _, parts := range []int{max(p.Groups, p.Replicas, 1), max(p.MicroBatches, 1)} {
		examples = (examples + parts - 1) / parts
	}
	return examples
}

// modelParts is ModelLayers for a stage of some layers whose images are divided over the pipeline's parts.
func (p Pipeline) modelParts(st *program.Stage, examples int, dt graph.DType, count int) ([]LayerEstimate, error) {
	d := divided{p.Devices[0].Accelerator, dt, p.Spatial, examples}
	keep, backward := d.kept(st)
	first, err := st.Divide(p.Spatial, nil)
	if err != nil {
		return nil, err
	}
	layers := make(timedLayers, count)
	add := func(p dividedProgram, to func(*layerTimings) *accelerator.Timing) {
		for i, e := range p.instrs {
			to(layers.at(p.layers[i])).Add(accelerator.Timing{Operations: e.InTurns(), Issue: p.issues[i]})
		}
	}
	add(d.forward(st), func(l *layerTimings) *accelerator.Timing { return &l.forward })
	add(keep, func(l *layerTimings) *accelerator.Timing { return &l.recompute })
	add(backward, func(l *layerTimings) *accelerator.Timing { return &l.backward })
	return layers.estimates(first.Saved), nil
}

// timedLayers are the timings of a network's layers.
type timedLayers []layerTimings

// at is a layer's; the loss is the last one's.
func (t timedLayers) at(layer int) *layerTimings { return &t[min(layer, len(t)-1)] }

// estimates are what layers cost that keep saved floats of residuals for their backward.
func (t timedLayers) estimates(saved map[int]int) []LayerEstimate {
	residuals := make([]int64, len(t))
	for layer, floats := range saved {
		residuals[min(layer, len(t)-1)] += int64(floats) * plan.FloatBytes
	}
	all := make([]LayerEstimate, len(t))
	for i, of := range t {
		all[i] = of.estimate(residuals[i])
	}
	return all
}

// togetherOf is how many of the replicas meet that stand for all that are alike: all of
// them if replicas that are not alike meet, since those wait longest, else each by itself.
func togetherOf(n *plan.Network, alike []plan.Replicas) int {
	for _, of := range alike {
		if of.To%n.Together() != 0 {
			return len(alike)
		}
	}
	return 1
}
