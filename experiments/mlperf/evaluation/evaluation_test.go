package evaluation

import (
	"math"
	"testing"

	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/train"
)

// A report of given steps is the arithmetic of these, with whole mini-batches.
func TestReport(t *testing.T) {
	e := labtest.Loaded[*evaluation](t, Definition.Load)
	log := records.New(e.Key("quick"))
	labtest.CheckLacking(t, e, log)
	for _, r := range e.Spec.Runs {
		for name, s := range map[string]sample{e.step(r): {Seconds: 0.02}, e.alone(r.examples()): {Forward: 0.001 * float64(r.examples())}} {
			if !log.Has(name) {
				if err := log.Add(name, 0, s); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	r, err := e.Report(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	labtest.CheckPlots(t, r)
	table := r.Tables[0]
	last := table.Rows[len(table.Rows)-1]
	// 50000 images are two mini-batches of 32768 on 2048 cores, 391 of 128 on one, and 49 of
	// 1024 on eight.
	training := 4 * 1281167 / 32768.0 * 0.02
	labtest.CheckCells(t, table, last, map[string]float64{
		"cores": 2048, "training": training, "all cores": 0.032, "padded": 15536, "share, all cores": 100 * 0.032 / (training + 0.032),
		"one core": 391 * 0.128, "share, one core": 100 * 391 * 0.128 / (training + 391*0.128), "card": 49 * 0.128, "card / training": 49 * 0.128 / training,
	})
}

// Forward passes are a part of the step, and a core by itself has those of its images.
func TestMeasure(t *testing.T) {
	e := labtest.Loaded[*evaluation](t, Definition.Load)
	e.Spec.Model = train.Model{Name: "resnet50", Width: 4, Image: 32, Classes: 10}
	e.Spec.Runs, e.Spec.Alone = e.Spec.Runs[:1], 64
	e.Spec.Runs[0].Torus.X, e.Spec.Runs[0].Torus.Y, e.Spec.Runs[0].Batch = 4, 2, 64
	log := records.New(records.Key{Profile: "quick"})
	labtest.MeasureTwice(t, e, log)
	var step, few, many sample
	for name, s := range map[string]*sample{e.step(e.Spec.Runs[0]): &step, e.alone(8): &few, e.alone(64): &many} {
		if err := log.Get(name, s); err != nil {
			t.Fatal(err)
		}
	}
	if !(few.Forward > 0 && few.Forward < few.Seconds/2 && few.Forward < many.Forward && math.Abs(step.Forward/few.Forward-1) < 1e-9) {
		t.Errorf("8 cores %+v, one with as many images %+v, with all %+v", step, few, many)
	}
	if len(log.Names) != 3 {
		t.Errorf("samples %v", log.Names)
	}
}

func TestSpec(t *testing.T) {
	labtest.CheckRefused(t, Definition, [][3]string{
		{"{x: 64, y: 32}", "{x: 4, y: 4}", "more cores than the one before"},
		{"{x: 8, y: 4}", "{x: 1, y: 1}", "two cores or more"},
		{"bn_scope: 8", "bn_scope: 3", "batch norm over 3 of 2048 cores"},
		{"batch: 4096", "batch: 4095", "4095 examples on 32 cores"},
		{"held_out: 50000", "held_out: 0", "want a whole number from 1"},
		{"quick: {expected: 3s, most: 6}", "quick: {expected: 3s, most: 7}", "want at most 6"},
	})
	e := labtest.Loaded[*evaluation](t, Definition.Load)
	labtest.CheckKey(t, func(file string) lab.Experiment {
		e.Spec.Accelerator = file
		return e
	})
}
