package page

import (
	"cmp"
	"slices"
	"strings"

	"gpipebench/lab"
)

// pageTable is a table and how it looks.
type pageTable struct {
	*lab.Table
	Class   string
	Heading string // above the table; "": none
	Fold    bool   // shown on demand, below its title
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
		order, place := make([]int, len(shown.Columns)), make([]int, len(shown.Columns))
		for i, c := range shown.Columns {
			order[i] = i
			switch {
			case i < keys:
				place[i] = 0
			case strings.HasPrefix(c.Name, "95%"): // of the column before it
				place[i] = place[i-1]
			case voice(c) == "paper":
				place[i] = 1
			case measured(c):
				place[i] = 2
			default:
				place[i] = 3
			}
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(place[a], place[b]) })
		shown.Columns = picked(t.Columns, order)
		shown.Rows = nil
		for _, row := range t.Rows {
			shown.Rows = append(shown.Rows, picked(row, order))
		}
	}
	return &pageTable{Table: &shown, Class: class, Fold: len(t.Rows) > longTable}
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

// ColumnClass returns the style of a column: whether it has words, whose numbers, and that the first
// stays in sight while the others scroll.
func (t *pageTable) ColumnClass(i int) string {
	c := t.Columns[i]
	var class []string
	if c.Left {
		class = append(class, "words")
	}
	if who := voice(c); who != "" {
		class = append(class, who)
	}
	if i == 0 {
		class = append(class, "kept")
	}
	return strings.Join(class, " ")
}

// CellClass returns the style of a cell.
func (t *pageTable) CellClass(column int, cell lab.Value) string {
	class := t.ColumnClass(column)
	if t.Columns[column].Name == "verdict" {
		class += " verdict " + toneOf(cell.Text)
	}
	return class
}
