package weak

import (
	"math"
	"strings"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
)

// filled is a log of runs whose step grows by a tenth of one rank's with each doubling of
// reduced ranks, and twice as fast with gathered ones.
func filled(t *testing.T, x *weak, name string) *records.Log {
	t.Helper()
	log := records.New(x.Key(name))
	for round := range x.Spec.Profiles[name].Rounds {
		for _, r := range x.runs() {
			grows := 0.1
			if r.way == gpipe.GatherTied {
				grows = 0.2
			}
			s := (1 + float64(round)) * (1 + grows*math.Log2(float64(r.ranks)))
			if err := log.Add(r.sample(round), 1, Record{Seconds: []float64{s, s, 99}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return log
}

func TestReport(t *testing.T) {
	x := labtest.Loaded[*weak](t, Definition.Load)
	labtest.CheckLacking(t, x, records.New(x.Key("quick")))
	log := filled(t, x, "quick")
	r, err := x.Report(log, log)
	if err != nil || r.Verdict != nil {
		t.Fatal(err, r.Verdict)
	}
	labtest.CheckPlots(t, r)
	table := r.Tables[0]
	if n := len(table.Rows); n != 2*(4+2) {
		t.Fatalf("%d rows", n)
	}
	for i, of := range x.runs() {
		doublings := math.Log2(float64(of.ranks))
		want, slower := 1/(1+0.1*doublings), 0.0
		if of.way == gpipe.GatherTied {
			want, slower = 1/(1+0.2*doublings), (1+0.2*doublings)/(1+0.1*doublings)
		}
		row := table.Rows[i]
		for _, column := range []string{"efficiency", "reference efficiency"} {
			if got := row[table.Column(column)].Numbers[0]; math.Abs(got-want) > 0.006 {
				t.Errorf("%+v: %s %v, want %v", of, column, got, want)
			}
		}
		got := row[table.Column("gather / reduce")]
		if slower == 0 != (len(got.Numbers) == 0) || slower > 0 && math.Abs(got.Numbers[0]-slower) > 0.006 {
			t.Errorf("%+v: %v times as long, want %v", of, got, slower)
		}
	}
}

// Every rank has as many examples, whatever their number and kind.
func TestArguments(t *testing.T) {
	x := labtest.Loaded[*weak](t, Definition.Load)
	p := x.Spec.Profiles["quick"]
	for _, r := range x.runs() {
		line := strings.Join(x.arguments(r, p), " ") + " "
		device := map[kind]string{emulated: "emulated", real: "host"}[r.kind]
		for _, want := range []string{
			map[int]string{1: "--batch 12 ", 2: "--batch 24 ", 4: "--batch 48 ", 8: "--batch 96 "}[r.ranks], "--device " + device, "--tied-gradients " + r.way.String(), "--tied=all",
		} {
			if want == "" || !strings.Contains(line, want) {
				t.Errorf("%+v: %s, want %s", r, line, want)
			}
		}
	}
}

func TestSpec(t *testing.T) {
	labtest.CheckRefused(t, Definition, [][3]string{
		{"emulated: [1, 2, 4, 8]", "emulated: [2, 4]", "want 1 first"},
		{"processes: [1, 2]", "processes: [1]", "want 1 first"},
		{"network: tcp", "network: x", "network"},
		{"seq: 8, tied: all", "seq: 8", "tied: all"},
		{"m: 1\n", "m: 3\n", "want 3 or more"},
	})
	for _, r := range []Record{{}, {Seconds: []float64{0}}} {
		if err := r.Check(); err == nil {
			t.Errorf("%+v is accepted", r)
		}
	}
}
