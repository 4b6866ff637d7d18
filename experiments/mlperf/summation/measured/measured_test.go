package measured

import (
	"strings"
	"testing"

	"gpipebench/experiments/mlperf/summation/sums"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
)

const total = 25_557_032 // ResNet-50's parameters

// filled is a log of sums of 3 s with copies of 1 s, and of 2.5 s pipelined; the first of all
// takes longer.
func filled(t *testing.T, x *measured, change func(r run, o *sums.Outcome)) *records.Log {
	t.Helper()
	log := records.New(x.Key("quick"))
	for round := range x.Spec.Profiles["quick"].Rounds {
		for _, r := range x.runs() {
			var rec Record
			for rank := range 2 {
				o := sums.Outcome{Rank: rank, Received: 4 * total, Sums: []float64{9, 2.5, 2.5}, Copies: []float64{9, 0, 0}, SHA256: strings.Repeat("ab", 32)}
				if r.way == sums.First {
					o.Sums, o.Copies = []float64{9, 2, 2}, []float64{9, 1, 1}
				}
				if rank == 1 { // the faster one
					o.Sums[1] /= 2
				}
				change(r, &o)
				rec.Ranks = append(rec.Ranks, o)
			}
			if err := log.Add(r.sample(round), 1, rec); err != nil {
				t.Fatal(err)
			}
		}
	}
	return log
}

func TestReport(t *testing.T) {
	x := labtest.Loaded[*measured](t, Definition.Load)
	labtest.CheckLacking(t, x, records.New(x.Key("quick")))
	log := filled(t, x, func(run, *sums.Outcome) {})
	report, err := x.Report(log, log)
	if err != nil || report.Verdict != nil {
		t.Fatal(err, report.Verdict)
	}
	labtest.CheckPlots(t, report)
	table := report.Tables[0]
	if n := len(table.Rows); n != 1 {
		t.Errorf("%d rows", n)
	}
	for _, row := range table.Rows {
		labtest.CheckCells(t, table, row, map[string]float64{
			"tensors": 161, "bytes": 4 * total, "gathered first": 3, "copies": 1, "pipelined": 2.5, "measured speedup": 1.2, "hidden": 1.5, "speedup, reference": 1.2, "pipelined GB/s": 4e-9 * total / 2.5,
		})
	}
}

// Other bits and other bytes are a verdict, each in one process.
func TestVerdict(t *testing.T) {
	x := labtest.Loaded[*measured](t, Definition.Load)
	for name, change := range map[string]func(o *sums.Outcome){
		"bits":  func(o *sums.Outcome) { o.SHA256 = strings.Repeat("cd", 32) },
		"bytes": func(o *sums.Outcome) { o.Received++ },
	} {
		report, err := x.Report(filled(t, x, func(r run, o *sums.Outcome) {
			if r == (run{"tcp", sums.Pipelined}) && o.Rank == 1 {
				change(o)
			}
		}), nil)
		if err != nil || report.Verdict == nil || !strings.Contains(report.Verdict.Error(), "summation-measured, tcp") {
			t.Errorf("%s: %v, verdict %v", name, err, report.Verdict)
		}
	}
}

func TestSpec(t *testing.T) {
	labtest.CheckRefused(t, Definition, [][3]string{
		{"processes: 2", "processes: 1", "want a whole number from 2"},
		{"networks: [tcp]", "networks: [x]", "network"},
		{"times: 5", "times: 0", "want a whole number from 1"},
	})
	one := sums.Outcome{Received: 1, Sums: []float64{1, 1}, Copies: []float64{0, 0}, SHA256: strings.Repeat("ab", 32)}
	short, unsaid := one, one
	short.Rank, short.Sums = 1, []float64{1}
	unsaid.Rank, unsaid.SHA256 = 1, "x"
	for says, r := range map[string]Record{
		"1 ranks":      {Ranks: []sums.Outcome{one}},
		"rank 1: rank": {Ranks: []sums.Outcome{one, short}},
		"sha256":       {Ranks: []sums.Outcome{one, unsaid}},
	} {
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
}
