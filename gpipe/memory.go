package gpipe

import (
	"gpipebench/gpipe/internal/arena"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/timeline"
	"gpipebench/nn/program"
)

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
	p := m.plan.Chunks[chunk][s][i]
	return m.parts[plan.CategoryOf[s]][p.Off : p.Off+p.Span : p.Off+p.Span]
}

// touch records that a slot of a chunk's space has been used up to the float end.
func (m *memory) touch(chunk int, s program.Space, slot, end int) {
	c := plan.CategoryOf[s]
	if end += m.plan.Chunks[chunk][s][slot].Off; end > m.high[c] {
		m.high[c] = end
	}
}

// highWater is what the run has used so far, by category and in all, measured by the
// furthest address reached.
func (m *memory) highWater() (used highWater) {
	for c := range Categories {
		used.Bytes[c] = int64(m.high[c]) * plan.FloatBytes
		if m.high[c] > 0 {
			used.Peak = max(used.Peak, int64(m.plan.Regions[c].Base+m.high[c])*plan.FloatBytes)
		}
	}
	return used
}

// allocate maps exactly the planned bytes.
func allocate(p *Plan, h hooks) (*memory, error) {
	m := &memory{plan: p, free: func() error { return nil }}
	if h.allocate != nil {
		for c := range Categories {
			m.parts[c] = h.allocate(c, p.Regions[c].Span)
		}
		return m, nil
	}
	all, free, err := arena.Map(int(p.Peak / plan.FloatBytes))
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
		r := p.Regions[c]
		m.parts[c] = all[r.Base : r.Base+r.Span : r.Base+r.Span]
	}
	return m
}

// hooks let the package's tests observe and change a run.
type hooks struct {
	poison       bool                                                // fill what is free with NaN
	allocate     func(c Category, n int) []float32                   // instead of one arena
	panicOnFault bool                                                // memory faults become errors
	inTask       func(at place.Place, kind timeline.Kind, micro int) // runs inside every timed task
	inKernel     func(in *program.Instr)                             // runs inside the time of every kernel that is watched
}
