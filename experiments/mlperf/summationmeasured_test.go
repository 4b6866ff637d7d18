package mlperf

import (
	"strings"
	"testing"

	"gpipebench/lab/labtest"
	"gpipebench/lab/timed/timedtest"
)

// Other bits and other bytes are a verdict, each in one process.
func TestSummationMeasuredVerdict(t *testing.T) {
	x := labtest.Loaded[*summationMeasured](t, Paper.Experiment("summation-measured").Load)
	for _, change := range []func(r *summationRecord){
		func(r *summationRecord) { r.Ranks[1].SHA256 = strings.Repeat("cd", 32) },
		func(r *summationRecord) { r.Ranks[1].Received++ },
	} {
		labtest.CheckVerdict(t, x, x.Sample(sumOver{"tcp", pipelined}, 2), change, "summation-measured: tcp: the ways end with other bits")
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
