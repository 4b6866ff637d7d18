package update

import (
	"math"
	"testing"

	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/train"
)

// A report of given steps is the arithmetic of these: without sharding the update is that
// of a core by itself.
func TestReport(t *testing.T) {
	u := labtest.Loaded[*update](t, Definition.Load)
	log := records.New(u.Key("quick"))
	labtest.CheckLacking(t, u, log)
	tori, err := u.tori("quick")
	if err != nil {
		t.Fatal(err)
	}
	given := map[bool]sample{false: {Seconds: 10, Update: 1, Reduce: 2, State: 1 << 30, Fits: true}, true: {Seconds: 8, Update: 0.1, Reduce: 2, State: 1 << 20, Fits: true}}
	if err := u.rows(tori, func(_ bool, alone, whole, divided cell) error {
		for of, s := range map[cell]sample{alone: {Seconds: 9, Update: 3, Fits: true}, whole: given[false], divided: given[true]} {
			if !log.Has(u.name(of)) {
				if err := log.Add(u.name(of), 0, s); err != nil {
					return err
				}
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	r, err := u.Report(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	labtest.CheckPlots(t, r)
	table := r.Tables[0]
	if want := len(u.Spec.Networks) * (len(tori) + len(u.Spec.Conventions) - 1); len(table.Rows) != want {
		t.Errorf("%d rows, want %d", len(table.Rows), want)
	}
	printed := 0
	for _, row := range table.Rows {
		// 10 s with an update of 1 s are 12 s with one of 3 s.
		for column, want := range map[string]float64{"step, whole": 12, "step, divided": 8, "speedup": 1.5, "update, whole": 25, "update, divided": 1.25, "all-reduce, divided": 25} {
			if got := row[table.Column(column)].Numbers[0]; math.Abs(got-want) > 1e-9 {
				t.Errorf("%v: %s is %v, want %v", row[:3], column, got, want)
			}
		}
		if row[table.Column("paper")].Text != lab.Absent.Text {
			printed++
			if row[table.Column("cores")].Text != "2048" {
				t.Errorf("%v has the paper's figure", row[:3])
			}
		}
	}
	if printed != len(u.Spec.Networks)*len(u.Spec.Conventions) {
		t.Errorf("%d figures of the paper", printed)
	}
}

// A divided update takes less of a shorter step, and more links shorten the sum alone.
func TestMeasure(t *testing.T) {
	u := labtest.Loaded[*update](t, Definition.Load)
	u.Spec.Networks = []network{{
		ID: "a", Name: "a", Model: train.Model{Name: train.Translator, Layers: 1, Dim: 256, FF: 512, Heads: 2, Vocab: 500, Seq: 8, Tied: "all"},
		Optimizer: "lars", Examples: 1, Scope: "",
	}}
	u.Spec.Tori, u.Spec.Conventions = []torus{{2, 2}, {4, 4}}, u.Spec.Conventions[:2]
	log := records.New(records.Key{Profile: "quick"})
	labtest.MeasureTwice(t, u, log)
	get := func(c cell) (s sample) {
		t.Helper()
		if err := log.Get(u.name(c), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	n, fixed, links := &u.Spec.Networks[0], &u.Spec.Conventions[0], &u.Spec.Conventions[1]
	one, each, divided := get(cell{of: n, under: fixed}), get(cell{n, fixed, torus{4, 4}, false}), get(cell{n, fixed, torus{4, 4}, true})
	if !(one.Update > each.Update && each.Update > divided.Update && divided.Seconds < each.Seconds && divided.State < each.State) {
		t.Errorf("alone %+v, together %+v, divided %+v", one, each, divided)
	}
	if four := get(cell{n, links, torus{4, 4}, false}); !(four.Reduce < each.Reduce && four.Update == each.Update) {
		t.Errorf("four links %+v, one %+v", four, each)
	}
	if got := len(log.Names); got != 2+4+2 {
		t.Errorf("samples %v", log.Names)
	}
}

func TestSpec(t *testing.T) {
	labtest.CheckRefused(t, Definition, [][3]string{
		{"{x: 64, y: 32}", "{x: 4, y: 4}", "more cores than the one before"},
		{"{x: 8, y: 4}", "{x: 1, y: 1}", "two cores or more"},
		{"bn_scope: 8", "bn_scope: 3", "batch norm over 3 of 32 cores"},
		{"quick: {expected: 20s, largest: 4}", "quick: {expected: 20s, largest: 5}", "want at most 4"},
		{"examples: 16 #", "examples: 65536 #", "in all"},
		{"tiled: \"off\"}\n  - {name: \"four", "tiled: maybe}\n  - {name: \"four", "want on, off"},
	})
	u := labtest.Loaded[*update](t, Definition.Load)
	labtest.CheckKey(t, func(file string) lab.Experiment {
		u.Spec.Accelerator = file
		return u
	})
}
