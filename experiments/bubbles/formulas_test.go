package bubbles

import (
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/lab/cells"
	"gpipebench/lab/cells/cellstest"
	"gpipebench/lab/labtest"
)

func loaded[S, V any](t *testing.T, id string, _ cells.Kind[S, V]) *cells.Experiment[S, V] {
	return labtest.Loaded[*cells.Experiment[S, V]](t, Paper.Experiment(id).Load)
}

// Formulas of schedules with names are exact, also for times that differ; those of shapes
// are where F, B and W take the same time, and leading terms.
func TestFormulasReport(t *testing.T) {
	e := loaded(t, "bubbles-formulas", bubblesFormulas)
	all := cellstest.Measured(t, e)
	r := cellstest.Report(t, e, func(_, sample string) outcome { return all[sample] })
	table := r.Tables[0]
	exact := 0
	for _, row := range table.Printed() {
		at := func(column string) string { return row[table.Column(column)] }
		switch at("schedule") {
		case "gpipe", "1f1b", "zb-h1", "zb-h2":
			if at("bubble is the formula's") != "yes" || at("memory is the formula's") == "no" {
				t.Error(row)
			}
			exact++
		case "interleaved":
			if at("bubble is the formula's") == "no" || at("memory is the formula's") == "no" {
				t.Error(row)
			}
		case "zb-v":
			if want := map[string]string{"all alike": "yes", "W shorter": "no"}[at("times")]; at("m") != "2" && want != "" && at("bubble is the formula's") != want {
				t.Error(row)
			}
		}
	}
	testkit.Equal(t, exact, 4*3*3, "rows of schedules with exact formulas")
}

func TestFormulasSpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("bubbles-formulas"), [][3]string{
		{"f: 4, b: 3.5, w: 2", "f: 6, b: 3.5, w: 2", "shorter than F"},
		{"weights: 0.25", "weights: 2", "want a number from 0 to 1"},
		{"memory: 2 * p - 1", "memory: 2 * q - 1", "unknown name q"},
		{"{p: 4, m: 2}", "{p: 1, m: 2}", "want a whole number from 2"},
	})
}
