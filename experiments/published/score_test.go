package published

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpipebench/internal/floatjson"
	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-12 }

// step is a row of seconds.
func step(id string, batch int, measured, predicted, share float64) Scored {
	s := Scored{Table: "t", ID: id, What: stepSeconds, Measured: &measured, can: true, share: share, row: &Row{Batch: batch, Layers: 2}}
	if predicted > 0 {
		s.Predicted, s.Modelled = &predicted, true
	}
	return s
}

func TestSummary(t *testing.T) {
	bytes := 100.0
	less := 90.0
	rows := []Scored{
		step("a", 8, 2, 2.2, 4), // +10%
		step("b", 8, 4, 3, 4),   // -25%
		step("c", 8, 5, 0, 5),   // not predicted: 100%
		{Table: "t", ID: "d", What: peakBytes, Measured: &bytes, Predicted: &less, Modelled: true, can: true}, // -10%
		{Table: "t", ID: "e", What: "mfu", Reason: "what mfu"},
		{Table: "t", ID: "f", What: "mfu", Reason: "what mfu"},
		{Table: "t", ID: "g", What: stepSeconds, Reason: "oom"},
	}
	s := summarise("t", "", rows, &Factor{Factor: 2, From: "u"})
	if s.Rows != 7 || s.Can != 4 || s.Predicted != 3 || !near(s.MAE, (.1+.25+1+.1)/4) || !near(s.Signed, -.25/3) || s.Worst != "b" || !near(s.WorstError, -.25) {
		t.Errorf("%+v", s)
	}
	if spread := math.Sqrt((.1*.1+.25*.25+.1*.1)/3 - .25*.25/9); math.Abs(s.Spread-spread) > 1e-9 {
		t.Errorf("spread %v, want %v", s.Spread, spread)
	}
	if !near(s.Rank, 1) { // 2, 4, 100 and 2.2, 3, 90
		t.Errorf("rank %v", s.Rank)
	}
	if !near(s.Share.MAE, 1.0/3) || !near(s.Factored.MAE, (1.2+.5)/2) || s.Factored.From != "u" {
		t.Errorf("share %+v, factored %+v", s.Share, s.Factored)
	}
	if len(s.Reasons) != 2 || s.Reasons[0] != (Reason{"what mfu", 2}) || s.Reasons[1] != (Reason{"oom", 1}) {
		t.Errorf("reasons %v", s.Reasons)
	}
	// The model would choose b, at 4 seconds in place of 2.
	rows[1].Predicted = &bytes
	*rows[1].Predicted = 1
	if s := summarise("t", stepSeconds, rows[:2], nil); s.Groups != 1 || !near(s.Regret, 1) || !near(s.WorstRegret, 1) || s.Factored != nil || !math.IsNaN(s.Rank) {
		t.Errorf("%+v", s)
	}
}

// Mini-batches that differ by little are one, and what counts is the time of a sequence; others are not.
func TestRegretsOfGroups(t *testing.T) {
	rows := []Scored{step("a", 100, 10, 10, 0), step("b", 98, 9.8, 9.7, 0), step("c", 200, 1, 1, 0), step("d", 102, 5.1, 20, 0)}
	regrets := regretsOf(rows) // of a, b and d: .1, .1 and .05 a sequence, of which b would be chosen
	if len(regrets) != 1 || math.Abs(regrets[0]-1) > 1e-9 {
		t.Errorf("regrets %v", regrets)
	}
}

func TestOverall(t *testing.T) {
	o := overall([]Summary{
		{Table: "t", Can: 2, Errors: Errors{MAE: .1}}, {Table: "t", What: stepSeconds, Can: 1, Errors: Errors{MAE: .2}}, {Table: "t", What: peakBytes, Can: 1, Errors: Errors{MAE: 0}},
		{Table: "u", Can: 1, Errors: Errors{MAE: .3}}, {Table: "u", What: stepSeconds, Can: 1, Errors: Errors{MAE: .3}},
		{Table: "v"}, {Table: Apart, Can: 3, Errors: Errors{MAE: .5}}, {Table: Apart, What: stepSeconds, Can: 3, Errors: Errors{MAE: .5}},
	})
	if o.Tables != 2 || !near(o.MAE, .2) || !near(o.Seconds, .25) || o.Bytes != 0 || o.Apart != .5 {
		t.Errorf("%+v", o)
	}
}

func TestNoteOnSmallPredictions(t *testing.T) {
	b := &Scoreboard{newest: []string{"u"}, Tables: []Summary{
		{Table: "t", Predicted: 2, Errors: Errors{Signed: .1}}, {Table: "u", Predicted: 3, Errors: Errors{Signed: -.2}}, {Table: "v"},
		{Table: "u", What: stepSeconds, Predicted: 2, Errors: Errors{Signed: -.25}}, {Table: "u", What: peakBytes, Predicted: 1, Errors: Errors{Signed: -.1}},
	}}
	testkit.Equal(t, b.lowNote(), "In 1 of 2 tables predictions are too low on average; all tables for H100 and newer: step of u, -25.0% from 2 rows; memory of u, -10.0% from 1 row.")
}

// Megatron's formula without recomputation, of a network as it has them.
func TestModelFLOPs(t *testing.T) {
	r := Row{Layers: 96, Hidden: 12288, FF: 4 * 12288, Heads: 96, KVHeads: 96, Vocab: 51200, Seq: 2048, Batch: 64}
	b, s, l, h, v := 64.0, 2048.0, 96.0, 12288.0, 51200.0
	if want := 72 * b * s * l * h * h * (1 + s/(6*h) + v/(12*l*h)); math.Abs(r.modelFLOPs()/want-1) > 1e-12 {
		t.Errorf("%g, want %g", r.modelFLOPs(), want)
	}
}

func TestBalance(t *testing.T) {
	for _, c := range []struct {
		layers, pieces int
		want           []int
	}{
		{24, 1, []int{26}}, {24, 2, []int{13, 13}}, {22, 8, []int{3, 3, 3, 3, 3, 3, 3, 3}}, {5, 2, []int{4, 3}}, {70, 12, []int{6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6}},
		{10, 4, []int{3, 3, 3, 3}}, {6, 3, []int{3, 2, 3}},
	} {
		got := balance(c.layers, c.pieces)
		sum := 0
		for i := range got {
			sum += got[i]
			testkit.Equal(t, got[i], c.want[i], "%d layers in %d: %v, want %v", c.layers, c.pieces, got, c.want)
		}
		testkit.Equal(t, sum, c.layers+2, "%v", got)
	}
}

// The program that scores predictions takes what --json prints, and finds the same.
func TestScorerReadsIt(t *testing.T) {
	const scorer = "../../../shared/score.py"
	if _, err := os.Stat(scorer); err != nil {
		t.Skip("no ../shared/score.py beside this checkout")
	}
	dir := t.TempDir()
	file, out := filepath.Join(dir, "small.yaml"), filepath.Join(dir, "out.json")
	whole, _, _ := strings.Cut(small, "      - {id: mine-4") // whose heads the program does not look at
	testkit.NoError(t, os.WriteFile(file, []byte(whole), 0o644))
	b := testkit.Must(Scoring{File: file}.Run(t.Context(), progress.Silent{}))(t)
	if r := b.Rows[0]; !r.Modelled || r.Predicted == nil || *r.Predicted <= 0 {
		t.Errorf("row %s: %s", r.ID, r.Reason)
	}
	w := testkit.Must(os.Create(out))(t)
	defer w.Close()
	testkit.NoError(t, floatjson.Write(w, b))
	said, err := exec.Command("python3", scorer, file, out).CombinedOutput()
	if err != nil {
		t.Skipf("python3 with PyYAML cannot run it: %v: %s", err, said)
	}
	if !strings.Contains(string(said), "predicted 1 of 1 rows that can be modelled; 1 of 1 tables wholly") || strings.Contains(string(said), "!") {
		t.Errorf("%s", said)
	}
}
