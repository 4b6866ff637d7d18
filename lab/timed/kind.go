package timed

import (
	"fmt"
	"slices"
	"strings"
	"text/template"

	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/lab/shown"
)

// Profiled is what every spec of this kind has.
type Profiled[P sized] struct {
	shown.Profiled[P] `yaml:",inline"`
	Caption           []string `yaml:"caption" want:"shown,optional"` // of the first table; see captions
}

func (s Profiled[P]) profiled() Profiled[P] { return s }

// Size is what every profile has.
type Size struct {
	Expected lab.Span `yaml:"expected" want:"shown"`
	Rounds   int      `yaml:"rounds" want:"1..1000"`
}

func (s Size) size() Size { return s }

// sized is a profile that embeds Size.
type sized interface{ size() Size }

// kind is what Timed and Compared have in common.
type kind[S interface{ profiled() Profiled[P] }, P sized] struct {
	lab.Base[S]
	// Check refuses values of the spec that do not go together; nil: tags say all.
	Check func() *lab.Problem
	// Also plans what is run besides; nil: nothing.
	Also func() []lab.PlannedRun
}

// profile returns the profile of a name.
func (k *kind[S, P]) profile(name string) (P, error) {
	return lab.ProfileOf(k.Spec.profiled().Profiles, name)
}

// Resolve is Check, and that of the words: captions and heads that cannot be filled with a profile, and columns
// that make no report.
func (k *kind[S, P]) Resolve() *lab.Problem {
	if k.Check != nil {
		if p := k.Check(); p != nil {
			return p
		}
	}
	spec := k.Spec.profiled()
	for _, name := range lab.Profiles {
		if _, err := k.captions(spec.Profiles[name]); err != nil {
			return lab.At(err, "caption")
		}
		if p := spec.CheckForms(k.data(spec.Profiles[name])); p != nil {
			return p
		}
	}
	return nil
}

// data is what templates of a spec's words have: the spec and a profile, as .Spec and .Profile.
func (k *kind[S, P]) data(p P) map[string]any { return map[string]any{"Spec": &k.Spec, "Profile": p} }

// captions are the lines of a spec's captions: templates over data, with functions. emulated "row" is EmulatedCaption.
func (k *kind[S, P]) captions(p P) (all []string, err error) {
	for _, text := range k.Spec.profiled().Caption {
		t, err := template.New("caption").Funcs(template.FuncMap{
			"emulated": func(what string) string { return EmulatedCaption(p.size().Rounds, what) },
			"most":     slices.Max[[]int],
			"theory":   func() string { return TheoryCaption },
			"times":    func(a, b int) int { return a * b },
			"upper":    strings.ToUpper,
		}).Parse(text)
		var filled strings.Builder
		if err == nil {
			err = t.Execute(&filled, k.data(p))
		}
		if err != nil {
			return nil, err
		}
		all = append(all, strings.FieldsFunc(filled.String(), func(r rune) bool { return r == '\n' })...)
	}
	return all, nil
}

// Making is a report in the making: what Show computes it from besides times, and what it adds to.
type Making[P sized] struct {
	Log     *records.Log
	Profile P
	Beside  string      // names the reference's columns; "": none is shown
	Table   *lab.Table  // the first one; it has its ID, title and caption
	Panels  []plot.Axes // of the figure, after those of the spec
	Files   []lab.File  // after the figure
	Verdict error
}

// make begins a report of a log.
func (k *kind[S, P]) make(log *records.Log) (m Making[P], err error) {
	if m.Profile, err = k.profile(log.Key.Profile); err != nil {
		return m, err
	}
	m.Log, m.Table = log, &lab.Table{ID: k.ID(), Title: k.Title()}
	m.Table.Caption, err = k.captions(m.Profile)
	return m, err
}

// refer lets a reference be shown beside a log, if read reads it.
func (m *Making[P]) refer(reference *records.Log, read func() error) {
	if reference == nil {
		return
	}
	if err := read(); err != nil {
		m.Table.Notes = []string{fmt.Sprintf("The reference is not shown: %v.", err)}
	} else {
		m.Beside = lab.ReferenceName(m.Log, reference)
	}
}

// report ends one: the tables of rows, with notes below the first and that of the reference (nil: none), more
// tables and the figure.
func (k *kind[S, P]) report(m *Making[P], rows shown.Rows, notes []string, reference *records.Log, more ...*lab.Table) (*lab.Report, error) {
	spec := k.Spec.profiled()
	tables, panels, err := spec.Made(shown.Showing{ID: k.ID(), Title: k.Title(), Data: k.data(m.Profile), Reference: m.Beside, Rows: rows})
	if err != nil {
		return nil, err
	}
	if len(tables) > 0 { // otherwise Show has filled it
		m.Table.Columns, m.Table.Rows = tables[0].Columns, tables[0].Rows
		m.Table.Notes = slices.Concat(m.Table.Notes, tables[0].Notes, lab.StarNote(tables[0]))
		tables = tables[1:]
	}
	m.Table.Notes = append(m.Table.Notes, notes...)
	if reference != nil {
		m.Table.Notes = append(m.Table.Notes, lab.ReferenceNote(reference))
	}
	r := &lab.Report{Tables: slices.Concat([]*lab.Table{m.Table}, tables, more)}
	if m.Verdict != nil {
		r.Verdict = fmt.Errorf("%s: %w", k.ID(), m.Verdict)
	}
	if panels = append(panels, m.Panels...); len(panels) > 0 {
		r.Files, err = plot.Figure(k, lab.N(m.Profile.size().Rounds, "round"), r.Tables, panels)
	}
	r.Files = append(r.Files, m.Files...)
	return r, err
}
