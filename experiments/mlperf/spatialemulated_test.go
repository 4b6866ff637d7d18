package mlperf

import (
	"math"
	"strings"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/lab/timed/timedtest"
	"gpipebench/nn/program"
)

// partedSteps is a log of a step of 10 s on one part, 8 s of it kernels, and of 7 s on more, by
// given work.
func partedSteps(t *testing.T, x *spatialEmulated, change func(parts int, r *partedStep)) *records.Log {
	t.Helper()
	return timedtest.Filled(t, x, "quick", func(parts, _ int) *partedStep {
		r := &partedStep{Step: 10, Kernels: 8, Loss: 2, SHA256: strings.Repeat("ab", 32)}
		if s := float64(parts); parts > 1 {
			r.Step, r.Kernels = 7, 5.5
			r.Work = map[string]partedWork{
				"by rows":    {Seconds: 4 / s, Slowest: 4 / s, All: 3.5},
				"partial":    {Seconds: 2.25, Slowest: 2 / s, All: 2},
				"alone":      {Seconds: 0.5, Slowest: 0.5, All: 0.5},
				"chunked":    {Seconds: 1 / s, Slowest: 1 / s, All: 1},
				"everywhere": {Seconds: 0.25, Slowest: 0.25, All: 0.25 * s},
				"exchange":   {Seconds: 0.125, Slowest: 0.125, All: 0.125 * s},
			}
		}
		change(parts, r)
		return r
	})
}

// An even share and the causes are the step, and each cause is that of given work.
func TestSpatialEmulatedReport(t *testing.T) {
	x := labtest.Loaded[*spatialEmulated](t, Paper.Experiment("spatial-emulated").Load)
	table := timedtest.Reported(t, x, partedSteps(t, x, func(int, *partedStep) {})).Tables[0]
	for i, row := range table.Rows[1:] {
		of := func(column string) float64 { return row[table.Column(column)].Numbers[0] }
		s := of("S")
		labtest.CheckCells(t, table, row, map[string]float64{
			"measured step": 7, "measured speedup": 10. / 7, "even": 10 / s,
			"turns": 2.25 - 2/s, "measured without turns": 10 / (7 - 2.25 + 2/s), "uneven rows": 0.5 / s, "uncut operations": 0.5 * (1 - 1/s),
			"batch norm": 0.25 * (1 - 1/s), "exchanges": 0.125, "smaller pieces": (3.5 + 2 + 0.5 + 1 + 0.25 - 8) / s,
			"update and others": 7 - 10/s + 8/s - (4/s + 2.25 + 0.5 + 1/s + 0.25 + 0.125),
		})
		sum := of("even")
		for _, c := range stepCauses {
			sum += of(c.name)
		}
		if math.Abs(sum-7) > 1e-9 {
			t.Errorf("S = %v: even share and causes are %v s, the step 7", s, sum)
		}
		if last := i == len(table.Rows)-2; (row[table.Column("paper")].Text == "1.6") != last {
			t.Errorf("S = %v: paper %v", s, row[table.Column("paper")])
		}
	}
	if one := table.Rows[0]; one[table.Column("turns")].Text != lab.Absent.Text || one[table.Column("same bits")].Text != "yes" {
		t.Errorf("one part: %v", one)
	}
	for _, change := range []func(*partedStep){
		func(r *partedStep) { r.Loss = math.Nextafter(r.Loss, 3) },
		func(r *partedStep) { r.SHA256 = strings.Repeat("cd", 32) },
	} {
		timedtest.CheckVerdict(t, x, partedSteps(t, x, func(parts int, r *partedStep) {
			if parts == 2 {
				change(r)
			}
		}), "on 2 parts have OTHER bits")
	}
}

// An instruction takes the median of its steps, in total and of each part.
func TestInstructionMedians(t *testing.T) {
	rows, sums := &program.Instr{Division: program.ByRows}, &program.Instr{Division: program.Partial}
	var all instructionTimes
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
	r, err := x.Report(log, nil)
	if err != nil || r.Verdict != nil || len(log.Names) != len(x.Spec.Parts) {
		t.Fatal(err, r.Verdict, log.Names)
	}
	var of, one partedStep
	if err := log.Get(x.Sample(4, 0), &of); err != nil {
		t.Fatal(err)
	}
	for _, d := range append(computing, program.Exchange) {
		if w := of.work(d); w.Slowest <= 0 || w.Seconds < w.Slowest {
			t.Errorf("%v: %+v", d, w)
		}
	}
	if err := log.Get(x.Sample(1, 0), &one); err != nil || one.Work != nil {
		t.Errorf("one part: %v, %+v", err, one)
	}
}

func TestSpatialEmulatedSpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("spatial-emulated"), [][3]string{
		{"parts: [1, 2, 4]", "parts: [2, 4]", "in ascending order"},
		{"parts: [1, 2, 4]", "parts: [1, 4, 2]", "in ascending order"},
		{"examples: 2", "examples: 0", "want a whole number from 1"},
	})
}
