package gpipe

import (
	"math"
	"testing"

	"gpipebench/gpipe/accelerator"
	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/cells/cellstest"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
)

// Every table has its networks, without the cells that are 1 by definition, and every
// accelerator its bands.
func TestSensitivityParts(t *testing.T) {
	s := labtest.Loaded[*sensitivity](t, Paper.Experiment("sensitivity").Load)
	counted := map[string]int{}
	for _, p := range s.parts() {
		counted[p.table] += len(p.cells)
		published := 0
		for _, a := range s.assumptions(p.accelerator) {
			if a.published {
				published++
			}
			if a.ends == [2]*accelerator.Variation{} {
				t.Errorf("%s: %s has no end", p.accelerator, a.name)
			}
		}
		if published == 0 {
			t.Errorf("%s has no published band", p.accelerator)
		}
	}
	if counted["Table 2"] != 16 || counted["Table 3"] != 4 || counted["Figure 3"] != 7 {
		t.Errorf("cells %v", counted)
	}
}

// A part measures what it reads, and an end moves it.
func TestSensitivityScalePart(t *testing.T) {
	scale := cellstest.SmallScale(t)
	n := scale.Networks[0]
	n.Accelerator = "p100"
	p := scalePart("Table 3", scale, n)
	testkit.Equal(t, len(p.cells), 3, "cells %+v", p.cells)
	var link accelerator.Variation
	for _, b := range lab.Named(accelerator.Named, "p100").Bands() {
		if b.Name == accelerator.Link {
			link = *b.Low
		}
	}
	log := records.New(records.Key{})
	var values [2][]cells.Figure
	for i, v := range []accelerator.Variation{{}, link} {
		testkit.NoError(t, lab.MakeMissing(t.Context(), "part", log, progress.Silent{}, p.jobs([]accelerator.Variation{v})))
		values[i] = testkit.Must(p.values(log, v))(t)
		testkit.Equal(t, len(values[i]), 3, "values")
	}
	if math.Abs(values[1][2].X/values[0][2].X-1) < 0.01 {
		t.Errorf("K = 3, M = 4: %v over a slow link, %v over a fast one", values[1][2], values[0][2])
	}
}

func TestSensitivitySpecErrors(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("sensitivity"), [][3]string{
		{"transfers beside computation", "luck", `unknown "luck": want activations not`},
		{"bars: 6", "bars: 0", "want a whole number from 1 to 20"},
	})
}
