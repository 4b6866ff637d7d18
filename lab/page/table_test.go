package page

import (
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/lab"
)

// A reader sees what the row is, the paper and what was measured first.
func TestColumnOrder(t *testing.T) {
	table := &lab.Table{ID: "t", Title: "t"}
	table.Texts("network")
	table.Numbers("K", "paper", "theory, cut", "modelled", "measured, slow", "95%, slow", "measured, fast", "95%, fast", "measured/paper")
	table.Add("A", 2, lab.Fixed(1.5, 1), 3, 4, 5, 6, 7, 8, 9)
	p := newPageTable(table, "")
	var names, cells []string
	for i, c := range p.Columns {
		names, cells = append(names, c.Name), append(cells, p.Rows[0][i].Text)
	}
	want := []string{"network", "K", "paper", "measured, slow", "95%, slow", "measured, fast", "95%, fast", "theory, cut", "modelled", "measured/paper"}
	testkit.EqualAll(t, names, want, "columns")
	testkit.Equal(t, strings.Join(cells, " "), "A 2 1.5 5 6 7 8 3 4 9", "cells")
	testkit.Equal(t, table.Columns[3].Name, "theory, cut", "the table itself has changed")
	for i, want := range []string{"words kept", "", "paper", "measured"} {
		testkit.Equal(t, p.ColumnClass(i), want, "class of %s", names[i])
	}
	// Without a measurement the order is the table's.
	other := &lab.Table{}
	other.Numbers("modelled", "paper")
	testkit.EqualAll(t, newPageTable(other, "").Columns, other.Columns)
}
