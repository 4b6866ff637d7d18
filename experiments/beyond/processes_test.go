package beyond

import (
	"math"
	"strings"
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/train"
)

// Other bits, bytes or memory in a single run are a verdict, and a run that lacks an error.
func TestProcessesVerdict(t *testing.T) {
	x := labtest.Loaded[*processes](t, Paper.Experiment("processes").Load)
	const sample = "resnet50/K=2/R=2/update=whole/processes=4/spread=replica/tcp"
	for _, c := range []struct {
		says   string
		change func(r *dividedRun)
	}{
		{"1 of ", func(r *dividedRun) { r.SHA256 = strings.Repeat("ff", 32) }},
		{"1 of ", func(r *dividedRun) { r.Losses[0] = math.Nextafter(r.Losses[0], 0) }},
		{"in 1 runs processes sent OTHER bytes", func(r *dividedRun) { r.Traffic[0].Bytes++ }},
		{"in 1 runs processes sent OTHER bytes", func(r *dividedRun) { r.Traffic[0].Bytes, r.Traffic[0].PlannedBytes = 4, 4 }},
		{"planned memory", func(r *dividedRun) { r.HighWater[0] += 4 }},
	} {
		labtest.CheckVerdict(t, x, sample, c.change, c.says)
	}
	log := labtest.Recorded(t, "processes")
	delete(log.Samples, sample)
	testkit.Refused(x.Report(log, nil))(t, "no sample "+sample)
}

// Devices are divided in each way that there is, and in none twice.
func TestSpreads(t *testing.T) {
	for _, c := range []struct {
		k, r, processes int
		want            []string
	}{
		{1, 1, 2, nil},
		{1, 2, 2, []string{"replica"}},
		{4, 1, 2, []string{"replica"}},
		{2, 2, 2, []string{"replica", "stage"}},
		{2, 2, 3, []string{"replica", "stage"}},
		{2, 2, 4, []string{"replica"}},
		{2, 4, 4, []string{"replica", "stage"}},
	} {
		testkit.EqualAll(t, spreads(deviceShape{K: c.k, R: c.r}, c.processes), c.want, "K = %d, R = %d, %d processes", c.k, c.r, c.processes)
	}
}

func TestProcessesRecord(t *testing.T) {
	good := dividedRun{
		Run: dividedWay{deviceShape: deviceShape{K: 1, R: 2}, Processes: 2, Network: "tcp", Spread: "replica"}, Losses: []float64{1},
		Initial: strings.Repeat("0", 64), SHA256: strings.Repeat("1", 64), Peak: []int64{1, 2}, HighWater: []int64{1, 2},
		Processes: make([]train.Process, 2), Traffic: make([]train.Travelled, 1),
	}
	testkit.Equal(t, good.Check(), nil)
	for says, change := range map[string]func(r *dividedRun){
		"no losses":      func(r *dividedRun) { r.Losses = nil },
		"of 1 devices":   func(r *dividedRun) { r.Peak = r.Peak[:1] },
		"1 processes":    func(r *dividedRun) { r.Processes = r.Processes[:1] },
		"0 kinds":        func(r *dividedRun) { r.Traffic = nil },
		"weights_sha256": func(r *dividedRun) { r.SHA256 = "x" },
	} {
		bad := good
		change(&bad)
		testkit.Fails(t, bad.Check(), says)
	}
}

func TestProcessesSpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("processes"), [][3]string{
		{"networks: [unix, tcp, mpi]", "networks: [unix, pigeons]", "networks"},
		{"processes: [2, 4]", "processes: [1, 4]", "processes"},
		{"processes: [2, 4]", "processes: [5, 6]", "no shape has a device for each"},
		{"{k: 1, r: 4}", "{k: 1, r: 2}", "want each once"},
		{"bn_scope: all", "bn_scope: some", "bn_scope"},
		{"clip_norm: 0.5", "clip_norm: 0", "clip_norm"},
	})
	x := labtest.Loaded[*processes](t, Paper.Experiment("processes").Load)
	testkit.Fails(t, x.Measure(t.Context(), records.New(x.Key("smoke")), progress.Silent{}), "no program")
}
