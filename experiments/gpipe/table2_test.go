package gpipe

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/cells/cellstest"
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

// more is an experiment with other K or M than its spec has.
func more[T lab.Experiment](t *testing.T, id string, axes map[string][]int, edits ...string) T {
	t.Helper()
	d := Paper.Experiment(id)
	spec, err := d.SpecFile(), error(nil)
	spec.Text = []byte(strings.NewReplacer(edits...).Replace(string(spec.Text)))
	for axis, numbers := range axes {
		if spec, err = spec.With(axis, numbers); err != nil {
			t.Fatal(err)
		}
	}
	e, err := d.Load(spec)
	if err != nil {
		t.Fatal(err)
	}
	return e.(T)
}

// checkMore reports from a log beside itself. Every cell has a figure in some columns, and in those of the paper
// unless it lacks one.
func checkMore(t *testing.T, e lab.Experiment, log *records.Log, lacks func(row []string) bool, has, paper []string) {
	t.Helper()
	r, err := e.Report(log, log)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, row := range r.Tables[0].Printed() {
		if lacks(row) {
			n++
		}
		for _, column := range append(has, paper...) {
			absent := lacks(row) && slices.Contains(paper, column)
			if got := row[r.Tables[0].Column(column)]; (got == "-") != absent {
				t.Errorf("%s, %q: %s is %s", e.ID(), row[:3], column, got)
			}
		}
	}
	if n == 0 {
		t.Errorf("%s: no cell that the paper lacks", e.ID())
	}
	for _, f := range r.Rendered() {
		if strings.Contains(f.Text, "NaN") || strings.Contains(f.Text, "Inf") {
			t.Errorf("%s has a figure that is none", f.Name)
		}
	}
}

// Every timed experiment takes a K and an M more, for which the paper has no values. They are modelled and measured
// like the others.
func TestMoreCells(t *testing.T) {
	grid := map[string][]int{"k": {2, 16}, "m": {1, 8}}
	more16 := func(row []string) bool { return row[0] == "16" || row[1] == "8" }

	two := more[*table2](t, "table2", grid)
	rounds, log := timedtest.Start(t, two)
	fillBeside(t, log, two.beside())
	timedtest.FillRounds(t, log, rounds, 0, timedtest.Even)
	checkMore(t, two, log, more16, []string{"modelled", "at peak", "measured", "measured / K = 2", "theory, cut"}, []string{"paper", "modelled/paper", "measured/paper"})

	own := labtest.Loaded[*table2](t, Paper.Experiment("table2").Load)
	ownRounds, reference := timedtest.Start(t, own)
	timedtest.FillRounds(t, reference, ownRounds, 0, timedtest.Even)
	r, err := two.Report(log, reference)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range r.Tables[0].Printed() { // the reference where it has a cell
		if got := row[r.Tables[0].Column("reference")]; (got == "-") != more16(row) {
			t.Errorf("%q: reference %s", row[:2], got)
		}
	}

	amoebanet := more[*table2Amoebanet](t, "table2-amoebanet", grid)
	rounds, log = timedtest.Start(t, amoebanet)
	fillBeside(t, log, amoebanet.beside())
	timedtest.FillRounds(t, log, rounds, 0, timedtest.Even)
	checkMore(t, amoebanet, log, more16, []string{"modelled", "at peak", "measured, cut by time"}, []string{"paper", "torchgpipe", "measured/paper, time"})

	three := more[*table3](t, "table3", map[string][]int{"k": {2, 16}, "m": {8, 32}})
	log = filledTable3(t, three)
	checkMore(t, three, log, func(row []string) bool { return row[1] == "16" || row[2] == "8" }, []string{"modelled", "measured, fast link"}, []string{"measured/paper, to scale"})

	parts := more[*breakdown](t, "breakdown", map[string][]int{"k": {2, 8}, "m": {32}})
	rounds, log = timedtest.Start(t, parts)
	timedtest.FillRounds(t, log, rounds, 0, timedtest.Even)
	checkMore(t, parts, log, func(row []string) bool { return row[0] == "barrier cost" || row[0] == "communication" }, []string{"measured, K = 8"}, []string{"paper, K = 2"})

	figure := more[*figure3](t, "figure3", map[string][]int{"m": {16}}, "      - {name: Pipeline-8,", "      - {name: Pipeline-16, k: 16}\n      - {name: Pipeline-8,")
	rounds, log = filledFigure3(t, figure)
	timedtest.FillRounds(t, log, rounds, 0, timedtest.Even)
	checkMore(t, figure, log, func(row []string) bool { return row[1] == "Pipeline-16" }, []string{"measured", "modelled, memory filled"}, []string{"paper", "measured/paper"})
}

// Without any value of the paper the tables are there all the same.
func TestNoPaper(t *testing.T) {
	paper := regexp.MustCompile(`(?m)^ *paper:\n(?: *- \{k: .*\n|  [a-z]+: [0-9.]+\n)+`)
	without := func(id string) []string { // edits
		found := paper.FindAllString(Paper.Experiment(id).Spec(), -1)
		if len(found) == 0 {
			t.Fatal("no paper in", id)
		}
		var edits []string
		for _, text := range found {
			edits = append(edits, text, "")
		}
		return edits
	}
	all := func([]string) bool { return true }
	two := more[*table2](t, "table2", nil, without("table2")...)
	rounds, log := timedtest.Start(t, two)
	fillBeside(t, log, two.beside())
	timedtest.FillRounds(t, log, rounds, 0, timedtest.Even)
	checkMore(t, two, log, all, []string{"modelled", "measured"}, []string{"paper", "modelled/paper", "measured/paper"})

	parts := more[*breakdown](t, "breakdown", nil, without("breakdown")...)
	rounds, log = timedtest.Start(t, parts)
	timedtest.FillRounds(t, log, rounds, 0, timedtest.Even)
	checkMore(t, parts, log, all, []string{"measured, K = 2"}, nil)

	modelled := more[*table2Modelled](t, "table2-modelled", map[string][]int{"k": {2, 4, 8, 16}}, without("table2-modelled")...)
	log = records.New(modelled.Key("smoke"))
	one := func(lab.Cell, cells.CutSpec, string, string) float64 { return 1 }
	for _, s := range []*cells.Scale{&modelled.Spec.Scale, &modelled.table3.Spec.Scale} {
		cellstest.FillScale(t, log, s, one)
		for _, v := range modelled.whatIfs {
			cellstest.FillScale(t, log, s.WhatIf(v), one)
		}
	}
	checkMore(t, modelled, log, all, []string{"modelled", "free links", "command"}, []string{"paper", "error"})
}
