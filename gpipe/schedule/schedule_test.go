package schedule

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpipebench/gpipe/internal/named"
	"gpipebench/internal/testkit"
)

// line writes a device's list. + marks an F that keeps its residuals, ~ an R that waits for
// the gradient.
func line(list []Task) string {
	var all []string
	for _, t := range list {
		text := t.String()
		if t.Keep {
			text += "+"
		}
		if t.AwaitGrad {
			text += "~"
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// The order on each device, in full; one list serves all devices. When each task runs is drawn in
// package timeline's tests.
func TestBuild(t *testing.T) {
	for _, test := range []struct {
		name          string
		schedule      Schedule
		stages, micro int
		checkpoint    Checkpoint
		late          bool
		want          []string
	}{
		{"gpipe always early", GPipe, 4, 4, Always, false, []string{"F0 F1 F2 F3 R0 B0 R1 B1 R2 B2 R3 B3"}},
		{"gpipe always late", GPipe, 2, 3, Always, true, []string{"F0 F1 F2 R0~ B0 R1~ B1 R2~ B2"}},
		{"gpipe except-last early", GPipe, 4, 4, ExceptLast, false, []string{"F0+ F1 F2 F3 B0 R1 B1 R2 B2 R3 B3"}},
		{"gpipe never", GPipe, 4, 4, Never, false, []string{"F0+ F1+ F2+ F3+ B0 B1 B2 B3"}},
		{"naive always waits, early or not", Naive, 3, 2, Always, false, []string{"F0 R0~ B0 F1 R1~ B1"}},
		{"naive never: the paper's baseline with gradient accumulation", Naive, 3, 2, Never, false, []string{"F0+ B0 F1+ B1"}},
		{"1f1b always early", OneFOneB, 4, 8, Always, false, []string{
			"F0 F1 F2 F3 R0 B0 F4 R1 B1 F5 R2 B2 F6 R3 B3 F7 R4 B4 R5 B5 R6 B6 R7 B7",
			"F0 F1 F2 R0 B0 F3 R1 B1 F4 R2 B2 F5 R3 B3 F6 R4 B4 F7 R5 B5 R6 B6 R7 B7",
			"F0 F1 R0 B0 F2 R1 B1 F3 R2 B2 F4 R3 B3 F5 R4 B4 F6 R5 B5 F7 R6 B6 R7 B7",
			"F0 R0 B0 F1 R1 B1 F2 R2 B2 F3 R3 B3 F4 R4 B4 F5 R5 B5 F6 R6 B6 F7 R7 B7",
		}},
		{"1f1b except-last late", OneFOneB, 2, 3, ExceptLast, true, []string{"F0+ F1 B0 F2 R1~ B1 R2~ B2", "F0+ B0 F1 R1~ B1 F2 R2~ B2"}},
		{"1f1b with fewer micro-batches than stages", OneFOneB, 4, 2, Never, false, []string{
			"F0+ F1+ B0 B1", "F0+ F1+ B0 B1", "F0+ F1+ B0 B1", "F0+ B0 F1+ B1",
		}},
		{"one of each", GPipe, 1, 1, Always, false, []string{"F0 R0 B0"}},
		{"one, kept", GPipe, 1, 1, ExceptLast, true, []string{"F0+ B0"}},
	} {
		if len(test.want) == 1 {
			test.want = slices.Repeat(test.want, test.stages)
		}
		var got []string
		for _, list := range testkit.Must(Build(test.schedule, test.stages, test.micro, test.checkpoint, test.late))(t, test.name) {
			got = append(got, line(list))
		}
		testkit.Equal(t, cmp.Diff(test.want, got), "", "%s (-want +got)", test.name)
	}
}

func TestBuildRefuses(t *testing.T) {
	for _, test := range []struct {
		schedule      Schedule
		stages, micro int
		checkpoint    Checkpoint
		want          string
	}{
		{GPipe, 0, 1, Always, "schedule: 0 stages: want 1 or more"},
		{GPipe, 1, -3, Always, "schedule: -3 micro-batches: want 1 or more"},
		{99, 1, 1, Always, "schedule: unknown schedule 99: want " + named.Any(append(Names(), AsynchronousNames()...))},
		{GPipe, 1, 1, 9, "schedule: unknown checkpoint mode 9: want always, except-last or never"},
	} {
		_, err := Build(test.schedule, test.stages, test.micro, test.checkpoint, false)
		testkit.Equal(t, fmt.Sprint(err), test.want)
		_, err = StepTime(test.schedule, test.checkpoint, false, test.stages, test.micro, 1, 1, 1)
		testkit.Equal(t, fmt.Sprint(err), test.want, "StepTime")
	}
}

// What a stage holds: gpipe the whole mini-batch's boundary inputs and, with
// re-materialisation, one set of residuals; 1f1b no more than K-k micro-batches.
func TestHolds(t *testing.T) {
	for stages := 1; stages <= 6; stages++ {
		for micro := 1; micro <= 8; micro++ {
			for _, s := range Plain() {
				for _, c := range []Checkpoint{Always, ExceptLast, Never} {
					tasks := testkit.Must(Build(s, stages, micro, c, false))(t)
					for k, list := range tasks {
						boundary := min(micro, s.warmUp(k, stages, micro)+1)
						if known, is := map[Schedule]int{GPipe: micro, Naive: 1, OneFOneB: min(micro, stages-k)}[s]; is {
							boundary = known
						}
						residual := 1
						if c == Never {
							residual = boundary
						}
						want := Held{Inputs: boundary, Residuals: residual, Lasting: residual}
						testkit.Equal(t, Holds(list), want, "%v %v K=%d M=%d stage %d", s, c, stages, micro, k)
					}
				}
			}
		}
	}
}
