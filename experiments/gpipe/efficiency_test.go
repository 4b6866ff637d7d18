package gpipe

import (
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/cells/cellstest"
	"gpipebench/lab/labtest"
	"gpipebench/train"
)

// A sample is what simulate says, at both rates, and is made once.
func TestEfficiencyMeasure(t *testing.T) {
	e := loaded(t, "efficiency", efficiency)
	n := trainedElsewhere{ID: "small", On: cells.On{Model: train.Model{Name: "resnet50", Width: 8, Image: 64, Classes: 10}, Accelerator: "p100", DType: "f32", Optimizer: "momentum"}, Batch: 8}
	e.Spec.Networks = []trainedElsewhere{n}
	all := cellstest.Measured(t, e)
	measured, peak := all[n.cell("", false).Sample], all[n.cell("", true).Sample]
	if len(all) != 2 || !(measured.ExamplesPerSecond > 0 && measured.ExamplesPerSecond < peak.ExamplesPerSecond) || measured.PeakBytes != peak.PeakBytes {
		t.Errorf("%d samples: %+v, at peak %+v", len(all), measured, peak)
	}
}

// Keys hold the figures of the accelerators that are modelled, by the spec or by that of another
// experiment.
func TestModelledKeys(t *testing.T) {
	for _, id := range []string{"efficiency", "ablation", "table1"} {
		d := Paper.Experiment(id)
		labtest.CheckKey(t, func(file string) lab.Experiment {
			return testkit.Must(d.Load(lab.SpecFile{Name: "x.yaml", Text: labtest.Edited(t, d, "accelerator: tpuv3", "accelerator: "+file)}))(t)
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
		{modelled, &modelled.Spec.Networks[1].Accelerator}, {three, &three.Spec.Networks[1].Accelerator}, {figure, &figure.Spec.Modelled.Accelerator},
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
