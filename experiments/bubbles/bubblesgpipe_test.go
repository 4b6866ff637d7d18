package bubbles

import (
	"slices"
	"strings"
	"testing"

	"gpipebench/experiments/gpipe"
	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
)

type gpipeTablesExperiment = cells.Experiment[gpipeTablesSpec, filledModes]

// smallGPipeTables is the experiment on one network in two cells.
func smallGPipeTables(t *testing.T) (*gpipeTablesExperiment, *cells.Scale) {
	t.Helper()
	_, three, decides, err := gpipe.ModelledTables()
	testkit.NoError(t, err)
	scale := three.Standard()
	scale.Networks = slices.DeleteFunc(scale.Networks, func(n *cells.Network) bool { return n.ID != "transformer-24" })
	scale.Networks[0].Model.Layers = 6
	scale.K, scale.M, scale.Base.M = []int{2, 4}, []int{4}, 4
	scale.Networks[0].Paper = []lab.PaperCell{{Cell: lab.Cell{K: 2, M: 4}}, {Cell: lab.Cell{K: 4, M: 4}}}
	small := lab.Definition{ID: "bubbles-gpipe", Folder: folder, New: gpipeTables(decides, gpipeTable{"Table 3", scale}).New}
	return labtest.Loaded[*gpipeTablesExperiment](t, small.Load), scale
}

// GPipe's own column, as in the paper, is what Tables 2 and 3 model; no schedule that fits
// has more memory; and a schedule for which there are too few micro-batches has no value.
func TestGPipeTablesReport(t *testing.T) {
	g, scale := smallGPipeTables(t)
	log := records.New(g.Key("quick"))
	labtest.CheckLacking(t, g, log)
	labtest.MeasureTwice(t, g, log)
	r := testkit.Must(g.Report(log, nil))(t)
	labtest.CheckPlots(t, r)
	tables := records.New(records.Key{})
	testkit.NoError(t, lab.MakeMissing(t.Context(), "scale", tables, progress.Silent{}, scale.Jobs()))
	m := testkit.Must(scale.Read(tables))(t)
	table := r.Tables[0]
	at := func(row []lab.Value, column string) string { return row[table.Column(column)].Text }
	for i, c := range scale.Cells() {
		n := scale.Networks[0]
		want := lab.Fixed(m.Throughput(n, scale.ConventionsOf(n)[0], c), 2).Text
		testkit.Equal(t, at(table.Rows[i], "gpipe, as in the paper"), want, "K = %d: GPipe's throughput", c.K)
		if got := at(table.Rows[i], "dualpipe-v"); (got == lab.Absent.Text) != (c.K == 4) {
			t.Errorf("K = %d, M = 4: dualpipe-v %q", c.K, got)
		}
		if strings.Contains(at(table.Rows[i], "1f1b"), "*") || at(table.Rows[i], "fastest") == lab.Absent.Text {
			t.Errorf("K = %d: %v", c.K, table.Printed()[i])
		}
	}
	most := 16 * 1024. // MiB of a P100
	for _, s := range log.Names {
		var of filledModes
		testkit.NoError(t, log.Get(s, &of))
		for mode, r := range of {
			if r.Fits != (float64(r.Peak) <= most*1024*1024) || !(r.Idle.Sum() > 0 && r.Idle.Sum() < r.Seconds) {
				t.Errorf("%s, %s: %+v", s, mode, r)
			}
		}
	}
}

// Of modes that fit, the one with most throughput; of those that do not, the one that
// lacks least.
func TestGPipeTablesBest(t *testing.T) {
	g := labtest.Loaded[*gpipeTablesExperiment](t, Paper.Experiment("bubbles-gpipe").Load)
	c := tableCell{Cell: lab.Cell{K: 2, M: 2}}
	for _, test := range []struct {
		always, never filledStep
		want          string
	}{
		{filledStep{Micro: 4, Fits: true, Seconds: 2}, filledStep{Micro: 1, Fits: true, Seconds: 1}, "always"},
		{filledStep{Micro: 4, Fits: true, Seconds: 2}, filledStep{Micro: 3, Fits: true, Seconds: 1}, "never"},
		{filledStep{Micro: 4, Fits: true, Seconds: 2}, filledStep{Micro: 9, Seconds: 1}, "always"},
		{filledStep{Micro: 1, Seconds: 2, Peak: 7}, filledStep{Micro: 1, Fits: true, Seconds: 9, Peak: 9}, "never"},
		{filledStep{Micro: 1, Seconds: 2, Peak: 7}, filledStep{Micro: 1, Seconds: 1, Peak: 9}, "always"},
		{filledStep{Micro: 1, Seconds: 2, Peak: 9}, filledStep{Micro: 1, Seconds: 3, Peak: 7}, "never"},
	} {
		testkit.Equal(t, g.Spec.best(filledModes{"always": test.always, "never": test.never}, c), test.want, "%+v, %+v", test.always, test.never)
	}
}

// The tables belong to their experiment, so that what it changes is another key here.
func TestGPipeTablesSpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("bubbles-gpipe"), [][3]string{
		{"schedules: [gpipe, 1f1b,", "schedules: [1f1b, gpipe,", "want gpipe first"},
		{"checkpoints: [always, never]", "checkpoints: [never, always]", "want always first"},
		{"zb-h1, zb-h2", "zb-h1, zb-h3", "unknown schedule"},
	})
	g := labtest.Loaded[*gpipeTablesExperiment](t, Paper.Experiment("bubbles-gpipe").Load)
	_, _, decides, err := gpipe.ModelledTables()
	if err != nil || !strings.Contains(g.Decides("quick"), decides("quick")) {
		t.Error("the tables' spec does not decide")
	}
}
