package timed

import (
	"slices"
	"strings"
	"text/template"

	"gpipebench/lab"
)

// captions are the lines of a spec's captions: templates over the spec and a profile, as .Spec and
// .Profile, with functions. emulated "row" is EmulatedCaption.
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
			err = t.Execute(&filled, map[string]any{"Spec": spec, "Profile": profile})
		}
		if err != nil {
			return nil, err
		}
		all = append(all, strings.FieldsFunc(filled.String(), func(r rune) bool { return r == '\n' })...)
	}
	return all, nil
}

// checkCaptions refuses captions that cannot be filled with a profile.
func checkCaptions[P any](texts []string, spec any, profiles map[string]P) *lab.Problem {
	for _, name := range lab.Profiles {
		if _, err := captions(texts, spec, profiles[name], 1); err != nil {
			return lab.At(err, "caption")
		}
	}
	return nil
}
