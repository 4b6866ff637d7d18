package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Kind is what a task does with a micro-batch.
type Kind uint8

const (
	Forward         Kind = iota // F: boundary in -> boundary out
	Recompute                   // R: the forward again, keeping the residuals (GPipe, section 2.3)
	Backward                    // B: residuals + output gradient -> input gradient and parameter gradients
	BackwardInput               // I: the part of B that makes the input gradient
	BackwardWeights             // W: the part of B that makes the parameter gradients, after I
)

const letters = "FRBIW"

// String is F, R, B, I or W.
func (k Kind) String() string {
	if int(k) < len(letters) {
		return letters[k : k+1]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Task is one entry of a device's list.
type Task struct {
	Kind      Kind
	Micro     int  // the micro-batch, from 0
	Keep      bool // a Forward that keeps the residuals, so that B needs no R
	AwaitGrad bool // a Recompute that waits for the output gradient (late recomputation); on the last stage there is none to wait for
	Chunk     int  // of the device, if it has several
}

// String is the kind and the micro-batch: F0, R12, and the chunk but for the first: F0/1.
func (t Task) String() string {
	text := t.Kind.String() + strconv.Itoa(t.Micro)
	if t.Chunk > 0 {
		text += "/" + strconv.Itoa(t.Chunk)
	}
	return text
}

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

	InterleavedOneFOneB // 1f1b with several chunks on each device, see [Interleaved]

	ZeroBubbleH1 // splits B, see [ZeroBubble]; memory as for 1f1b
	ZeroBubbleH2 // the same with about twice the memory

	// With two chunks on each device, placed as [Vee] does; they split B.
	ZeroBubbleVee // [ZBV]
	HalfVee       // [VHalf]
	MinVee        // [VMin]
	DualPipeVee   // see [DualPipeV]
)

// schedules are those of a step's lists by name: the first of [Names].
var schedules = [...]string{GPipe: "gpipe", Naive: "naive", OneFOneB: "1f1b", InterleavedOneFOneB: "interleaved", ZeroBubbleH1: "zb-h1", ZeroBubbleH2: "zb-h2",
	ZeroBubbleVee: "zb-v", HalfVee: "v-half", MinVee: "v-min", DualPipeVee: "dualpipe-v"}

// anyOf names the schedules for messages.
func anyOf() string {
	last := len(schedules) - 1
	return strings.Join(schedules[:last], ", ") + " or " + schedules[last]
}

func (s Schedule) String() string {
	if int(s) < len(schedules) {
		return schedules[s]
	}
	return fmt.Sprintf("Schedule(%d)", uint8(s))
}

// Parse reads what String writes: gpipe, naive, 1f1b, interleaved, ...
func Parse(name string) (Schedule, error) {
	for s, n := range schedules {
		if n == name {
			return Schedule(s), nil
		}
	}
	return 0, fmt.Errorf("unknown schedule %q: want %s", name, anyOf())
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
	if !s.Straight() {
		return nil, fmt.Errorf("schedule: %v has several chunks on a device, or splits B: want Lists", s)
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

// Straight reports whether the schedule has one stage on each device, and F, R and B only.
func (s Schedule) Straight() bool { return s <= OneFOneB }

// Splits reports whether the schedule has I and W in place of some B, or of all.
func (s Schedule) Splits() bool { return s >= ZeroBubbleH1 }

// Lists returns the ordered task list of each device for one step, and which of the
// network's stages it has: those of [Build], or those of [Generate] with residuals kept
// and made as c and late say. Chunks of each device: 0 means as many as the schedule has.
func Lists(s Schedule, devices, chunks, micro int, c Checkpoint, late bool) ([][]Task, Placement, error) {
	if err := Check(s, devices, micro, c); err != nil {
		return nil, Placement{}, err
	}
	if s.Straight() && chunks <= 1 {
		lists, err := Build(s, devices, micro, c, late)
		return lists, Straight(devices), err
	}
	lists, p, err := Generate(s.String(), devices, chunks, micro)
	if err != nil {
		return nil, Placement{}, err
	}
	return Checkpointed(lists, c, late), p, nil
}

// Check returns an error if Build cannot build a schedule from the arguments.
func Check(s Schedule, stages, micro int, c Checkpoint) error {
	switch {
	case int(s) >= len(schedules):
		return fmt.Errorf("schedule: unknown schedule %d: want %s", s, anyOf())
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
// them (or of R) to the end of B(m), or I(m). Inputs that have arrived and wait for
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
		if t.Kind == Backward || t.Kind == BackwardInput {
			inputs--
			sets--
		}
	}
	return boundary, residual
}

// Splits reports whether lists have a backward function in two, I and W.
func Splits(lists [][]Task) bool {
	return slices.ContainsFunc(lists, func(list []Task) bool {
		return slices.ContainsFunc(list, func(t Task) bool { return t.Kind == BackwardInput })
	})
}

// MakesResiduals reports whether the residuals of its micro-batch are held from the start
// of the task on.
func (t Task) MakesResiduals() bool { return t.Kind == Recompute || t.Kind == Forward && t.Keep }

// FreesResiduals reports whether those that the program of weights does not read are free
// at the end of the task.
func (t Task) FreesResiduals() bool { return t.Kind == Backward || t.Kind == BackwardInput }

// Accumulates reports whether the gradients of weights are complete, for its micro-batch,
// at the end of the task.
func (t Task) Accumulates() bool { return t.Kind == Backward || t.Kind == BackwardWeights }

// AwaitingWeights is what a stage that runs the list must be able to hold for W: the most
// sets at once of residuals that W reads, each from the start of the F that keeps them (or
// of R) to the end of W, or of B; and the most sets at once of what I keeps for W, each
// from the start of I to the end of W.
func AwaitingWeights(tasks []Task) (lasting, between int) {
	var sets, kept int
	for _, t := range tasks {
		if t.MakesResiduals() {
			sets++
		}
		if t.Kind == BackwardInput {
			kept++
		}
		lasting, between = max(lasting, sets), max(between, kept)
		if t.Accumulates() {
			sets--
		}
		if t.Kind == BackwardWeights {
			kept--
		}
	}
	return lasting, between
}

// Repeated returns lists of a step that takes groups of micro-batches one after another:
// of each group its own, which of returns for a number of micro-batches.
func Repeated(groups []int, of func(micro int) ([][]Task, error)) (all [][]Task, err error) {
	first := 0
	for _, micro := range groups {
		if micro == 0 {
			continue
		}
		lists, err := of(micro)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = make([][]Task, len(lists))
		}
		for d, list := range lists {
			for _, t := range list {
				t.Micro += first
				all[d] = append(all[d], t)
			}
		}
		first += micro
	}
	return all, nil
}
