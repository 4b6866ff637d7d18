package timed

import (
	"slices"
	"strings"
	"text/template"

	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/shown"
)

// data is what templates of a spec's words have: the spec and a profile, as .Spec and .Profile.
func data(spec, profile any) map[string]any { return map[string]any{"Spec": spec, "Profile": profile} }

// captions are the lines of a spec's captions: templates over data, with functions. emulated "row" is EmulatedCaption.
func captions(texts []string, spec, profile any, rounds int) (all []string, err error) {
	for _, text := range texts {
		t, err := template.New("caption").Funcs(template.FuncMap{
			"emulated": func(what string) string { return EmulatedCaption(rounds, what) },
			"most":     slices.Max[[]int],
			"theory":   func() string { return TheoryCaption },
			"times":    func(a, b int) int { return a * b },
			"upper":    strings.ToUpper,
		}).Parse(text)
		var filled strings.Builder
		if err == nil {
			err = t.Execute(&filled, data(spec, profile))
		}
		if err != nil {
			return nil, err
		}
		all = append(all, strings.FieldsFunc(filled.String(), func(r rune) bool { return r == '\n' })...)
	}
	return all, nil
}

// checkWords refuses captions and heads that cannot be filled with a profile, and columns that make no report.
func checkWords[P any](words *shown.Spec, texts []string, spec any, profiles map[string]P) *lab.Problem {
	for _, name := range lab.Profiles {
		if _, err := captions(texts, spec, profiles[name], 1); err != nil {
			return lab.At(err, "caption")
		}
		if p := words.CheckForms(data(spec, profiles[name])); p != nil {
			return p
		}
	}
	return nil
}

// shownWith makes the tables of rows, the first of which has what is in main besides, and the panels, before
// others. Without words there is main as it is.
func shownWith(words *shown.Spec, main *lab.Table, data any, reference string, rows shown.Rows, others []plot.Axes) ([]*lab.Table, []plot.Axes, error) {
	tables, panels, err := words.Made(shown.Showing{ID: main.ID, Title: main.Title, Data: data, Reference: reference, Rows: rows})
	if err != nil {
		return nil, nil, err
	}
	if len(tables) > 0 {
		main.Columns, main.Rows = tables[0].Columns, tables[0].Rows
		main.Notes = slices.Concat(main.Notes, tables[0].Notes, lab.StarNote(tables[0]))
		tables = tables[1:]
	}
	return append([]*lab.Table{main}, tables...), append(panels, others...), nil
}
