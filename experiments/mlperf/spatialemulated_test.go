package mlperf

import (
	"math"
	"strings"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/testkit"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/nn/program"
)

// Other bits on some parts are a verdict.
func TestSpatialEmulatedVerdict(t *testing.T) {
	x := labtest.Loaded[*spatialEmulated](t, Paper.Experiment("spatial-emulated").Load)
	for _, change := range []func(*partedStep){
		func(r *partedStep) { r.Loss = math.Nextafter(r.Loss, 99) },
		func(r *partedStep) { r.SHA256 = strings.Repeat("cd", 32) },
	} {
		labtest.CheckVerdict(t, x, x.Sample(2, 1), change, "on 2 parts have OTHER bits")
	}
}

// An instruction takes the median of its steps, in total and of each part.
func TestInstructionMedians(t *testing.T) {
	rows, sums := &program.Instr{Division: program.ByRows}, &program.Instr{Division: program.Partial}
	all := instructionTimes{index: map[taskInstruction]int{}}
	for _, run := range []gpipe.KernelRun{
		{Instr: rows, Seconds: 3, Parts: []float64{3, 1}},
		{Instr: sums, Seconds: 5, Parts: []float64{2, 3}},
		{Instr: rows, Seconds: 90, Parts: []float64{2, 90}},
		{Instr: sums, Seconds: 5, Parts: []float64{2, 3}},
		{Instr: rows, Seconds: 2, Parts: []float64{1, 2}},
		{Instr: sums, Seconds: 6, Parts: []float64{3, 3}},
		{Task: schedule.Backward, Instr: rows, Seconds: 1, Parts: []float64{1, 1}},
	} {
		all.add(run)
	}
	seconds, by := all.medians()
	if seconds != 3+5+1 || len(by) != 2 || by["by rows"] != (partedWork{3 + 1, 2 + 1, 4 + 2}) || by["partial"] != (partedWork{5, 3, 5}) {
		t.Errorf("%v s, %+v", seconds, by)
	}
}

// Measuring leaves what a report needs, with one hash and some time for all that parts do.
func TestSpatialEmulatedMeasures(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	x := labtest.Loaded[*spatialEmulated](t, Paper.Experiment("spatial-emulated").Load)
	log := records.New(x.Key("smoke"))
	labtest.MeasureTwice(t, x, log)
	labtest.Reported(t, x, log)
	testkit.Equal(t, len(log.Names), len(x.Spec.Parts), "samples %v", log.Names)
	var of, one partedStep
	testkit.NoError(t, log.Get(x.Sample(4, 0), &of))
	for _, d := range append(computing, program.Exchange) {
		if w := of.work(d); w.Slowest <= 0 || w.Seconds < w.Slowest {
			t.Errorf("%v: %+v", d, w)
		}
	}
	testkit.NoError(t, log.Get(x.Sample(1, 0), &one))
	testkit.Equal(t, len(one.Work), 0, "works of one part")
}

func TestSpatialEmulatedSpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("spatial-emulated"), [][3]string{
		{"parts: [1, 2, 4]", "parts: [2, 4]", "want 1 first"},
		{"parts: [1, 2, 4]", "parts: [1, 4, 2]", "in ascending order"},
		{"examples: 2", "examples: 0", "want a whole number from 1"},
	})
}
