package plot

import (
	"regexp"
	"slices"
	"strconv"

	"gpipebench/experiments/suite"
)

// TableBars draws columns of a table as bars, so that the paper, theory, model
// and measurement of a row stand together: a panel for each value of one column,
// a group of bars for each row in it.
type TableBars struct {
	Panel, Group string // columns
	Y            string
	Bars         []ColumnBars
	Near         float64 // see barPanel
}

// ColumnBars is a series: a column, and that of its intervals, written [a, b],
// if it has one.
type ColumnBars struct{ Column, Interval string }

// firstNumber is a number at a cell's beginning, and interval what stands in
// brackets.
var (
	firstNumber  = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?`)
	bracketedEnd = regexp.MustCompile(`^\[(-?[0-9.]+), (-?[0-9.]+)\]$`)
)

// Panels makes the panels. Columns that the table
// does not have are left out; a cell without a number has no bar.
func (b TableBars) Panels(t *suite.Table) []Axes {
	column := map[string]int{}
	for i, c := range t.Columns {
		column[c.Name] = i
	}
	used := slices.DeleteFunc(slices.Clone(b.Bars), func(c ColumnBars) bool { _, ok := column[c.Column]; return !ok })
	var all []Axes
	at := map[string]*BarPanel{}
	for _, row := range t.Rows {
		name := row[column[b.Panel]]
		p := at[name]
		if p == nil {
			p = &BarPanel{Title: name, Y: b.Y, near: b.Near}
			if !t.Columns[column[b.Panel]].Left {
				p.Title = b.Panel + " = " + name
			}
			for _, c := range used {
				p.Series = append(p.Series, BarSeries{Name: c.Column})
			}
			at[name] = p
			all = append(all, p)
		}
		group := row[column[b.Group]]
		if !t.Columns[column[b.Group]].Left {
			group = b.Group + " = " + group
		}
		p.Names = append(p.Names, group)
		for i, c := range used {
			s := &p.Series[i]
			if c.Interval != "" {
				if k, ok := column[c.Interval]; ok {
					if m := bracketedEnd.FindStringSubmatch(row[k]); m != nil {
						s.Spread = append(s.Spread, Spread{len(s.Values), number(m[1]), number(m[2])})
					}
				}
			}
			s.Add(number(firstNumber.FindString(row[column[c.Column]])))
		}
	}
	return all
}

// number reads a number, 0 of a text that is none.
func number(text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return v
}
