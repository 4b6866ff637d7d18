package schedule

import (
	"fmt"
	"slices"
	"strconv"

	"gpipebench/gpipe/internal/named"
)

// Kind is what a task does with a micro-batch.
type Kind uint8

const (
	Forward         Kind = iota // F: boundary in -> boundary out
	Recompute                   // R: the forward again, keeping the residuals (GPipe, section 2.3)
	Backward                    // B: residuals + output gradient -> input gradient and parameter gradients
	BackwardInput               // I: the part of B that makes the input gradient
	BackwardWeights             // W: the part of B that makes the parameter gradients, after I
	Update                      // U: the stage's own update by a mini-batch's gradient, of asynchronous schedules
)

var letters = [...]string{"F", "R", "B", "I", "W", "U"}

// String is F, R, B, I, W or U.
func (k Kind) String() string { return named.String(k, letters[:], "Kind") }

// Task is one entry of a device's list.
type Task struct {
	Kind      Kind
	Keep      bool // a Forward that keeps the residuals, so that B needs no R
	AwaitGrad bool // a Recompute that waits for the output gradient (late recomputation); on the last stage there is none to wait for
	Micro     int  // the micro-batch, from 0
	Chunk     int  // of the device, if it has several
	// Version is the number of updates, since the lists began, of the weights that F, R or B reads,
	// or that U makes. Lists without U have version 0 alone.
	Version int
}

// String is the kind and the micro-batch: F0, R12, and the chunk but for the first: F0/1.
func (t Task) String() string {
	text := t.Kind.String() + strconv.Itoa(t.Micro)
	if t.Chunk > 0 {
		text += "/" + strconv.Itoa(t.Chunk)
	}
	return text
}

// Checkpoint says which micro-batches are re-materialised: Always (the zero value), ExceptLast or
// Never. "go doc schedule Always" describes each.
type Checkpoint uint8

const (
	Always     Checkpoint = iota // every micro-batch is recomputed; the default, and the paper's
	ExceptLast                   // all but the one that B consumes first, micro-batch 0 here (torchgpipe's except_last: its B descends, so it is the last there)
	Never                        // every F keeps its residuals
)

var checkpoints = [...]string{Always: "always", ExceptLast: "except-last", Never: "never"}

func (c Checkpoint) String() string { return named.String(c, checkpoints[:], "Checkpoint") }

// ParseCheckpoint reads what String writes: always, except-last or never.
func ParseCheckpoint(name string) (Checkpoint, error) {
	return named.Parse[Checkpoint](name, checkpoints[:], "checkpoint mode")
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

// Schedule is the order in which a stage takes up F and B: GPipe (the zero value), Naive, OneFOneB,
// Interleaved, ZBH1, ZBH2, ZBV, VHalf, VMin or DualPipeV, or, with updates in between, PipeDream,
// PipeDreamVertical, PipeDreamNoStash or PipeDream2BW. "go doc schedule GPipe" describes each.
type Schedule uint8

const (
	GPipe    Schedule = iota // fill-drain: every F, then every B (section 2.2, Figure 2c); the default
	Naive                    // one device at a time (Figure 2b): a micro-batch is finished before the next one starts
	OneFOneB                 // PipeDream-flush (Narayanan et al., arXiv 2006.09503): one F, one B in turn after a warm-up

	Interleaved // 1f1b with several chunks on each device, see interleaved

	ZBH1 // splits B, see [ZeroBubble]; the activations of 1f1b, and what its W still need
	ZBH2 // the same with about twice the memory

	// With two chunks on each device, placed as [Vee] does; they split B.
	ZBV       // the activations of 1f1b's first device: no bubble if F, I and W take the same time
	VHalf     // half of these activations
	VMin      // a third of them, the least there is
	DualPipeV // DeepSeek's DualPipe cut in half, see dualPipeV

	// Asynchronous ones, see [Window]: mini-batches follow one another without a drain, and each
	// stage updates its weights by itself.
	PipeDream         // B reads the version that its F has read, which is stashed (Narayanan et al., SOSP 2019)
	PipeDreamVertical // and every stage reads the version that the first has read (vertical sync)
	PipeDreamNoStash  // F and B read the newest version, each at its time
	PipeDream2BW      // mini-batches of M micro-batches, and two versions (Narayanan et al., arXiv 2006.09503)
)

// schedules names the schedules: the generators of a step's lists, as [Names] has them, then the
// asynchronous ones.
var schedules = [...]string{GPipe: "gpipe", Naive: "naive", OneFOneB: "1f1b", Interleaved: "interleaved", ZBH1: "zb-h1", ZBH2: "zb-h2",
	ZBV: "zb-v", VHalf: "v-half", VMin: "v-min", DualPipeV: "dualpipe-v",
	PipeDream: "pipedream", PipeDreamVertical: "pipedream-vertical", PipeDreamNoStash: "pipedream-nostash", PipeDream2BW: "pipedream-2bw"}

func (s Schedule) String() string { return named.String(s, schedules[:], "Schedule") }

// Parse reads what String writes: gpipe, naive, 1f1b, interleaved, ...
func Parse(name string) (Schedule, error) {
	return named.Parse[Schedule](name, schedules[:], "schedule")
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
	if s.Asynchronous() {
		return nil, fmt.Errorf("schedule: %v updates within its lists: want Window", s)
	}
	if !s.Straight() {
		return nil, fmt.Errorf("schedule: %v has several chunks on a device, or splits B: want Lists", s)
	}
	lists, _, err := Lists(s, stages, 1, micro, c, late)
	return lists, err
}

// ordered has F and B of each device in the order of a straight schedule.
func (s Schedule) ordered(devices, _, micro int) [][]Task {
	lists := make([][]Task, devices)
	for d := range lists {
		lists[d] = make([]Task, 0, 2*micro)
		ahead := s.warmUp(d, devices, micro)
		for m := range micro + ahead {
			if m < micro {
				lists[d] = append(lists[d], Task{Kind: Forward, Micro: m})
			}
			if m >= ahead {
				lists[d] = append(lists[d], Task{Kind: Backward, Micro: m - ahead})
			}
		}
	}
	return lists
}

// Plain are the schedules with one stage on each device, whole B, and one update a step. They differ
// in how many F a stage runs before its first B alone.
func Plain() (all []Schedule) {
	for s := range Interleaved {
		all = append(all, s)
	}
	return all
}

// Straight reports whether the schedule has one stage on each device, and no I and W.
func (s Schedule) Straight() bool { return s < Interleaved || s.Asynchronous() }

// Splits reports whether the schedule has I and W in place of some B, or of all.
func (s Schedule) Splits() bool { return s >= ZBH1 && !s.Asynchronous() }

// Lists returns the ordered task list of each device for one step, and which of the
// network's stages it has: those of [Generate], with residuals kept and made as c and late say
// (see [Build]). Chunks of each device: 0 means as many as the schedule has.
func Lists(s Schedule, devices, chunks, micro int, c Checkpoint, late bool) ([][]Task, Placement, error) {
	if err := Check(s, devices, micro, c); err != nil {
		return nil, Placement{}, err
	}
	lists, p, err := Generate(s.String(), devices, chunks, micro)
	if err != nil {
		return nil, Placement{}, err
	}
	return Checkpointed(lists, c, late || s == Naive), p, nil
}

// Checkpointed are lists that keep no residuals, with those that c keeps kept and R
// directly before the backward functions of the others; see [Build] for late.
func Checkpointed(lists [][]Task, c Checkpoint, late bool) [][]Task {
	all := make([][]Task, len(lists))
	for d, list := range lists {
		all[d] = make([]Task, 0, 2*len(list))
		for _, t := range list {
			switch t.Kind {
			case Forward:
				t.Keep = c.Keeps(t.Micro)
			case Backward, BackwardInput:
				if !c.Keeps(t.Micro) {
					all[d] = append(all[d], Task{Kind: Recompute, Micro: t.Micro, Chunk: t.Chunk, AwaitGrad: late, Version: t.Version})
				}
			}
			all[d] = append(all[d], t)
		}
	}
	return all
}

// Check returns an error if Build cannot build a schedule from the arguments.
func Check(s Schedule, stages, micro int, c Checkpoint) error {
	switch {
	case int(s) >= len(schedules):
		return fmt.Errorf("schedule: unknown schedule %d: want %s", s, named.Any(schedules[:]))
	case int(c) >= len(checkpoints):
		return fmt.Errorf("schedule: unknown checkpoint mode %d: want always, except-last or never", c)
	case stages < 1:
		return fmt.Errorf("schedule: %d stages: want 1 or more", stages)
	case micro < 1:
		return fmt.Errorf("schedule: %d micro-batches: want 1 or more", micro)
	}
	return nil
}

// Held counts what is held at once of micro-batches: their inputs, from the start of F to the end
// of B or I; sets of residuals, from the start of the F that keeps them, or of R, to the end of B
// or I; Lasting, the residuals that W reads, from there to the end of W, or of B; and Between,
// what I keeps for W, from the start of I to the end of W.
type Held struct{ Inputs, Residuals, Lasting, Between int }

// Holds is what a stage that runs the list must be able to hold: the most of each at once.
// Inputs that have arrived and wait for their F are not counted: a receiver has one slot per
// micro-batch for them.
func Holds(tasks []Task) Held {
	chunks := 1
	for _, t := range tasks {
		chunks = max(chunks, t.Chunk+1)
	}
	most := func(of Footprint) int { return int(Peak(tasks, slices.Repeat([]Footprint{of}, chunks))) }
	return Held{
		Inputs: most(Footprint{Input: 1}), Residuals: most(Footprint{Residuals: 1}),
		Lasting: most(Footprint{Residuals: 1, Weights: 1}), Between: most(Footprint{Weights: 1}),
	}
}

// Splits reports whether lists have a backward function in two, I and W.
func Splits(lists [][]Task) bool { return have(lists, BackwardInput) }

// have reports whether lists have a task of a kind.
func have(lists [][]Task, kind Kind) bool {
	return slices.ContainsFunc(lists, func(list []Task) bool {
		return slices.ContainsFunc(list, func(t Task) bool { return t.Kind == kind })
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
