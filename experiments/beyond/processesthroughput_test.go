package beyond

import (
	"math"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
	"gpipebench/lab/timed/timedtest"
	"gpipebench/train"
)

// throughputs is a log of runs whose steps take the same time in one process, and a quarter
// more in two, but for what change does.
func throughputs(t *testing.T, x *processesThroughput, profile string, change func(r workOver, of *timed.BenchTravels)) *records.Log {
	t.Helper()
	return timedtest.Filled(t, x, profile, func(r workOver, round int) *timed.BenchTravels {
		if r.network == "mpi" {
			return nil
		}
		of := &timed.BenchTravels{}
		of.Seconds = []float64{0.4 + float64(round), 0.4 + float64(round), 9}
		if r.network != "" {
			of.Seconds = []float64{(0.4 + float64(round)) / 0.8}
			of.Processes = make([]train.Process, 2)
			of.Traffic = []train.Travelled{{What: gpipe.Sums.String(), Messages: 1, Bytes: 2e6, PlannedBytes: 2e6, Seconds: 0.001}}
		}
		change(r, of)
		return of
	})
}

func TestThroughputReport(t *testing.T) {
	x := labtest.Loaded[*processesThroughput](t, Paper.Experiment("processes-throughput").Load)
	r := timedtest.Reported(t, x, throughputs(t, x, "quick", func(workOver, *timed.BenchTravels) {}))
	table := r.Tables[0]
	if len(table.Rows) != 4*len(x.Spec.Works) {
		t.Errorf("%q", table.Printed())
	}
	for _, row := range table.Rows {
		want := map[string]float64{"one process": 1, "Unix sockets": 0.8, "TCP": 0.8}[row[table.Column("network")].Text]
		for _, name := range []string{"measured / one process", "reference / one process"} {
			got := row[table.Column(name)]
			switch {
			case want > 0 && math.Abs(got.Numbers[0]-want) > 0.005:
				t.Errorf("%q: %s %v, want %v", row[:2], name, got, want)
			case want == 0 && len(got.Numbers) > 0:
				t.Errorf("%q: %s %v", row[:2], name, got)
			}
		}
	}
	timedtest.CheckVerdict(t, x, throughputs(t, x, "smoke", func(r workOver, of *timed.BenchTravels) {
		if r.network == "tcp" {
			of.Traffic[0].Bytes++
		}
	}), "other bytes than planned: two replicas/two processes/tcp/round=0")
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
