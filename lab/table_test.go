package lab_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/stats"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
)

func TestTableFormats(t *testing.T) {
	table := &lab.Table{
		ID: "sample", Title: "A sample",
		Caption: []string{"What it shows.", "How it was had."},
		Notes:   []string{"A note.", "Another."},
	}
	table.Texts("what")
	table.Numbers("K", "value")
	table.Add("a|b, \"c\"", 1, lab.Fixed(1.0743, 2))
	table.Add("some_longer name", 128, lab.Interval(lab.Fixed(0.99, 2), lab.Fixed(1.01, 2)))
	for _, format := range lab.Formats {
		var b strings.Builder
		testkit.NoError(t, table.Write(&b, format))
		labtest.Golden(t, "table."+format, b.String())
	}
	testkit.Fails(t, table.Write(io.Discard, "pdf"), "want text")
}

// TestColumnsAreUnique: a name says which column is meant.
func TestColumnsAreUnique(t *testing.T) {
	table := &lab.Table{ID: "sample"}
	table.Texts("what")
	testkit.Panics(t, func() { table.Numbers("measured", "95%", "modelled", "95%") }, `table sample has two columns "95"`)
}

// TestValues: numbers are what was given, not what is printed.
func TestValues(t *testing.T) {
	third := 1. / 3
	for _, c := range []struct {
		value    lab.Value
		text     string
		numbers  []float64
		interval []float64
	}{
		{lab.Fixed(third, 2), "0.33", []float64{third}, nil},
		{lab.Percent(third, 1), "33.3%", []float64{100 * third}, nil},
		{lab.Percent(math.NaN(), 1), "-", nil, nil},
		{lab.Signed(math.NaN()), "-", nil, nil},
		{lab.Interval(lab.Fixed(math.NaN(), 1), lab.Fixed(1, 1)), "-", nil, nil},
		{lab.Joined("(%v%%)", lab.Absent), "-", nil, nil},
		{lab.Joined("%v (%v)", 2, lab.Absent), "2 (-)", []float64{2}, nil},
		{lab.Verbatim("65.60").Printed("%"), "65.60%", []float64{65.6}, nil},
		{lab.Verbatim("").Printed("%"), "-", nil, nil},
		{lab.Verbatim("2.5").Off(5), "+100%", []float64{100}, nil},
		{lab.Verbatim("").Off(5), "-", nil, nil},
		{lab.Share(1, 3), "33.3%", []float64{100. / 3}, nil},
		{lab.Signed(-0.001), "+0%", []float64{-0.1}, nil},
		{lab.Seconds(0.9 / 1024), "878.9 us", []float64{0.9 / 1024}, nil},
		{lab.Bytes(1500), "1.46 KiB", []float64{1500}, nil},
		{lab.Ratio(stats.Ratio{Median: third, Lo: 0.251, Hi: 0.5, Known: true}, false)[0], "0.33", []float64{third}, []float64{0.251, 0.5}},
		{lab.Ratio(stats.Ratio{Median: third, Lo: 0.251, Hi: 0.5, Known: true}, false)[1], "[0.25, 0.50]", nil, []float64{0.251, 0.5}},
		{lab.Ratio(stats.Ratio{Median: 1, Lo: 1, Hi: 1, Known: true}, true)[1], "-", nil, nil},
		{lab.Ratio(stats.Ratio{Median: third}, false)[1], "-", nil, nil},
		{lab.Paired(stats.Pairs([]float64{2}, []float64{1}), 1), "+1.0", []float64{1}, nil},
		{lab.Joined("M = %v: %v", 4, lab.Bytes(2048)), "M = 4: 2.00 KiB", []float64{4, 2048}, nil},
		{lab.List(" / "), "", nil, nil},
		{lab.Figure("81,505.5"), "81,505.5", []float64{81505.5}, nil},
		{lab.Figure("1.5B"), "1.5B", []float64{1.5e9}, nil},
		{lab.Figure("3.5 KiB"), "3.5 KiB", []float64{3584}, nil},
		{lab.Figure("63.4%"), "63.4%", []float64{63.4}, nil},
		{lab.Figure("out of memory"), "out of memory", nil, nil},
		{lab.Figure(""), "-", nil, nil},
	} {
		if v := c.value; v.Text != c.text || !slices.Equal(v.Numbers, c.numbers) || !slices.Equal(v.Interval, c.interval) {
			t.Errorf("%+v, want %s, %v, %v", v, c.text, c.numbers, c.interval)
		}
	}
}

// TestTablesArePlain: what a spec or a file calls itself cannot move a terminal's
// cursor, in any format.
func TestTablesArePlain(t *testing.T) {
	raw := "\x1b[2Jcleared\u202e"
	table := lab.Table{ID: "t", Title: raw, Caption: []string{raw}, Columns: []lab.Column{{Name: raw}}, Notes: []string{raw}}
	table.Add(raw)
	for _, format := range lab.Formats {
		var b bytes.Buffer
		testkit.NoError(t, table.Write(&b, format))
		if format != "json" && strings.ContainsAny(b.String(), "\x1b\u202e") || strings.Contains(b.String(), "\x1b") || !strings.Contains(b.String(), "cleared") {
			t.Errorf("%s: %q", format, b.String())
		}
	}
}

// A column's ID outlives its head.
func TestHead(t *testing.T) {
	table := &lab.Table{ID: "sample"}
	table.Numbers("95%, slow")
	table.Head("95-slow", "95% interval of the slow ones (s)")
	table.Add(1)
	var csv, text strings.Builder
	testkit.NoError(t, errors.Join(table.Write(&csv, "csv"), table.Write(&text, "text")))
	if table.Column("95-slow") != 0 || table.Column("95%, slow") != 0 || csv.String() != "95-slow\n1\n" || !strings.Contains(text.String(), "interval of the slow ones (s)") {
		t.Errorf("%q\n%s", csv.String(), text.String())
	}
}
