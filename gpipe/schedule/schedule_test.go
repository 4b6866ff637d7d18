package schedule

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpipebench/gpipe/internal/named"
	"gpipebench/internal/testkit"
)

// lists writes one line per stage. + marks an F that keeps its residuals, ~ an
// R that waits for the gradient.
func lists(tasks [][]Task) string {
	var out strings.Builder
	for k, list := range tasks {
		fmt.Fprintf(&out, "%d:", k)
		for _, t := range list {
			mark := ""
			if t.Keep {
				mark += "+"
			}
			if t.AwaitGrad {
				mark += "~"
			}
			fmt.Fprintf(&out, " %v%s", t, mark)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// The order on each device, in full. When each task runs is drawn in package
// timeline's tests.
func TestBuild(t *testing.T) {
	for _, test := range []struct {
		name          string
		schedule      Schedule
		stages, micro int
		checkpoint    Checkpoint
		late          bool
		want          string
	}{
		{"gpipe always early", GPipe, 4, 4, Always, false, `
0: F0 F1 F2 F3 R0 B0 R1 B1 R2 B2 R3 B3
1: F0 F1 F2 F3 R0 B0 R1 B1 R2 B2 R3 B3
2: F0 F1 F2 F3 R0 B0 R1 B1 R2 B2 R3 B3
3: F0 F1 F2 F3 R0 B0 R1 B1 R2 B2 R3 B3
`},
		{"gpipe always late", GPipe, 2, 3, Always, true, `
0: F0 F1 F2 R0~ B0 R1~ B1 R2~ B2
1: F0 F1 F2 R0~ B0 R1~ B1 R2~ B2
`},
		{"gpipe except-last early", GPipe, 4, 4, ExceptLast, false, `
0: F0+ F1 F2 F3 B0 R1 B1 R2 B2 R3 B3
1: F0+ F1 F2 F3 B0 R1 B1 R2 B2 R3 B3
2: F0+ F1 F2 F3 B0 R1 B1 R2 B2 R3 B3
3: F0+ F1 F2 F3 B0 R1 B1 R2 B2 R3 B3
`},
		{"gpipe never", GPipe, 4, 4, Never, false, `
0: F0+ F1+ F2+ F3+ B0 B1 B2 B3
1: F0+ F1+ F2+ F3+ B0 B1 B2 B3
2: F0+ F1+ F2+ F3+ B0 B1 B2 B3
3: F0+ F1+ F2+ F3+ B0 B1 B2 B3
`},
		{"naive always waits, early or not", Naive, 3, 2, Always, false, `
0: F0 R0~ B0 F1 R1~ B1
1: F0 R0~ B0 F1 R1~ B1
2: F0 R0~ B0 F1 R1~ B1
`},
		{"naive never: the paper's baseline with gradient accumulation", Naive, 3, 2, Never, false, `
0: F0+ B0 F1+ B1
1: F0+ B0 F1+ B1
2: F0+ B0 F1+ B1
`},
		{"1f1b always early", OneFOneB, 4, 8, Always, false, `
0: F0 F1 F2 F3 R0 B0 F4 R1 B1 F5 R2 B2 F6 R3 B3 F7 R4 B4 R5 B5 R6 B6 R7 B7
1: F0 F1 F2 R0 B0 F3 R1 B1 F4 R2 B2 F5 R3 B3 F6 R4 B4 F7 R5 B5 R6 B6 R7 B7
2: F0 F1 R0 B0 F2 R1 B1 F3 R2 B2 F4 R3 B3 F5 R4 B4 F6 R5 B5 F7 R6 B6 R7 B7
3: F0 R0 B0 F1 R1 B1 F2 R2 B2 F3 R3 B3 F4 R4 B4 F5 R5 B5 F6 R6 B6 F7 R7 B7
`},
		{"1f1b except-last late", OneFOneB, 2, 3, ExceptLast, true, `
0: F0+ F1 B0 F2 R1~ B1 R2~ B2
1: F0+ B0 F1 R1~ B1 F2 R2~ B2
`},
		{"1f1b with fewer micro-batches than stages", OneFOneB, 4, 2, Never, false, `
0: F0+ F1+ B0 B1
1: F0+ F1+ B0 B1
2: F0+ F1+ B0 B1
3: F0+ B0 F1+ B1
`},
		{"one of each", GPipe, 1, 1, Always, false, "\n0: F0 R0 B0\n"},
		{"one, kept", GPipe, 1, 1, ExceptLast, true, "\n0: F0+ B0\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := testkit.Must(Build(test.schedule, test.stages, test.micro, test.checkpoint, test.late))(t)
			testkit.Equal(t, cmp.Diff(strings.TrimPrefix(test.want, "\n"), lists(got)), "", "-want +got")
		})
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
		if _, err := StepTime(test.schedule, test.checkpoint, false, test.stages, test.micro, 1, 1, 1); err == nil || err.Error() != test.want {
			t.Errorf("StepTime: error %v, want %s", err, test.want)
		}
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
