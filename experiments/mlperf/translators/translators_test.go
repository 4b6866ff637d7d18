package translators

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"gpipebench/datasets"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/lab/trained"
	"gpipebench/nn"
	"gpipebench/train"
)

// The networks of every profile have the same number of parameters within a hundredth, and
// see the same mini-batches.
func TestEqual(t *testing.T) {
	x := labtest.Loaded[*translators](t, Definition.Load)
	for _, name := range lab.Profiles {
		p := x.Spec.Profiles[name]
		var params [2]float64
		var sources [2]datasets.Source
		for i := range p.Networks {
			training := x.arm(p, i, p.Rates[0]).Training(p.Seeds[0])
			var err error
			if p.Data.Catalogs == "" {
				if sources[i], err = training.Source(); err != nil {
					t.Fatal(err)
				}
			}
			layers, err := training.Model.Build()
			if err != nil {
				t.Fatal(err)
			}
			params[i] = float64(nn.CountParams(layers))
		}
		t.Logf("%s: %v parameters", name, params)
		if r := params[1] / params[0]; math.Abs(r-1) > 0.01 {
			t.Errorf("%s: %v parameters, want as many within 1%%", name, params)
		}
		if p.Data.Catalogs != "" {
			continue // which need not be here
		}
		for _, step := range []int{0, p.Steps - 1} {
			one, err := sources[0].Batch(datasets.Train, step, p.Batch)
			if err != nil {
				t.Fatal(err)
			}
			if other, err := sources[1].Batch(datasets.Train, step, p.Batch); err != nil || !reflect.DeepEqual(one, other) {
				t.Errorf("%s, step %d: other mini-batches (%v)", name, step, err)
			}
		}
	}
}

// trial is a made-up one.
func trial(loss, score float64) *trained.Trial {
	return &trained.Trial{Accuracy: 0.5, HeldOut: loss, Languages: []train.LanguageScore{{BLEU: score}}, SHA256: strings.Repeat("ab", 32), Params: 7}
}

// The rate with the least loss is chosen, also beside one that is not finite; differences of
// -1, -2 and -3 BLEU have a mean of -2 and an interval of 4.3027/sqrt(3) to either side.
func TestReport(t *testing.T) {
	x := labtest.Loaded[*translators](t, Definition.Load)
	p := x.Spec.Profiles["quick"]
	log := records.New(x.Key("quick"))
	labtest.CheckLacking(t, x, log)
	add := func(a trained.Arm, seed uint64, sample any) {
		t.Helper()
		if err := log.Add(a.Sample(seed), seed, sample); err != nil {
			t.Fatal(err)
		}
	}
	for i := range p.Networks {
		for j, a := range x.grid(p, i) {
			q := pilot{Trial: trial(2+math.Abs(float64(j)-1), 1)}
			if j == 2 {
				q = pilot{NonFinite: "NaN"}
			}
			add(a, p.Pilots[0], q)
		}
		for k, seed := range p.Seeds {
			add(x.arm(p, i, p.Rates[1]), seed, trial(1, 90-float64(i*(k+1))))
		}
	}
	r, err := x.Report(log, log)
	if err != nil {
		t.Fatal(err)
	}
	labtest.CheckPlots(t, r)
	table := r.Tables[0]
	of := func(row int, column string) lab.Value { return table.Rows[row][table.Column(column)] }
	d := of(1, "difference")
	half := 4.302653 / math.Sqrt(3)
	if math.Abs(d.Numbers[0]+2) > 1e-9 || math.Abs(d.Interval[0]+2+half) > 1e-5 || math.Abs(d.Interval[1]+2-half) > 1e-5 {
		t.Errorf("difference %v", d)
	}
	if of(0, "BLEU").Numbers[0] != 90 || of(1, "BLEU").Numbers[0] != 88 || of(1, "BLEU, reference").Numbers[0] != 88 || of(1, "rate").Numbers[0] != p.Rates[1] {
		t.Errorf("rows %v", table.Rows)
	}
	for i, row := range r.Tables[1].Rows {
		if got, want := row[3].Text == "yes", i%len(p.Rates) == 1; got != want {
			t.Errorf("pilot %d is chosen: %v", i, got)
		}
	}
}

func TestMeasures(t *testing.T) {
	if testing.Short() {
		t.Skip("trains")
	}
	x := labtest.Loaded[*translators](t, Definition.Load)
	log := records.New(x.Key("smoke"))
	labtest.MeasureTwice(t, x, log)
	p := x.Spec.Profiles["smoke"]
	if n := 2*len(p.Rates)*len(p.Pilots) + 2*len(p.Seeds); len(log.Names) != n {
		t.Errorf("%d samples, want %d", len(log.Names), n)
	}
	if _, err := x.Report(log, nil); err != nil {
		t.Error(err)
	}
}

func TestSpec(t *testing.T) {
	labtest.CheckRefused(t, Definition, [][3]string{
		{"seeds: [1, 2]", "seeds: [1, 101]", "other seeds than the pilots'"},
		{"{name: gnmt, layers: 2, dim: 16,", "{name: transformer, layers: 2, dim: 16, heads: 2,", "want transformer and gnmt"},
		{"rates: [0.01]", "rates: []", "at least one"},
		{"device: host", "device: emulated", "want host devices"},
	})
	if err := (&pilot{}).Check(); err == nil || fmt.Sprint(err) != "no trial" {
		t.Errorf("a pilot without a trial: %v", err)
	}
}
