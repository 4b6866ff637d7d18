package beyond

import (
	"testing"

	"gpipebench/lab/labtest"
	"gpipebench/lab/timed"
	"gpipebench/lab/timed/timedtest"
	"gpipebench/train"
)

// A byte too many in any round is a verdict.
func TestThroughputVerdict(t *testing.T) {
	x := labtest.Loaded[*processesThroughput](t, Paper.Experiment("processes-throughput").Load)
	labtest.CheckVerdict(t, x, x.Sample(workOver{x.Spec.Works[0], "tcp"}, 1), func(b *timed.BenchTravels) { b.Traffic[0].Bytes++ },
		"other bytes than planned: "+x.Spec.Works[0].Name+"/two processes/tcp/round=1")
}

func TestThroughputSpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("processes-throughput"), [][3]string{
		{"networks: [unix, tcp, mpi]", "networks: [x]", "networks"},
		{"k: 1, r: 2}", "k: 2, r: 2}", "two devices are wanted: K = 2 and R = 2"},
		{"m: 4", "m: 3", "micro-batches of 8 examples are not of one size"},
		{"checkpoint: never", "checkpoint: x", "checkpoint"},
	})
	timedtest.CheckRecords(t, map[string]*timed.BenchTravels{
		"0 times":                {},
		"1 times":                {BenchSteps: timed.BenchSteps{Seconds: []float64{0}}},
		"without what they sent": {BenchSteps: timed.BenchSteps{Seconds: []float64{1}}, Processes: make([]train.Process, 2)},
	})
}
