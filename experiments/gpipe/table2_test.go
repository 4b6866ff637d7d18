package gpipe

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
	"gpipebench/lab/timed/timedtest"
)

// What the paper's sources leave to derive.
func TestTable2Theory(t *testing.T) {
	e := labtest.Loaded[*table2](t, Paper.Experiment("table2").Load)
	if v, err := timed.Theory(e.setup(e.Spec.Base), e.setup(lab.Cell{K: 4, M: 1})); err != nil || fmt.Sprintf("%.3f", v[0].Numbers[0]) != "1.077" {
		t.Errorf("K = 4, M = 1 gains %v, %v; want 1.077", v, err)
	}
}

// Measuring a whole grid leaves what a report needs.
func TestTable2Measures(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	e := labtest.Loaded[*table2](t, Paper.Experiment("table2").Load)
	log := records.New(e.Key("smoke"))
	if err := e.Measure(context.Background(), log, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	r, err := e.Report(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Tables[0].Rows) != 9 || len(r.Files) != 4 { // plot, timeline three times
		t.Errorf("%d rows, %d files", len(r.Tables[0].Rows), len(r.Files))
	}
	n := len(log.Names)
	if err := e.Measure(context.Background(), log, progress.Silent{}); err != nil || len(log.Names) != n {
		t.Errorf("measured again: %d samples more, %v", len(log.Names)-n, err)
	}
}

// A spec may have cells that the modelled table lacks: they are measured, and absent beside.
func TestTable2CellsThatAreNotModelled(t *testing.T) {
	text := strings.NewReplacer(
		"k: [2, 4, 8]", "k: [2, 4, 8, 16]", "m: [1, 4, 32]", "m: [1, 4, 32, 8]",
		"paper:\n", "paper:\n  - {k: 16, m: 1, value: 2}\n  - {k: 16, m: 4, value: 2}\n  - {k: 16, m: 32, value: 2}\n  - {k: 16, m: 8, value: 2}\n  - {k: 2, m: 8, value: 2}\n  - {k: 4, m: 8, value: 2}\n  - {k: 8, m: 8, value: 2}\n",
		"{1: 1, 4: 1, 32: 1}", "{1: 1, 4: 1, 32: 1, 8: 1}",
	).Replace(Paper.Experiment("table2").Spec())
	loaded, err := Paper.Experiment("table2").Load(lab.SpecFile{Name: "x.yaml", Experiment: Paper.Experiment("table2").ID, Text: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	e := loaded.(*table2)
	log := records.New(e.Key("smoke"))
	fillBeside(t, log, e.Modelled)
	rounds, _, err := e.Rounds("smoke")
	if err != nil {
		t.Fatal(err)
	}
	timedtest.FillRounds(t, log, rounds, 0, func(*timed.Run, int) float64 { return 1. / 16 })
	r, err := e.Report(log, log)
	if err != nil {
		t.Fatal(err)
	}
	table := r.Tables[0]
	for _, row := range table.Printed() {
		lacks := row[0] == "16" || row[1] == "8"
		for _, column := range []string{"modelled", "modelled/paper", "at peak"} {
			if got := row[table.Column(column)]; (got == "-") != lacks {
				t.Errorf("K = %s, M = %s: %s %s", row[0], row[1], column, got)
			}
		}
	}
}
