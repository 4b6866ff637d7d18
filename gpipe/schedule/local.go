package schedule

import "math/rand/v2"

// patience is how many schedules a part of the search tries without a better one before it
// ends.
func (s *searching) patience() int {
	if s.Patience > 0 {
		return s.Patience
	}
	return min(mostPatience, int(tasksTried/float64(3*s.Place.Stages()*s.Micro)))
}

// perfect reports whether no schedule can be shorter.
func (s *searching) perfect() bool { return s.cost.longest <= s.bound*(1+1e-12) }

// local moves single tasks within the list of a device, and keeps what is no worse, until
// that has not helped for long or nothing can be better.
func (s *searching) local() {
	random := rand.New(rand.NewPCG(s.Seed, 2))
	devices := s.Place.Devices
	for left := s.patience(); left > 0 && !s.perfect(); left-- {
		d := random.IntN(devices)
		if random.IntN(2) == 0 {
			d = s.slowest()
		}
		list := s.best.Lists[d]
		from := random.IntN(len(list))
		to := from + (1+random.IntN(3*devices))*(1-2*random.IntN(2))
		if to < 0 || to >= len(list) {
			continue
		}
		moved := move(list, from, to, len(s.chunks[d]))
		s.best.Tried++
		if moved == nil || Peak(moved, s.footprints[d]) > s.room(d) {
			continue
		}
		s.best.Lists[d] = moved
		times, c, ok := s.run(s.best.Lists)
		if ok && !s.cost.below(c) {
			if c.longest < s.cost.longest*(1-1e-6) {
				left = s.patience()
			}
			s.best.Times, s.cost = times, c
		} else {
			s.best.Lists[d] = list
		}
	}
}

// slowest is the device with the longest time from its first task to the end of its last.
func (s *searching) slowest() (device int) {
	longest := -1.0
	for d, ends := range s.best.Times.End {
		if span := ends[len(ends)-1] - s.best.Times.Start[d][0]; span > longest {
			device, longest = d, span
		}
	}
	return device
}

// move is a list with a task moved to another place. Those of its kind and chunk are
// counted anew, so that they stay in order; nil: an I would come before its F, or a W
// before its I.
func move(list []Task, from, to, chunks int) []Task {
	moved := make([]Task, 0, len(list))
	for i, t := range list {
		if i == from {
			continue
		}
		if len(moved) == to {
			moved = append(moved, list[from])
		}
		moved = append(moved, t)
	}
	if len(moved) == to {
		moved = append(moved, list[from])
	}
	done := make([][len(letters)]int, chunks)
	for i := range moved {
		t := &moved[i]
		c := &done[t.Chunk]
		t.Micro = c[t.Kind]
		c[t.Kind]++
		if c[BackwardInput] > c[Forward] || c[BackwardWeights] > c[BackwardInput] {
			return nil
		}
	}
	return moved
}
