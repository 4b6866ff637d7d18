package schedule

import (
	"fmt"
	"math"
	"slices"
)

// Wanted is a schedule to be searched: what it must do, how long tasks take, and how much
// memory a device may have.
type Wanted struct {
	Place  Placement
	Micro  int
	Times  Durations   // R is not used, since every F keeps its residuals
	Memory []Footprint // of a micro-batch of each stage, in any unit; one: all stages are alike
	// Always is what each device holds besides, in the unit of Memory; nil: nothing.
	Always []float64
	Limit  float64 // the most that a device may hold, in the unit of Memory
	// Makespan looks for the shortest [Times.Makespan], what a step takes if no device begins the
	// next one before all have ended, in place of the shortest [Times.Longest].
	Makespan bool
	Seed     uint64 // of the local search
	// Patience is how many schedules each part of the search tries without a better one before
	// it ends; 0: as many as suit the size.
	Patience int
}

// Found is a schedule within its limit.
type Found struct {
	Lists [][]Task
	Times *Times
	From  string // the schedule that the local search began with
	Tried int    // schedules, those of the local search included
}

// tasksTried is how many tasks a part of the search runs on a virtual clock without a better
// schedule, unless it is told how many schedules to try: a few seconds.
const tasksTried = 12e6

// mostPatience bounds it for small schedules.
const mostPatience = 5000

// Search looks for the schedule with the shortest time whose [Peak] is within
// the limit on every device; there is one if each device has room for a micro-batch of all its
// stages, and otherwise an error. It builds schedules greedily under many rules, takes those
// of the generators that are placed the same way and fit (those that do not split B with B
// split), and improves the best of all by moving tasks within lists as long as they are
// legal. It finds a good schedule and proves nothing about better ones but
// [Wanted.Least]. The same arguments give the same schedule.
//
// The greedy rules are in the spirit of Qi et al., arXiv 2401.10241, section 3.1.
func Search(w Wanted) (*Found, error) {
	if err := w.check(); err != nil {
		return nil, err
	}
	s := &searching{Wanted: w, chunks: w.Place.Chunks(), bound: w.Least()}
	for d := range s.chunks {
		of := make([]Footprint, len(s.chunks[d]))
		for c := range of {
			of[c] = w.memory(s.chunks[d][c])
		}
		s.footprints = append(s.footprints, of)
	}
	least := 0.0 // of one micro-batch at a time: the last F of a device comes before its first I
	for d, of := range s.footprints {
		held := w.always(d)
		for _, f := range of {
			held += f.Input + f.Residuals
		}
		least = max(least, held)
	}
	if least > w.Limit*(1+1e-9) {
		return nil, fmt.Errorf("schedule: no schedule of %d micro-batches on %d devices within a limit of %g: want %g or more", w.Micro, w.Place.Devices, w.Limit, least)
	}
	s.generators()
	s.greedy()
	s.local()
	if err := Verify(s.best.Lists, w.Place, w.Micro); err != nil {
		return nil, err
	}
	return &s.best, nil
}

func (w Wanted) check() error {
	if err := w.Place.Check(); err != nil {
		return err
	}
	if w.Micro < 1 {
		return fmt.Errorf("schedule: %d micro-batches: want 1 or more", w.Micro)
	}
	for _, n := range []int{len(w.Times.Stages), len(w.Memory)} {
		if n != 1 && n != w.Place.Stages() {
			return fmt.Errorf("schedule: times or memory of %d stages: want those of %d, or of one for all", n, w.Place.Stages())
		}
	}
	if n := len(w.Always); n > 0 && n != w.Place.Devices {
		return fmt.Errorf("schedule: memory that %d devices always hold: want that of %d, or none", n, w.Place.Devices)
	}
	all := append(slices.Clone(w.Always), w.Times.Comm, w.Limit)
	for _, d := range w.Times.Stages {
		all = append(all, d.F, d.I, d.W)
	}
	for _, m := range w.Memory {
		all = append(all, m.Input, m.Residuals, m.Weights)
	}
	for _, x := range all {
		if !(x >= 0) || math.IsInf(x, 1) {
			return fmt.Errorf("schedule: %g among times, memory and limit: want numbers from 0", x)
		}
	}
	for _, m := range w.Memory {
		if held := m.Input + m.Residuals; m.Weights > held {
			return fmt.Errorf("schedule: %g held for W, of %g held for I: want no more", m.Weights, held)
		}
	}
	return nil
}

// memory returns a stage's footprint.
func (w Wanted) memory(stage int) Footprint {
	if len(w.Memory) == 1 {
		return w.Memory[0]
	}
	return w.Memory[stage]
}

// room is what a device may hold of micro-batches, but for rounding.
func (w Wanted) room(device int) float64 { return float64(w.Limit*(1+1e-9)) - w.always(device) }

// always is what a device holds besides.
func (w Wanted) always(device int) float64 {
	if w.Always == nil {
		return 0
	}
	return w.Always[device]
}

// Least is a time that no schedule with stages in these places can be below, whatever its memory:
// the work of a device; and all F and I of one, after the first F has come to its first stage and
// before the last I has come from there to the first device, which has a W then.
func (w Wanted) Least() (least float64) {
	way, first, m := 0.0, w.Times.Of(0), float64(w.Micro)
	ways := make([]float64, w.Place.Stages()) // to each stage and back
	for s := range ways {
		ways[s] = way
		d := w.Times.Of(s)
		hop := d.F + d.I
		if s+1 < len(ways) && w.Place.Device[s] != w.Place.Device[s+1] {
			hop += 2 * w.Times.Comm
		}
		way += hop
	}
	for _, stages := range w.Place.Chunks() {
		var passes, weights float64
		for _, s := range stages {
			d := w.Times.Of(s)
			passes, weights = passes+(d.F+d.I), weights+d.W
		}
		least = max(least, m*(passes+weights), float64(m*passes)+ways[stages[0]]+first.W)
	}
	return least
}

// searching is a search's state.
type searching struct {
	Wanted
	chunks     [][]int
	footprints [][]Footprint
	best       Found
	cost       cost    // of best
	bound      float64 // Least
}

// cost orders schedules: by the longest span or the makespan, then by that of all devices together, which
// shows a way where the longest does not.
type cost struct{ longest, sum float64 }

func (c cost) below(o cost) bool {
	return c.longest < o.longest-1e-9 || c.longest <= o.longest+1e-9 && c.sum < o.sum-1e-9
}

// run returns a schedule's times; false: tasks wait for each other.
func (s *searching) run(lists [][]Task) (*Times, cost, bool) {
	times, err := Run(lists, s.Place, s.Micro, s.Times)
	if err != nil {
		return nil, cost{}, false
	}
	c := cost{longest: times.Longest()}
	if s.Makespan {
		c.longest = times.Makespan()
	}
	for d := range times.End {
		c.sum += times.End[d][len(times.End[d])-1] - times.Start[d][0]
	}
	return times, c, true
}

// fits reports whether every device is within the limit, but for rounding.
func (s *searching) fits(lists [][]Task) bool {
	for d, list := range lists {
		if Peak(list, s.footprints[d]) > s.room(d) {
			return false
		}
	}
	return true
}

// offer takes a schedule if it fits and is better than the best.
func (s *searching) offer(from string, lists [][]Task) {
	s.best.Tried++
	if lists == nil || !s.fits(lists) {
		return
	}
	times, c, ok := s.run(lists)
	if ok && (s.best.Lists == nil || c.below(s.cost)) {
		s.best.Lists, s.best.Times, s.best.From, s.cost = lists, times, from, c
	}
}

// generators offers what they make, with every B split into I and W.
func (s *searching) generators() {
	devices := s.Place.Devices
	stages := s.Place.Stages()
	for _, name := range Names() {
		if stages%devices != 0 {
			break
		}
		lists, place, err := Generate(name, devices, stages/devices, s.Micro)
		if err != nil || !slices.Equal(place.Device, s.Place.Device) {
			continue
		}
		s.offer(name, Split(Checkpointed(lists, Never, false)))
	}
}

// Split are lists with I, and W directly after it, in place of every B.
func Split(lists [][]Task) [][]Task {
	all := make([][]Task, len(lists))
	for d, list := range lists {
		for _, t := range list {
			if t.Kind == Backward {
				t.Kind = BackwardInput
				all[d] = append(all[d], t)
				t.Kind = BackwardWeights
			}
			all[d] = append(all[d], t)
		}
	}
	return all
}
