package beyond

import (
	"slices"
	"strings"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/train"
)

// dividedRuns is a log of runs that agree, but for what change does to some.
func dividedRuns(t *testing.T, x *processes, without string, change func(name string, r *dividedRun)) *records.Log {
	t.Helper()
	log := records.New(x.Key("smoke"))
	for i := range x.Spec.Trainings {
		of := &x.Spec.Trainings[i]
		for _, w := range x.Spec.ways(of) {
			if w.Network == without {
				continue
			}
			r := dividedRun{
				Run: w, Losses: []float64{3, 2}, Initial: strings.Repeat("0", 64), SHA256: strings.Repeat("ab", 32),
				Peak: make([]int64, w.K*w.R), HighWater: make([]int64, w.K*w.R),
			}
			if w.Processes > 1 {
				r.Processes = make([]train.Process, w.Processes)
				r.Traffic = []train.Travelled{{What: gpipe.Summands.String(), Messages: 1, Bytes: 1024, PlannedBytes: 1024}}
			}
			change(of.sample(w), &r)
			if err := log.Add(of.sample(w), 1, r); err != nil {
				t.Fatal(err)
			}
		}
	}
	return log
}

func TestProcessesReport(t *testing.T) {
	x := labtest.Loaded[*processes](t, Paper.Experiment("processes").Load)
	some := func(part string, change func(r *dividedRun)) func(string, *dividedRun) {
		done := false
		return func(name string, r *dividedRun) {
			if !done && strings.Contains(name, part) {
				done = true
				change(r)
			}
		}
	}
	for _, c := range []struct {
		name   string
		change func(string, *dividedRun)
		want   string // of the verdict; "": none
	}{
		{"all equal", func(string, *dividedRun) {}, ""},
		{"a weight", some("processes=4", func(r *dividedRun) { r.SHA256 = "ff" + r.SHA256[2:] }), "1 of "},
		{"a loss", some("tcp", func(r *dividedRun) { r.Losses = []float64{3, 2.0000001} }), "1 of "},
		{"a byte more", some("unix", func(r *dividedRun) { r.Traffic[0].Bytes++ }), "in 1 runs processes sent OTHER bytes"},
		{"another plan", some("tcp", func(r *dividedRun) { r.Traffic[0].Bytes += 4; r.Traffic[0].PlannedBytes += 4 }), "in 1 runs processes sent OTHER bytes"},
		{"nothing trained", func(_ string, r *dividedRun) { r.SHA256 = r.Initial }, "nothing was trained"},
		{"memory", some("R=2", func(r *dividedRun) { r.HighWater[0] = 4 }), "planned memory"},
	} {
		r, err := x.Report(dividedRuns(t, x, "mpi", c.change), nil)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if (r.Verdict == nil) != (c.want == "") || r.Verdict != nil && !strings.Contains(r.Verdict.Error(), c.want) {
			t.Errorf("%s: verdict %v, want %q", c.name, r.Verdict, c.want)
		}
		runs, traffic := r.Tables[0], r.Tables[1]
		column := func(of *lab.Table, name, value string) (n int) {
			for _, row := range of.Printed() {
				if row[of.Column(name)] == value {
					n++
				}
			}
			return n
		}
		if got, want := column(runs, "equal", "NO") == 1, strings.HasPrefix(c.want, "1 of"); got != want {
			t.Errorf("%s: runs %q", c.name, runs.Printed())
		}
		if got, want := column(traffic, "as planned", "NO") == 1, strings.Contains(c.want, "OTHER"); got != want {
			t.Errorf("%s: traffic %q", c.name, traffic.Printed())
		}
		if notes := strings.Join(runs.Notes, "\n"); strings.Count(notes, "MPI: not in this binary.") != 1 {
			t.Errorf("%s: notes without MPI: %s", c.name, notes)
		}
		labtest.CheckPlots(t, &lab.Report{Files: r.Files})
	}
	if _, err := x.Report(dividedRuns(t, x, "tcp", func(string, *dividedRun) {}), nil); err == nil || !strings.Contains(err.Error(), "no sample") {
		t.Errorf("without TCP: %v", err)
	}
	if _, err := x.Report(dividedRuns(t, x, "none", func(string, *dividedRun) {}), nil); err != nil {
		t.Errorf("with MPI: %v", err)
	}
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
		if got := spreads(deviceShape{K: c.k, R: c.r}, c.processes); !slices.Equal(got, c.want) {
			t.Errorf("K = %d, R = %d, %d processes: %q, want %q", c.k, c.r, c.processes, got, c.want)
		}
	}
}

func TestProcessesRecord(t *testing.T) {
	good := dividedRun{
		Run: dividedWay{deviceShape: deviceShape{K: 1, R: 2}, Processes: 2, Network: "tcp", Spread: "replica"}, Losses: []float64{1},
		Initial: strings.Repeat("0", 64), SHA256: strings.Repeat("1", 64), Peak: []int64{1, 2}, HighWater: []int64{1, 2},
		Processes: make([]train.Process, 2), Traffic: make([]train.Travelled, 1),
	}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for says, change := range map[string]func(r *dividedRun){
		"no losses":      func(r *dividedRun) { r.Losses = nil },
		"of 1 devices":   func(r *dividedRun) { r.Peak = r.Peak[:1] },
		"1 processes":    func(r *dividedRun) { r.Processes = r.Processes[:1] },
		"0 kinds":        func(r *dividedRun) { r.Traffic = nil },
		"weights_sha256": func(r *dividedRun) { r.SHA256 = "x" },
	} {
		bad := good
		change(&bad)
		if err := bad.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
}

func TestProcessesSpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("processes"), [][3]string{
		{"networks: [unix, tcp, mpi]", "networks: [unix, pigeons]", "networks"},
		{"processes: [2, 4]", "processes: [1, 4]", "processes"},
		{"processes: [2, 4]", "processes: [5, 6]", "no shape has a device for each"},
		{"{k: 1, r: 4}", "{k: 1, r: 3}", "3 replicas of 4 groups"},
		{"{k: 1, r: 4}", "{k: 1, r: 2}", "want each once"},
		{"bn_scope: all", "bn_scope: some", "bn_scope"},
		{"clip_norm: 0.5", "clip_norm: 0", "clip_norm"},
	})
	x := labtest.Loaded[*processes](t, Paper.Experiment("processes").Load)
	if err := x.Measure(t.Context(), records.New(x.Key("smoke")), progress.Silent{}); err == nil || !strings.Contains(err.Error(), "no program") {
		t.Error("measures without a program")
	}
}
