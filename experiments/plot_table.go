package experiments

import (
	"regexp"
	"slices"
	"strconv"
)

// tableBars draws columns of a table as bars, so that the paper, theory, model
// and measurement of a row stand together: a panel for each value of one column,
// a group of bars for each row in it.
type tableBars struct {
	panel, group string // columns
	y            string
	bars         []columnBars
	near         float64 // see barPanel
}

// columnBars is a series: a column, and that of its intervals, written [a, b],
// if it has one.
type columnBars struct{ column, interval string }

// firstNumber is a number at a cell's beginning, and interval what stands in
// brackets.
var (
	firstNumber  = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?`)
	bracketedEnd = regexp.MustCompile(`^\[(-?[0-9.]+), (-?[0-9.]+)\]$`)
)

// panels makes the panels. Columns that the table
// does not have are left out; a cell without a number has no bar.
func (b tableBars) panels(t *Table) []axes {
	column := map[string]int{}
	for i, c := range t.Columns {
		column[c.Name] = i
	}
	used := slices.DeleteFunc(slices.Clone(b.bars), func(c columnBars) bool { _, ok := column[c.column]; return !ok })
	var all []axes
	at := map[string]*barPanel{}
	for _, row := range t.Rows {
		name := row[column[b.panel]]
		p := at[name]
		if p == nil {
			p = &barPanel{title: name, y: b.y, near: b.near}
			if !t.Columns[column[b.panel]].Left {
				p.title = b.panel + " = " + name
			}
			for _, c := range used {
				p.series = append(p.series, barSeries{name: c.column})
			}
			at[name] = p
			all = append(all, p)
		}
		group := row[column[b.group]]
		if !t.Columns[column[b.group]].Left {
			group = b.group + " = " + group
		}
		p.names = append(p.names, group)
		for i, c := range used {
			s := &p.series[i]
			if c.interval != "" {
				if k, ok := column[c.interval]; ok {
					if m := bracketedEnd.FindStringSubmatch(row[k]); m != nil {
						s.spread = append(s.spread, spread{len(s.values), number(m[1]), number(m[2])})
					}
				}
			}
			s.add(number(firstNumber.FindString(row[column[c.column]])))
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
