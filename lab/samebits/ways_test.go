package samebits_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpipebench/experiments/beyond"
	"gpipebench/experiments/gpipe"
	"gpipebench/experiments/mlperf"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/lab/samebits"
)

func TestReports(t *testing.T) {
	for _, d := range []lab.Definition{gpipe.Paper.Experiment("consistency"), beyond.Paper.Experiment("replicas"), mlperf.Paper.Experiment("spatial-bits")} {
		t.Run(d.ID, func(t *testing.T) { testReport(t, labtest.Loaded[*samebits.Experiment](t, d.Load)) })
	}
}

// testReport changes something of an experiment's runs, one thing at a time. The
// experiment's third network is its first with batch norm.
func testReport(t *testing.T, e *samebits.Experiment) {
	fill := func(change func(group, run int, s *samebits.Record)) *records.Log {
		log := records.New(e.Key("smoke"))
		for i := range e.Spec.Groups {
			g := &e.Spec.Groups[i]
			for j, run := range g.Ways() {
				s := samebits.Record{
					Run: run, Steps: 2, Losses: []float64{3, 2}, Initial: strings.Repeat("0", 64), SHA256: strings.Repeat("ab", 32),
					Partition: []int{4}, Peak: []int64{1 << 20}, HighWater: []int64{1 << 20},
				}
				if g.EachM {
					s.SHA256 = fmt.Sprintf("%02x", run.M) + s.SHA256[2:]
				}
				change(i, j, &s)
				testkit.NoError(t, log.Add(samebits.SampleName(g.Name, j), 0, s))
			}
		}
		return log
	}
	batchNorm := 0
	for _, g := range e.Spec.Groups {
		if g.EachM {
			batchNorm++
		}
	}
	for _, c := range []struct {
		name   string
		change func(group, run int, s *samebits.Record)
		want   string // of the error; "": none
		note   string
	}{
		{"all equal", func(int, int, *samebits.Record) {}, "", "Verdict: all "},
		{"one weight", func(g, r int, s *samebits.Record) {
			if g == 0 && r == 3 {
				s.SHA256 = "ff" + s.SHA256[2:]
			}
		}, "1 of", "DIFFER"},
		{"one loss", func(g, r int, s *samebits.Record) {
			if g == 1 && r == 2 {
				s.Losses = []float64{3, 2.0000001}
			}
		}, "1 of", "DIFFER"},
		{"nothing trained", func(_, _ int, s *samebits.Record) { s.SHA256 = s.Initial }, "began with", "nothing was trained"},
		{"one weight, with batch norm", func(g, r int, s *samebits.Record) {
			if e.Spec.Groups[g].EachM && r == 9 {
				s.Losses = []float64{3, 2.5}
			}
		}, fmt.Sprintf("%d of", batchNorm), "DIFFER"},
		{"micro-batches are not normalised", func(g, _ int, s *samebits.Record) {
			if e.Spec.Groups[g].EachM {
				s.SHA256 = strings.Repeat("ab", 32)
			}
		}, "the same weights at two values of M", "not normalised separately"},
		{"a byte more", func(g, r int, s *samebits.Record) {
			if r == 1 {
				s.HighWater = []int64{1<<20 + 4}
			}
		}, "planned memory", "DIFFER"},
	} {
		r := testkit.Must(e.Report(fill(c.change), nil))(t)
		if (r.Verdict == nil) != (c.want == "") || r.Verdict != nil && !strings.Contains(r.Verdict.Error(), c.want) {
			t.Errorf("%s: verdict %v, want %q", c.name, r.Verdict, c.want)
		}
		networks := len(e.Spec.Groups) // and a row of all
		if table := r.Tables[0]; len(table.Rows) != networks+1 || strings.HasSuffix(c.want, " of") != slices.ContainsFunc(table.Rows[:networks], func(row []lab.Value) bool {
			return row[table.Column("that differ")].Text == "1"
		}) {
			t.Errorf("%s: networks %v", c.name, table.Printed())
		}
		of, differ := r.Tables[0], 0.0
		for _, row := range of.Rows[:networks] {
			differ += row[of.Column("that differ")].Numbers[0]
		}
		if all := of.Rows[networks][of.Column("that differ")]; all.Numbers[0] != differ {
			t.Errorf("%s: %v of all runs differ, want %g", c.name, all, differ)
		}
		testkit.Has(t, strings.Join(r.Tables[0].Notes, "\n"), c.note)
	}
}
