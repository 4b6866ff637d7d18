package shown

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpipebench/lab"
	"gpipebench/lab/plot"
)

// PlotSpec is panels of lines, one for each value of a column.
type PlotSpec struct {
	Table       int        `yaml:"table" want:"0..16"`      // whose columns it draws
	Panel       string     `yaml:"panel" want:"optional"`   // a column of texts; none: one panel
	Title       string     `yaml:"title" want:"optional"`   // of a panel, after its text; a template over the spec
	When        string     `yaml:"when" want:"optional"`    // of which rows
	X           string     `yaml:"x"`                       // a column
	XTitle      string     `yaml:"x_title" want:"optional"` // none: its head
	Y           string     `yaml:"y"`
	Logarithmic bool       `yaml:"logarithmic"`
	FromLeast   bool       `yaml:"from_least"` // the y axis begins at the least value, not at 0
	OneScale    bool       `yaml:"one_scale"`
	Dots        bool       `yaml:"dots"` // signs alone, where the places on the x axis have no order
	Lines       []struct { // names and columns are templates over the data
		Name   string  `yaml:"name"`
		Column string  `yaml:"column"`
		When   string  `yaml:"when" want:"optional"`
		Times  float64 `yaml:"times" want:"0..1e12"` // 1
		Dashed bool    `yaml:"dashed"`
	} `yaml:"lines"`
}

// panels draws lines of columns; a panel has two places or more.
func (p PlotSpec) panels(data any, t *lab.Table, rows []Values) (all []plot.Axes, err error) {
	p.Lines = slices.Clone(p.Lines)
	of, err := fill(p.Title, data)
	if err != nil {
		return nil, err
	}
	column := func(name string) (at int) {
		if at = t.Column(name); at < 0 && err == nil {
			err = fmt.Errorf("no column %q", name)
		}
		return at
	}
	title, x := -1, t.Column(p.X)
	if p.Panel != "" {
		title = column(p.Panel)
	}
	if len(rows) > 0 && rows[0][p.X] == nil {
		column(p.X)
	}
	var lines []int
	for i := range p.Lines {
		l := &p.Lines[i]
		var e1, e2 error
		l.Name, e1 = fill(l.Name, data)
		l.Column, e2 = fill(l.Column, data)
		err = cmp.Or(err, e1, e2)
		lines = append(lines, column(l.Column))
	}
	if err != nil {
		return nil, err
	}
	at := map[string]*plot.LinePanel{}
	var made []*plot.LinePanel
	for n, row := range t.Rows {
		drawn := make([]bool, len(p.Lines))
		for i, l := range p.Lines {
			if drawn[i], err = rows[n].when(l.When); err != nil {
				return nil, err
			}
		}
		if some, err := rows[n].when(p.When); !some || err != nil {
			if err != nil {
				return nil, err
			}
			continue
		}
		name := of
		if title >= 0 {
			name = row[title].Text + of
		}
		panel := at[name]
		if panel == nil {
			panel = &plot.LinePanel{Title: name, X: cmp.Or(p.XTitle, p.X), Y: p.Y, Logarithmic: p.Logarithmic, FromZero: !p.Logarithmic && !p.FromLeast}
			for _, l := range p.Lines {
				panel.Series = append(panel.Series, plot.Series{Name: l.Name, Lines: [][]plot.Point{nil}, Dashed: l.Dashed, Dots: p.Dots})
			}
			at[name] = panel
			made = append(made, panel)
		}
		if name = fmt.Sprint(rows[n][p.X]); x >= 0 {
			name = row[x].Text
		}
		place := slices.Index(panel.Names, name)
		if place < 0 {
			place, panel.Names = len(panel.Names), append(panel.Names, name)
		}
		for i, l := range p.Lines {
			if v := row[lines[i]]; drawn[i] && len(v.Numbers) > 0 {
				line := &panel.Series[i].Lines[0]
				*line = append(*line, plot.Point{X: float64(place), Y: cmp.Or(l.Times, 1) * v.Numbers[0]})
				if of := v.Interval; len(of) > 0 {
					panel.Series[i].Whiskers = append(panel.Series[i].Whiskers, plot.Span{X: float64(place), Lo: of[0], Hi: of[1]})
				}
			}
		}
	}
	for _, panel := range made {
		panel.Series = slices.DeleteFunc(panel.Series, func(s plot.Series) bool { return len(s.Lines[0]) == 0 })
		if len(panel.Names) > 1 {
			all = append(all, panel)
		}
	}
	if p.OneScale {
		return plot.OneScale(all), nil
	}
	return all, nil
}

// BarsSpec is panels of bars, one for each value of an expression: a group of bars for each row.
type BarsSpec struct {
	Table    int       `yaml:"table" want:"0..16"`    // whose rows and columns it draws
	When     string    `yaml:"when" want:"optional"`  // of which rows
	Panel    string    `yaml:"panel" want:"optional"` // an expression of the title; none: one panel
	Title    string    `yaml:"title" want:"optional"` // after it; a template over the data
	Group    string    `yaml:"group"`                 // of the name; a number follows the expression and =
	By       string    `yaml:"by" want:"optional"`    // a series for each of its values, which stands for * in names: rows of one group stand side by side
	Y        string    `yaml:"y"`
	Level    float64   `yaml:"level" want:"0..1e9"`    // across a panel; 0: none
	Within   string    `yaml:"within" want:"optional"` // of the level, in percent, a band; a template over the data
	OwnScale bool      `yaml:"own_scale"`              // of each panel; otherwise all have one
	Bars     []BarSpec `yaml:"bars"`
}

// BarSpec is a bar of each group.
type BarSpec struct {
	Name   string `yaml:"name"`
	Is     string `yaml:"is" want:"optional"`     // an expression, or
	Column string `yaml:"column" want:"optional"` // what a column shows, with its interval
	As     string `yaml:"as" want:"bars,optional"`
}

// value is what a bar shows of the row of a number.
func (b BarSpec) value(t *lab.Table, n int, row Values) (lab.Value, error) {
	if b.Column == "" {
		x, err := row.Number(b.Is)
		return lab.Value{Numbers: []float64{x}}, err
	}
	at := t.Column(b.Column)
	if at < 0 {
		return lab.Value{}, fmt.Errorf("no column %q", b.Column)
	}
	return t.Rows[n][at], nil
}

// named is the text of an expression's value; a number follows the expression.
func (v Values) named(expression string) (string, error) {
	if expression == "" {
		return "", nil
	}
	cells, left, err := v.cells(ColumnSpec{Is: expression})
	if err != nil || left {
		return append(cells, lab.Value{})[0].Text, err
	}
	return expression + " = " + cells[0].Text, nil
}

func (b BarsSpec) panels(data any, t *lab.Table, rows []Values) (all []plot.Axes, err error) {
	title, e1 := fill(b.Title, data)
	y, e2 := fill(b.Y, data)
	if err := cmp.Or(e1, e2); err != nil {
		return nil, err
	}
	var band *plot.Band
	if b.Within != "" {
		text, e := fill(b.Within, data)
		percent, err := strconv.ParseFloat(text, 64)
		if err := cmp.Or(e, err); err != nil {
			return nil, err
		}
		lo, hi := b.Level-percent/100, b.Level+percent/100
		band = &plot.Band{Name: fmt.Sprintf("%.2g to %.2g", lo, hi), Lo: lo, Hi: hi}
	}
	var drawn []int
	var by []string
	for n, row := range rows {
		is, err := row.when(b.When)
		if err != nil {
			return nil, err
		}
		if !is {
			continue
		}
		of, err := row.named(b.By)
		if err != nil {
			return nil, err
		}
		if drawn = append(drawn, n); !slices.Contains(by, of) {
			by = append(by, of)
		}
	}
	at := map[string]*plot.BarPanel{}
	var made []*plot.BarPanel
	for _, n := range drawn {
		row := rows[n]
		panel, e1 := row.named(b.Panel)
		group, e2 := row.named(b.Group)
		of, e3 := row.named(b.By)
		if err := cmp.Or(e1, e2, e3); err != nil {
			return nil, err
		}
		p := at[panel]
		if p == nil {
			p = &plot.BarPanel{Title: panel + title, Y: y}
			if b.Level > 0 {
				p.Levels = []plot.Level{{Y: b.Level}}
			}
			p.Band = band
			for _, value := range by {
				for _, of := range b.Bars {
					p.Series = append(p.Series, plot.BarSeries{Name: strings.ReplaceAll(of.Name, "*", value), As: map[string]plot.Shape{"mark": plot.Mark, "across": plot.Across}[of.As]})
				}
			}
			at[panel] = p
			made, all = append(made, p), append(all, p)
		}
		place := slices.Index(p.Names, group)
		if place < 0 || b.By == "" {
			place, p.Names = len(p.Names), append(p.Names, group)
		}
		for i, bar := range b.Bars {
			v, err := bar.value(t, n, row)
			if err != nil {
				return nil, err
			}
			s := &p.Series[slices.Index(by, of)*len(b.Bars)+i]
			if fillUp(s, place); len(s.Values) > place {
				return nil, fmt.Errorf("bars: a second row for group %s of %s, or one behind a later group's: want panel, group and by to tell rows apart", group, s.Name)
			}
			s.AddValue(v)
		}
	}
	for _, p := range made {
		for i := range p.Series {
			fillUp(&p.Series[i], len(p.Names))
		}
	}
	if b.OwnScale {
		return all, nil
	}
	return plot.OneScale(all), nil
}

// fillUp adds nothing to a series up to a number of groups.
func fillUp(s *plot.BarSeries, groups int) {
	for len(s.Values) < groups {
		s.AddValue(lab.Absent)
	}
}
