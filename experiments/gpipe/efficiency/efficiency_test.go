package efficiency

import (
	"strings"
	"testing"

	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/train"
)

// What is within the band holds, above it or below it does not, whatever the peak gives.
func TestReport(t *testing.T) {
	e := labtest.Loaded[*efficiency](t, Definition.Load)
	log := records.New(e.Key("smoke"))
	shares := []float64{1.24, 0.76, 1.26, 0.74, 1}
	for i, n := range e.Spec.Networks {
		for rates, share := range map[string]float64{n.name(false): shares[i], n.name(true): 1} {
			if err := log.Add(rates, 0, sample{ExamplesPerSecond: share * n.Measured, Fits: i > 0}); err != nil {
				t.Fatal(err)
			}
		}
	}
	r, err := e.Report(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	var holds []string
	for _, row := range r.Tables[0].Printed() {
		holds = append(holds, row[r.Tables[0].Column("holds")])
	}
	if got := strings.Join(holds, " "); got != "yes yes no no yes" {
		t.Errorf("holds: %s", got)
	}
	if first := r.Tables[0].Printed()[0]; first[5] != "+24%" || first[7] != "+0%" || !strings.HasSuffix(first[8], "*") {
		t.Errorf("first row %q", first)
	}
	if r.Tables[0].Notes[0] != "Within 25%: 3 of 5." {
		t.Errorf("notes %q", r.Tables[0].Notes)
	}
	labtest.CheckPlots(t, r)
	labtest.CheckLacking(t, e, records.New(log.Key))
}

// A sample is what simulate says, at both rates, and is made once.
func TestMeasure(t *testing.T) {
	e := labtest.Loaded[*efficiency](t, Definition.Load)
	e.Spec.Networks = []network{{ID: "small", Model: train.Model{Name: "resnet50", Width: 8, Image: 64, Classes: 10}, Accelerator: "p100", DType: "f32", Optimizer: "momentum", Batch: 8}}
	log := records.New(records.Key{})
	labtest.MeasureTwice(t, e, log)
	n := &e.Spec.Networks[0]
	var measured, peak sample
	if err := log.Get(n.name(false), &measured); err != nil {
		t.Fatal(err)
	}
	if err := log.Get(n.name(true), &peak); err != nil {
		t.Fatal(err)
	}
	if len(log.Names) != 2 || !(measured.ExamplesPerSecond > 0 && measured.ExamplesPerSecond < peak.ExamplesPerSecond) || measured.PeakBytes != peak.PeakBytes {
		t.Errorf("%d samples: %+v, at peak %+v", len(log.Names), measured, peak)
	}
}

func TestSpecErrors(t *testing.T) {
	labtest.CheckRefused(t, Definition, [][3]string{
		{"within: 25", "within: 0", "want a number above 0"},
		{"measured: 198.6", "measured: -1", "want a number above 0"},
		{"accelerator: tpuv2", "accelerator: abacus", "unknown accelerator"},
		{"batch: 128", "batch: 0", "want a whole number from 1"},
		{"id: resnet50-tpuv2", "id: amoebanet-tpuv2", "an entry of this id is there already"},
	})
}

func TestKey(t *testing.T) {
	labtest.CheckKey(t, func(file string) lab.Experiment {
		e, err := Definition.Load(lab.SpecFile{Name: "x.yaml", Text: labtest.Edited(t, Definition, "accelerator: tpuv3", "accelerator: "+file)})
		if err != nil {
			t.Fatal(err)
		}
		return e
	})
}
