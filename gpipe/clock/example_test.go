package clock_test

import (
	"fmt"
	"os"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline/draw"
)

// The paper's Figure 2c: four stages, four micro-batches, with the B of a stage
// twice as long as its F, and the parts of the step's time.
func Example() {
	tasks, err := schedule.Build(schedule.GPipe, 4, 4, schedule.Never, false)
	if err != nil {
		fmt.Println(err)
		return
	}
	costs := clock.Costs{Task: func(_ place.Place, t schedule.Task) float64 {
		if t.Kind == schedule.Backward {
			return 2
		}
		return 1
	}}
	tl, err := clock.Replay(tasks, costs)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := draw.WriteText(os.Stdout, tl, 72); err != nil {
		fmt.Println(err)
	}
	parts, err := clock.Breakdown(tasks, costs)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("computation %g s, bubble %g s: %.3f of the step, in theory %.3f\n",
		parts.Computation, parts.Bubble, parts.Bubble/parts.Step, schedule.Bubble(4, 4))
	// Output:
	// 3 |.........F0 F1 F2 F3 B0    B1    B2    B3    ..................|
	// 2 |......F0 F1 F2 F3 .........B0    B1    B2    B3    ............|
	// 1 |...F0 F1 F2 F3 ..................B0    B1    B2    B3    ......|
	// 0 |F0 F1 F2 F3 ...........................B0    B1    B2    B3    |
	//    step 21 s  F forward  B backward  . idle
	// computation 12 s, bubble 9 s: 0.429 of the step, in theory 0.429
}
