package gpipe

import (
	"gpipebench/gpipe/internal/arena"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/nn/program"
)

// Category is a part of a device's memory.
type Category uint8

const (
	Parameters     Category = iota // parameters and constant tables
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

// categoryOf says where programs' spaces lie in a device's memory.
var categoryOf = [program.Spaces]Category{
	program.Params: Parameters, program.Grads: Gradients,
	program.In: Boundary, program.Out: Boundary, program.DOut: Boundary, program.DIn: Boundary,
	program.Residual: Residuals, program.Lasting: Residuals, program.Between: Residuals, program.Statistics: Residuals,
	program.Workspace: Workspace,
}

const floatBytes = 4

// region is one category's piece of the arena. A space that exists once per
// micro-batch in flight has several slots.
type region struct {
	base, span int // in floats
}

// Plan is the memory of one device, fixed before anything runs.
type Plan struct {
	At place.Place // the place that has the memory
	// Bytes is the extent of each category. Peak is that of all, the bytes that are
	// allocated: the sum plus less than a cache line for each category.
	Bytes [Categories]int64
	Peak  int64
	// Parts are the plans of the stage's parts after the first, whose memory is the rest of
	// this plan (Pipeline.Spatial).
	Parts []*Plan

	regions [Categories]region
	chunks  []spaces // of each of the device's pieces of the network
	state   [][]int  // per optimiser slot and parameter: offset in its region
	discard int      // where a recomputation's output goes, in the workspace

	elsewhere int // elements of weights that other replicas update
	normed    int // elements of weights whose norms the optimiser reads and this replica sums

	widest    *program.Program // the one that needs the largest workspace
	widestFor purpose
}

// spaces are the slots of programs' spaces. All chunks of a device share the workspace,
// which is the first one's, as are the sums of groups.
type spaces [program.Spaces][]slotPlace

// slotPlace is one slot of a space: its place in its category's region, in floats.
type slotPlace struct{ off, span int }

// planInput is what a device's plan depends on.
type planInput struct {
	chunks   []chunkInput
	keep     int   // workspace of the program that recomputation runs
	discard  int   // floats of output that recomputation throws away
	exchange int   // floats of workspace that the update needs
	params   []int // sizes of the trained parameters
	state    int   // tensors of the optimiser's state for each

	widest    *program.Program // the one that needs the largest workspace
	widestFor purpose
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

func newPlan(in planInput) *Plan {
	p := &Plan{widest: in.widest, widestFor: in.widestFor, chunks: make([]spaces, len(in.chunks))}
	workspace := &in.chunks[0].slots[program.Workspace][0]
	if in.discard > 0 {
		// After everything that Keep has in the workspace.
		p.discard = program.AlignUp(in.keep)
		*workspace = max(*workspace, p.discard+in.discard)
	}
	*workspace = max(*workspace, in.exchange)

	var sizes [Categories][]int
	var of [Categories][]*[]slotPlace
	for chunk := range in.chunks {
		for s, slots := range in.chunks[chunk].slots {
			c := categoryOf[s]
			for _, span := range slots {
				sizes[c] = append(sizes[c], span)
				of[c] = append(of[c], &p.chunks[chunk][s])
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
		p.Bytes[c] = int64(span) * floatBytes
		for i, slots := range of[c] {
			*slots = append(*slots, slotPlace{offsets[i], sizes[c][i]})
		}
		if c == OptimizerState {
			for n := len(in.params); len(offsets) > 0; offsets = offsets[n:] {
				p.state = append(p.state, offsets[:n])
			}
		}
	}
	bases, total := program.Layout(spans)
	for c := range Categories {
		p.regions[c] = region{bases[c], spans[c]}
	}
	p.Peak = int64(total) * floatBytes
	return p
}

// memory is a device's arena and what has been used of it.
type memory struct {
	plan  *Plan
	parts [Categories][]float32
	high  [Categories]int // floats, the furthest that anything has reached
	free  func() error

	walled []float32 // of an overcommitted device: the arena and the protected memory after it
}

// slot is the memory of one slot of a chunk's space.
func (m *memory) slot(chunk int, s program.Space, i int) []float32 {
	p := m.plan.chunks[chunk][s][i]
	return m.parts[categoryOf[s]][p.off : p.off+p.span : p.off+p.span]
}

// touch records that a slot of a chunk's space has been used up to the float end.
func (m *memory) touch(chunk int, s program.Space, slot, end int) {
	c := categoryOf[s]
	if end += m.plan.chunks[chunk][s][slot].off; end > m.high[c] {
		m.high[c] = end
	}
}

// highWater is what the run has used so far, by category and in all, measured by the
// furthest address reached.
func (m *memory) highWater() (used highWater) {
	for c := range Categories {
		used.Bytes[c] = int64(m.high[c]) * floatBytes
		if m.high[c] > 0 {
			used.Peak = max(used.Peak, int64(m.plan.regions[c].base+m.high[c])*floatBytes)
		}
	}
	return used
}

// allocate maps exactly the planned bytes.
func allocate(p *Plan, h hooks) (*memory, error) {
	m := &memory{plan: p, free: func() error { return nil }}
	if h.allocate != nil {
		for c := range Categories {
			m.parts[c] = h.allocate(c, p.regions[c].span)
		}
		return m, nil
	}
	all, free, err := arena.Map(int(p.Peak / floatBytes))
	if err != nil {
		return nil, err
	}
	m = newMemory(p, all)
	m.free = free
	return m, nil
}

// newMemory cuts an arena into its regions.
func newMemory(p *Plan, all []float32) *memory {
	m := &memory{plan: p}
	for c := range Categories {
		r := p.regions[c]
		m.parts[c] = all[r.base : r.base+r.span : r.base+r.span]
	}
	return m
}

// hooks let the package's tests observe and change a run.
type hooks struct {
	poison       bool                                             // fill what is free with NaN
	allocate     func(c Category, n int) []float32                // instead of one arena
	panicOnFault bool                                             // memory faults become errors
	lists        [][]schedule.Task                                // of every training step, whatever the schedule
	bound        func(r *chunkRun, kind timeline.Kind, micro int) // sees a timed task's slots
	inTask       func(stage int, kind timeline.Kind, micro int)   // runs inside every timed task
	inKernel     func(in *program.Instr)                          // runs inside the time of every kernel that is watched
}
