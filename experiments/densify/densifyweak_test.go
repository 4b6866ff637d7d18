package densify

import (
	"math"
	"strings"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/lab/labtest"
	"gpipebench/lab/timed"
	"gpipebench/lab/timed/timedtest"
)

// A step grows by a tenth of one rank's with each doubling of reduced ranks, and twice as fast
// with gathered ones.
func TestWeakReport(t *testing.T) {
	x := labtest.Loaded[*densifyWeak](t, Paper.Experiment("densify-weak").Load)
	log := timedtest.Filled(t, x, "quick", func(r weakRun, round int) *timed.BenchSteps {
		grows := 0.1
		if r.way == gpipe.GatherTied {
			grows = 0.2
		}
		s := (1 + float64(round)) * (1 + grows*math.Log2(float64(r.ranks)))
		return &timed.BenchSteps{Seconds: []float64{s, s, 99}}
	})
	table := timedtest.Reported(t, x, log).Tables[0]
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
func TestWeakArguments(t *testing.T) {
	x := labtest.Loaded[*densifyWeak](t, Paper.Experiment("densify-weak").Load)
	for _, r := range x.runs() {
		line := strings.Join(x.arguments(x.Spec.Profiles["quick"], r), " ") + " "
		device := map[ranksAre]string{emulatedRanks: "emulated", realRanks: "host"}[r.kind]
		for _, want := range []string{
			map[int]string{1: "--batch 12 ", 2: "--batch 24 ", 4: "--batch 48 ", 8: "--batch 96 "}[r.ranks], "--device " + device, "--tied-gradients " + r.way.String(), "--tied=all",
		} {
			if want == "" || !strings.Contains(line, want) {
				t.Errorf("%+v: %s, want %s", r, line, want)
			}
		}
	}
}

func TestWeakSpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("densify-weak"), [][3]string{
		{"emulated: [1, 2, 4, 8]", "emulated: [2, 4]", "want 1 first"},
		{"processes: [1, 2]", "processes: [1]", "want 1 first"},
		{"network: tcp", "network: x", "network"},
		{"seq: 8, tied: all", "seq: 8", "tied: all"},
		{"m: 1\n", "m: 3\n", "want 3 or more"},
	})
}
