package page

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"unicode/utf8"

	"gpipebench/lab"
)

// pageTable is a table and how it looks.
type pageTable struct {
	*lab.Table
	Class string
	Fold  bool // so long that it is shown on demand
	kept  []float64
}

// longTable is how many rows are shown unfolded.
const longTable = 24

// voices are who gives a column's numbers, by what its name begins with.
var voices = []string{"paper", "torchgpipe", "theory", "modelled", "measured", "reference"}

// voice returns who gives a column's numbers; "": nobody is named, or it compares two.
func voice(c lab.Column) string {
	for _, who := range voices {
		if strings.HasPrefix(strings.ToLower(c.Name), who) && !strings.Contains(c.Name, "/") {
			return who
		}
	}
	return ""
}

// newPageTable puts a table's columns in the order in which a reader compares them: what
// the row is, the paper, what was measured with its interval, and then all else.
func newPageTable(t *lab.Table, class string) *pageTable {
	shown := *t
	keys := keysOf(&shown)
	measured := func(c lab.Column) bool { return voice(c) == "measured" }
	if slices.ContainsFunc(shown.Columns, measured) {
		place := func(i int) int {
			c := shown.Columns[i]
			switch {
			case i < keys:
				return 0
			case voice(c) == "paper":
				return 1
			case measured(c) || strings.HasPrefix(c.Name, "95%"):
				return 2
			}
			return 3
		}
		order := make([]int, len(shown.Columns))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(place(a), place(b)) })
		shown.Columns = picked(t.Columns, order)
		shown.Rows = nil
		for _, row := range t.Rows {
			shown.Rows = append(shown.Rows, picked(row, order))
		}
	}
	return &pageTable{Table: &shown, Class: class, Fold: len(t.Rows) > longTable, kept: keptWidths(&shown, keys)}
}

func picked[T any](from []T, order []int) (all []T) {
	for _, i := range order {
		all = append(all, from[i])
	}
	return all
}

// keysOf returns how many of the first columns say what a row is: those before the
// first number that the paper, a model or a measurement gives.
func keysOf(t *lab.Table) int {
	if n := slices.IndexFunc(t.Columns, func(c lab.Column) bool { return voice(c) != "" }); n >= 0 {
		return n
	}
	n := slices.IndexFunc(t.Columns, func(c lab.Column) bool { return !c.Left })
	return max(n, 0)
}

// keptWidths are the widths of the columns that stay in sight while the others scroll, in
// rem: as many keys as leave room for numbers. A longer text wraps.
func keptWidths(t *lab.Table, keys int) (widths []float64) {
	const letter, padding, widest, all = 0.56, 1.4, 10.5, 19
	sum := 0.0
	for i := range keys {
		letters := utf8.RuneCountInString(t.Columns[i].Name)
		for _, row := range t.Rows {
			letters = max(letters, utf8.RuneCountInString(row[i].Text))
		}
		width := min(letter*float64(letters)+padding, widest)
		if sum += width; sum > all {
			break
		}
		widths = append(widths, width)
	}
	return widths
}

// ColumnClass returns the style of a column: numbers or words, whose, and whether it
// stays in sight.
func (t *pageTable) ColumnClass(i int) string {
	c := t.Columns[i]
	class := "number"
	if c.Left {
		class = "words"
	}
	if who := voice(c); who != "" {
		class += " " + who
	}
	switch {
	case i == 0 && len(t.kept) > 0:
		class += " kept first"
	case i < len(t.kept):
		class += " kept"
	}
	return class
}

// Place returns where a column that stays in sight does.
func (t *pageTable) Place(i int) template.CSS {
	if i >= len(t.kept) {
		return ""
	}
	left := 0.0
	for _, w := range t.kept[:i] {
		left += w
	}
	return template.CSS(fmt.Sprintf("left:%.4grem;min-width:%.4[2]grem;max-width:%.4[2]grem", left, t.kept[i]))
}

// CellClass returns the style of a cell.
func (t *pageTable) CellClass(column int, cell lab.Value) string {
	class := t.ColumnClass(column)
	if t.Columns[column].Name == "verdict" {
		class += " verdict " + toneOf(cell.Text)
	}
	return class
}
