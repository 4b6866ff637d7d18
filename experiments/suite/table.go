package suite

import (
	"encoding/csv"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"gpipebench/experiments/records"
	"gpipebench/internal/plain"
)

// Table is a table as it is shown and written: text in cells.
type Table struct {
	ID      string     `json:"id"` // name of its files
	Title   string     `json:"title"`
	Caption []string   `json:"caption,omitempty"` // what it shows and how it was had, one sentence or more each
	Columns []Column   `json:"columns"`
	Rows    [][]string `json:"rows"`
	Notes   []string   `json:"notes,omitempty"` // below
}

// Column is the head of a column.
type Column struct {
	Name string `json:"name"`
	Left bool   `json:"-"` // text; numbers stand at the right
}

// Formats are what Table.Write writes.
var Formats = []string{"text", "markdown", "csv", "json"}

// CheckFormat refuses what is not among Formats.
func CheckFormat(name string) error {
	if slices.Contains(Formats, name) {
		return nil
	}
	return fmt.Errorf("unknown format %q: want %s", name, strings.Join(Formats, ", "))
}

// Add adds a row.
func (t *Table) Add(cells ...string) {
	if len(cells) != len(t.Columns) {
		panic(fmt.Sprintf("experiments: a row of %d cells in table %s of %d columns", len(cells), t.ID, len(t.Columns)))
	}
	t.Rows = append(t.Rows, cells)
}

// Write writes the table in one of Formats.
func (t *Table) Write(w io.Writer, format string) error {
	switch format {
	case "text":
		return t.writeProse(w, "", "", plainText, func() error { return t.Draw(w, false) })
	case "markdown":
		return t.writeProse(w, "## ", "\n", markdownText, func() error { return t.Draw(w, true) })
	case "csv":
		return t.writeCSV(w)
	case "json":
		return records.WriteJSON(w, t)
	}
	return CheckFormat(format)
}

// writeProse puts title and caption above what draw draws, and notes below.
// Between is what parts paragraphs; text makes text of the format.
func (t *Table) writeProse(w io.Writer, mark, between string, text func(string) string, draw func() error) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s\n%s", mark, text(t.Title), between)
	for _, line := range t.Caption {
		fmt.Fprintf(&b, "%s\n%s", text(line), between)
	}
	if between == "" {
		b.WriteString("\n")
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	if err := draw(); err != nil {
		return err
	}
	b.Reset()
	if len(t.Notes) > 0 {
		b.WriteString("\n")
	}
	for i, line := range t.Notes {
		if i > 0 {
			b.WriteString(between)
		}
		b.WriteString(text(line) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// plainText is text without what a terminal obeys.
func plainText(s string) string { return plain.Text(s) }

var MarkdownTag = regexp.MustCompile(`<([A-Za-z/!?])`)

// markdownText is text as Markdown, in which what a spec or a machine calls
// itself is no HTML.
func markdownText(s string) string { return MarkdownTag.ReplaceAllString(plain.Text(s), "&lt;$1") }

// Draw draws columns and rows, as plain text or as Markdown.
func (t *Table) Draw(w io.Writer, markdown bool) error {
	cell := plainText
	if markdown {
		cell = func(s string) string { return strings.ReplaceAll(markdownText(s), "|", `\|`) }
	}
	var names []string
	var aligns tw.Alignment
	for _, c := range t.Columns {
		names = append(names, cell(c.Name))
		if c.Left {
			aligns = append(aligns, tw.AlignLeft)
		} else {
			aligns = append(aligns, tw.AlignRight)
		}
	}
	options := []tablewriter.Option{
		tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithHeaderAutoWrap(tw.WrapNone),
		tablewriter.WithRowAutoWrap(tw.WrapNone),
		tablewriter.WithAlignment(aligns),
		tablewriter.WithHeaderAlignmentConfig(tw.CellAlignment{PerColumn: aligns}),
	}
	if markdown {
		options = append(options, tablewriter.WithRenderer(renderer.NewMarkdown()))
	} else {
		options = append(options, tablewriter.WithRendition(tw.Rendition{
			Symbols: tw.NewSymbols(tw.StyleASCII),
			Borders: tw.BorderNone,
			Settings: tw.Settings{
				Separators: tw.Separators{BetweenColumns: tw.Off, BetweenRows: tw.Off},
				Lines:      tw.Lines{ShowHeaderLine: tw.On, ShowTop: tw.Off, ShowBottom: tw.Off},
			},
		}))
	}
	table := tablewriter.NewTable(w, options...)
	table.Header(names)
	for _, row := range t.Rows {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = cell(c)
		}
		if err := table.Append(cells); err != nil {
			return err
		}
	}
	return table.Render()
}

func (t *Table) writeCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	var names []string
	for _, col := range t.Columns {
		names = append(names, plainText(col.Name))
	}
	if err := c.Write(names); err != nil {
		return err
	}
	for _, row := range t.Rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = plainText(cell)
		}
		if err := c.Write(cells); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}
