package shown_test

import (
	"fmt"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/shown"
)

const words = `
tables:
  - columns:
      - {head: way, is: way}
      - {head: R, is: R}
      - {head: M, is: one, varying: true}
      - {id: over, head: measured speedup, is: first / step, as: "%.2f"}
      - {head: step, label: a step, interval: "{{.Unit}}, step", is: step, as: "%.1f"}
      - {head: fastest, interval: none, is: step, as: "%.1f"}
      - {head: paper, is: paper, as: "%.1f"}
      - {head: over paper, is: median(over) / paper, as: "%.2f"}
      - {head: "{reference} step", reference: true, is: median(before), as: "%.1f"}
bars:
  - {title: "of {{.Unit}}", group: R, by: way, y: "{{.Unit}}", level: 1, within: "10", own_scale: true, bars: [{name: "by *", column: measured speedup}, {name: "* paper", is: paper, as: mark}]}
`

// rows have 6 rounds, the fewest with an interval.
func rows() shown.Rows {
	first, step := []float64{2, 2, 2, 2, 2, 2}, []float64{1, 2, 1, 2, 4, 4}
	return shown.Rows{"": {
		{"way": "a", "R": 1, "one": 1, "first": first, "step": first, "paper": lab.Verbatim("1.50"), "before": []float64{3, 4, 5}},
		{"way": "a", "R": 2, "one": 1, "first": first, "step": step, "paper": lab.Verbatim(""), "before": []float64(nil)},
		{"way": "b", "R": 2, "one": 1, "first": first, "step": []float64(nil), "paper": lab.Value{Text: "≈ 3", Numbers: []float64{3}}, "before": []float64(nil)},
	}}
}

func made(t *testing.T, text, reference string) ([]*lab.Table, []plot.Axes) {
	t.Helper()
	var s shown.Spec
	testkit.NoError(t, yaml.Unmarshal([]byte(text), &s))
	tables, panels, err := s.Made(shown.Showing{ID: "x", Data: map[string]any{"Unit": "s"}, Reference: reference, Rows: rows()})
	testkit.NoError(t, err)
	return tables, panels
}

// A figure of each round is its median with its interval; a ratio to itself has none, and what is missing is.
func TestRounds(t *testing.T) {
	tables, panels := made(t, words, "")
	var heads []string
	for _, c := range tables[0].Columns {
		heads = append(heads, c.ID+"|"+c.Name)
	}
	testkit.Equal(t, strings.Join(heads, " "), "way|way r|R measured-speedup|measured speedup 95-speedup|95%, speedup step|a step s-step|s, step fastest|fastest paper|paper over-paper|over paper", "heads")
	var got []string
	for _, row := range tables[0].Printed() {
		got = append(got, strings.Join(row, " "))
	}
	testkit.Equal(t, strings.Join(got, "; "), "a 1 1.00 - 2.0 [2.0, 2.0] 2.0 1.50 0.67; a 2 1.00 [0.50, 2.00] 2.0 [1.0, 4.0] 2.0 - -; b 2 - - - - - ≈ 3 -", "rows")
	if v := tables[0].Rows[1][6]; len(v.Interval) != 2 {
		t.Errorf("a figure without a column of its interval has none: %v", v)
	}
	p := panels[0].(*plot.BarPanel)
	if p.Title != "of s" || p.Y != "s" || strings.Join(p.Names, ", ") != "R = 1, R = 2" || p.Band.Name != "0.9 to 1.1" || len(p.Levels) != 1 {
		t.Errorf("%+v", p)
	}
	var bars []string
	for _, s := range p.Series {
		bars = append(bars, s.Name)
	}
	if strings.Join(bars, ", ") != "by a, a paper, by b, b paper" || len(p.Series[0].Spread) != 1 || p.Series[0].Spread[0].Group != 1 || fmt.Sprint(p.Series[3].Values) != "[NaN 3]" {
		t.Errorf("%v, %+v", bars, p.Series)
	}
}

// Two rows for one bar are refused: which of them would it be?
func TestBarsOfTwoRows(t *testing.T) {
	var s shown.Spec
	testkit.NoError(t, yaml.Unmarshal([]byte(strings.Replace(words, "group: R", "group: one", 1)), &s))
	_, _, err := s.Made(shown.Showing{ID: "x", Data: map[string]any{"Unit": "s"}, Rows: rows()})
	testkit.Has(t, fmt.Sprint(err), "a second row for group one = 1 of by a")
}

// A reference has columns only where it is shown.
func TestReference(t *testing.T) {
	tables, _ := made(t, words, "reference (full)")
	last := len(tables[0].Columns) - 1
	testkit.Equal(t, tables[0].Columns[last].Name, "reference (full) step", "head")
	testkit.Equal(t, tables[0].Rows[0][last].Text+" "+tables[0].Rows[1][last].Text, "4.0 -", "cells")
}

// What makes no report whatever rows have is refused without them.
func TestForms(t *testing.T) {
	for _, c := range [][2]string{
		{"is: step, as", "tables.0.columns.4.is: step *: "},
		{"median(over) / paper", "tables.0.columns.7.is: mode(over) / paper: mode is no function"},
		{`as: "%.1f"}`, `tables.0.columns.4.as: "hours": want time, bytes, signed`},
		{"{{.Unit}}, step", "tables.0.columns.4.head: "},
		{"  - columns:", `tables.0.caption: template: text:1:2: executing "text" at <.Rounds>: map has no entry for key "Rounds"`},
	} {
		text := strings.Replace(words, c[0], map[string]string{
			"is: step, as": "is: step *, as", "median(over) / paper": "mode(over) / paper", `as: "%.1f"}`: "as: hours}", "{{.Unit}}, step": "{{.Units}}, step", "  - columns:": "  - caption: ['{{(first).R}} of', '{{.Rounds}}']\n    columns:",
		}[c[0]], 1)
		var s shown.Spec
		testkit.NoError(t, yaml.Unmarshal([]byte(text), &s))
		p := s.CheckForms(map[string]any{"Unit": "s"})
		if p == nil {
			t.Fatalf("%s is accepted", c[1])
		}
		testkit.Has(t, strings.Join(p.Path, ".")+": "+p.Err.Error(), c[1])
	}
}
