package plan

import (
	"slices"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/nn/program"
)

// Category is a part of a device's memory.
type Category uint8

const (
	Parameters     Category = iota // parameters and constant tables, with asynchronous schedules in several versions
	Gradients                      // one accumulator for each use of a parameter, and the sums of groups
	OptimizerState                 // the optimiser's slots, and the weights' average
	Boundary                       // tensors at the partition's edges: inputs kept until their B, gradients, outputs not yet sent
	Residuals                      // what a backward needs from its forward, and statistics over replicas
	Workspace                      // everything that lives within one task, packing buffers included
	Categories                     // their number
)

func (c Category) String() string {
	return [...]string{"parameters", "gradients", "optimiser state", "boundary stash", "residuals", "workspace"}[c]
}

// CategoryOf says where programs' spaces lie in a device's memory.
var CategoryOf = [program.Spaces]Category{
	program.Params: Parameters, program.Grads: Gradients,
	program.In: Boundary, program.Out: Boundary, program.DOut: Boundary, program.DIn: Boundary,
	program.Residual: Residuals, program.Lasting: Residuals, program.Between: Residuals, program.Statistics: Residuals,
	program.Workspace: Workspace,
}

// FloatBytes is the size of a float32.
const FloatBytes = 4

// tallyBytes is a channel's part of a tally: count, mean and sum of squared
// deviations in float64.
const tallyBytes = 3 * 8

// Region is one category's piece of the arena. A space that exists once per
// micro-batch in flight has several slots.
type Region struct {
	Base, Span int // in floats
}

// Plan is the memory of one device, fixed before anything runs.
type Plan struct {
	At place.Place // the place that has the memory
	// Bytes is the extent of each category. Peak is the extent of all, the bytes that are
	// allocated: the sum plus less than a cache line for each category.
	Bytes [Categories]int64
	Peak  int64
	// Parts are the plans of the stage's parts after the first, whose memory is the rest of
	// this plan (Pipeline.Spatial).
	Parts []*Plan

	Regions [Categories]Region
	Chunks  []Spaces // of each of the device's pieces of the network
	State   [][]int  // per optimiser slot and parameter: offset in its region
	Discard int      // where a recomputation's output goes, in the workspace

	Elsewhere int // elements of weights that other replicas update
	Normed    int // elements of weights whose norms the optimiser reads and this replica sums

	widest    *program.Program // the one that needs the largest workspace
	widestFor Purpose
}

// ClearBytes is how many bytes clearing the gradients moves.
func (p *Plan) ClearBytes() (bytes float64) {
	for _, chunk := range p.Chunks {
		bytes += float64(float64(chunk[program.Grads][0].Span) * FloatBytes)
	}
	return bytes
}

// UpdateBytes is how many bytes an update moves: parameters and optimiser state are
// read and written, gradients read. What other replicas update of a divided update is
// not touched. For a layer-wise optimiser parameters and gradients are read once more
// before, for their norms: with one group all of them, else what the replica owns.
func (p *Plan) UpdateBytes() float64 {
	params := p.Bytes[Parameters]
	if p.Versions() > 1 {
		params = p.versionBytes()
	}
	return float64(2*(params+p.Bytes[OptimizerState])) + p.ClearBytes() +
		float64(float64(2*p.Normed-3*p.Elsewhere)*FloatBytes)
}

// Versions is how many versions of the weights the device holds at once: one, but with
// asynchronous schedules.
func (p *Plan) Versions() int { return len(p.Chunks[0][program.Params]) }

// versionBytes is the size of one of several versions.
func (p *Plan) versionBytes() int64 { return int64(p.Chunks[0][program.Params][0].Span) * FloatBytes }

// StashBytes is how many bytes U moves to keep the version that it replaces.
func (p *Plan) StashBytes() float64 { return float64(2 * p.versionBytes()) }

// Spaces are the slots of programs' spaces. All chunks of a device share the workspace,
// which is the first one's, as are the sums of groups.
type Spaces [program.Spaces][]SlotPlace

// SlotPlace is one slot of a space: its place in its category's region, in floats.
type SlotPlace struct{ Off, Span int }

// planInput is what a device's plan depends on.
type planInput struct {
	chunks   []chunkInput
	keep     int   // workspace of the program that recomputation runs
	discard  int   // floats of output that recomputation throws away
	exchange int   // floats of workspace that the update needs
	params   []int // sizes of the trained parameters
	state    int   // tensors of the optimiser's state for each

	widest    *program.Program // the one that needs the largest workspace
	widestFor Purpose
}

// chunkInput is what one of a device's pieces of the network needs.
type chunkInput struct {
	slots [program.Spaces][]int // floats of each slot of a space
}

// workspace makes the device's workspace at least so large.
func (in *planInput) workspace(floats int) { in.chunks[0].hold(program.Workspace, 0, floats) }

// hold makes a slot of a space at least as large as a program needs it.
func (in *chunkInput) hold(s program.Space, slot, floats int) {
	for len(in.slots[s]) <= slot {
		in.slots[s] = append(in.slots[s], 0)
	}
	in.slots[s][slot] = max(in.slots[s][slot], floats)
}

// holdAlong makes the slots of a space as large as a list's micro-batches need them, each of
// which holds one from its task that takes to its task that frees.
func (in *chunkInput) holdAlong(list []schedule.Task, s program.Space, count int, takes, frees func(schedule.Task) bool, of func(micro int) *program.Stage) {
	held := NewHolders(count)
	for _, t := range list {
		if takes(t) {
			in.hold(s, held.Take(t.Micro), of(t.Micro).Span[s])
		}
		if frees(t) {
			held.Free(t.Micro)
		}
	}
}

// keep makes room for what a list's micro-batches keep for their backward functions.
func (in *chunkInput) keep(list []schedule.Task, of func(micro int) *program.Stage) {
	held := schedule.Holds(list)
	in.holdAlong(list, program.Residual, held.Residuals, schedule.Task.MakesResiduals, schedule.Task.FreesResiduals, of)
	if of(0).Input == nil {
		return
	}
	in.holdAlong(list, program.Lasting, held.Lasting, schedule.Task.MakesResiduals, schedule.Task.Accumulates, of)
	is := func(kind schedule.Kind) func(schedule.Task) bool {
		return func(t schedule.Task) bool { return t.Kind == kind }
	}
	in.holdAlong(list, program.Between, held.Between, is(schedule.BackwardInput), is(schedule.BackwardWeights), of)
}

func newPlan(in planInput) *Plan {
	p := &Plan{widest: in.widest, widestFor: in.widestFor, Chunks: make([]Spaces, len(in.chunks))}
	workspace := &in.chunks[0].slots[program.Workspace][0]
	if in.discard > 0 {
		// After everything that Keep has in the workspace.
		p.Discard = program.AlignUp(in.keep)
		*workspace = max(*workspace, p.Discard+in.discard)
	}
	*workspace = max(*workspace, in.exchange)

	var sizes [Categories][]int
	var of [Categories][]*[]SlotPlace
	for chunk := range in.chunks {
		for s, slots := range in.chunks[chunk].slots {
			c := CategoryOf[s]
			for _, span := range slots {
				sizes[c] = append(sizes[c], span)
				of[c] = append(of[c], &p.Chunks[chunk][s])
			}
		}
	}
	for range in.state {
		sizes[OptimizerState] = append(sizes[OptimizerState], in.params...)
	}
	spans := make([]int, Categories)
	for c := range Categories {
		offsets, span := program.Layout(sizes[c])
		spans[c] = span
		p.Bytes[c] = int64(span) * FloatBytes
		for i, slots := range of[c] {
			*slots = append(*slots, SlotPlace{offsets[i], sizes[c][i]})
		}
		if c == OptimizerState {
			for n := len(in.params); len(offsets) > 0; offsets = offsets[n:] {
				p.State = append(p.State, offsets[:n])
			}
		}
	}
	bases, total := program.Layout(spans)
	for c := range Categories {
		p.Regions[c] = Region{bases[c], spans[c]}
	}
	p.Peak = int64(total) * FloatBytes
	return p
}

// Holders is the micro-batch that each slot of a space holds, or -1.
type Holders []int

// NewHolders returns slots that hold nothing.
func NewHolders(slots int) Holders {
	h := make(Holders, slots)
	for i := range h {
		h[i] = -1
	}
	return h
}

// Take gives micro-batch m the first slot that is free.
func (h Holders) Take(m int) (slot int) {
	slot = h.Of(-1)
	if slot < 0 {
		panic("gpipe: more micro-batches in flight than planned")
	}
	h[slot] = m
	return slot
}

// Of is the slot that holds micro-batch m.
func (h Holders) Of(m int) (slot int) { return slices.Index(h, m) }

// Free gives the slot of micro-batch m back.
func (h Holders) Free(m int) { h[h.Of(m)] = -1 }
