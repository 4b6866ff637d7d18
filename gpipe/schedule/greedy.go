package schedule

import (
	"math"
	"math/rand/v2"
	"slices"
)

// rule is how the greedy construction decides, for each device; one stage is on each.
type rule struct {
	ahead []int // micro-batches between F and I up to which F goes before I
	later []int // W that may be left for later; with more, W goes first
	// gap is the part of a W that must fit into the time until a device's next F or I is
	// known to be there, so that W is taken meanwhile; 0: always.
	gap float64
	// early is the part of an F that must fit into the time until the next I, so that F is
	// taken meanwhile; 0: always.
	early float64
}

// greedy offers schedules under many rules, and then under the best of them changed for
// single devices.
func (s *searching) greedy() {
	p, d := s.Place.Devices, s.Times.mean()
	way := d.F + d.I + 2*s.Times.Comm // of a micro-batch to the next device and back
	type trial struct {
		rule
		cost
	}
	var best trial
	try := func(r rule) bool {
		lists := s.build(r)
		s.best.Tried++
		if lists == nil || !s.fits(lists) {
			return false
		}
		times, c, ok := s.run(lists)
		if !ok {
			return false
		}
		if s.best.Lists == nil || c.below(s.cost) {
			s.best.Lists, s.best.Times, s.best.From, s.cost = lists, times, "greedy", c
		}
		if best.ahead == nil || !best.cost.below(c) {
			better := best.ahead == nil || c.below(best.cost)
			best = trial{r, c}
			return better
		}
		return false
	}
	// The F of a device that fill the time until its first I, and the W that fill the time
	// after its last one, follow from the way; memory may forbid them.
	for _, ahead := range ratios(way, d.F) {
		for _, later := range append(ratios(way, d.W), 0) {
			for more := range 3 {
				for _, gap := range []float64{0, 1} {
					for _, early := range []float64{0, 1} {
						r := rule{gap: gap, early: early}
						for at := range p {
							r.ahead = append(r.ahead, 1+int(math.Round(ahead*float64(p-1-at))))
							r.later = append(r.later, more+int(math.Round(later*float64(at))))
						}
						try(r)
					}
				}
			}
		}
	}
	if best.ahead == nil {
		return
	}
	random := rand.New(rand.NewPCG(s.Seed, 1))
	for left := s.patience(); left > 0 && !s.perfect(); left-- {
		r := rule{gap: best.gap, early: best.early, ahead: slices.Clone(best.ahead), later: slices.Clone(best.later)}
		for range 1 + random.IntN(2) {
			of, by := r.ahead, 1-2*random.IntN(2)
			if random.IntN(2) == 0 {
				of = r.later
			}
			// Of one device, or of neighbours.
			from := random.IntN(p)
			to := from + 1
			if random.IntN(2) == 0 {
				to += random.IntN(p - from)
			}
			for k := from; k < to; k++ {
				of[k] = max(0, of[k]+by)
			}
		}
		if try(r) {
			left = s.patience()
		}
	}
}

// mean returns the mean over the stages.
func (d Durations) mean() (m Duration) {
	for _, of := range d.Stages {
		n := float64(len(d.Stages))
		m.F, m.I, m.W = m.F+of.F/n, m.I+of.I/n, m.W+of.W/n
	}
	return m
}

// ratios are around a ratio of two times, and the small ones that generators have.
func ratios(of, by float64) []float64 {
	all := []float64{1, 2}
	if by > 0 {
		for _, part := range []float64{0.6, 0.8, 0.9, 1, 1.1, 1.25} {
			all = append(all, part*of/by)
		}
	}
	return all
}

// build runs devices on a virtual clock, each of which takes what the rule says as soon as
// it is free; nil: it came to nothing within the limit.
func (s *searching) build(r rule) [][]Task {
	p, m := s.Place.Devices, s.Micro
	type device struct {
		Duration
		held, weights, room float64
		free                float64 // when its last task ends
		f, i, w             int     // tasks done
		used                float64
		// when F and I of micro-batches end that have begun
		forward, input []float64
	}
	at := make([]device, p)
	lists := make([][]Task, p)
	for k := range lists {
		of := s.memory(k)
		at[k].Duration, at[k].held, at[k].weights, at[k].room = s.Times.Of(k), of.Input+of.Residuals, of.Weights, s.room(k)
		lists[k] = make([]Task, 0, 3*m)
	}
	// ready returns when the next F or I of a device can begin, as far as that is known.
	forward := func(k int) float64 {
		switch {
		case at[k].f == m:
			return math.Inf(1)
		case k == 0:
			return 0
		case at[k].f < len(at[k-1].forward):
			return at[k-1].forward[at[k].f] + s.Times.Comm
		}
		return math.Inf(1)
	}
	input := func(k int) float64 {
		switch {
		case at[k].i == at[k].f:
			return math.Inf(1)
		case k == p-1:
			return at[k].forward[at[k].i]
		case at[k].i < len(at[k+1].input):
			return at[k+1].input[at[k].i] + s.Times.Comm
		}
		return math.Inf(1)
	}
	// decide returns what a device does at a time, when it is free; none: it waits.
	decide := func(k int, now float64) (Kind, bool) {
		a := &at[k]
		f, i, left := forward(k), input(k), a.i-a.w
		room := a.used+a.held <= a.room
		if !room {
			f = math.Inf(1)
		}
		switch {
		case left > r.later[k]:
			return BackwardWeights, true
		case f <= now && a.f-a.i < r.ahead[k] && (i <= now || i-now >= r.early*a.F):
			return Forward, true
		case i <= now:
			return BackwardInput, true
		case left > 0 && (!room || min(f, i)-now >= r.gap*a.W):
			return BackwardWeights, true
		}
		return 0, false
	}
	now := 0.0
	for left := 3 * m * p; left > 0; {
		next := math.Inf(1) // when something may change
		for k := range at {
			a := &at[k]
			if a.free > now {
				next = min(next, a.free)
				continue
			}
			kind, ok := decide(k, now)
			if !ok {
				for _, t := range []float64{forward(k), input(k)} {
					if t > now {
						next = min(next, t)
					}
				}
				continue
			}
			left--
			a.free = now + a.Of(kind)
			t := Task{Kind: kind}
			switch kind {
			case Forward:
				t.Micro, t.Keep = a.f, true
				a.f++
				a.used += a.held
				a.forward = append(a.forward, a.free)
			case BackwardInput:
				t.Micro = a.i
				a.i++
				a.used += a.weights - a.held
				a.input = append(a.input, a.free)
			default:
				t.Micro = a.w
				a.w++
				a.used -= a.weights
			}
			lists[k] = append(lists[k], t)
			next = min(next, a.free)
		}
		if math.IsInf(next, 1) {
			return nil
		}
		now = next
	}
	return lists
}
