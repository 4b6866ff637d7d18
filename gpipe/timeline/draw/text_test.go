package draw

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/clock/clocktest"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/testkit"
)

func text(t *testing.T, tl *timeline.Timeline, width int) string {
	t.Helper()
	var out strings.Builder
	testkit.NoError(t, WriteText(&out, tl, width))
	return out.String()
}

// The paper's triangles (Figure 2), with B ascending. F, R and B take one second
// each.
func TestTriangles(t *testing.T) {
	for _, test := range []struct {
		name          string
		schedule      schedule.Schedule
		stages, micro int
		checkpoint    schedule.Checkpoint
		late          bool
		width         int
		want          string
	}{
		{"gpipe always early", schedule.GPipe, 4, 4, schedule.Always, false, 80, `
3 |............F0  F1  F2  F3  R0  B0  R1  B1  R2  B2  R3  B3  ............|
2 |........F0  F1  F2  F3  R0  ........B0  R1  B1  R2  B2  R3  B3  ........|
1 |....F0  F1  F2  F3  R0  ................B0  R1  B1  R2  B2  R3  B3  ....|
0 |F0  F1  F2  F3  R0  ........................B0  R1  B1  R2  B2  R3  B3  |
   step 18 s  F forward  R recompute  B backward  . idle
`},
		{"gpipe always late", schedule.GPipe, 4, 4, schedule.Always, true, 80, `
3 |.........F0 F1 F2 F3 R0 B0 R1 B1 R2 B2 R3 B3 ..................|
2 |......F0 F1 F2 F3 .........R0 B0 R1 B1 R2 B2 R3 B3 ............|
1 |...F0 F1 F2 F3 ..................R0 B0 R1 B1 R2 B2 R3 B3 ......|
0 |F0 F1 F2 F3 ...........................R0 B0 R1 B1 R2 B2 R3 B3 |
   step 21 s  F forward  R recompute  B backward  . idle
`},
		{"gpipe except-last early", schedule.GPipe, 4, 4, schedule.ExceptLast, false, 80, `
3 |............F0  F1  F2  F3  B0  R1  B1  R2  B2  R3  B3  ............|
2 |........F0  F1  F2  F3  ........B0  R1  B1  R2  B2  R3  B3  ........|
1 |....F0  F1  F2  F3  ................B0  R1  B1  R2  B2  R3  B3  ....|
0 |F0  F1  F2  F3  ........................B0  R1  B1  R2  B2  R3  B3  |
   step 17 s  F forward  R recompute  B backward  . idle
`},
		{"gpipe never", schedule.GPipe, 4, 4, schedule.Never, false, 80, `
3 |...............F0   F1   F2   F3   B0   B1   B2   B3   ...............|
2 |..........F0   F1   F2   F3   ..........B0   B1   B2   B3   ..........|
1 |.....F0   F1   F2   F3   ....................B0   B1   B2   B3   .....|
0 |F0   F1   F2   F3   ..............................B0   B1   B2   B3   |
   step 14 s  F forward  B backward  . idle
`},
		{"naive always", schedule.Naive, 3, 2, schedule.Always, false, 80, `
2 |........F0  R0  B0  ........................F1  R1  B1  ................|
1 |....F0  ............R0  B0  ............F1  ............R1  B1  ........|
0 |F0  ........................R0  B0  F1  ........................R1  B1  |
   step 18 s  F forward  R recompute  B backward  . idle
`},
		{"naive never", schedule.Naive, 3, 2, schedule.Never, false, 64, `
2 |..........F0   B0   ....................F1   B1   ..........|
1 |.....F0   ..........B0   ..........F1   ..........B1   .....|
0 |F0   ....................B0   F1   ....................B1   |
   step 12 s  F forward  B backward  . idle
`},
		{"1f1b always early", schedule.OneFOneB, 4, 8, schedule.Always, false, 96, `
3 |.........F0 R0 B0 F1 R1 B1 F2 R2 B2 F3 R3 B3 F4 R4 B4 F5 R5 B5 F6 R6 B6 F7 R7 B7 .........|
2 |......F0 F1 R0 ...B0 F2 R1 B1 F3 R2 B2 F4 R3 B3 F5 R4 B4 F6 R5 B5 F7 R6 B6 R7 ...B7 ......|
1 |...F0 F1 F2 R0 ......B0 F3 R1 B1 F4 R2 B2 F5 R3 B3 F6 R4 B4 F7 R5 B5 R6 ...B6 R7 ...B7 ...|
0 |F0 F1 F2 F3 R0 .........B0 F4 R1 B1 F5 R2 B2 F6 R3 B3 F7 R4 B4 R5 ...B5 R6 ...B6 R7 ...B7 |
   step 30 s  F forward  R recompute  B backward  . idle
`},
		{"1f1b never", schedule.OneFOneB, 4, 8, schedule.Never, false, 80, `
3 |.........F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7 .........|
2 |......F0 F1 ...B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 ...B7 ......|
1 |...F0 F1 F2 ......B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 ...B6 ...B7 ...|
0 |F0 F1 F2 F3 .........B0 F4 B1 F5 B2 F6 B3 F7 B4 ...B5 ...B6 ...B7 |
   step 22 s  F forward  B backward  . idle
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			tl := clocktest.Build(t, test.schedule, test.stages, test.micro, test.checkpoint, test.late, clock.Costs{Task: clocktest.Each(1, 1, 1)})
			testkit.Equal(t, cmp.Diff(strings.TrimPrefix(test.want, "\n"), text(t, tl, test.width)), "", "-want +got")
		})
	}
}

// Cells too narrow for their labels, times that share no unit, and the kinds
// that are not tasks.
func TestWriteText(t *testing.T) {
	one := func(place.Place) float64 { return 1 }
	for _, test := range []struct {
		name  string
		tl    *timeline.Timeline
		width int
		want  string
	}{
		{"letters only", clocktest.Build(t, schedule.GPipe, 3, 12, schedule.Never, false, clock.Costs{Task: clocktest.Each(1, 0, 1)}), 40, `
2 |..FFFFFFFFFFFFBBBBBBBBBBBB..|
1 |.FFFFFFFFFFFF..BBBBBBBBBBBB.|
0 |FFFFFFFFFFFF....BBBBBBBBBBBB|
   step 28 s  F forward  B backward  . idle
`},
		{"labels where they fit", clocktest.Build(t, schedule.GPipe, 1, 11, schedule.Never, false, clock.Costs{Task: clocktest.Each(1, 0, 1)}), 50, `
0 |F0F1F2F3F4F5F6F7F8F9F B0B1B2B3B4B5B6B7B8B9B |
   step 22 s  F forward  B backward  . idle
`},
		{"no common unit", clocktest.Build(t, schedule.GPipe, 2, 2, schedule.Always, false, clock.Costs{Task: clocktest.Each(1e-3, 1.1e-3, 1.93e-3)}), 60, `
1 |.....F0   F1   R0    B0        R1   B1        ..........|
0 |F0   F1   R0    ...............B0        R1   B1        |
   step 10.99 ms  F forward  R recompute  B backward  . idle
`},
		{"setup, barrier, update", clocktest.Build(t, schedule.GPipe, 2, 1, schedule.Never, false, clock.Costs{Task: clocktest.Each(1, 0, 2), Setup: one, Update: one}), 40, `
1 |S   ....F0  B0      ::::::::U   |
0 |S   F0  ............B0      U   |
   step 8 s  F forward  B backward  S setup  : barrier  U update  . idle
`},
		{"nothing", &timeline.Timeline{Devices: 11}, 20, `
10 |...............|
 9 |...............|
 8 |...............|
 7 |...............|
 6 |...............|
 5 |...............|
 4 |...............|
 3 |...............|
 2 |...............|
 1 |...............|
 0 |...............|
    step 0 s  . idle
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			testkit.Equal(t, cmp.Diff(strings.TrimPrefix(test.want, "\n"), text(t, test.tl, test.width)), "", "-want +got")
		})
	}
	testkit.Equal(t, fmt.Sprint(WriteText(nil, &timeline.Timeline{}, 19)), "draw: a drawing 19 characters wide: want 20 or more")
}

func TestSeconds(t *testing.T) {
	for _, test := range []struct {
		t    float64
		want string
	}{{0, "0 s"}, {1, "1 s"}, {12.3456, "12.35 s"}, {0.5, "500 ms"}, {2.5e-5, "25 us"}, {3e-9, "3 ns"}} {
		testkit.Equal(t, seconds(test.t), test.want, "seconds(%v)", test.t)
	}
}

// Chunks are in labels, and paler in pictures.
func TestChunksAreDrawn(t *testing.T) {
	lists, p, err := schedule.Lists(schedule.Interleaved, 2, 2, 2, schedule.Never, false)
	testkit.NoError(t, err)
	tl := testkit.Must(clock.Replay(lists, clock.Costs{Placement: p, Task: clocktest.Each(1, 1, 2)}))(t)
	var text, svg, chrome strings.Builder
	for _, err := range []error{WriteText(&text, tl, 100), WriteSVG(&svg, Drawing{"", tl}), WriteChrome(&chrome, tl, nil)} {
		testkit.Equal(t, err, nil)
	}
	for in, want := range map[*strings.Builder]string{&text: "F0/1", &svg: `fill-opacity="0.6"`, &chrome: `"chunk":1`} {
		testkit.Has(t, in.String(), want)
	}
}
