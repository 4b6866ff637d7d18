package mlperf

import (
	"math"
	"reflect"
	"testing"

	"gpipebench/datasets"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/trained"
	"gpipebench/nn"
)

// The networks of every profile have the same number of parameters within a hundredth, and
// see the same mini-batches.
func TestTranslatorsAreEqual(t *testing.T) {
	x := labtest.Loaded[*trained.Experiment[struct{}]](t, Paper.Experiment("gnmt-quality").Load)
	for _, name := range lab.Profiles {
		size := x.Spec.Profiles[name]
		var params [2]float64
		var sources [2]datasets.Source
		for i, a := range x.Spec.Arms {
			training := x.Spec.Training(size, a, 1)
			var err error
			if size.Data.Catalogs == "" {
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
		if size.Data.Catalogs != "" {
			continue // which need not be here
		}
		for _, step := range []int{0, size.Training.Steps - 1} {
			one, err := sources[0].Batch(datasets.Train, step, size.Training.Batch)
			if err != nil {
				t.Fatal(err)
			}
			if other, err := sources[1].Batch(datasets.Train, step, size.Training.Batch); err != nil || !reflect.DeepEqual(one, other) {
				t.Errorf("%s, step %d: other mini-batches (%v)", name, step, err)
			}
		}
	}
}
