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
	// Each is names of columns, a * in head and, with _ for what is no letter or digit, in id, is
	// and when.
	Each []string `yaml:"each" want:"optional"`
	As   string   `yaml:"as" want:"optional"` // time, bytes, signed, or fmt's %f and %g, with %% in percent; none: as it is

	at string // its place in the spec
}

// NoteSpec is said of each row of which something is true; the same text once.
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
	Lines       []struct {
		Name   string  `yaml:"name"`
		Column string  `yaml:"column"`
		When   string  `yaml:"when" want:"optional"`
		Times  float64 `yaml:"times" want:"0..1e12"` // 1
		Dashed bool    `yaml:"dashed"`
	} `yaml:"lines"`
}

// columns are those of a table, one by one.
func (t *TableSpec) columns() (all []ColumnSpec) {
	for i, c := range t.Columns {
		c.at = strconv.Itoa(i)
		if len(c.Each) == 0 {
			all = append(all, c)
		}
		for _, name := range c.Each {
			one, word := c, Word(name)
			one.Head = strings.ReplaceAll(c.Head, "*", name)
			one.ID, one.Is, one.When = strings.ReplaceAll(c.ID, "*", word), strings.ReplaceAll(c.Is, "*", word), strings.ReplaceAll(c.When, "*", word)
			all = append(all, one)
		}
	}
	return all
}

// BarsSpec is panels of bars, one for each value of an expression: a group of bars for each row.
type BarsSpec struct {
	Rows  string  `yaml:"rows" want:"id,optional"` // of this name
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

// check refuses texts that are no templates, expressions of names that rows have not, and
// columns that are not there. Known are the values of a row of each name, of any numbers.
func (s *Shown) check(spec any, known map[string]Values) *lab.Problem {
	for i, t := range s.Tables {
		at := func(err error, path ...string) *lab.Problem {
			return lab.At(err, append([]string{"tables", strconv.Itoa(i)}, path...)...)
		}
		row := known[t.Rows]
		if row == nil {
			return at(fmt.Errorf("no rows %q", t.Rows), "rows")
		}
		if _, err := t.captions(spec, row); err != nil {
			return at(err, "caption")
		}
		heads := map[string]bool{}
		for _, c := range t.columns() {
			if !asForm.MatchString(c.As) {
				return at(fmt.Errorf("%q: want time, bytes, signed, or a form of fmt's for a number, such as %%.2f", c.As), "columns", c.at, "as")
			}
			if c.Head != "" && heads[c.Head] {
				return at(fmt.Errorf("two columns %q", c.Head), "columns", c.at, "head")
			}
			heads[c.Head] = true
			if _, err := row.cell(c); err != nil {
				return at(err, "columns", c.at, "is")
			}
		}
		for j, n := range t.Notes {
			if _, err := n.of(row, []Values{row}); err != nil {
				return at(err, "notes", strconv.Itoa(j))
			}
		}
	}
	for i, b := range s.Bars {
		if _, err := b.panels([]Values{known[b.Rows]}); err != nil {
			return lab.At(err, "bars", strconv.Itoa(i))
		}
	}
	for i, p := range s.Plots {
		err := s.checkPlot(p, known)
		if err == nil {
			_, err = fill(p.Title, spec)
		}
		if err != nil {
			return lab.At(err, "plots", strconv.Itoa(i))
		}
	}
	return nil
}

func (s *Shown) checkPlot(p PlotSpec, known map[string]Values) error {
	if p.Table >= len(s.Tables) {
		return fmt.Errorf("table %d: want one of %d, from 0", p.Table, len(s.Tables))
	}
	t := s.Tables[p.Table]
	var names []string
	whens := []string{p.When}
	if known[t.Rows][p.X] == nil {
		names = append(names, p.X)
	}
	if p.Panel != "" {
		names = append(names, p.Panel)
	}
	for _, l := range p.Lines {
		names, whens = append(names, l.Column), append(whens, l.When)
	}
	for _, name := range names {
		if !slices.ContainsFunc(t.columns(), func(c ColumnSpec) bool { return c.Head == name }) {
			return fmt.Errorf("no column %q", name)
		}
	}
	for _, when := range whens {
		if _, err := known[t.Rows].when(when); err != nil {
			return err
		}
	}
	return nil
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

// cell is what a column shows of a row, which keeps the number by the column's ID.
func (v Values) cell(c ColumnSpec) (lab.Value, error) {
	of, err := v.functions().Evaluate(c.Is)
	if err != nil {
		return lab.Value{}, fmt.Errorf("%s: %w", c.Is, err)
	}
	if c.ID != "" {
		v[c.ID] = of
	}
	if shown, err := v.when(c.When); !shown || err != nil {
		return lab.Absent, err
	}
	switch x := of.(type) {
	case lab.Value:
		return x, nil
	case string:
		return lab.Value{Text: x}, nil
	case expr.Truth:
		return lab.Value{Text: lab.YesOrNo(x == expr.Yes)}, nil
	case expr.Number:
		return printed(x.X, c.As), nil
	}
	return lab.Value{}, fmt.Errorf("%s is %v: want a number, a text or a truth value", c.Is, of)
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

// report makes the tables and plots of rows, by their name.
func (s *Shown) report(id, title string, spec any, rows map[string][]Values) (*lab.Report, error) {
	r := &lab.Report{}
	for _, of := range s.Tables {
		t, err := of.table(id, title, spec, rows[of.Rows])
		if err != nil {
			return nil, err
		}
		r.Tables = append(r.Tables, t)
	}
	var panels []plot.Axes
	for _, p := range s.Plots {
		some, err := p.panels(spec, r.Tables[p.Table], rows[s.Tables[p.Table].Rows])
		if err != nil {
			return nil, err
		}
		panels = append(panels, some...)
	}
	for _, b := range s.Bars {
		some, err := b.panels(rows[b.Rows])
		if err != nil {
			return nil, err
		}
		panels = append(panels, some...)
	}
	if len(panels) == 0 {
		return r, nil
	}
	var err error
	r.Files, err = plot.Files(id, title, panels)
	return r, err
}

func (t *TableSpec) table(id, title string, spec any, rows []Values) (*lab.Table, error) {
	out := &lab.Table{ID: id, Title: title}
	if t.ID != "" {
		out.ID += "-" + t.ID
	}
	if t.Title != "" {
		out.Title = t.Title
	}
	var err error
	if out.Caption, err = t.captions(spec, rows...); err != nil {
		return nil, err
	}
	columns := t.columns()
	var shown []ColumnSpec
	for _, c := range columns {
		if c.Head != "" {
			shown = append(shown, c)
		}
	}
	left := make([]bool, len(shown))
	for n, row := range rows {
		var cells []lab.Value
		for _, c := range columns {
			v, err := row.cell(c)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", out.ID, c.Head, err)
			}
			if c.Head != "" {
				cells = append(cells, v)
				if n == 0 {
					left[len(cells)-1] = c.isText(row)
				}
			}
		}
		out.Rows = append(out.Rows, cells)
		for _, note := range t.Notes {
			text, err := note.of(row, rows)
			if err != nil {
				return nil, err
			}
			if text != "" && !slices.Contains(out.Notes, text) {
				out.Notes = append(out.Notes, text)
			}
		}
	}
	for i, c := range shown {
		if left[i] {
			out.Texts(c.Head)
		} else {
			out.Numbers(c.Head)
		}
	}
	return out, nil
}

// isText reports whether a column has texts, or truth values, which stand at the left.
func (c ColumnSpec) isText(row Values) bool {
	of, _ := row.functions().Evaluate(c.Is)
	switch of.(type) {
	case string, expr.Truth:
		return true
	}
	return false
}

// panels draws lines of columns; a panel has two places or more.
func (p PlotSpec) panels(spec any, t *lab.Table, rows []Values) (all []plot.Axes, err error) {
	of, err := fill(p.Title, spec)
	if err != nil {
		return nil, err
	}
	at := map[string]*plot.LinePanel{}
	var made []*plot.LinePanel
	for n, row := range t.Rows {
		if drawn, err := rows[n].when(p.When); !drawn || err != nil {
			if err != nil {
				return nil, err
			}
			continue
		}
		title := of
		if p.Panel != "" {
			title = row[t.Column(p.Panel)].Text + title
		}
		panel := at[title]
		if panel == nil {
			panel = &plot.LinePanel{Title: title, X: cmp.Or(p.XTitle, p.X), Y: p.Y, Logarithmic: p.Logarithmic, FromZero: !p.Logarithmic && !p.FromLeast}
			for _, l := range p.Lines {
				panel.Series = append(panel.Series, plot.Series{Name: l.Name, Lines: [][]plot.Point{nil}, Dashed: l.Dashed})
			}
			at[title] = panel
			made = append(made, panel)
		}
		name := fmt.Sprint(rows[n][p.X])
		if x := t.Column(p.X); x >= 0 {
			name = row[x].Text
		}
		place := slices.Index(panel.Names, name)
		if place < 0 {
			place, panel.Names = len(panel.Names), append(panel.Names, name)
		}
		for i, l := range p.Lines {
			drawn, err := rows[n].when(l.When)
			if err != nil {
				return nil, err
			}
			if v := row[t.Column(l.Column)]; drawn && len(v.Numbers) > 0 {
				times := l.Times
				if times == 0 {
					times = 1
				}
				line := &panel.Series[i].Lines[0]
				*line = append(*line, plot.Point{X: float64(place), Y: times * v.Numbers[0]})
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
		var names [2]string
		for i, of := range []string{b.Panel, b.Group} {
			v, err := row.cell(ColumnSpec{Is: of})
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
