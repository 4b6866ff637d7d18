// Package shown makes tables and figures of an experiment's rows, as the words of its spec say: columns,
// lines and bars are expressions over what a row has. None of it decides samples.
package shown

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"gpipebench/lab"
	"gpipebench/lab/plot"
)

// Spec is what the tables and plots of a spec show.
type Spec struct {
	Tables []TableSpec `yaml:"tables" want:"shown,optional"`
	Plots  []PlotSpec  `yaml:"plots" want:"shown,optional"` // lines, and then
	Bars   []BarsSpec  `yaml:"bars" want:"shown,optional"`
}

// Profiled is what specs have whose tables are words, with profiles P.
type Profiled[P any] struct {
	lab.Head `yaml:",inline"`
	Spec     `yaml:",inline"`
	Profiles map[string]P `yaml:"profiles"`
}

// ShownBy is the Spec that a spec embeds.
func (s *Spec) ShownBy() *Spec { return s }

// Values are what expressions know of a row: numbers, texts, truth values, a lab.Verbatim, a figure of
// each round ([]float64), and a lab.Value, which is shown as it is.
type Values map[string]any

// Rows are the rows of each name; "": of the first table.
type Rows map[string][]Values

// Showing is what tables and plots are made of.
type Showing struct {
	ID, Title string // of the first table
	Data      any    // of the templates
	Reference string // names the columns of a reference; "": none is shown
	Rows      Rows
}

// TableSpec is a table: a row of it is what its columns say of a row. Captions, titles and heads are
// templates over the data, which is the spec, and notes over a row.
type TableSpec struct {
	ID      string       `yaml:"id" want:"id,optional"`   // after the experiment's; the first has none
	Title   string       `yaml:"title" want:"optional"`   // none: the spec's
	Rows    string       `yaml:"rows" want:"id,optional"` // of this name
	Caption []string     `yaml:"caption" want:"optional"` // of an empty text: none
	Columns []ColumnSpec `yaml:"columns"`
	Notes   []NoteSpec   `yaml:"notes" want:"optional"`
}

// ColumnSpec is a column. Later ones may read it by its ID. Of a figure of each round it shows the median,
// and a second column its 95% interval; what is 1 in all rounds is so by definition, and has none.
type ColumnSpec struct {
	ID       string `yaml:"id" want:"optional"`
	Head     string `yaml:"head" want:"optional"`     // none: the value is only there to be read
	Label    string `yaml:"label" want:"optional"`    // in place of the head, which then only names the column
	Interval string `yaml:"interval" want:"optional"` // head of the second column, or none; missing: 95% and the head, without measured
	Is       string `yaml:"is"`                       // an expression
	When     string `yaml:"when" want:"optional"`     // otherwise the cell is absent, or
	Else     string `yaml:"else" want:"optional"`     // this text
	Star     string `yaml:"star" want:"optional"`     // where it is true an asterisk follows: it does not fit
	// Each is names of columns, a * in head and, with _ for all but letters and digits, in id, is,
	// when and star.
	Each []string `yaml:"each" want:"optional"`
	// Reference says that the column is of a reference, whose name is {reference} in the head: without one
	// there is no column.
	Reference bool `yaml:"reference"`
	// Varying columns are left out where all rows have the same.
	Varying bool   `yaml:"varying"`
	As      string `yaml:"as" want:"optional"` // time, bytes, signed, or fmt's %f and %g, with %% of a share, in percent, and with % of percent; none: as it is

	at string // its place in the spec
}

// NoteSpec is a note on each row for which something is true; the same text once.
type NoteSpec struct {
	When string `yaml:"when" want:"optional"` // none: always
	Text string `yaml:"text"`
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

// Word is a name as Each has it in expressions.
func Word(name string) string { return notWord.ReplaceAllString(name, "_") }

var notWord = regexp.MustCompile(`[^A-Za-z0-9]+`)

var asForm = regexp.MustCompile(`^(|time|bytes|signed|%\+?(\.[0-9])?[fg](%%?|[ A-Za-z/]*))$`)

// some refuses no tables.
func (s *Spec) some() *lab.Problem {
	if len(s.Tables) == 0 {
		return lab.At(errors.New("no tables: want one or more"))
	}
	return nil
}

// errNoRows is of a text that needs rows, before there are any.
var errNoRows = errors.New("no rows are known")

// Check refuses words that would make no report of rows with known values, of any numbers: one row or more of each
// name.
func (s *Spec) Check(from Showing) *lab.Problem {
	if p := s.some(); p != nil {
		return p
	}
	for i, t := range s.Tables {
		if from.Rows[t.Rows] == nil {
			return lab.At(fmt.Errorf("no rows %q: want one of %q", t.Rows, slices.Sorted(maps.Keys(from.Rows))), "tables", strconv.Itoa(i), "rows")
		}
	}
	_, _, p := s.made(from)
	return p
}

// CheckForms refuses words that make no report whatever rows have.
func (s *Spec) CheckForms(data any) *lab.Problem {
	if p := s.some(); p != nil {
		return p
	}
	of := Values{}.functions()
	for i, t := range s.Tables {
		for _, text := range t.Caption {
			if _, err := fill(text, data); err != nil && !errors.Is(err, errNoRows) {
				return lab.At(err, "tables", strconv.Itoa(i), "caption")
			}
		}
		for _, c := range t.columns() {
			at := []string{"tables", strconv.Itoa(i), "columns", c.at}
			for name, text := range map[string]string{"is": c.Is, "when": c.When, "star": c.Star} {
				if text == "" {
					continue
				}
				if err := of.CheckOpen(text); err != nil {
					return lab.At(fmt.Errorf("%s: %w", text, err), append(at, name)...)
				}
			}
			if p := c.checkAs(); p != nil {
				return p.In("tables", strconv.Itoa(i))
			}
			if _, err := fill(c.Head+c.Interval, data); err != nil {
				return lab.At(err, append(at, "head")...)
			}
		}
	}
	return nil
}

// checkAs refuses a form that prints no numbers.
func (c ColumnSpec) checkAs() *lab.Problem {
	if asForm.MatchString(c.As) {
		return nil
	}
	return lab.At(fmt.Errorf("%q: want time, bytes, signed, or a form of fmt's for a number, such as %%.2f", c.As), "columns", c.at, "as")
}

// fill is a template's text with data. Its function first has the values of the first row, and count
// how many rows there are, or of how many an expression is true; most is the largest of numbers, times their product.
func fill(text string, data any, rows ...Values) (string, error) {
	if !strings.Contains(text, "{{") {
		return text, nil
	}
	t, err := template.New("text").Option("missingkey=error").Funcs(template.FuncMap{
		"most":  slices.Max[[]int],
		"times": func(a, b int) int { return a * b },
		"upper": strings.ToUpper,
		"first": func() (Values, error) {
			if len(rows) == 0 {
				return nil, errNoRows
			}
			return rows[0], nil
		},
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
	err = t.Execute(&b, data)
	return b.String(), err
}

// captions are the lines of the captions' texts.
func (t *TableSpec) captions(data any, rows ...Values) (all []string, err error) {
	for _, text := range t.Caption {
		filled, err := fill(text, data, rows...)
		if err != nil {
			return nil, err
		}
		all = append(all, strings.FieldsFunc(filled, func(r rune) bool { return r == '\n' })...)
	}
	return all, nil
}

// of is a note's text, "" if it says nothing of a row.
func (n NoteSpec) of(row Values, all []Values) (string, error) {
	said, e1 := row.when(n.When)
	text, e2 := fill(n.Text, map[string]any(row), all...)
	if !said {
		text = ""
	}
	return text, cmp.Or(e1, e2)
}

// Report is an experiment's report: the tables and the plot, with more panels. N says how many of something
// the plot is of; "": nothing.
func (s *Spec) Report(of plot.Headed, n string, from Showing, more ...plot.Axes) (*lab.Report, error) {
	tables, panels, err := s.Made(from)
	if err != nil {
		return nil, err
	}
	panels = append(panels, more...)
	r := &lab.Report{Tables: tables}
	if len(panels) > 0 {
		r.Files, err = plot.Figure(of, n, tables, panels)
	}
	return r, err
}

// Made are the tables, and the panels of the plot.
func (s *Spec) Made(from Showing) ([]*lab.Table, []plot.Axes, error) {
	tables, panels, p := s.made(from)
	if p != nil {
		return nil, nil, fmt.Errorf("%s: %s: %w", from.ID, strings.Join(p.Path, "."), p.Err)
	}
	return tables, panels, nil
}

func (s *Spec) made(from Showing) (tables []*lab.Table, panels []plot.Axes, p *lab.Problem) {
	for i, of := range s.Tables {
		t, p := of.table(from)
		if p != nil {
			return nil, nil, p.In("tables", strconv.Itoa(i))
		}
		tables = append(tables, t)
	}
	add := func(field string, i int, table int, draw func(*lab.Table, []Values) ([]plot.Axes, error)) {
		if p != nil {
			return
		}
		if table >= len(tables) {
			p = lab.At(fmt.Errorf("table %d: want one of %d, from 0", table, len(tables)), field, strconv.Itoa(i))
			return
		}
		some, err := draw(tables[table], from.Rows[s.Tables[table].Rows])
		panels, p = append(panels, some...), lab.At(err, field, strconv.Itoa(i))
	}
	for i, of := range s.Plots {
		add("plots", i, of.Table, func(t *lab.Table, rows []Values) ([]plot.Axes, error) { return of.panels(from.Data, t, rows) })
	}
	for i, of := range s.Bars {
		add("bars", i, of.Table, func(t *lab.Table, rows []Values) ([]plot.Axes, error) { return of.panels(from.Data, t, rows) })
	}
	return tables, panels, p
}

func (t *TableSpec) table(from Showing) (*lab.Table, *lab.Problem) {
	rows := from.Rows[t.Rows]
	out := &lab.Table{ID: strings.TrimSuffix(from.ID+"-"+t.ID, "-"), Title: cmp.Or(t.Title, from.Title)}
	var err error
	if out.Caption, err = t.captions(from.Data, rows...); err != nil {
		return nil, lab.At(err, "caption")
	}
	out.Rows = make([][]lab.Value, len(rows))
	for _, c := range t.columns() {
		if c.Reference && from.Reference == "" {
			continue
		}
		if p := c.checkAs(); p != nil {
			return nil, p
		}
		if p := c.add(out, from, rows); p != nil {
			return nil, p
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

// add adds a column to a table, and one of intervals beside a figure of each round.
func (c ColumnSpec) add(out *lab.Table, from Showing, rows []Values) *lab.Problem {
	head, e1 := fill(strings.ReplaceAll(c.Head, "{reference}", from.Reference), from.Data)
	interval, e2 := fill(c.Interval, from.Data)
	if err := cmp.Or(e1, e2); err != nil {
		return lab.At(err, "columns", c.at, "head")
	}
	var cells [][]lab.Value
	isText, beside := false, false // of the first row; of any
	for n, row := range rows {
		of, left, err := row.cells(c)
		if err != nil {
			return lab.At(err, "columns", c.at, "is")
		}
		cells = append(cells, of)
		isText, beside = isText || n == 0 && left, beside || len(of) > 1 && c.Interval != "none"
	}
	alike := len(rows) > 0 && !slices.ContainsFunc(cells, func(of []lab.Value) bool { return of[0].Text != cells[0][0].Text })
	if head == "" || c.Varying && alike {
		return nil
	}
	heads := []string{head}
	if beside {
		heads = append(heads, cmp.Or(interval, "95%, "+strings.TrimPrefix(head, "measured ")))
	}
	for _, name := range heads {
		if out.Column(name) >= 0 {
			return lab.At(fmt.Errorf("two columns %q", name), "columns", c.at, "head")
		}
	}
	if isText {
		out.Texts(heads...)
	} else {
		out.Numbers(heads...)
	}
	if c.Label != "" {
		out.Head(head, c.Label)
	}
	for n, of := range cells {
		out.Rows[n] = append(out.Rows[n], slices.Concat(of, []lab.Value{lab.Absent})[:len(heads)]...)
	}
	return nil
}
