package page

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"gpipebench/experiments"
	"gpipebench/experiments/records"
	"gpipebench/experiments/suite"
	"gpipebench/internal/plain"
)

// experimentsIndex has a section for each experiment of a directory of results: what it
// is, its plots, and links to its tables, as the report has them.
func experimentsIndex(dir, path string) (string, error) {
	var b strings.Builder
	for _, d := range experiments.List() {
		log, err := records.Load(records.File(dir, d.ID), d.ID)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		e, err := d.Load()
		if err != nil {
			return "", err
		}
		report, err := e.Report(log, nil)
		if err != nil {
			return "", err
		}
		about := d.About()
		fmt.Fprintf(&b, "### %s\n\n%s. %s\n\n", plain.Markdown(e.Title()), about.Place, about.Text)
		for _, f := range report.Files {
			if picture, ok := strings.CutSuffix(f.Name, ".svg"); ok {
				fmt.Fprintf(&b, "![%s: %s](%s)\n\n", plain.Markdown(e.Title()), picture, path+f.Name)
			}
		}
		var tables []string
		for _, t := range report.Tables {
			tables = append(tables, fmt.Sprintf("[%s](%s.md)", plain.Markdown(t.Title), path+t.ID))
		}
		fmt.Fprintf(&b, "Tables: %s.\n\n<sub>`gpipebench reproduce --only %s --profile %s`. %s</sub>\n\n", strings.Join(tables, "; "), d.ID, log.Key.Profile, suite.ProvenanceNote(log))
	}
	return strings.TrimSpace(b.String()), nil
}

// plotOf is a link to an experiment's or a table's plot, after a comma, or nothing.
func (d document) plotOf(id string) string {
	if !d.has(id + ".svg") {
		return ""
	}
	return fmt.Sprintf(", [plot](%s%s.svg)", d.tables, id)
}
