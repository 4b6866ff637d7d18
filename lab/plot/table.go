package plot

import (
	"cmp"
	"fmt"
	"slices"

	"gpipebench/lab"
)

// TableBars draws columns of a table as bars with their intervals, so that the
// paper, theory, model and measurement of a row stand together: a panel for each
// value of one column, a group of bars for each row in it. All panels have one scale.
type TableBars struct {
	Panel, Group string            // columns; without a panel's there is one panel
	Title        string            // of a panel, with %s for the column's value; "": the value, after the column's name if it is a number
	Names        map[string]string // of series, where the column's own says too little
	Y            string
	Across       string   // the column that a line across each group shows; "": none
	Bars         []string // columns, a series each
	Marks        bool     // signs instead of bars
	Levels       []Level
	Band         *Band
}

// Panels makes the panels. Columns that the table
// does not have are left out; a cell without a number has no bar.
func (b TableBars) Panels(t *lab.Table) []Axes {
	used := slices.DeleteFunc(append([]string{b.Across}, b.Bars...), func(name string) bool { return t.Column(name) < 0 })
	// named is what a row has in a column of texts, or the column's name with it.
	named := func(row []lab.Value, name string) string {
		i := t.Column(name)
		if t.Columns[i].Left {
			return row[i].Text
		}
		return name + " = " + row[i].Text
	}
	var all []Axes
	at := map[string]*BarPanel{}
	for _, row := range t.Rows {
		name := b.Title
		switch {
		case b.Panel == "":
		case b.Title != "":
			name = fmt.Sprintf(b.Title, row[t.Column(b.Panel)].Text)
		default:
			name = named(row, b.Panel)
		}
		p := at[name]
		if p == nil {
			p = &BarPanel{Title: name, Y: b.Y, Levels: b.Levels, Band: b.Band}
			for _, c := range used {
				s := BarSeries{Name: cmp.Or(b.Names[c], c)}
				switch {
				case c == b.Across:
					s.As = Across
				case b.Marks:
					s.As = Mark
				}
				p.Series = append(p.Series, s)
			}
			at[name] = p
			all = append(all, p)
		}
		p.Names = append(p.Names, named(row, b.Group))
		for i, c := range used {
			p.Series[i].AddValue(row[t.Column(c)])
		}
	}
	return OneScale(all)
}

// TableGroups draws one column of a table: a panel for each value of another column, in it a group
// of bars for each value of a second, and a series for each value of a third. Where there is no
// row there is no bar.
type TableGroups struct {
	Panel, Group, By string // columns
	Column           string
	Title, Name      string // of a group and of a series, with %s for the value
	PanelTitle, Y    string // the same, of a panel; of all
}

// Panels makes the panels, each on a scale of its own.
func (g TableGroups) Panels(t *lab.Table) (all []Axes) {
	text := func(row []lab.Value, column string) string { return row[t.Column(column)].Text }
	values := func(column string, of func(row []lab.Value) bool) (all []string) {
		for _, row := range t.Rows {
			if v := text(row, column); of(row) && !slices.Contains(all, v) {
				all = append(all, v)
			}
		}
		return all
	}
	every := func([]lab.Value) bool { return true }
	for _, panel := range values(g.Panel, every) {
		p := &BarPanel{Title: fmt.Sprintf(g.PanelTitle, panel), Y: g.Y}
		groups := values(g.Group, func(row []lab.Value) bool { return text(row, g.Panel) == panel })
		for _, group := range groups {
			p.Names = append(p.Names, fmt.Sprintf(g.Title, group))
		}
		for _, by := range values(g.By, every) {
			series := BarSeries{Name: fmt.Sprintf(g.Name, by)}
			for _, group := range groups {
				i := slices.IndexFunc(t.Rows, func(row []lab.Value) bool {
					return text(row, g.Panel) == panel && text(row, g.Group) == group && text(row, g.By) == by
				})
				if i < 0 {
					series.AddValue(lab.Absent)
					continue
				}
				series.AddValue(t.Rows[i][t.Column(g.Column)])
			}
			p.Series = append(p.Series, series)
		}
		all = append(all, p)
	}
	return all
}

// TableLines draws columns of a table as lines over its rows.
type TableLines struct {
	Title, X, Y string
	Over        string // the column that names the rows' places
	Logarithmic bool   // otherwise the y axis begins at 0
	Lines       []TableLine
}

// TableLine is a column as a line. A cell without a number has no point.
type TableLine struct {
	Name, Column string
	Dashed       bool
}

// Panel makes the panel.
func (l TableLines) Panel(t *lab.Table) *LinePanel {
	p := &LinePanel{Title: l.Title, X: l.X, Y: l.Y, Logarithmic: l.Logarithmic, FromZero: !l.Logarithmic}
	for _, row := range t.Rows {
		p.Names = append(p.Names, row[t.Column(l.Over)].Text)
	}
	for _, of := range l.Lines {
		var points []Point
		var intervals []Span
		for i, row := range t.Rows {
			v := row[t.Column(of.Column)]
			if len(v.Numbers) > 0 {
				points = append(points, Point{X: float64(i), Y: v.Numbers[0]})
			}
			if len(v.Interval) > 0 {
				intervals = append(intervals, Span{float64(i), v.Interval[0], v.Interval[1]})
			}
		}
		p.Series = append(p.Series, Series{Name: of.Name, Lines: [][]Point{points}, Dashed: of.Dashed, Whiskers: intervals})
	}
	return p
}
