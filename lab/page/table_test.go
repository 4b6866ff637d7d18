package page

import (
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/lab"
)

// A reader sees what the row is, the paper and what was measured first, and the first
// of these columns stay in sight.
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
	for i, want := range []string{"words kept first", "kept", "paper", "measured"} {
		testkit.Equal(t, p.ColumnClass(i), want, "class of %s", names[i])
	}
	if rules := p.styles(); !strings.Contains(rules, "#t-t tr > :nth-child(1) { left: 0rem;") || strings.Count(rules, "left:") != 2 {
		t.Errorf("places %s", rules)
	}
}

// Without a measurement the order is the table's, and keys too wide to stay do not.
func TestColumnsWithoutMeasurement(t *testing.T) {
	table := &lab.Table{ID: "t", Title: "t"}
	table.Texts("one", "two", "three")
	table.Numbers("modelled", "paper")
	long := strings.Repeat("long ", 20)
	table.Add(long, long, long, 1, 2)
	p := newPageTable(table, "")
	if p.Columns[3].Name != "modelled" || p.Columns[4].Name != "paper" {
		t.Errorf("columns %v", p.Columns)
	}
	if len(p.kept) != 1 {
		t.Errorf("%d columns of %v rem stay in sight, want 1", len(p.kept), p.kept)
	}
}
