package throughput

import (
	"math"
	"strings"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/train"
)

// filled is a log of runs whose steps take the same time in one process, and a quarter
// more in two, but for what change does.
func filled(t *testing.T, x *Throughput, profile string, change func(r Run, of *Record)) *records.Log {
	t.Helper()
	log := records.New(x.Key(profile))
	for round := range x.Spec.Profiles[profile].Rounds {
		for _, r := range x.Runs() {
			if r.Network == "mpi" {
				continue
			}
			of := &Record{Seconds: []float64{0.4 + float64(round), 0.4 + float64(round), 9}}
			if r.Network != "" {
				of.Seconds = []float64{(0.4 + float64(round)) / 0.8}
				of.Processes = make([]train.Process, 2)
				of.Traffic = []train.Travelled{{What: gpipe.Sums.String(), Messages: 1, Bytes: 2e6, PlannedBytes: 2e6, Seconds: 0.001}}
			}
			change(r, of)
			if err := log.Add(r.Sample(round), 1, of); err != nil {
				t.Fatal(err)
			}
		}
	}
	return log
}

func TestReport(t *testing.T) {
	x := labtest.Loaded[*Throughput](t, Definition.Load)
	labtest.CheckLacking(t, x, records.New(x.Key("quick")))
	log := filled(t, x, "quick", func(Run, *Record) {})
	r, err := x.Report(log, log)
	if err != nil || r.Verdict != nil {
		t.Fatal(err, r.Verdict)
	}
	table, traffic := r.Tables[0], r.Tables[1]
	if len(table.Rows) != 4*len(x.Spec.Works) || len(traffic.Rows) != 2*len(x.Spec.Works) {
		t.Errorf("%q, %q", table.Printed(), traffic.Printed())
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
	for _, row := range traffic.Rows {
		if got := row[traffic.Column("GB/s")]; math.Abs(got.Numbers[0]-2) > 1e-9 {
			t.Errorf("%q: %v GB/s", row[:3], got)
		}
	}
	labtest.CheckPlots(t, r)
	r, err = x.Report(filled(t, x, "smoke", func(r Run, of *Record) {
		if r.Network == "tcp" {
			of.Traffic[0].Bytes++
		}
	}), nil)
	if err != nil || r.Verdict == nil || !strings.Contains(r.Verdict.Error(), "other bytes than planned: two replicas/two processes/tcp/round=0") {
		t.Errorf("a byte more: %v, verdict %v", err, r.Verdict)
	}
}

func TestSpec(t *testing.T) {
	labtest.CheckRefused(t, Definition, [][3]string{
		{"networks: [unix, tcp, mpi]", "networks: [x]", "networks"},
		{"k: 1, r: 2}", "k: 2, r: 2}", "two devices are wanted: K = 2 and R = 2"},
		{"m: 4", "m: 3", "micro-batches of 8 examples are not of one size"},
		{"checkpoint: never", "checkpoint: x", "checkpoint"},
	})
	for says, r := range map[string]Record{
		"0 times":                {},
		"1 times":                {Seconds: []float64{0}},
		"without what they sent": {Seconds: []float64{1}, Processes: make([]train.Process, 2)},
	} {
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
}
