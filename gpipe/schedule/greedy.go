package schedule

import (
	"math"
	"math/rand/v2"
	"slices"
)

// rule is how the greedy construction decides.
type rule struct {
	ahead []int // of each stage: micro-batches between F and I up to which F goes before I
	later []int // of each device: W that may be left for later; with more, W goes first
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
	p, stages, d := s.Place.Devices, s.Place.Stages(), s.Times.mean()
	v := float64(stages) / float64(p)
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
						for at := range stages {
							r.ahead = append(r.ahead, 1+int(math.Round(ahead*float64(stages-1-at)/v)))
						}
						for at := range p {
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
			// Of one, or of neighbours.
			from := random.IntN(len(of))
			to := from + 1
			if random.IntN(2) == 0 {
				to += random.IntN(len(of) - from)
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

// chunk is how far the construction is with a stage.
type chunk struct {
	stage int
	Duration
	held, weights  float64
	f, i, w        int       // tasks begun
	forward, input []float64 // when F and I of micro-batches end that have begun
}

// building is a device in the construction.
type building struct {
	chunks     []*chunk
	room, used float64
	free       float64 // when its last task ends
}

// fits reports whether the device has room for the next F of a chunk, and afterwards for all that is
// left of the micro-batches that have begun, the oldest first: so no order of the devices' tasks ends
// with each waiting for room (the banker's algorithm; Dijkstra, EWD 623).
func (b *building) fits(c *chunk) bool {
	if b.used+c.held > b.room {
		return false
	}
	if len(b.chunks) == 1 {
		return true
	}
	c.f++
	defer func() { c.f-- }()
	free, needs := b.room-b.used-c.held, 0.0
	for _, o := range b.chunks {
		needs += o.held
		free += float64(float64(o.i-o.w) * o.weights) // W can run at any time
	}
	for m := b.chunks[0].i; m < b.chunks[0].f && free < needs; m++ {
		var held, left float64
		for _, o := range b.chunks {
			switch {
			case o.f <= m:
				left += o.held
			case o.i <= m:
				held += o.held
			}
		}
		if left > free {
			return false
		}
		free += held
	}
	return true
}

// pending is how many W are left to do.
func (b *building) pending() (left int) {
	for _, c := range b.chunks {
		left += c.i - c.w
	}
	return left
}

// begin starts a task of a chunk, and returns it.
func (b *building) begin(c *chunk, kind Kind, now float64, chunkOf int) Task {
	b.free = now + c.Of(kind)
	t := Task{Kind: kind, Chunk: chunkOf}
	switch kind {
	case Forward:
		t.Micro, t.Keep = c.f, true
		c.f++
		b.used += c.held
		c.forward = append(c.forward, b.free)
	case BackwardInput:
		t.Micro = c.i
		c.i++
		b.used += c.weights - c.held
		c.input = append(c.input, b.free)
	default:
		t.Micro = c.w
		c.w++
		b.used -= c.weights
	}
	return t
}

// ready returns when the next F and the next I of a stage can begin, as far as that is known, without
// what other tasks its device has.
func (s *searching) ready(stages []*chunk, c *chunk) (f, i float64) {
	f, i = math.Inf(1), math.Inf(1)
	after := func(from *chunk, ends []float64, micro int) float64 {
		switch {
		case micro >= len(ends):
			return math.Inf(1)
		case from == c || s.Place.Device[from.stage] == s.Place.Device[c.stage]:
			return ends[micro]
		}
		return ends[micro] + s.Times.Comm
	}
	switch {
	case c.f == s.Micro:
	case c.stage == 0:
		f = 0
	default:
		from := stages[c.stage-1]
		f = after(from, from.forward, c.f)
	}
	switch {
	case c.i == c.f:
	case c.stage == len(stages)-1:
		i = after(c, c.forward, c.i)
	default:
		from := stages[c.stage+1]
		i = after(from, from.input, c.i)
	}
	return f, i
}

// decide returns the chunk and the task that a device begins when it is free; nil: it waits, and
// until says when that may change. Of tasks of one kind the oldest micro-batch's is first.
func (s *searching) decide(stages []*chunk, b *building, r rule, device int, now float64) (of *chunk, kind Kind, until float64) {
	var forward, input, weights *chunk
	soonest, room := math.Inf(1), true // of F that have room, and of I
	until = math.Inf(1)
	soon := false
	for _, c := range b.chunks {
		f, i := s.ready(stages, c)
		for _, t := range []float64{f, i} {
			if t > now {
				until = min(until, t)
			}
		}
		if !b.fits(c) {
			f, room = math.Inf(1), false
		}
		soonest = min(soonest, f, i)
		if f <= now && c.f-c.i < r.ahead[c.stage] && (forward == nil || c.f <= forward.f) {
			forward = c
		}
		if i <= now && (input == nil || c.i <= input.i) {
			input = c
		}
		soon = soon || now < i && i-now < r.early*c.F
		if c.w < c.i && (weights == nil || c.w <= weights.w) {
			weights = c
		}
	}
	switch left := b.pending(); {
	case left > r.later[device]:
		return weights, BackwardWeights, until
	case forward != nil && (input != nil || !soon):
		return forward, Forward, until
	case input != nil:
		return input, BackwardInput, until
	case left > 0 && (!room || soonest-now >= r.gap*weights.W):
		return weights, BackwardWeights, until
	}
	return nil, 0, until
}

// build runs devices on a virtual clock, each of which takes what the rule says as soon as
// it is free; nil: it came to nothing within the limit.
func (s *searching) build(r rule) [][]Task {
	stages := make([]*chunk, s.Place.Stages())
	devices := make([]building, s.Place.Devices)
	lists := make([][]Task, len(devices))
	for d := range devices {
		devices[d].room = s.room(d)
		lists[d] = make([]Task, 0, 3*s.Micro*len(s.chunks[d]))
		for _, stage := range s.chunks[d] {
			of := s.memory(stage)
			c := &chunk{stage: stage, Duration: s.Times.Of(stage), held: of.Input + of.Residuals, weights: of.Weights}
			stages[stage] = c
			devices[d].chunks = append(devices[d].chunks, c)
		}
	}
	now := 0.0
	for left := 3 * s.Micro * len(stages); left > 0; {
		next := math.Inf(1) // when something may change
		for d := range devices {
			b := &devices[d]
			if b.free > now {
				next = min(next, b.free)
				continue
			}
			of, kind, until := s.decide(stages, b, r, d, now)
			if of == nil {
				next = min(next, until)
				continue
			}
			left--
			lists[d] = append(lists[d], b.begin(of, kind, now, slices.Index(b.chunks, of)))
			next = min(next, b.free)
		}
		if math.IsInf(next, 1) {
			return nil
		}
		now = next
	}
	return lists
}
