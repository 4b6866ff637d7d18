package densify

import (
	"math"
	"strings"
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/lab/timed/timedtest"
)

// madeUpRates are those of the made-up records, bytes a second of a busy core, by part.
var madeUpRates = []float64{1e9, 4e9, 2e9, 0.5e9}

// accumulations is a log of runs whose parts have exactly these rates on two cores, and twice the
// time with the table that is compared, but for what change does to a rank.
func accumulations(t *testing.T, x *accumulationMeasured, name string, change func(r tableRun, o *rankAccumulated)) *records.Log {
	t.Helper()
	return timedtest.Filled(t, x, name, func(r tableRun, _ int) *accumulationRecord {
		held, travels := r.formula()
		made := &accumulationRecord{Cores: 2, Ranks: make([]rankAccumulated, r.processes)}
		slower := 1.0
		if r.table == x.Spec.Profiles[name].Table {
			slower = 2
		}
		for i := range made.Ranks {
			o := rankAccumulated{Rank: i, Held: held, Received: travels / int64(r.processes), Resident: 30<<20 + held + held/20, Program: 30 << 20, SHA256: strings.Repeat("ab", 32)}
			of := func(part int) float64 {
				return slower * float64(accumulationParts[part].bytes(r.table, r.processes)) / madeUpRates[part] / float64(min(r.processes, 2)) / float64(1+i) // the first is the slowest
			}
			if r.way == wayGather {
				o.Indices = r.table.IndexBytes(r.processes)
				o.Held -= o.Indices
				o.Exchange, o.Sum = of(0), of(1)
			} else {
				o.Densify, o.Exchange = of(2), of(3)
			}
			change(r, &o)
			made.Ranks[i] = o
		}
		return made
	})
}

func TestAccumulationMeasuredReport(t *testing.T) {
	x := labtest.Loaded[*accumulationMeasured](t, Paper.Experiment("accumulation-measured").Load)
	r := timedtest.Reported(t, x, accumulations(t, x, "quick", func(tableRun, *rankAccumulated) {}))
	times, bytes := r.Tables[0], r.Tables[1]
	if n := len(times.Rows); n != 4+3 {
		t.Fatalf("%d rows", n)
	}
	for _, row := range times.Rows[1:4] { // the model is of smaller tables alone
		for _, column := range []string{"gather, measured / modelled", "reduce, measured / modelled"} {
			if got := row[times.Column(column)].Numbers[0]; math.Abs(got-2) > 0.005 {
				t.Errorf("%s ranks: %s %v, want 2", row[0].Text, column, got)
			}
		}
	}
	// 64 ranks: 64*63 * 179,202,800 bytes at 2 GB/s, and 64 times 64*40,960,000 + 63*138,067,968
	// at 8 GB/s; against 64*40,960,000 at 4 GB/s and 2*63*138,067,968 at 1 GB/s.
	gather, reduce := 64*63*179_202_800/2e9+64*(64*40_960_000+63*138_067_968)/8e9, 64*40_960_000/4e9+2*63*138_067_968/1e9
	last := times.Rows[6]
	for column, want := range map[string]float64{
		"gather, modelled": gather, "reduce, modelled": reduce, "gather / reduce, modelled": gather / reduce, "gather / reduce, least": 41.49, "gather / reduce, paper": 25.56,
	} {
		if got := last[times.Column(column)].Numbers[0]; math.Abs(got/want-1) > 0.002 {
			t.Errorf("64 ranks: %s %v, want %v", column, got, want)
		}
	}
	for _, column := range []string{"gather", "reduce", "gather / reduce"} {
		if got := last[times.Column(column)]; len(got.Numbers) > 0 {
			t.Errorf("64 ranks: %s %v", column, got)
		}
	}
	row := bytes.Rows[3]
	if got := row[bytes.Column("held")].Numbers[0]; got != 8*(179_027_968+174_832) {
		t.Errorf("8 ranks hold %v bytes", got)
	}
	if got := row[bytes.Column("travelled, formula")].Numbers[0]; got != 7*8*(179_027_968+174_832) {
		t.Errorf("8 ranks receive %v bytes", got)
	}
}

// Other bytes, other bits and more memory are a verdict, each in one of the processes.
func TestAccumulationMeasuredVerdict(t *testing.T) {
	x := labtest.Loaded[*accumulationMeasured](t, Paper.Experiment("accumulation-measured").Load)
	for says, change := range map[string]func(o *rankAccumulated){
		"gather, 4 processes: other bytes than by the formula":          func(o *rankAccumulated) { o.Received++ },
		"gather, 4 processes: other bits than gathered":                 func(o *rankAccumulated) { o.SHA256 = strings.Repeat("cd", 32) },
		"gather, 4 processes: 1.20 times the formula's bytes resident,": func(o *rankAccumulated) { o.Resident = o.Program + (o.Held+o.Indices)*6/5 },
	} {
		p := x.Spec.Profiles["quick"]
		timedtest.CheckVerdict(t, x, accumulations(t, x, "quick", func(of tableRun, o *rankAccumulated) {
			if of == (tableRun{p.Table, 4, wayGather}) && o.Rank == 3 {
				change(o)
			}
		}), says)
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
		{"network: tcp", "network: x", "network"},
		{"processes: [1, 2, 4, 8]", "processes: [2, 4, 8]", "want 1 first"},
		{"processes: [1, 2, 4, 8]", "processes: [1]", "want 1 first"},
		{"modelled: [16, 32, 64]", "modelled: [8, 64]", "want more than are measured"},
		{"modelled: [16, 32, 64]", "modelled: [16, 32]", "want one of those that are modelled"},
		{"- {vocab: 250, dim: 32", "- {vocab: 600, dim: 32", "want a smaller table"},
		{"table: {vocab: 500", "table: {vocab: 1", "want 2 rows and 1 token or more"},
		{"vocab: 250, dim: 32, source: 50, target: 40", "vocab: 250, dim: 32, source: 0, target: 0", "1 token or more"},
		{"resident: 0", "resident: -1", "resident"},
	})
	timedtest.CheckRecords(t, map[string]*accumulationRecord{
		"0 ranks on 1 cores": {Cores: 1},
		"1 ranks on 0 cores": {Ranks: make([]rankAccumulated, 1)},
		"rank 0: 0 bytes":    {Cores: 1, Ranks: make([]rankAccumulated, 1)},
		"sha256":             {Cores: 1, Ranks: []rankAccumulated{{Held: 4, Sum: 1}}},
	})
}
