package claims

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"

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
