package claims

import (
	"fmt"
	"slices"
	"strings"

	"gpipebench/lab"
)

// cellsRead is what an expression reads: cells, by the row of a table that they are in.
type cellsRead struct {
	rows []readRow
	// starred says that a cell rests on a step that does not fit its devices' memory.
	starred bool
}

type readRow struct {
	table, name string
	cells       []string
}

// add keeps a cell, once.
func (e *cellsRead) add(table, row, cell string) {
	i := slices.IndexFunc(e.rows, func(r readRow) bool { return r.table == table && r.name == row })
	if i < 0 {
		i = len(e.rows)
		e.rows = append(e.rows, readRow{table: table, name: row})
	}
	if !slices.Contains(e.rows[i].cells, cell) {
		e.rows[i].cells = append(e.rows[i].cells, cell)
	}
}

// texts has a text for each row, such as "K = 8, M = 32: 4.93 measured, 6.37 modelled". If there are several
// tables, their IDs come first.
func (e *cellsRead) texts() (all []string) {
	for _, r := range e.rows {
		name := r.name
		if r.table != e.rows[0].table || r.table != e.rows[len(e.rows)-1].table {
			name = strings.TrimSuffix(r.table+", "+name, ", ")
		}
		all = append(all, strings.TrimPrefix(name+": ", ": ")+strings.Join(r.cells, ", "))
	}
	return all
}

// said is a cell in words: a number before what it is, a text after it.
func said(c lab.Column, text string) string {
	switch {
	case c.Left:
		return c.Name + " " + text
	case strings.Contains(c.Name, ","):
		return fmt.Sprintf("%s (%s)", text, c.Name)
	}
	return text + " " + c.Name
}

// keyed names a row by a cell: a text alone, a number with what it is.
func keyed(c lab.Column, text string) string {
	if c.Left {
		return text
	}
	return c.Name + " = " + text
}

// rowName names a row of a table by its first cells, as many as no other row has.
func rowName(t *lab.Table, row int) string {
	var names []string
	own := t.Rows[row]
	for i, c := range t.Columns {
		names = append(names, keyed(c, own[i].Text))
		same := 0
		for _, other := range t.Rows {
			if slices.EqualFunc(other[:i+1], own[:i+1], func(a, b lab.Value) bool { return a.Text == b.Text }) {
				same++
			}
		}
		if same == 1 {
			break
		}
	}
	return strings.Join(names, ", ")
}
