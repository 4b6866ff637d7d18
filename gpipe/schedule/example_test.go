package schedule_test

import (
	"fmt"
	"strings"

	"gpipebench/gpipe/schedule"
)

// What three stages do with four micro-batches, everything recomputed: GPipe's
// fill-drain, and 1F1B, whose stages keep fewer micro-batches.
func ExampleBuild() {
	for _, s := range []schedule.Schedule{schedule.GPipe, schedule.OneFOneB} {
		lists, err := schedule.Build(s, 3, 4, schedule.Always, false)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(s)
		for k, list := range lists {
			held := schedule.Holds(list)
			fmt.Printf("%d: %s; keeps %d inputs, %d sets of residuals\n", k, strings.Trim(fmt.Sprint(list), "[]"), held.Inputs, held.Residuals)
		}
	}
	// Output:
	// gpipe
	// 0: F0 F1 F2 F3 R0 B0 R1 B1 R2 B2 R3 B3; keeps 4 inputs, 1 sets of residuals
	// 1: F0 F1 F2 F3 R0 B0 R1 B1 R2 B2 R3 B3; keeps 4 inputs, 1 sets of residuals
	// 2: F0 F1 F2 F3 R0 B0 R1 B1 R2 B2 R3 B3; keeps 4 inputs, 1 sets of residuals
	// 1f1b
	// 0: F0 F1 F2 R0 B0 F3 R1 B1 R2 B2 R3 B3; keeps 3 inputs, 1 sets of residuals
	// 1: F0 F1 R0 B0 F2 R1 B1 F3 R2 B2 R3 B3; keeps 2 inputs, 1 sets of residuals
	// 2: F0 R0 B0 F1 R1 B1 F2 R2 B2 F3 R3 B3; keeps 1 inputs, 1 sets of residuals
}

// How much faster eight even stages are than one, in theory, when the same work is
// divided into more and more micro-batches.
func ExampleStepTime() {
	const k, work = 8, 1.0 // seconds of F for the whole mini-batch and network
	alone, err := schedule.StepTime(schedule.GPipe, schedule.Always, false, 1, 1, work, work, 2*work)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range []int{1, 4, 32} {
		f := work / float64(k*m)
		step, err := schedule.StepTime(schedule.GPipe, schedule.Always, false, k, m, f, f, 2*f)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("M = %d: %.2f times as fast, bubble %.2f\n", m, alone/step, schedule.Bubble(k, m))
	}
	// Output:
	// M = 1: 1.28 times as fast, bubble 0.88
	// M = 4: 3.46 times as fast, bubble 0.64
	// M = 32: 6.87 times as fast, bubble 0.18
}
