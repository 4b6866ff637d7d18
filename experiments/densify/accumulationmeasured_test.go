package densify

import (
	"strings"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/internal/progress"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/lab/timed/timedtest"
)

// Other bytes, other bits and more memory are a verdict, each in one of the processes.
func TestAccumulationMeasuredVerdict(t *testing.T) {
	x := labtest.Loaded[*accumulationMeasured](t, Paper.Experiment("accumulation-measured").Load)
	for says, change := range map[string]func(o *rankAccumulated){
		"gather, 4 processes: other bytes than by the formula":          func(o *rankAccumulated) { o.Received++ },
		"gather, 4 processes: other bits than gathered":                 func(o *rankAccumulated) { o.SHA256 = strings.Repeat("cd", 32) },
		"gather, 4 processes: 1.20 times the formula's bytes resident,": func(o *rankAccumulated) { o.Resident = o.Program + (o.Held+o.Indices)*6/5 },
	} {
		sample := x.Sample(tableRun{x.Spec.Profiles["quick"].Table, 4, gpipe.GatherTied}, 1)
		labtest.CheckVerdict(t, x, sample, func(r *accumulationRecord) { change(&r.Ranks[3]) }, says)
	}
}

// What memory does not hold is refused before anything starts.
func TestAccumulationMeasuredMemory(t *testing.T) {
	x := labtest.Loaded[*accumulationMeasured](t, Paper.Experiment("accumulation-measured").Load)
	// 8 processes with 1.1 times 8*179,202,800 bytes and 32 MiB each.
	const all = 8*8*179_202_800*11/10 + 8*32<<20
	for has, refused := range map[int64]bool{all - 8: true, all + 8: false} {
		x.available = func() int64 { return has }
		err := x.checkMemory(x.runs(x.Spec.Profiles["quick"]))
		if (err != nil) != refused || err != nil && !strings.Contains(err.Error(), "accumulation-measured: 8 processes that gather a table of 33708 rows need 12.0") {
			t.Errorf("%d bytes: %v", has, err)
		}
	}
	x.available = func() int64 { return 1 << 20 }
	if err := x.Measure(t.Context(), records.New(x.Key("smoke")), progress.Silent{}); err == nil || strings.Count(err.Error(), "\n") > 0 || !strings.Contains(err.Error(), "of memory, and 1.00 MiB are free") {
		t.Error(err)
	}
}

func TestAccumulationMeasuredSpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("accumulation-measured"), [][3]string{
		{"processes: [1, 2, 4, 8]", "processes: [2, 4, 8]", "want 1 first"},
		{"modelled: [16, 32, 64]", "modelled: [8, 64]", "want more than are measured"},
		{"modelled: [16, 32, 64]", "modelled: [16, 32]", "want one of those that are modelled"},
		{"- {vocab: 250, dim: 32", "- {vocab: 600, dim: 32", "want a smaller table"},
		{"table: {vocab: 500", "table: {vocab: 1", "want 2 rows and 1 token or more"},
		{"vocab: 250, dim: 32, source: 50, target: 40", "vocab: 250, dim: 32, source: 0, target: 0", "1 token or more"},
	})
	timedtest.CheckRecords(t, map[string]*accumulationRecord{
		"0 ranks on 1 cores": {Cores: 1},
		"1 ranks on 0 cores": {Ranks: make([]rankAccumulated, 1)},
		"rank 0: 0 bytes":    {Cores: 1, Ranks: make([]rankAccumulated, 1)},
		"sha256":             {Cores: 1, Ranks: []rankAccumulated{{Held: 4, Sum: 1}}},
	})
}
