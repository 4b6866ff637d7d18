package gpipe

import (
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
)

// A round of tiny networks: each way stands once over each link, with the fastest of its M, and transfers take
// time: stages, whose tasks are the same, are slower over the slow link.
func TestSection6Emulated(t *testing.T) {
	e := labtest.Loaded[*section6Emulated](t, Paper.Experiment("section6-emulated").Load)
	log := records.New(e.Key("smoke"))
	testkit.NoError(t, e.Measure(t.Context(), log, progress.Silent{}))
	for _, run := range e.Spec.tried() {
		var u emulatedUpdate
		testkit.NoError(t, log.Get(e.Sample(run, 0), &u))
		testkit.Equal(t, len(u.Seconds), len(e.Spec.Links), "%v: times", run)
		if stages := !strings.Contains(run.way, "T = "); stages && !(u.Seconds[1] > u.Seconds[0]) {
			t.Errorf("%v takes %v s over fast and slow links", run, u.Seconds)
		}
	}
	r := testkit.Must(e.Report(log, nil))(t)
	rows, ways := r.Tables[0].Rows, len(e.Spec.Ways)*len(e.Spec.Links)
	testkit.Equal(t, len(rows), ways+len(e.Spec.Parts), "rows")
	m := r.Tables[0].Column("M")
	for i, row := range rows[:ways] {
		var times []float64
		way := e.Spec.Ways[i%len(e.Spec.Ways)]
		for _, m := range way.M {
			var u emulatedUpdate
			testkit.NoError(t, log.Get(e.Sample(emulated6Run{way: way.Name, m: m}, 0), &u))
			times = append(times, u.Seconds[i/len(e.Spec.Ways)])
		}
		want := way.M[slices.Index(times, slices.Min(times))]
		testkit.Equal(t, row[m].Numbers[0], float64(want), "%s: M of the least of %v", way.Name, times)
	}
	labtest.CheckPlots(t, r)

	forged := records.New(e.Key("smoke"))
	for _, run := range e.Runs(e.Spec.Profiles["smoke"]) {
		testkit.NoError(t, forged.Add(e.Sample(run, 0), 1, &emulatedUpdate{[]float64{1}}))
	}
	testkit.Refused(e.Report(forged, nil))(t, "times over 1 links: want 2")
}
