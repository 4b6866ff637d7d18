package claims_test

import (
	"fmt"
	"strings"
	"time"

	"gpipebench/experiments"
	"gpipebench/internal/printable"
	"gpipebench/internal/units"
	"gpipebench/lab"
	"gpipebench/lab/records"
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
// and what its samples took, with processor seconds and memory.
func (d directory) durations() (string, error) {
	table := &lab.Table{}
	table.Texts("experiment")
	table.Numbers("samples", "processes", "expected", "took", "processor", "memory")
	table.Texts("begun", "machine")
	var all records.Cost
	for _, of := range experiments.List() {
		x := d.reading.Experiment(of.ID)
		if x == nil || x.Results != d.results {
			continue
		}
		log := x.Log
		cost := log.Cost()
		all = all.Plus(cost)
		sessions := log.Measuring()
		processor := lab.Absent // of records of earlier versions
		if cost.Processor > 0 {
			processor = lab.Whole(int64(cost.Processor), units.FormatWait(time.Duration(cost.Processor*float64(time.Second))))
		}
		memory := lab.Absent
		if cost.Bytes > 0 {
			memory = lab.Whole(cost.Bytes, units.FormatBytes(cost.Bytes))
		}
		table.Add(of.ID, len(log.Names), len(sessions), units.FormatWait(x.Of.Expected(log.Key.Profile)), took(cost), processor, memory, sessions[0].Time, log.Session.Machine.String())
	}
	var b strings.Builder
	err := table.Draw(&b, true)
	return fmt.Sprintf("%s\n\nTogether: %s, without pauses, and at most %s of memory in one process. Expected: of today's program on two idle cores. Took: of the program of its day, in some cases beside other work. Processor: the time of both cores together.", strings.TrimSpace(b.String()), units.FormatWait(time.Duration(all.Seconds*float64(time.Second))), units.FormatBytes(all.Bytes)), err
}

// plotOf is a link to an experiment's or a table's plot, after a comma, or nothing.
func (d directory) plotOf(id string) string {
	if !d.has(id + ".svg") {
		return ""
	}
	return fmt.Sprintf(", [plot](%s%s.svg)", d.tables, id)
}
