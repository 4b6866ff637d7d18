package suite_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"gpipebench/experiments/suite"
	"gpipebench/experiments/suite/suitetest"
)

func TestTableFormats(t *testing.T) {
	table := &suite.Table{
		ID: "sample", Title: "A sample",
		Caption: []string{"What it shows.", "How it was had."},
		Columns: []suite.Column{{Name: "what", Left: true}, {Name: "K", Left: false}, {Name: "value", Left: false}},
		Notes:   []string{"A note.", "Another."},
	}
	table.Add("a|b, \"c\"", "1", "1.07")
	table.Add("some_longer name", "128", "[0.99, 1.01]")
	for _, format := range suite.Formats {
		var b strings.Builder
		if err := table.Write(&b, format); err != nil {
			t.Fatal(err)
		}
		suitetest.Golden(t, "table."+format, b.String())
	}
	if err := table.Write(io.Discard, "pdf"); err == nil || !strings.Contains(err.Error(), "want text") {
		t.Errorf("format pdf: %v", err)
	}
}

// TestTablesArePlain: what a spec or a file calls itself cannot move a terminal's
// cursor, in any format.
func TestTablesArePlain(t *testing.T) {
	raw := "\x1b[2Jcleared\u202e"
	table := suite.Table{ID: "t", Title: raw, Caption: []string{raw}, Columns: []suite.Column{{Name: raw}}, Notes: []string{raw}}
	table.Add(raw)
	for _, format := range suite.Formats {
		var b bytes.Buffer
		if err := table.Write(&b, format); err != nil {
			t.Fatal(err)
		}
		if format != "json" && strings.ContainsAny(b.String(), "\x1b\u202e") || strings.Contains(b.String(), "\x1b") || !strings.Contains(b.String(), "cleared") {
			t.Errorf("%s: %q", format, b.String())
		}
	}
}
