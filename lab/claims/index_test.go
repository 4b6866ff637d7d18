package claims_test

import (
	"fmt"
	"strings"
	"time"

	"gpipebench/experiments"
	"gpipebench/internal/printable"
	"gpipebench/internal/units"
	"gpipebench/lab"
)

// experiments has a section for each experiment of the directory: what it is, its plots,
// and links to its tables, as the report has them.
func (d directory) experiments() (string, error) {
	var b strings.Builder
	for i, p := range experiments.Papers {
		begun := i == 0
		for _, of := range p.Experiments {
			section, err := d.experiment(of)
			if section != "" && !begun {
				fmt.Fprintf(&b, "## %s\n\n", p.Title)
				begun = true
			}
			if err != nil {
				return "", err
			}
			b.WriteString(section)
		}
	}
	return strings.TrimSpace(b.String()), nil
}

// experiment is the section of one; "" if there are no records of it.
func (d directory) experiment(of lab.Definition) (string, error) {
	x := d.reading.Experiment(of.ID)
	if x == nil || x.Results != d.results {
		return "", nil
	}
	report, err := x.Report(x.Rest)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	about := of.About()
	fmt.Fprintf(&b, "### %s\n\n%s. %s\n\n", printable.Markdown(x.Of.Title()), about.Place, about.Text)
	for _, f := range report.Files {
		if picture, ok := strings.CutSuffix(f.Name, ".svg"); ok {
			fmt.Fprintf(&b, "![%s: %s](%s)\n\n", printable.Markdown(x.Of.Title()), picture, d.tables+f.Name)
		}
	}
	var tables []string
	for _, t := range report.Tables {
		tables = append(tables, fmt.Sprintf("[%s](%s.md)", printable.Markdown(t.Title), d.tables+t.ID))
	}
	fmt.Fprintf(&b, "Tables: %s.\n\n<sub>`gpipebench reproduce --only %s --profile %s`. %s</sub>\n\n", strings.Join(tables, "; "), of.ID, x.Profile, lab.ProvenanceNote(x.Log))
	return b.String(), nil
}

// durations has a row for each experiment of the directory: what it was said to take,
// and what its samples took.
func (d directory) durations() (string, error) {
	table := &lab.Table{}
	table.Texts("experiment")
	table.Numbers("samples", "processes", "expected", "took")
	table.Texts("begun", "machine")
	var all time.Duration
	for _, of := range experiments.List() {
		x := d.reading.Experiment(of.ID)
		if x == nil || x.Results != d.results {
			continue
		}
		log := x.Log
		took := time.Duration(log.Cost().Seconds * float64(time.Second))
		all += took
		sessions := log.Measuring()
		table.Add(of.ID, len(log.Names), len(sessions), units.FormatWait(x.Of.Expected(log.Key.Profile)), units.FormatWait(took), sessions[0].Time, log.Session.Machine.String())
	}
	var b strings.Builder
	err := table.Draw(&b, true)
	return fmt.Sprintf("%s\n\nTogether: %s, between the first sample of each experiment and its last, without pauses.", strings.TrimSpace(b.String()), units.FormatWait(all)), err
}

// plotOf is a link to an experiment's or a table's plot, after a comma, or nothing.
func (d directory) plotOf(id string) string {
	if !d.has(id + ".svg") {
		return ""
	}
	return fmt.Sprintf(", [plot](%s%s.svg)", d.tables, id)
}
