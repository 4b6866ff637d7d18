package experiments

import (
	"bytes"
	"strings"
	"testing"
)

// TestTablesArePlain: what a spec or a file calls itself cannot move a terminal's
// cursor, in any format.
func TestTablesArePlain(t *testing.T) {
	raw := "\x1b[2Jcleared\u202e"
	table := Table{ID: "t", Title: raw, Caption: []string{raw}, Columns: []Column{{Name: raw}}, Notes: []string{raw}}
	table.Add(raw)
	for _, format := range Formats {
		var b bytes.Buffer
		if err := table.Write(&b, format); err != nil {
			t.Fatal(err)
		}
		if format != "json" && strings.ContainsAny(b.String(), "\x1b\u202e") || strings.Contains(b.String(), "\x1b") || !strings.Contains(b.String(), "cleared") {
			t.Errorf("%s: %q", format, b.String())
		}
	}
}
