package claims

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"gpipebench/internal/files"
	"gpipebench/lab"
	"gpipebench/lab/records"
)

// Examined is an experiment's records in a directory, read.
type Examined struct {
	RecordsState
	Of   lab.Experiment
	Log  *records.Log // nil: State says why
	Rest *records.Log // of another directory, which the report shows beside; nil: none

	cost   records.Cost
	report *lab.Report // without notes on origin
	files  []lab.File  // of the report, as they are written
	wrong  []string

	reports map[*records.Log]*lab.Report // that were made, by what they show beside
	beside  map[string]logOf             // by directory
}

// logOf reads records, once.
type logOf func() (*records.Log, error)

// log reads the records of an experiment.
func (v Verifying) log(experiment string) logOf {
	return sync.OnceValues(func() (*records.Log, error) { return records.Load(records.File(v.Results, experiment), experiment) })
}

// examine makes an experiment's report of its records, which shows rest beside; nil: nothing.
func (v Verifying) examine(d lab.Definition, read, rest logOf) (*Examined, error) {
	e, err := d.Load()
	if err != nil {
		return nil, err
	}
	x := &Examined{
		RecordsState: RecordsState{Experiment: d.ID, Results: v.Results, State: "complete"}, Of: e,
		reports: map[*records.Log]*lab.Report{}, beside: map[string]logOf{},
	}
	log, err := read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		x.State = "none"
		return x, nil
	case err != nil:
		x.State = err.Error()
		x.wrong = append(x.wrong, err.Error())
		return x, nil
	}
	x.Log, x.Profile, x.cost = log, log.Key.Profile, log.Cost()
	if log.Damaged != "" {
		x.wrong = append(x.wrong, fmt.Sprintf("changed or damaged records, which do not count: %s; remove these lines, and reproduce measures their samples again", log.Damaged))
	}
	if rest != nil {
		x.Rest, _ = rest() // its error is said where that directory is read
	}
	if want := e.Key(log.Key.Profile); want.Spec != log.Key.Spec {
		x.State = fmt.Sprintf("of another spec (%s, now %s): measure again", log.Key.Spec, want.Spec)
		return x, nil
	}
	if design := e.Registration(log.Key.Profile); design != nil {
		if err := design.Holds(log); err != nil {
			x.wrong = append(x.wrong, fmt.Sprintf("%s: %v", x.file(), err))
		}
	}
	if x.report, err = x.Report(x.Rest); err != nil {
		x.State = "incomplete: " + err.Error()
		return x, nil
	}
	if log.Torn != "" {
		x.State = "complete, but for a last line without its end, which reproduce sets aside: " + log.Torn
	}
	x.Usable = true
	x.files = x.report.Noted(log).Rendered()
	if x.report.Verdict != nil {
		x.wrong = append(x.wrong, x.report.Verdict.Error())
	}
	return x, nil
}

// file is the file of the records.
func (s RecordsState) file() string { return records.File(s.Results, s.Experiment) }

// Report is what the records have to show, with others beside; nil: none. It has no notes on
// origin, and is made once.
func (x *Examined) Report(beside *records.Log) (*lab.Report, error) {
	if made := x.reports[beside]; made != nil {
		return made, nil
	}
	made, err := lab.Reported(x.Of, x.Log, beside)
	if err == nil {
		x.reports[beside] = made
	}
	return made, err
}

// Beside are the experiment's records in another directory, which are read once.
func (x *Examined) Beside(results string) (*records.Log, error) {
	if x.beside[results] == nil {
		x.beside[results] = Verifying{Results: results}.log(x.Experiment)
	}
	return x.beside[results]()
}

// noted are the files of the report with the records of another directory beside.
func (x *Examined) noted(results string) ([]lab.File, error) {
	beside, err := x.Beside(results)
	if err != nil {
		return nil, err
	}
	report, err := x.Report(beside)
	if err != nil {
		return nil, err
	}
	return report.Noted(x.Log).Rendered(), nil
}

// compareTables compares the tables of a directory of results with the
// records of all experiments. It does not judge claims.
func (v Verifying) compareTables(all []*Examined) (*Verification, error) {
	r := &Verification{Results: v.Results}
	none := true
	made := map[string]bool{} // files of tables that some report has
	for _, x := range all {
		r.Records = append(r.Records, x.RecordsState)
		r.Wrong = append(r.Wrong, x.wrong...)
		if x.State != "none" {
			none = false
		}
		if x.Usable {
			r.Wrong = append(r.Wrong, v.compare(x, made)...)
		}
	}
	if len(v.Only) > 0 {
		return r, nil // the others' records and tables are not looked at
	}
	if none {
		r.Wrong = append(r.Wrong, filepath.Join(v.Results, "records")+" has no records of any experiment: want a directory that reproduce has written; --results says which")
	}
	unfounded, err := v.unfounded(all, made)
	if err != nil {
		return nil, err
	}
	r.Wrong = append(r.Wrong, unfounded...)
	return r, nil
}

// compare returns which of an experiment's tables are not what its records give, and
// adds the names of those that it should have to made.
func (v Verifying) compare(x *Examined, made map[string]bool) (wrong []string) {
	dir := filepath.Join(v.Results, "tables")
	differ, missing, unreadable := differing(dir, x.files)
	should, hint := x.files, ""
	if len(differ)+len(missing) > 0 && v.Reference != "" && !files.SameDir(v.Results, v.Reference) {
		// They may have been made with a reference beside.
		beside, err := x.noted(v.Reference)
		if err != nil {
			hint = fmt.Sprintf("; a run that they may show beside cannot be read (--reference %s): %v", v.Reference, files.Reason(err))
		} else if d, m, u := differing(dir, beside); len(d)+len(m) < len(differ)+len(missing) {
			should, differ, missing, unreadable = beside, d, m, u
		}
	}
	for _, f := range should {
		made[f.Name] = true
	}
	if len(differ) > 0 {
		wrong = append(wrong, fmt.Sprintf("%s: not what the records of %s give; reproduce writes tables again%s", files.FirstOf(dir, differ), x.Experiment, hint))
	}
	if len(missing) > 0 {
		wrong = append(wrong, fmt.Sprintf("%s: not there, though the records of %s are; reproduce writes tables again", files.FirstOf(dir, missing), x.Experiment))
	}
	return append(wrong, unreadable...)
}

// tableKind bounds a file of a report: none has reached a megabyte.
var tableKind = files.Kind{What: "a file that reproduce writes", Bytes: 16 << 20}

// differing returns the files of a report that differ in a directory, those that are
// missing there, and why others cannot be read.
func differing(dir string, should []lab.File) (differ, missing, unreadable []string) {
	for _, f := range should {
		text, err := files.Read(filepath.Join(dir, f.Name), tableKind)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, f.Name)
		case err != nil:
			unreadable = append(unreadable, err.Error())
		case string(text) != f.Text:
			differ = append(differ, f.Name)
		}
	}
	return differ, missing, unreadable
}

// unfounded returns which tables are in no report that is made of usable records.
func (v Verifying) unfounded(all []*Examined, made map[string]bool) (wrong []string, err error) {
	dir := filepath.Join(v.Results, "tables")
	names, err := files.Below(v.Results, "tables")
	if err != nil {
		return nil, err
	}
	of := map[*Examined][]string{} // nil: of no experiment
	for _, name := range names {
		name = strings.TrimPrefix(name, "tables/")
		if made[name] {
			continue
		}
		var owner *Examined // the one whose ID the name begins with, the longest
		for _, x := range all {
			rest, ok := strings.CutPrefix(name, x.Experiment)
			if ok && strings.IndexAny(rest, "-.") == 0 && (owner == nil || len(owner.Experiment) < len(x.Experiment)) {
				owner = x
			}
		}
		if owner != nil && owner.Usable {
			owner = nil
		}
		of[owner] = append(of[owner], name)
	}
	var unusable []string
	for _, x := range all {
		if x.Usable {
			continue
		}
		unusable = append(unusable, x.Experiment)
		if len(of[x]) > 0 {
			wrong = append(wrong, fmt.Sprintf("%s: tables without usable records: %s: %s", files.FirstOf(dir, of[x]), x.file(), x.why()))
		}
	}
	if len(of[nil]) > 0 {
		what := "in no report: remove what reproduce did not write"
		if len(unusable) > 0 {
			what = fmt.Sprintf("in no report that has usable records, which %s have not", strings.Join(unusable, ", "))
		}
		wrong = append(wrong, files.FirstOf(dir, of[nil])+": "+what)
	}
	return wrong, nil
}
