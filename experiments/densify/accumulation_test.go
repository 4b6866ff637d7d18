package densify

import (
	"testing"

	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/labtest"
)

func loaded[S, V any](t *testing.T, id string, _ cells.Kind[S, V]) *cells.Experiment[S, V] {
	return labtest.Loaded[*cells.Experiment[S, V]](t, Paper.Experiment(id).Load)
}

func TestAccumulationSpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("accumulation"), [][3]string{
		{"ranks: [1, 4, 8,", "ranks: [4, 1, 8,", "want 1 first"},
		{"{ranks: 64, gathered", "{ranks: 63, gathered", "want one of ranks"},
		{"unit: 4", "unit: 4, copies: 1", "want either a unit, or ranks and copies"},
		{"unit: 4", "ranks: 4", "want either a unit, or ranks and copies"},
		{"first: values", "first: no values", "want the name of one of limits"},
		{"accelerator: zenith", "accelerator: abacus", "unknown accelerator"},
		{"dim: 1024", "dim: 1048577", "want a whole number from 1"},
	})
	a := loaded(t, "accumulation", accumulation)
	labtest.CheckKey(t, func(file string) lab.Experiment {
		a.Spec.Accelerator = file
		return a
	})
}
