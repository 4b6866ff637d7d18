package timed

import (
	"fmt"
	"slices"

	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/lab/shown"
)

// Profiled is what every spec of this kind has.
type Profiled[P sized] struct {
	shown.Profiled[P] `yaml:",inline"`
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
		if p := spec.CheckForms(k.data(spec.Profiles[name])); p != nil {
			return p
		}
	}
	return nil
}

// data is what templates of a spec's words have: the spec and a profile, as .Spec and .Profile, and two sentences:
// .Theory and, with a place for what every round has, .Emulated.
func (k *kind[S, P]) data(p P) map[string]any {
	return map[string]any{"Spec": &k.Spec, "Profile": p, "Theory": theory, "Emulated": fmt.Sprintf(emulated, p.size().Rounds)}
}

// Making is a report in the making: what Show computes it from besides times, and what it adds to.
type Making[P sized] struct {
	Log     *records.Log
	Profile P
	Beside  string      // names the reference's columns; "": none is shown
	Table   lab.Table   // what the first one has after the words of the spec: captions, columns and notes
	Panels  []plot.Axes // of the figure, after those of the spec
	Files   []lab.File  // after the figure
	Verdict error
}

// make begins a report of a log.
func (k *kind[S, P]) make(log *records.Log) (m Making[P], err error) {
	m.Log = log
	m.Profile, err = k.profile(log.Key.Profile)
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
	first := tables[0]
	first.Columns = append(first.Columns, m.Table.Columns...)
	for i, cells := range m.Table.Rows {
		first.Rows[i] = append(first.Rows[i], cells...)
	}
	first.Caption = append(first.Caption, m.Table.Caption...)
	first.Notes = slices.Concat(m.Table.Notes, first.Notes, lab.StarNote(first), notes)
	if reference != nil {
		first.Notes = append(first.Notes, lab.ReferenceNote(reference))
	}
	r := &lab.Report{Tables: append(tables, more...)}
	if m.Verdict != nil {
		r.Verdict = fmt.Errorf("%s: %w", k.ID(), m.Verdict)
	}
	if panels = append(panels, m.Panels...); len(panels) > 0 {
		r.Files, err = plot.Figure(k, lab.N(m.Profile.size().Rounds, "round"), r.Tables, panels)
	}
	r.Files = append(r.Files, m.Files...)
	return r, err
}
