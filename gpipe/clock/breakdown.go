package clock

import (
	"slices"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
)

// Parts is where the time of a step goes, in seconds averaged over devices
// (GPipe arXiv v1, section 4.2 and Figure 4; the paper's step breakdown). See
// Breakdown for what each is.
type Parts struct {
	Computation   float64 `json:"computation"`   // F, and B or I and W
	Recompute     float64 `json:"recompute"`     // R
	Bubble        float64 `json:"bubble"`        // idle that the schedule alone causes
	Imbalance     float64 `json:"imbalance"`     // idle that differences between stages add
	Communication float64 `json:"communication"` // idle that links add, and legs through the host
	Setup         float64 `json:"setup"`
	Barrier       float64 `json:"barrier"` // idle that waiting for every device before the update adds
	Update        float64 `json:"update"`
	Reduction     float64 `json:"reduction,omitzero"` // adding up the gradients of groups and replicas, and the statistics of replicas
	Rows          float64 `json:"rows,omitzero"`      // gathering the gradients of tied tables as rows, and adding them up
	Step          float64 `json:"-"`                  // the step's length
}

// Sum adds up the parts. It is Step, up to rounding.
func (p Parts) Sum() float64 {
	return p.Computation + p.Recompute + p.Bubble + p.Imbalance + p.Communication + p.Setup + p.Barrier + p.Update + p.Reduction + p.Rows
}

// Breakdown reduces a step to its parts, by telescoping replays. What a device
// works on (F, B, I, W, R, Meet, Setup, Reduce, Rows and Update) is taken as timed: the mean over devices.
// It is the same in every replay; what differs is the rest of the step, the
// devices' mean waiting time
//
//	W = span - mean over devices of (F + R + B + Setup + Update)
//
// measured in four replays of the same lists, each with one thing more:
//
//	even     every stage at the mean time of all, free links, no barrier
//	uneven   the stages' true times
//	linked   the links as given
//	full     the barrier before Update: Replay's own timeline
//
// and then
//
//	Bubble        = W(even)
//	Imbalance     = W(uneven) - W(even)
//	Communication = W(linked) - W(uneven)
//	Barrier       = W(full) - W(linked)
//
// so the parts add up to the span of full, each of them measured and none the
// remainder of the others. The mean is taken for each task by itself (kind and
// micro-batch), over the stages and their chunks, and over Setup and over Update likewise.
//
//   - Bubble is never negative. With even stages and early recomputation it is
//     (K-1)(f+b), whose share of the step is a little below schedule.Bubble since
//     R adds to the step without adding to the bubble: what the paper observed.
//     The tail of the drain, in which a device has no more B, is bubble too; a
//     timeline's Barrier events overlay it, so Parts.Barrier is what the barrier
//     adds, not the sum of those events (it is 0 unless a device could have
//     updated early and was late for it).
//   - Communication is never negative: a link only adds waiting. It includes the
//     legs through the host, during which the device does not wait but works for
//     the link. (It is then the difference from free links through the host.)
//   - Barrier is never negative.
//   - Imbalance may be negative: the step becomes shorter if a stage has more than
//     the mean of a work that it can do while it would idle anyway. An example is
//     one micro-batch, where only the last stage's R delays the others: if that R is
//     shorter than the mean, the uneven step is shorter than the even one. It is
//     not negative in gpipe with checkpoint mode never, no Setup, no Update and
//     micro-batches of one size: the step is then the sum of all stages' f+b plus
//     M-1 times the longest f and the longest b, and no maximum is below its mean.
func Breakdown(tasks [][]schedule.Task, c Costs) (Parts, error) {
	s, err := Run(tasks, c)
	if err != nil {
		return Parts{}, err
	}
	return s.Breakdown()
}

// Bubble is [Breakdown]'s Bubble alone, of one replay in place of four.
func Bubble(tasks [][]schedule.Task, c Costs) (float64, error) {
	micro, err := c.micro(tasks)
	if err != nil {
		return 0, err
	}
	s, err := run(tasks, micro, *even(tasks, c.free()))
	if err != nil {
		return 0, err
	}
	return s.idle()
}

// Breakdown is [Breakdown] of the step.
func (s *Step) Breakdown() (Parts, error) {
	full := s.work(s.tail)
	free := s.costs.free()
	p, waited := full, 0.0
	for _, step := range []struct {
		adds  *float64
		costs *Costs // nil: this step's
	}{
		{&p.Bubble, even(s.tasks, free)},
		{&p.Imbalance, &free},
		{&p.Communication, nil},
	} {
		of := s
		if step.costs != nil {
			var err error
			if of, err = run(s.tasks, s.micro, *step.costs); err != nil {
				return Parts{}, err
			}
		}
		w, err := of.idle()
		if err != nil {
			return Parts{}, err
		}
		*step.adds, waited = w-waited, w
	}
	p.Barrier = full.waiting() - waited
	return p, nil
}

// free are the costs with links that take no time.
func (c Costs) free() Costs {
	c.Boundary, c.Hop, c.Link = nil, nil, Link{ThroughHost: c.Link.ThroughHost}
	return c
}

// idle is the devices' mean waiting time without the barrier before the update.
func (s *Step) idle() (float64, error) {
	tail, err := s.costs.finish(slices.Clone(s.free), false)
	if err != nil {
		return 0, err
	}
	return s.work(tail).waiting(), nil
}

// Over divides the parts by a number, such as the mini-batches that they are of.
func (p Parts) Over(n float64) Parts {
	return Parts{
		Computation: p.Computation / n, Recompute: p.Recompute / n, Bubble: p.Bubble / n, Imbalance: p.Imbalance / n,
		Communication: p.Communication / n, Setup: p.Setup / n, Barrier: p.Barrier / n, Update: p.Update / n,
		Reduction: p.Reduction / n, Rows: p.Rows / n, Step: p.Step / n,
	}
}

// of is the part that an event of the kind is counted in, or nil.
func (p *Parts) of(kind timeline.Kind) *float64 {
	switch kind {
	case timeline.Forward, timeline.Backward, timeline.BackwardInput, timeline.BackwardWeights:
		return &p.Computation
	case timeline.Recompute:
		return &p.Recompute
	case timeline.Setup:
		return &p.Setup
	case timeline.Update:
		return &p.Update
	case timeline.Reduce, timeline.Gather, timeline.Meet:
		return &p.Reduction
	case timeline.Rows:
		return &p.Rows
	}
	return nil
}

// waiting is the time, averaged over devices, in which they do not work, of parts that have no
// other yet.
func (p Parts) waiting() float64 { return p.Step - p.Sum() }

// work is the time that the devices work, by part, averaged over them, and the step's length.
func (s *Step) work(tail [][]timeline.Event) (p Parts) {
	p.Step = s.span(tail)
	for e := range s.stream(tail, false) {
		if of := p.of(e.Kind); of != nil {
			*of += (e.Seconds() - e.Away) / float64(len(s.tasks))
		}
	}
	return p
}

// even gives every stage the mean time of all.
func even(tasks [][]schedule.Task, c Costs) *Costs {
	type sum struct{ seconds, stages float64 }
	var sums [6 * 4][]sum // by what tasks are alike in, and their micro-batch
	of := func(t *schedule.Task) *sum {
		i := 4 * int(t.Kind)
		if t.Keep {
			i++
		}
		if t.AwaitGrad {
			i += 2
		}
		if more := t.Micro + 1 - len(sums[i]); more > 0 {
			sums[i] = append(sums[i], make([]sum, more)...)
		}
		return &sums[i][t.Micro]
	}
	for k, list := range tasks {
		at := c.at(k, len(tasks))
		for i := range list {
			at.Chunk = list[i].Chunk
			s := of(&list[i])
			s.seconds += c.Task(at, list[i])
			s.stages++
		}
	}
	e := c
	e.Task = func(_ place.Place, t schedule.Task) float64 {
		sum := of(&t)
		return sum.seconds / sum.stages
	}
	mean := func(seconds func(place.Place) float64) func(place.Place) float64 {
		if seconds == nil {
			return nil
		}
		var mean float64
		for k := range tasks {
			mean += seconds(c.at(k, len(tasks))) / float64(len(tasks))
		}
		return func(place.Place) float64 { return mean }
	}
	if groups := map[int]float64{}; c.Group != nil {
		e.Group = func(_ place.Place, micro int) float64 {
			if _, ok := groups[micro]; !ok {
				groups[micro] = mean(func(at place.Place) float64 { return c.Group(at, micro) })(place.Place{})
			}
			return groups[micro]
		}
	}
	e.Setup, e.Update, e.Reduce, e.Gather, e.Rows = mean(c.Setup), mean(c.Update), mean(c.Reduce), mean(c.Gather), mean(c.Rows)
	return &e
}

// at is the place of the i-th of all devices.
func (c Costs) at(i, devices int) place.Place {
	stages := devices / max(c.Replicas, 1)
	return place.Place{Replica: i / stages, Stage: i % stages}
}
