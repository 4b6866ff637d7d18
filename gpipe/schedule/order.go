package schedule

import (
	"fmt"
	"math"
	"slices"
)

// Verify returns the first way in which lists, one for each device of a placement, are not a
// schedule of micro-batches: what [Complete] finds, and a device that waits for a
// task that will never have run.
func Verify(lists [][]Task, p Placement, micro int) error {
	if err := Complete(lists, p, micro); err != nil {
		return err
	}
	_, err := Run(lists, p, micro, Durations{})
	return err
}

// Complete checks everything about lists but what their tasks wait for. It knows what a
// schedule is, and no generator. Of every stage and micro-batch there must be
//
//   - one F, and after it either one B, or one I and after that one W;
//   - an R directly before B or I, unless F keeps the residuals;
//
// and of every stage, F in ascending order, the I or B too, and the W or B, so that each
// sum over micro-batches has one order. A task that is missing is an error, which names it.
//
// Lists with U have it directly after B, on all devices at the same micro-batches, the last
// among them. It makes the version after the newest; F reads one that is made, R and B that of their F
// or the newest. [VerifyWindow] knows which.
// On devices with several chunks, tasks have the stage before their names, as in files: 2F0.
func Complete(lists [][]Task, p Placement, micro int) error {
	if err := p.Check(); err != nil {
		return err
	}
	if len(lists) != p.Devices {
		return fmt.Errorf("schedule: lists of %d devices: want %d", len(lists), p.Devices)
	}
	first := updated(lists[0])
	for d, chunks := range p.Chunks() {
		if err := complete(lists[d], chunks, micro); err != nil {
			return fmt.Errorf("schedule: device %d: %w", d, err)
		}
		if own := updated(lists[d]); !slices.Equal(first, own) {
			return fmt.Errorf("schedule: device %d updates after the micro-batches %v, and device 0 after %v: want the same", d, own, first)
		}
	}
	return nil
}

// updated are the micro-batches after whose B a list has U.
func updated(list []Task) (after []int) {
	for _, t := range list {
		if t.Kind == Update {
			after = append(after, t.Micro)
		}
	}
	return after
}

// progress is how far a list is with a chunk: the micro-batch that is due of each. Its slices grow
// with the list, since a file may name a large micro-batch and have few tasks.
type progress struct {
	forward, input, weights int
	keeps                   []bool // of each F
	read                    []int  // the version of the weights that F has read
	split                   []bool // of each B or I
}

// inWords is a task of a device that has these stages: F0, or 2F0 if it has several.
func (t Task) inWords(stages []int) string {
	if len(stages) == 1 || t.Chunk < 0 || t.Chunk >= len(stages) {
		return t.String()
	}
	return fmt.Sprintf("%d%v%d", stages[t.Chunk], t.Kind, t.Micro)
}

// complete checks everything about the list of a device with these stages but what it waits
// for.
func complete(list []Task, stages []int, micro int) error {
	chunks := len(stages)
	at := make([]progress, chunks)
	newest := 0 // version of the weights
	var before Task
	for i, t := range list {
		if t.Chunk < 0 || t.Chunk >= chunks {
			return fmt.Errorf("%v is of chunk %d: want 0 to %d", t, t.Chunk, chunks-1)
		}
		if t.Micro < 0 || t.Micro >= micro {
			return fmt.Errorf("%v is of micro-batch %d: want 0 to %d", t, t.Micro, micro-1)
		}
		c := &at[t.Chunk]
		name := func() string { return t.inWords(stages) }
		due := func(next int) error {
			if t.Micro == next {
				return nil
			}
			return fmt.Errorf("%s is out of order: want each micro-batch once, in ascending order, and %d is due", name(), next)
		}
		var err error
		switch t.Kind {
		case Forward:
			if err = due(c.forward); err == nil && (t.Version < 0 || t.Version > newest) {
				err = fmt.Errorf("%s reads version %d of the weights: want 0 to %d, those that are made", name(), t.Version, newest)
			}
			c.keeps, c.read = append(c.keeps, t.Keep), append(c.read, t.Version)
			c.forward++
		case Recompute:
			next := Task{Kind: BackwardInput, Micro: t.Micro, Chunk: t.Chunk, Version: t.Version}
			whole := next
			whole.Kind = Backward
			switch {
			case i+1 == len(list) || list[i+1] != next && list[i+1] != whole:
				err = fmt.Errorf("%s is out of place: want it directly before %s or %s", name(), whole.inWords(stages), next.inWords(stages))
			case t.Micro < c.forward && c.keeps[t.Micro]:
				err = fmt.Errorf("%s is not needed: its F keeps the residuals", name())
			}
		case Backward, BackwardInput:
			kept := before.Kind == Recompute && before.Micro == t.Micro && before.Chunk == t.Chunk
			switch {
			case t.Micro >= c.forward:
				err = fmt.Errorf("%s comes before its F", name())
			case !c.keeps[t.Micro] && !kept:
				err = fmt.Errorf("%s lacks residuals: want an F that keeps them, or an R directly before it", name())
			case t.Version != c.read[t.Micro] && t.Version != newest:
				err = fmt.Errorf("%s reads version %d of the weights: want %d, as its F, or %d, the newest", name(), t.Version, c.read[t.Micro], newest)
			default:
				err = due(c.input)
			}
			c.input++
			c.split = append(c.split, t.Kind == BackwardInput)
			if t.Kind == Backward && err == nil {
				if err = due(c.weights); err != nil {
					w := Task{Kind: BackwardWeights, Micro: c.weights, Chunk: t.Chunk}
					err = fmt.Errorf("%s comes before %s", name(), w.inWords(stages))
				}
				c.weights++
			}
		case BackwardWeights:
			if t.Micro >= c.input || !c.split[t.Micro] {
				err = fmt.Errorf("%s has no I before it", name())
			} else {
				err = due(c.weights)
			}
			c.weights++
		case Update:
			switch {
			case chunks > 1:
				err = fmt.Errorf("%s on a device of %d chunks: want one", name(), chunks)
			case before.Kind != Backward || before.Micro != t.Micro:
				err = fmt.Errorf("%s is out of place: want it directly after %s", name(), Task{Kind: Backward, Micro: t.Micro}.inWords(stages))
			case t.Version != newest+1:
				err = fmt.Errorf("%s makes version %d of the weights: want %d, the one after the newest", name(), t.Version, newest+1)
			}
			newest++
		default:
			err = fmt.Errorf("task %v of unknown kind: want F, R, B, I, W or U", t)
		}
		if err != nil {
			return err
		}
		before = t
	}
	if newest > 0 && before.Kind != Update {
		return fmt.Errorf("%s is the last task: want U after it, since lists that update end with an update", before.inWords(stages))
	}
	for i, c := range at {
		missing := func(kind Kind, micro int) string { return Task{Kind: kind, Micro: micro, Chunk: i}.inWords(stages) }
		switch {
		case c.forward < micro:
			return fmt.Errorf("%s is missing: want an F of each of %d micro-batches", missing(Forward, c.forward), micro)
		case c.input < micro:
			return fmt.Errorf("%s is missing, after %s: want a B, or an I and a W, of each of %d micro-batches", missing(Backward, c.input), missing(Forward, c.input), micro)
		case c.weights < micro:
			return fmt.Errorf("%s is missing, after %s: want a W of each I", missing(BackwardWeights, c.weights), missing(BackwardInput, c.weights))
		}
	}
	return nil
}

// Durations are how long tasks take, in any unit.
type Durations struct {
	Stages []Duration // of each stage; one: all are alike
	Comm   float64    // from one device to another; chunks of one device hand over at once
}

// Duration is how long a stage's tasks take; B takes I and W together.
type Duration struct{ F, R, I, W, U float64 }

// Alike are the durations of stages that are alike.
func Alike(d Duration, comm float64) Durations { return Durations{[]Duration{d}, comm} }

// Of returns a stage's durations.
func (d Durations) Of(stage int) Duration {
	switch len(d.Stages) {
	case 0:
		return Duration{}
	case 1:
		return d.Stages[0]
	}
	return d.Stages[stage]
}

// Of is how long a kind of task takes.
func (d Duration) Of(k Kind) float64 {
	switch k {
	case Forward:
		return d.F
	case Recompute:
		return d.R
	case Backward:
		return d.I + d.W
	case BackwardInput:
		return d.I
	case Update:
		return d.U
	}
	return d.W
}

// Times are when the tasks of each device's list begin and end.
type Times struct{ Start, End [][]float64 }

// Longest is the longest time from the beginning of a device's first task to the end of
// its last: what a step takes if the next one may begin on each device as soon as that is
// free (as Qi et al., arXiv 2401.10241, count it).
func (t *Times) Longest() (longest float64) {
	for d := range t.End {
		if n := len(t.End[d]); n > 0 {
			longest = max(longest, t.End[d][n-1]-t.Start[d][0])
		}
	}
	return longest
}

// Makespan is when the last task ends.
func (t *Times) Makespan() (end float64) {
	for _, ends := range t.End {
		if len(ends) > 0 {
			end = max(end, ends[len(ends)-1])
		}
	}
	return end
}

// Run runs lists on a virtual clock: each device does its tasks in order, each as soon as
// what it needs has come. It is the time of the schedule itself; package clock knows
// links, slots and everything else. Tasks that wait for each other are an error.
func Run(lists [][]Task, p Placement, micro int, d Durations) (*Times, error) {
	if n := len(d.Stages); n > 1 && n != p.Stages() {
		return nil, fmt.Errorf("schedule: durations of %d stages: want those of %d, or of one for all", n, p.Stages())
	}
	return run(lists, p, micro, func(stage int, k Kind) float64 { return d.Of(stage).Of(k) }, d.Comm)
}

func run(lists [][]Task, p Placement, micro int, duration func(stage int, k Kind) float64, comm float64) (*Times, error) {
	stages, chunks := p.Stages(), p.Chunks()
	forward, backward := unknown(stages, micro), unknown(stages, micro) // when outputs and input gradients are there
	// needs is the stage whose output or gradient a task waits for; -1: none.
	needs := func(device int, t Task) (from int, times [][]float64) {
		s := chunks[device][t.Chunk]
		switch {
		case t.Kind == Forward:
			return s - 1, forward
		case s < stages-1 && (t.Kind == Backward || t.Kind == BackwardInput || t.Kind == Recompute && t.AwaitGrad):
			return s + 1, backward
		}
		return -1, nil
	}
	times := &Times{make([][]float64, p.Devices), make([][]float64, p.Devices)}
	// next runs a device's next task, if it can.
	next := func(device int) bool {
		at := len(times.End[device])
		if at == len(lists[device]) {
			return false
		}
		t, start := lists[device][at], 0.0
		if at > 0 {
			start = times.End[device][at-1]
		}
		if from, of := needs(device, t); from >= 0 {
			ready := of[from][t.Micro]
			if math.IsNaN(ready) {
				return false
			}
			if p.Device[from] != device {
				ready += comm
			}
			start = max(start, ready)
		}
		end := start + duration(chunks[device][t.Chunk], t.Kind)
		times.Start[device], times.End[device] = append(times.Start[device], start), append(times.End[device], end)
		switch s := chunks[device][t.Chunk]; t.Kind {
		case Forward:
			forward[s][t.Micro] = end
		case Backward, BackwardInput:
			backward[s][t.Micro] = end
		}
		return true
	}
	for moved := true; moved; {
		moved = false
		for device := range lists {
			for next(device) {
				moved = true
			}
		}
	}
	for device, list := range lists {
		if at := len(times.End[device]); at < len(list) {
			t := list[at]
			from, _ := needs(device, t)
			on := p.Device[from]
			want := Task{Kind: Forward, Micro: t.Micro, Chunk: slices.Index(chunks[on], from)}
			if t.Kind != Forward {
				want.Kind = Backward
				if slices.ContainsFunc(lists[on], func(o Task) bool { return o.Kind == BackwardInput && o.Micro == want.Micro && o.Chunk == want.Chunk }) {
					want.Kind = BackwardInput
				}
			}
			return nil, fmt.Errorf("schedule: device %d waits for ever: %s needs %s of device %d, which cannot run before it: want an order in which every task comes after what it needs", device, t.inWords(chunks[device]), want.inWords(chunks[on]), on)
		}
	}
	return times, nil
}

// GradientsAhead is, for each stage, how many output gradients have been made for it and
// not been used at once, if every task takes one unit of time and messages none: with room
// for as many, no stage waits for another to make room. The lists must be a schedule.
func GradientsAhead(lists [][]Task, p Placement, micro int) []int {
	return ahead(lists, p, micro, -1, Backward, BackwardInput)
}

// InputsAhead is the same for the inputs of each stage, where F is all that runs.
func InputsAhead(lists [][]Task, p Placement, micro int) []int {
	return ahead(lists, p, micro, 1, Forward)
}

// ahead is, for each stage, the most of what it gets from the stage before it in the
// direction of the flow that is there at once: from the beginning of the task of these kinds
// that makes it to the end of the stage's own.
func ahead(lists [][]Task, p Placement, micro, direction int, kinds ...Kind) []int {
	times, err := run(lists, p, micro, func(int, Kind) float64 { return 1 }, 0)
	if err != nil {
		panic(err)
	}
	began, ended, chunks := unknown(p.Stages(), micro), unknown(p.Stages(), micro), p.Chunks()
	for d, list := range lists {
		for i, t := range list {
			if s := chunks[d][t.Chunk]; slices.Contains(kinds, t.Kind) {
				began[s][t.Micro], ended[s][t.Micro] = times.Start[d][i], times.End[d][i]
			}
		}
	}
	most := make([]int, len(began))
	for s := range began {
		from := s - direction
		if from < 0 || from == len(began) {
			continue
		}
		used := 0
		for m := range began[s] {
			for used < m && ended[s][used] <= began[from][m] {
				used++
			}
			most[s] = max(most[s], m-used+1)
		}
	}
	return most
}

func unknown(stages, micro int) [][]float64 {
	all := make([][]float64, stages)
	for s := range all {
		all[s] = make([]float64, micro)
		for m := range all[s] {
			all[s][m] = math.NaN()
		}
	}
	return all
}

// Footprint is the memory that a micro-batch occupies on a device for a chunk, in any
// unit: Input from its F, Residuals from the F that keeps them or from R, both until its B
// or I is over; and Weights from the end of I until W is over.
type Footprint struct{ Input, Residuals, Weights float64 }

// Peak is the most that a device's list occupies at once; of has the footprint of each of
// its chunks.
func Peak(list []Task, of []Footprint) (peak float64) {
	now := 0.0
	for _, t := range list {
		f := of[t.Chunk]
		switch t.Kind {
		case Forward:
			now += f.Input
			if t.Keep {
				now += f.Residuals
			}
		case Recompute:
			now += f.Residuals
		}
		peak = max(peak, now)
		switch t.Kind {
		case Backward:
			now -= f.Input + f.Residuals
		case BackwardInput:
			now += f.Weights - f.Input - f.Residuals
		case BackwardWeights:
			now -= f.Weights
		}
	}
	return peak
}
