// Package schedule says, as plain data, what each device of a pipeline does
// and in which order: the forward (F), recompute (R) and backward (B) tasks of
// every micro-batch of one training step.
//
// It is pure: no goroutine, clock, tensor or file. A schedule fixes only the order
// on each device. The time at which a task runs follows from the data that it waits
// for; that is left to what runs the lists (the runtime) or replays them (package
// timeline).
//
// Every schedule has these properties:
//
//   - each stage runs F and B of each micro-batch exactly once, and R of each
//     micro-batch whose residuals were not kept, exactly once;
//   - F runs over the micro-batches in ascending order, and so does B: gradients
//     are then accumulated in example order whatever the schedule, which is what
//     makes the weights independent of it. (The paper's Figure 2c draws B
//     descending; 1f1b forces ascending, and in fill-drain it costs nothing.)
//   - R(m) comes directly before B(m).
//
// Source: Huang et al., GPipe (arXiv 1811.06965), sections 2.2 and 2.3, Figure 2.
package schedule

import (
	"fmt"
	"strconv"
)

// Kind is what a task does with a micro-batch.
type Kind uint8

const (
	Forward   Kind = iota // F: boundary in -> boundary out
	Recompute             // R: the forward again, keeping the residuals (GPipe, section 2.3)
	Backward              // B: residuals + output gradient -> input gradient and parameter gradients
)

// String is F, R or B.
func (k Kind) String() string {
	if int(k) < len("FRB") {
		return "FRB"[k : k+1]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Task is one entry of a device's list.
type Task struct {
	Kind      Kind
	Micro     int  // the micro-batch, from 0
	Keep      bool // a Forward that keeps the residuals, so that B needs no R
	AwaitGrad bool // a Recompute that waits for the output gradient (late recomputation); on the last stage there is none to wait for
}

// String is the kind and the micro-batch: F0, R12.
func (t Task) String() string { return t.Kind.String() + strconv.Itoa(t.Micro) }

// Checkpoint says which micro-batches are re-materialised.
type Checkpoint uint8

const (
	Always     Checkpoint = iota // every micro-batch is recomputed; the default, and the paper's
	ExceptLast                   // all but the one that B consumes first, micro-batch 0 here (torchgpipe's except_last: its B descends, so it is the last there)
	Never                        // every F keeps its residuals
)

var checkpoints = [...]string{Always: "always", ExceptLast: "except-last", Never: "never"}

func (c Checkpoint) String() string {
	if int(c) < len(checkpoints) {
		return checkpoints[c]
	}
	return fmt.Sprintf("Checkpoint(%d)", uint8(c))
}

// ParseCheckpoint reads what String writes: always, except-last or never.
func ParseCheckpoint(name string) (Checkpoint, error) {
	for c, n := range checkpoints {
		if n == name {
			return Checkpoint(c), nil
		}
	}
	return 0, fmt.Errorf("unknown checkpoint mode %q: want always, except-last or never", name)
}

// Keeps reports whether F of the micro-batch keeps its residuals.
func (c Checkpoint) Keeps(micro int) bool { return c == Never || c == ExceptLast && micro == 0 }

// Recomputed is how many of a step's micro-batches have an R.
func (c Checkpoint) Recomputed(micro int) int {
	switch c {
	case Never:
		return 0
	case ExceptLast:
		return micro - 1
	}
	return micro
}

// Schedule is the order in which a stage takes up F and B.
type Schedule uint8

const (
	GPipe    Schedule = iota // fill-drain: every F, then every B (section 2.2, Figure 2c); the default
	Naive                    // one device at a time (Figure 2b): a micro-batch is finished before the next one starts
	OneFOneB                 // PipeDream-flush (Narayanan et al., arXiv 2006.09503): one F, one B in turn after a warm-up
)

var schedules = [...]string{GPipe: "gpipe", Naive: "naive", OneFOneB: "1f1b"}

func (s Schedule) String() string {
	if int(s) < len(schedules) {
		return schedules[s]
	}
	return fmt.Sprintf("Schedule(%d)", uint8(s))
}

// Parse reads what String writes: gpipe, naive or 1f1b.
func Parse(name string) (Schedule, error) {
	for s, n := range schedules {
		if n == name {
			return Schedule(s), nil
		}
	}
	return 0, fmt.Errorf("unknown schedule %q: want gpipe, naive or 1f1b", name)
}

// warmUp is how many F a stage runs before its first B. The schedules differ in
// nothing else: after the warm-up they all run one F, one B in turn, and at the
// end the B that are left.
func (s Schedule) warmUp(stage, stages, micro int) int {
	switch s {
	case Naive:
		return 0
	case OneFOneB:
		return min(micro, stages-1-stage)
	}
	return micro
}

// Build returns the ordered task list of each stage for one step of micro >= 1
// micro-batches on stages >= 1 stages. micro < stages is legal.
//
// With late false an R does not wait for the output gradient ("re-computation
// during the backward pass can be scheduled earlier", section 2.3): as R(m+1)
// comes right after B(m), it looks ahead by exactly one micro-batch. With late
// true, and in naive always (two devices would run at once otherwise), it waits.
func Build(s Schedule, stages, micro int, c Checkpoint, late bool) ([][]Task, error) {
	if err := Check(s, stages, micro, c); err != nil {
		return nil, err
	}
	await := late || s == Naive
	lists := make([][]Task, stages)
	for k := range lists {
		list := make([]Task, 0, 2*micro+c.Recomputed(micro))
		forward := func(m int) {
			list = append(list, Task{Kind: Forward, Micro: m, Keep: c.Keeps(m)})
		}
		backward := func(m int) {
			if !c.Keeps(m) {
				list = append(list, Task{Kind: Recompute, Micro: m, AwaitGrad: await})
			}
			list = append(list, Task{Kind: Backward, Micro: m})
		}
		ahead := s.warmUp(k, stages, micro)
		for m := range ahead {
			forward(m)
		}
		for m := ahead; m < micro; m++ {
			forward(m)
			backward(m - ahead)
		}
		for m := micro - ahead; m < micro; m++ {
			backward(m)
		}
		lists[k] = list
	}
	return lists, nil
}

// Check returns an error if Build cannot build a schedule from the arguments.
func Check(s Schedule, stages, micro int, c Checkpoint) error {
	switch {
	case int(s) >= len(schedules):
		return fmt.Errorf("schedule: unknown schedule %d: want gpipe, naive or 1f1b", s)
	case int(c) >= len(checkpoints):
		return fmt.Errorf("schedule: unknown checkpoint mode %d: want always, except-last or never", c)
	case stages < 1:
		return fmt.Errorf("schedule: %d stages: want 1 or more", stages)
	case micro < 1:
		return fmt.Errorf("schedule: %d micro-batches: want 1 or more", micro)
	}
	return nil
}

// InFlight is what a stage that runs the list must be able to hold: the most
// boundary inputs at once, each from the start of F(m) to the end of B(m), and
// the most sets of residuals at once, each from the start of the F that keeps
// them (or of R) to the end of B(m). Inputs that have arrived and wait for
// their F are not counted: a receiver has one slot per micro-batch for them.
func InFlight(tasks []Task) (boundary, residual int) {
	var inputs, sets int
	for _, t := range tasks {
		switch t.Kind {
		case Forward:
			inputs++
			if t.Keep {
				sets++
			}
		case Recompute:
			sets++
		}
		boundary, residual = max(boundary, inputs), max(residual, sets)
		if t.Kind == Backward {
			inputs--
			sets--
		}
	}
	return boundary, residual
}

// CheckLists reports the first way in which lists of tasks break the properties that
// every schedule has: one list for each of so many stages, each with all micro-batches.
// It does not find stages that wait for each other in a circle.
func CheckLists(lists [][]Task, stages, micro int) error {
	if len(lists) != stages {
		return fmt.Errorf("schedule: task lists of %d stages: want %d", len(lists), stages)
	}
	for k, list := range lists {
		if err := checkList(list, micro); err != nil {
			return fmt.Errorf("schedule: stage %d: %w", k, err)
		}
	}
	return nil
}

func checkList(list []Task, micro int) error {
	var forward, backward int // the micro-batches that are due
	kept := -1                // the last one whose residuals R has made
	keeps := map[int]bool{}   // those whose residuals F has kept
	for i, t := range list {
		switch t.Kind {
		case Forward:
			if t.Micro != forward || forward == micro {
				return fmt.Errorf("%v is out of place: want F0 to F%d in ascending order, once each", t, micro-1)
			}
			keeps[t.Micro] = t.Keep
			forward++
		case Recompute:
			next := Task{Kind: Backward, Micro: t.Micro}
			if t.Micro != backward || t.Micro >= forward || keeps[t.Micro] || i+1 == len(list) || list[i+1].String() != next.String() {
				return fmt.Errorf("%v is out of place: want it between an F that keeps nothing and %v, directly before that", t, next)
			}
			kept = t.Micro
		case Backward:
			switch {
			case t.Micro != backward || backward == micro:
				return fmt.Errorf("%v is out of place: want B0 to B%d in ascending order, once each", t, micro-1)
			case t.Micro >= forward:
				return fmt.Errorf("%v comes before F%d", t, t.Micro)
			case !keeps[t.Micro] && kept != t.Micro:
				return fmt.Errorf("%v lacks residuals: want an F%d that keeps them, or R%d directly before it", t, t.Micro, t.Micro)
			}
			backward++
		default:
			return fmt.Errorf("task %v of unknown kind: want F, R or B", t)
		}
	}
	if forward != micro || backward != micro {
		return fmt.Errorf("%d F and %d B: want %d of each, one for each micro-batch", forward, backward, micro)
	}
	return nil
}
