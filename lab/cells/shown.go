package cells

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"gpipebench/internal/expr"
	"gpipebench/lab"
	"gpipebench/lab/plot"
)

// Shown is what the tables and plots of a spec show. None of it decides samples.
type Shown struct {
	Tables []TableSpec `yaml:"tables" want:"shown"`
	Plots  []PlotSpec  `yaml:"plots" want:"shown,optional"` // lines, and then
	Bars   []BarsSpec  `yaml:"bars" want:"shown,optional"`
}

func (s *Shown) shown() *Shown { return s }

// TableSpec is a table: a row of it is what its columns say of a row. Captions and titles are
// templates over the spec, and notes over a row.
type TableSpec struct {
	ID      string       `yaml:"id" want:"id,optional"`   // after the experiment's; the first has none
	Title   string       `yaml:"title" want:"optional"`   // none: the spec's
	Rows    string       `yaml:"rows" want:"id,optional"` // of this name
	Caption []string     `yaml:"caption" want:"optional"` // of an empty text: none
	Columns []ColumnSpec `yaml:"columns"`
	Notes   []NoteSpec   `yaml:"notes" want:"optional"`
}

// ColumnSpec is a column. Later ones may read it by its ID.
type ColumnSpec struct {
	ID   string `yaml:"id" want:"optional"`
	Head string `yaml:"head" want:"optional"` // none: the value is only there to be read
	Is   string `yaml:"is"`                   // an expression
	When string `yaml:"when" want:"optional"` // otherwise the cell is absent
	Star string `yaml:"star" want:"optional"` // where it is true an asterisk follows: it does not fit
	// Each is names of columns, a * in head and, with _ for what is no letter or digit, in id, is,
	// when and star.
	Each []string `yaml:"each" want:"optional"`
	As   string   `yaml:"as" want:"optional"` // time, bytes, signed, or fmt's %f and %g, with %% in percent; none: as it is

	at string // its place in the spec
}

// NoteSpec is a note on each row for which something is true; the same text once.
type NoteSpec struct {
	When string `yaml:"when"`
	Text string `yaml:"text"`
}

// PlotSpec is panels of lines, one for each value of a column.
type PlotSpec struct {
	Table       int    `yaml:"table" want:"0..16"`      // whose columns it draws
	Panel       string `yaml:"panel" want:"optional"`   // a column of texts; none: one panel
	Title       string `yaml:"title" want:"optional"`   // of a panel, after its text; a template over the spec
	When        string `yaml:"when" want:"optional"`    // of which rows
	X           string `yaml:"x"`                       // a column
	XTitle      string `yaml:"x_title" want:"optional"` // none: its head
	Y           string `yaml:"y"`
	Logarithmic bool   `yaml:"logarithmic"`
	FromLeast   bool   `yaml:"from_least"` // the y axis begins at the least value, not at 0
	OneScale    bool   `yaml:"one_scale"`
	Dots        bool   `yaml:"dots"` // signs alone, where the places on the x axis have no order
	Lines       []struct {
		Name   string  `yaml:"name"`
		Column string  `yaml:"column"`
		When   string  `yaml:"when" want:"optional"`
		Times  float64 `yaml:"times" want:"0..1e12"` // 1
		Dashed bool    `yaml:"dashed"`
	} `yaml:"lines"`
}

// columns returns a table's columns, one by one.
func (t *TableSpec) columns() (all []ColumnSpec) {
	for i, c := range t.Columns {
		c.at = strconv.Itoa(i)
		if len(c.Each) == 0 {
			all = append(all, c)
		}
		for _, name := range c.Each {
			one, word := c, Word(name)
			one.Head = strings.ReplaceAll(c.Head, "*", name)
			for _, text := range []*string{&one.ID, &one.Is, &one.When, &one.Star} {
				*text = strings.ReplaceAll(*text, "*", word)
			}
			all = append(all, one)
		}
	}
	return all
}

// BarsSpec is panels of bars, one for each value of an expression: a group of bars for each row.
type BarsSpec struct {
	Rows  string  `yaml:"rows" want:"id,optional"` // of this name
	When  string  `yaml:"when" want:"optional"`    // of which of them
	Panel string  `yaml:"panel"`                   // an expression of the title
	Group string  `yaml:"group"`                   // of the name
	Y     string  `yaml:"y"`
	Level float64 `yaml:"level" want:"0..1e9"` // across a panel; 0: none
	Bars  []struct {
		Name string `yaml:"name"`
		Is   string `yaml:"is"`
		As   string `yaml:"as" want:"bars,optional"`
	} `yaml:"bars"`
}

// Word is a name as Each has it in expressions.
func Word(name string) string { return notWord.ReplaceAllString(name, "_") }

var notWord = regexp.MustCompile(`[^A-Za-z0-9]+`)

var asForm = regexp.MustCompile(`^(|time|bytes|signed|%\+?(\.[0-9])?[fg](%%|[ A-Za-z/]*))$`)

// check refuses what would make no report of one row of each name. Known are the values of these
// rows, of any numbers.
func (s *Shown) check(spec any, known map[string]Values) *lab.Problem {
	for i, t := range s.Tables {
		if known[t.Rows] == nil {
			return lab.At(fmt.Errorf("no rows %q", t.Rows), "tables", strconv.Itoa(i), "rows")
		}
	}
	rows := map[string][]Values{}
	for name, row := range known {
		rows[name] = []Values{row}
	}
	_, _, p := s.made("", "", spec, rows)
	return p
}

// fill is a template's text with values. Its function first has those of the first row, and count
// how many rows there are, or of how many an expression is true.
func fill(text string, of any, rows ...Values) (string, error) {
	t, err := template.New("text").Option("missingkey=error").Funcs(template.FuncMap{
		"first": func() Values { return rows[0] },
		"count": func(expressions ...string) (n int, err error) {
			for _, row := range rows {
				is := true
				for _, e := range expressions {
					also, err := row.when(e)
					if err != nil {
						return 0, err
					}
					is = is && also
				}
				if is {
					n++
				}
			}
			return n, nil
		},
	}).Parse(text)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	err = t.Execute(&b, of)
	return b.String(), err
}

// captions are the lines of the captions' texts.
func (t *TableSpec) captions(spec any, rows ...Values) (all []string, err error) {
	for _, text := range t.Caption {
		filled, err := fill(text, spec, rows...)
		if err != nil {
			return nil, err
		}
		all = append(all, strings.FieldsFunc(filled, func(r rune) bool { return r == '\n' })...)
	}
	return all, nil
}

// when reports whether an expression is true; "": always.
func (v Values) when(expression string) (bool, error) {
	if expression == "" {
		return true, nil
	}
	truth, err := v.functions().Truth(expression)
	return truth == expr.Yes, err
}

// of is a note's text, "" if it says nothing of a row.
func (n NoteSpec) of(row Values, all []Values) (string, error) {
	said, err := row.when(n.When)
	text, e := fill(n.Text, map[string]any(row), all...)
	if err == nil {
		err = e
	}
	if !said {
		text = ""
	}
	return text, err
}

// cell is what a column shows of a row, which keeps the number by the column's ID, and whether it is
// a text or a truth value, which stand at the left.
func (v Values) cell(c ColumnSpec) (cell lab.Value, left bool, err error) {
	of, err := v.functions().Evaluate(c.Is)
	if err != nil {
		return cell, false, fmt.Errorf("%s: %w", c.Is, err)
	}
	if c.ID != "" {
		v[c.ID] = of
	}
	switch x := of.(type) {
	case lab.Value:
		cell = x
	case string:
		cell, left = lab.Value{Text: x}, true
	case expr.Truth:
		cell, left = lab.Value{Text: lab.YesOrNo(x == expr.Yes)}, true
	case expr.Number:
		cell = printed(x.X, c.As)
	default:
		return cell, false, fmt.Errorf("%s is %v: want a number, a text or a truth value", c.Is, of)
	}
	if c.Star != "" {
		starred, err := v.when(c.Star)
		if err != nil {
			return cell, false, err
		}
		cell = lab.Starred(cell, !starred)
	}
	shown, err := v.when(c.When)
	if !shown {
		cell = lab.Absent
	}
	return cell, left, err
}

// printed is a number as a column shows it.
func printed(x float64, as string) lab.Value {
	switch {
	case math.IsNaN(x):
		return lab.Absent
	case as == "":
		return lab.Value{Text: strconv.FormatFloat(x, 'f', -1, 64), Numbers: []float64{x}}
	case as == "time":
		return lab.Seconds(x)
	case as == "bytes":
		return lab.Bytes(int64(x))
	case as == "signed":
		return lab.Signed(x)
	case strings.HasSuffix(as, "%%"):
		x *= 100
	}
	return lab.Number(as, x)
}

// Number is the value of an expression of values.
func (v Values) Number(expression string) (float64, error) {
	n, err := v.functions().Number(expression)
	return n.X, err
}

// report makes an experiment's tables and plots of rows, by their name.
func (s *Shown) report(of plot.Headed, title string, spec any, rows map[string][]Values) (*lab.Report, error) {
	tables, panels, p := s.made(of.ID(), title, spec, rows)
	if p != nil {
		return nil, fmt.Errorf("%s: %s: %w", of.ID(), strings.Join(p.Path, "."), p.Err)
	}
	r := &lab.Report{Tables: tables}
	var err error
	if len(panels) > 0 {
		r.Files, err = plot.Figure(of, "", tables, panels)
	}
	return r, err
}

// made are the tables of rows, and the panels of the plot.
func (s *Shown) made(id, title string, spec any, rows map[string][]Values) (tables []*lab.Table, panels []plot.Axes, p *lab.Problem) {
	for i, of := range s.Tables {
		t, p := of.table(id, title, spec, rows[of.Rows])
		if p != nil {
			return nil, nil, p.In("tables", strconv.Itoa(i))
		}
		tables = append(tables, t)
	}
	for i, of := range s.Plots {
		if of.Table >= len(tables) {
			return nil, nil, lab.At(fmt.Errorf("table %d: want one of %d, from 0", of.Table, len(tables)), "plots", strconv.Itoa(i))
		}
		some, err := of.panels(spec, tables[of.Table], rows[s.Tables[of.Table].Rows])
		if err != nil {
			return nil, nil, lab.At(err, "plots", strconv.Itoa(i))
		}
		panels = append(panels, some...)
	}
	for i, of := range s.Bars {
		some, err := of.panels(rows[of.Rows])
		if err != nil {
			return nil, nil, lab.At(err, "bars", strconv.Itoa(i))
		}
		panels = append(panels, some...)
	}
	return tables, panels, nil
}

func (t *TableSpec) table(id, title string, spec any, rows []Values) (*lab.Table, *lab.Problem) {
	out := &lab.Table{ID: strings.TrimSuffix(id+"-"+t.ID, "-"), Title: cmp.Or(t.Title, title)}
	var err error
	if out.Caption, err = t.captions(spec, rows...); err != nil {
		return nil, lab.At(err, "caption")
	}
	out.Rows = make([][]lab.Value, len(rows))
	for _, c := range t.columns() {
		switch {
		case !asForm.MatchString(c.As):
			return nil, lab.At(fmt.Errorf("%q: want time, bytes, signed, or a form of fmt's for a number, such as %%.2f", c.As), "columns", c.at, "as")
		case c.Head != "" && out.Column(c.Head) >= 0:
			return nil, lab.At(fmt.Errorf("two columns %q", c.Head), "columns", c.at, "head")
		}
		isText := false // of the first row
		for n, row := range rows {
			cell, left, err := row.cell(c)
			if err != nil {
				return nil, lab.At(err, "columns", c.at, "is")
			}
			if c.Head != "" {
				out.Rows[n] = append(out.Rows[n], cell)
			}
			isText = isText || n == 0 && left
		}
		switch {
		case c.Head == "":
		case isText:
			out.Texts(c.Head)
		default:
			out.Numbers(c.Head)
		}
	}
	for i, note := range t.Notes {
		for _, row := range rows {
			text, err := note.of(row, rows)
			if err != nil {
				return nil, lab.At(err, "notes", strconv.Itoa(i))
			}
			if text != "" && !slices.Contains(out.Notes, text) {
				out.Notes = append(out.Notes, text)
			}
		}
	}
	return out, nil
}

// panels draws lines of columns; a panel has two places or more.
func (p PlotSpec) panels(spec any, t *lab.Table, rows []Values) (all []plot.Axes, err error) {
	of, err := fill(p.Title, spec)
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
	for _, l := range p.Lines {
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

// panels draws bars, all on one scale.
func (b BarsSpec) panels(rows []Values) (all []plot.Axes, err error) {
	at := map[string]*plot.BarPanel{}
	for _, row := range rows {
		if drawn, err := row.when(b.When); err != nil {
			return nil, err
		} else if !drawn {
			continue
		}
		var names [2]string
		for i, of := range []string{b.Panel, b.Group} {
			v, _, err := row.cell(ColumnSpec{Is: of})
			if err != nil {
				return nil, err
			}
			names[i] = v.Text
		}
		p := at[names[0]]
		if p == nil {
			p = &plot.BarPanel{Title: names[0], Y: b.Y}
			if b.Level > 0 {
				p.Levels = []plot.Level{{Y: b.Level}}
			}
			for _, of := range b.Bars {
				p.Series = append(p.Series, plot.BarSeries{Name: of.Name, As: map[string]plot.Shape{"mark": plot.Mark, "across": plot.Across}[of.As]})
			}
			at[names[0]] = p
			all = append(all, p)
		}
		p.Names = append(p.Names, names[1])
		for i, of := range b.Bars {
			y, err := row.Number(of.Is)
			if err != nil {
				return nil, err
			}
			p.Series[i].Add(y)
		}
	}
	return plot.OneScale(all), nil
}
