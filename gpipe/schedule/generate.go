package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// generator makes the lists of a step.
type generator struct {
	chunks   int // of a device; 0: any number. Two are placed as [Vee] does, others as [Loop]
	generate func(devices, chunks, micro int) [][]Task
}

var generators = [...]generator{
	GPipe: {1, GPipe.ordered}, Naive: {1, Naive.ordered}, OneFOneB: {1, OneFOneB.ordered},
	Interleaved: {0, interleaved},
	ZBH1:        {1, func(devices, _, micro int) [][]Task { return ZeroBubble(devices, micro, false) }},
	ZBH2:        {1, func(devices, _, micro int) [][]Task { return ZeroBubble(devices, micro, true) }},
	ZBV:         {2, ZBV.vees}, VHalf: {2, VHalf.vees}, VMin: {2, VMin.vees}, DualPipeV: {2, dualPipeV},
}

// Names are the schedules that [Generate] knows.
func Names() []string { return slices.Clone(schedules[:len(generators)]) }

// Generate makes a schedule by its name, for a number of devices, of chunks on each (0: the
// schedule's own number, for interleaved two) and of micro-batches. No F keeps
// its residuals and there is no R: see [Checkpointed].
func Generate(name string, devices, chunks, micro int) (lists [][]Task, p Placement, err error) {
	if p, err = Place(name, devices, chunks, micro); err != nil {
		return nil, p, err
	}
	g := generators[slices.Index(Names(), name)]
	return g.generate(devices, p.Stages()/devices, micro), p, nil
}

// Place is where [Generate] has the stages of a network, or the error with which it refuses
// its arguments; it makes no lists.
func Place(name string, devices, chunks, micro int) (p Placement, err error) {
	i := slices.Index(Names(), name)
	if slices.Contains(AsynchronousNames(), name) {
		return p, fmt.Errorf("schedule: %s updates within its lists: want one of %s", name, strings.Join(Names(), ", "))
	}
	if i < 0 {
		return p, fmt.Errorf("schedule: unknown schedule %q: want %s", name, strings.Join(Names(), ", "))
	}
	g := generators[i]
	chunks = cmp.Or(chunks, g.chunks, 2)
	switch {
	case devices < 1:
		return p, fmt.Errorf("schedule: %d devices: want 1 or more", devices)
	case micro < 1:
		return p, fmt.Errorf("schedule: %d micro-batches: want 1 or more", micro)
	case chunks < 1 || g.chunks > 0 && chunks != g.chunks:
		return p, fmt.Errorf("schedule: %d chunks on each device with %s: want %s", chunks, name, [...]string{"1 or more", "1", "2"}[g.chunks])
	case name == "dualpipe-v" && micro < 2*devices:
		return p, fmt.Errorf("schedule: dualpipe-v of %d micro-batches on %d devices: want %d or more, two for each device", micro, devices, 2*devices)
	}
	if g.chunks == 2 {
		return Vee(devices), nil
	}
	return Loop(devices, chunks), nil
}
