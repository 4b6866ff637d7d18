package lab

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"gpipebench/internal/expr"
	"gpipebench/internal/floatjson"
	"gpipebench/internal/printable"
)

// Table is a table of values, which is shown, written, and read by claims and plots.
type Table struct {
	ID      string    `json:"id"` // name of its files
	Title   string    `json:"title"`
	Caption []string  `json:"caption,omitempty"` // what it shows and how it was measured, one sentence or more each
	Columns []Column  `json:"columns"`           // each of its own name
	Rows    [][]Value `json:"rows"`
	Notes   []string  `json:"notes,omitempty"` // below
}

// Column is the head of a column. Claims, documents and the first line of a CSV name a column
// by its ID, so that its head is free English.
type Column struct {
	ID   string `json:"id"`
	Name string `json:"name"` // what a reader sees
	Left bool   `json:"-"`    // text; numbers stand at the right
}

// Slug is the ID of a column with a head: its letters in lower case and its digits, with a dash
// for what stands between.
func Slug(head string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(head), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }), "-")
}

// Formats are what Table.Write writes.
var Formats = []string{"text", "markdown", "csv", "json"}

// Texts adds columns of texts, which stand at the left.
func (t *Table) Texts(names ...string) { t.add(true, names) }

// Numbers adds columns of numbers, which stand at the right.
func (t *Table) Numbers(names ...string) { t.add(false, names) }

// add panics if there is a column of that ID: columns are read by them.
func (t *Table) add(left bool, names []string) {
	for _, name := range names {
		if t.Column(name) >= 0 {
			panic(fmt.Sprintf("lab: table %s has two columns %q", t.ID, Slug(name)))
		}
		t.Columns = append(t.Columns, Column{Slug(name), name, left})
	}
}

// Column returns a column's place by its ID, or by the head that makes the ID; -1 if there is
// none.
func (t *Table) Column(id string) int {
	id = Slug(id)
	return slices.IndexFunc(t.Columns, func(c Column) bool { return c.ID == id })
}

// NoCell is an error of what is not in a table.
type NoCell struct {
	What string
	In   string // the table that lacks a column or a row; "": there is no table, or the cell has no such number
}

func (n *NoCell) Error() string { return n.What }

// Place is Column, or an error, a NoCell, with the IDs that there are.
func (t *Table) Place(id string) (int, error) {
	i := t.Column(id)
	if i < 0 {
		var ids []string
		for _, c := range t.Columns {
			ids = append(ids, c.ID)
		}
		return i, &NoCell{fmt.Sprintf("table %s has no column %q, but %s", t.ID, id, strings.Join(ids, " | ")), t.ID}
	}
	return i, nil
}

// Cell returns the value of a column in the one row that has certain texts or numbers in others:
// keys are pairs of a column and its text or number there. Its error is a NoCell if there is none,
// or more than one.
func (t *Table) Cell(column string, keys ...any) (v Value, err error) {
	texts, err := expr.Texts(keys, 0)
	if err == nil && len(texts)%2 != 0 {
		err = errors.New("want a table, a column, and pairs of a column and its value")
	}
	if err != nil {
		return v, err
	}
	at, err := t.Place(column)
	rows := slices.Clone(t.Rows)
	for i := 0; i < len(texts) && err == nil; i += 2 {
		var key int
		if key, err = t.Place(texts[i]); err != nil {
			break
		}
		number, isNumber := keys[i+1].(expr.Number)
		rows = slices.DeleteFunc(rows, func(row []Value) bool {
			v := row[key]
			return v.Text != texts[i+1] && !(isNumber && len(v.Numbers) > 0 && v.Numbers[0] == number.X)
		})
	}
	switch {
	case err != nil:
		return v, err
	case len(rows) != 1:
		return v, &NoCell{fmt.Sprintf("table %s has %d rows with %s", t.ID, len(rows), strings.Join(texts, " ")), t.ID}
	}
	return rows[0][at], nil
}

// Head gives a column another head than the one that makes its ID.
func (t *Table) Head(id, head string) { t.Columns[t.Column(id)].Name = head }

// Add adds a row. A cell is a Value, a text, a whole number, a partition or has a
// String; a list of these is as many cells.
func (t *Table) Add(cells ...any) {
	row := valuesOf(cells)
	if len(row) != len(t.Columns) {
		panic(fmt.Sprintf("experiments: a row of %d cells in table %s of %d columns", len(row), t.ID, len(t.Columns)))
	}
	t.Rows = append(t.Rows, row)
}

// Printed returns the rows as they are printed.
func (t *Table) Printed() [][]string {
	rows := make([][]string, len(t.Rows))
	for i, row := range t.Rows {
		for _, v := range row {
			rows[i] = append(rows[i], v.Text)
		}
	}
	return rows
}

// Write writes the table in one of Formats.
func (t *Table) Write(w io.Writer, format string) error {
	switch format {
	case "text":
		return t.writeProse(w, "", "", printable.Text, false)
	case "markdown":
		return t.writeProse(w, "## ", "\n", printable.Markdown, true)
	case "csv":
		return t.writeCSV(w)
	case "json":
		return floatjson.Write(w, t)
	}
	return fmt.Errorf("unknown format %q: want %s", format, strings.Join(Formats, ", "))
}

// writeProse writes title and caption, the table, and notes. Between separates
// paragraphs; text escapes what the format would read otherwise.
func (t *Table) writeProse(w io.Writer, mark, between string, text func(string) string, markdown bool) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s%s\n%s", mark, text(t.Title), between)
	for _, line := range t.Caption {
		fmt.Fprintf(&b, "%s\n%s", text(line), between)
	}
	if between == "" {
		b.WriteString("\n")
	}
	if err := t.Draw(&b, markdown); err != nil {
		return err
	}
	if len(t.Notes) > 0 {
		b.WriteString("\n")
	}
	for i, line := range t.Notes {
		if i > 0 {
			b.WriteString(between)
		}
		b.WriteString(text(line) + "\n")
	}
	_, err := b.WriteTo(w)
	return err
}

// Draw draws columns and rows, as plain text or as Markdown.
func (t *Table) Draw(w io.Writer, markdown bool) error {
	cell := printable.Text
	if markdown {
		cell = func(s string) string { return strings.ReplaceAll(printable.Markdown(s), "|", `\|`) }
	}
	names, rows := t.texts(cell)
	var aligns tw.Alignment
	for _, c := range t.Columns {
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
	if err := table.Bulk(rows); err != nil {
		return err
	}
	return table.Render()
}

func (t *Table) writeCSV(w io.Writer) error {
	_, rows := t.texts(printable.Text)
	var ids []string
	for _, c := range t.Columns {
		ids = append(ids, c.ID)
	}
	return csv.NewWriter(w).WriteAll(append([][]string{ids}, rows...))
}

// texts returns the names of the columns, and the rows, each cell after text.
func (t *Table) texts(text func(string) string) (names []string, rows [][]string) {
	for _, c := range t.Columns {
		names = append(names, text(c.Name))
	}
	rows = t.Printed()
	for _, row := range rows {
		for i, c := range row {
			row[i] = text(c)
		}
	}
	return names, rows
}
