package gpipe

import (
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
)

// A round of tiny networks: each way stands once over each link, with the fastest of its M, and transfers take
// time: stages, whose tasks are the same, are slower over the slow link.
func TestSection6Emulated(t *testing.T) {
	e := labtest.Loaded[*section6Emulated](t, Paper.Experiment("section6-emulated").Load)
	log := records.New(e.Key("smoke"))
	if err := e.Measure(t.Context(), log, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	for _, run := range e.Spec.tried() {
		var u emulatedUpdate
		if err := log.Get(e.Sample(run, 0), &u); err != nil || len(u.Seconds) != len(e.Spec.Links) {
			t.Fatalf("%v: %v, %v", run, u, err)
		}
		if stages := !strings.Contains(run.way, "T = "); stages && !(u.Seconds[1] > u.Seconds[0]) {
			t.Errorf("%v takes %v s over fast and slow links", run, u.Seconds)
		}
	}
	r, err := e.Report(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	rows, ways := r.Tables[0].Rows, len(e.Spec.Ways)*len(e.Spec.Links)
	if len(rows) != ways+len(e.Spec.Parts) {
		t.Errorf("%d rows", len(rows))
	}
	m := r.Tables[0].Column("M")
	for i, row := range rows[:ways] {
		var times []float64
		way := e.Spec.Ways[i%len(e.Spec.Ways)]
		for _, m := range way.M {
			var u emulatedUpdate
			if err := log.Get(e.Sample(emulated6Run{way: way.Name, m: m}, 0), &u); err != nil {
				t.Fatal(err)
			}
			times = append(times, u.Seconds[i/len(e.Spec.Ways)])
		}
		if want := way.M[slices.Index(times, slices.Min(times))]; row[m].Numbers[0] != float64(want) {
			t.Errorf("%s: M = %v of %v, want %d", way.Name, row[m], times, want)
		}
	}
	labtest.CheckPlots(t, r)

	forged := records.New(e.Key("smoke"))
	for _, run := range e.Runs(e.Spec.Profiles["smoke"]) {
		if err := forged.Add(e.Sample(run, 0), 1, &emulatedUpdate{[]float64{1}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Report(forged, nil); err == nil || !strings.Contains(err.Error(), "times over 1 links: want 2") {
		t.Errorf("a record of one link: %v", err)
	}
}
