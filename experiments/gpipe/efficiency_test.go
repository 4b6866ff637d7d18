package gpipe

import (
	"strings"
	"testing"

	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/cells/cellstest"
	"gpipebench/lab/labtest"
	"gpipebench/train"
)

// What is within the band holds, above it or below it does not, whatever the peak gives.
func TestEfficiencyReport(t *testing.T) {
	e := loaded(t, "efficiency", efficiency)
	shares := []float64{1.24, 0.76, 1.26, 0.74, 1}
	given := map[string]acceleratorStep{}
	for i, n := range e.Spec.Networks {
		given[n.cell("", true).Sample] = acceleratorStep{ExamplesPerSecond: n.Measured}
		given[n.cell("", false).Sample] = acceleratorStep{ExamplesPerSecond: shares[i] * n.Measured, Fits: i > 0}
	}
	r := cellstest.Report(t, e, func(as, sample string) acceleratorStep { return given[sample] })
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
}

// A sample is what simulate says, at both rates, and is made once.
func TestEfficiencyMeasure(t *testing.T) {
	e := loaded(t, "efficiency", efficiency)
	n := trainedElsewhere{ID: "small", Model: train.Model{Name: "resnet50", Width: 8, Image: 64, Classes: 10}, Accelerator: "p100", DType: "f32", Optimizer: "momentum", Batch: 8}
	e.Spec.Networks = []trainedElsewhere{n}
	all := cellstest.Measured(t, e)
	measured, peak := all[n.cell("", false).Sample], all[n.cell("", true).Sample]
	if len(all) != 2 || !(measured.ExamplesPerSecond > 0 && measured.ExamplesPerSecond < peak.ExamplesPerSecond) || measured.PeakBytes != peak.PeakBytes {
		t.Errorf("%d samples: %+v, at peak %+v", len(all), measured, peak)
	}
}

func TestEfficiencySpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("efficiency"), [][3]string{
		{"within: 25", "within: 0", "want a number above 0"},
		{"measured: 198.6", "measured: -1", "want a number above 0"},
		{"accelerator: tpuv2", "accelerator: abacus", "unknown accelerator"},
		{"batch: 128", "batch: 0", "want a whole number from 1"},
		{"id: resnet50-tpuv2", "id: amoebanet-tpuv2", "an entry of this id is there already"},
	})
}

// Keys hold the figures of the accelerators that are modelled, by the spec or by that of another
// experiment.
func TestModelledKeys(t *testing.T) {
	for _, id := range []string{"efficiency", "ablation", "table1"} {
		d := Paper.Experiment(id)
		labtest.CheckKey(t, func(file string) lab.Experiment {
			e, err := d.Load(lab.SpecFile{Name: "x.yaml", Text: labtest.Edited(t, d, "accelerator: tpuv3", "accelerator: "+file)})
			if err != nil {
				t.Fatal(err)
			}
			return e
		})
	}
	two, three := labtest.Loaded[*table2](t, Paper.Experiment("table2").Load), labtest.Loaded[*table3](t, Paper.Experiment("table3").Load)
	amoebanet, figure := labtest.Loaded[*table2Amoebanet](t, Paper.Experiment("table2-amoebanet").Load), labtest.Loaded[*figure3](t, Paper.Experiment("figure3").Load)
	modelled := labtest.Loaded[*table2Modelled](t, Paper.Experiment("table2-modelled").Load)
	for _, c := range []struct {
		lab.Experiment
		accelerator *string
	}{
		{two, &two.Modelled.Networks[0].Accelerator}, {amoebanet, &amoebanet.Modelled.Networks[0].Accelerator},
		{modelled, &modelled.table3.Spec.Networks[1].Accelerator}, {three, &three.Spec.Networks[1].Accelerator}, {figure, &figure.Spec.Modelled.Accelerator},
	} {
		labtest.CheckKey(t, func(file string) lab.Experiment {
			*c.accelerator = file
			return c.Experiment
		})
	}
}

func loaded[S, V any](t *testing.T, id string, _ cells.Kind[S, V]) *cells.Experiment[S, V] {
	return labtest.Loaded[*cells.Experiment[S, V]](t, Paper.Experiment(id).Load)
}
