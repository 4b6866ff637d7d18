package gpipe

import (
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/lab/cells"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
)

// A pipeline is swept over every number of micro-batches and every cut, what has no pipeline over
// cuts and paddings alone; both are modelled at the same place in the list of cuts.
func TestUnstatedSweeps(t *testing.T) {
	u := labtest.Loaded[*unstated](t, Paper.Experiment("unstated").Load)
	for _, s := range u.figure3.scenarios() {
		all, want := u.sweep(s), len(u.Spec.M)*len(u.paddings)*len(u.Spec.Cuts)
		if s.Schedule == "naive" {
			want = len(u.paddings) * len(u.Spec.Cuts)
		}
		seen := map[string]bool{}
		for i, one := range all {
			seen[one.modelled.Sample(one.run(), u.paddings[one.padding])] = true
			if cut := u.Spec.Cuts[i%len(u.Spec.Cuts)]; !strings.HasSuffix(one.as, cut.String()) || one.modelled.Batch < one.setup.MicroBatches {
				t.Errorf("%s: %s, mini-batch of %d", s.run(), one.as, one.modelled.Batch)
			}
		}
		if len(all) != want || len(seen) != want {
			t.Errorf("%s: %d choices of %d names, want %d", s.run(), len(all), len(seen), want)
		}
	}
}

// A cell has a figure for each choice, relative to the base under the same cut and padding.
func TestUnstatedFigures(t *testing.T) {
	u := labtest.Loaded[*unstated](t, Paper.Experiment("unstated").Load)
	log := records.New(records.Key{})
	s := u.figure3.scenarios()[1]
	add := func(one swept, seconds float64) {
		step := cells.FillingStep{Batch: 1, Seconds: seconds, Filled: 2, FilledSeconds: seconds}
		testkit.NoError(t, log.Add(one.modelled.Sample(one.run(), u.paddings[one.padding]), 0, step))
	}
	bases := len(u.sweep(s.of.base()))
	for i, base := range u.sweep(s.of.base()) {
		add(base, float64(i+1))
	}
	for i, one := range u.sweep(s) {
		add(one, float64(i%bases+1)/float64(2+i/bases))
	}
	all := testkit.Must(u.relative(log, s))(t)
	testkit.Equal(t, len(all), 2*len(u.sweep(s)), "figures")
	for i, f := range all {
		testkit.Near(t, f.X, float64(2+i/2/bases), 1e-9, "figure %d", i)
	}
}
