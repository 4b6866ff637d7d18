package mlperf

import (
	"strings"
	"testing"

	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/lab/timed/timedtest"
)

const resnetParams = 25_557_032

// summations is a log of sums of 3 s with copies of 1 s, and of 2.5 s pipelined; the first of all
// takes longer.
func summations(t *testing.T, x *summationMeasured, change func(r sumOver, o *gradientsSummed)) *records.Log {
	t.Helper()
	return timedtest.Filled(t, x, "quick", func(r sumOver, _ int) *summationRecord {
		rec := &summationRecord{}
		for rank := range 2 {
			o := gradientsSummed{Rank: rank, Received: 4 * resnetParams, Sums: []float64{9, 2.5, 2.5}, Copies: []float64{9, 0, 0}, SHA256: strings.Repeat("ab", 32)}
			if r.way == gatheredFirst {
				o.Sums, o.Copies = []float64{9, 2, 2}, []float64{9, 1, 1}
			}
			if rank == 1 { // the faster one
				o.Sums[1] /= 2
			}
			change(r, &o)
			rec.Ranks = append(rec.Ranks, o)
		}
		return rec
	})
}

// Other bits and other bytes are a verdict, each in one process.
func TestSummationMeasuredReport(t *testing.T) {
	x := labtest.Loaded[*summationMeasured](t, Paper.Experiment("summation-measured").Load)
	table := timedtest.Reported(t, x, summations(t, x, func(sumOver, *gradientsSummed) {})).Tables[0]
	if n := len(table.Rows); n != 1 {
		t.Errorf("%d rows", n)
	}
	labtest.CheckCells(t, table, table.Rows[0], map[string]float64{
		"tensors": 161, "bytes": 4 * resnetParams, "gathered first": 3, "copies": 1, "pipelined": 2.5, "measured speedup": 1.2, "hidden": 1.5, "speedup, reference": 1.2, "pipelined GB/s": 4e-9 * resnetParams / 2.5,
	})
	for _, change := range []func(o *gradientsSummed){
		func(o *gradientsSummed) { o.SHA256 = strings.Repeat("cd", 32) },
		func(o *gradientsSummed) { o.Received++ },
	} {
		timedtest.CheckVerdict(t, x, summations(t, x, func(r sumOver, o *gradientsSummed) {
			if r == (sumOver{"tcp", pipelined}) && o.Rank == 1 {
				change(o)
			}
		}), "summation-measured: tcp: the ways end with other bits")
	}
}

func TestSummationMeasuredSpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("summation-measured"), [][3]string{
		{"processes: 2", "processes: 1", "want a whole number from 2"},
		{"networks: [tcp]", "networks: [x]", "network"},
		{"times: 5", "times: 0", "want a whole number from 1"},
	})
	one := gradientsSummed{Received: 1, Sums: []float64{1, 1}, Copies: []float64{0, 0}, SHA256: strings.Repeat("ab", 32)}
	short, unsaid := one, one
	short.Rank, short.Sums = 1, []float64{1}
	unsaid.Rank, unsaid.SHA256 = 1, "x"
	timedtest.CheckRecords(t, map[string]*summationRecord{
		"1 ranks":      {Ranks: []gradientsSummed{one}},
		"rank 1: rank": {Ranks: []gradientsSummed{one, short}},
		"sha256":       {Ranks: []gradientsSummed{one, unsaid}},
	})
}
