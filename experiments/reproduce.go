package experiments

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gpipebench"

	"gpipebench/internal/files"
)

// Reproducing runs experiments and writes what comes out: records to
// Out/records, tables to Out/tables.
type Reproducing struct {
	Profile   string
	Only      []string // ids, each once; nil: all
	Out       string   // directory; "": nothing is written, and nothing reused
	Reference string   // directory with a run to show beside; "" or missing: none
	Fresh     bool     // measure again what there are records of
	Spec      string   // file of a spec; only the experiment that it is for runs, by it
	// Executable is a program that calls RunRound when it is started with
	// RoundCommand, such as gpipebench itself: where time is measured, each round
	// then has a process of its own. If empty, rounds share this process, and the
	// records and tables say so.
	Executable string
}

// Run runs one experiment after another and hands each report to show as soon
// as it is there. It ends with the verdicts' error, if there is one.
func (r Reproducing) Run(ctx context.Context, p Progress, show func(Experiment, *Report) error) error {
	if err := CheckProfile(r.Profile); err != nil {
		return usage(err)
	}
	list, spec, err := r.load()
	if err != nil {
		return err
	}
	if err := r.checkOut(); err != nil {
		return err
	}
	var verdicts []string
	for _, e := range list {
		report, err := r.one(ctx, e, spec, p)
		if err != nil {
			return err
		}
		if err := show(e, report); err != nil {
			return err
		}
		if report.Verdict != nil {
			verdicts = append(verdicts, report.Verdict.Error())
		}
	}
	if len(verdicts) > 0 {
		return errors.New(strings.Join(verdicts, "; "))
	}
	return nil
}

// checkOut fails before anything is measured where its outcome could not be written.
func (r Reproducing) checkOut() error {
	if r.Out == "" {
		return nil
	}
	for _, dir := range []string{"records", "tables"} {
		dir = filepath.Join(r.Out, dir)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := files.CheckWritable(filepath.Join(dir, "any")); err != nil {
			return err
		}
	}
	return nil
}

// load loads the experiments that are to run, and the spec that is to be used
// instead of the program's, if there is one.
func (r Reproducing) load() (list []Experiment, from []SpecFile, err error) {
	ids := r.Only
	switch {
	case ids == nil:
		ids = IDs()
	case len(ids) == 0:
		return nil, nil, usagef("no experiment: want some of %s", strings.Join(IDs(), ", "))
	}
	for i, id := range ids {
		if slices.Contains(ids[:i], id) {
			return nil, nil, usagef("experiment %s is named twice: want it once", quoted(id))
		}
	}
	if r.Spec != "" {
		spec, err := ReadSpec(r.Spec, IDs())
		if err != nil {
			return nil, nil, err
		}
		if !slices.Contains(ids, spec.Experiment) {
			return nil, nil, usagef("%s is a spec of %s: want one of %s", r.Spec, spec.Experiment, strings.Join(ids, ", "))
		}
		ids, from = []string{spec.Experiment}, []SpecFile{spec}
	}
	for _, id := range ids {
		e, err := Load(id, from...)
		if err != nil {
			return nil, nil, err
		}
		list = append(list, e)
	}
	return list, from, nil
}

func (r Reproducing) one(ctx context.Context, e Experiment, spec []SpecFile, p Progress) (report *Report, err error) {
	log := NewLog(e.Key(r.Profile))
	if r.Out != "" {
		name := filepath.Join(r.Out, "records", e.ID()+".jsonl")
		if log, err = OpenLog(name, e.Key(r.Profile), r.Fresh); err != nil {
			return nil, err
		}
		defer func() {
			if e := log.Close(); err == nil {
				err = e
			}
		}()
		if log.Torn != "" {
			p.Say("the last record is incomplete, as its writer was stopped, and is measured again: " + log.Torn)
		}
		if log.Damaged != "" {
			p.Say("lines that were changed or damaged do not count, and what they held is measured again; delete them, as verify refuses the file while they are there: " + log.Damaged)
		}
	}
	measuring := fmt.Sprintf("%s, profile %s: about %s on two cores", e.ID(), r.Profile, FormatWait(e.Expected(r.Profile)))
	if log.Reused > 0 {
		p.Say(fmt.Sprintf("%s, less %d samples that are in %s already (%s)", measuring, log.Reused, filepath.Join(r.Out, "records"), log.Session.Time))
	} else {
		p.Say(measuring)
	}
	if note := engineNote(log, gpipebench.Engine()); note != "" {
		p.Say(e.ID() + ": " + note)
	}
	before := len(log.names)
	start := time.Now()
	if t, ok := e.(timed); ok && r.Executable != "" {
		if err := r.inProcesses(ctx, t, spec, log, p); err != nil {
			return nil, err
		}
	}
	if err := e.Measure(ctx, log, p); err != nil {
		return nil, err
	}
	if len(log.names) == before {
		p.Say(fmt.Sprintf("%s: complete records of %s on this machine are used again; --fresh measures anew", e.ID(), log.Session.Time))
	} else {
		p.Say(fmt.Sprintf("%s: measured in %s", e.ID(), FormatWait(time.Since(start))))
	}
	if report, err = reportOf(e, log, r.reference(e, p)); err != nil {
		return nil, err
	}
	if r.Out == "" {
		return report, nil
	}
	return report, writeReport(filepath.Join(r.Out, "tables"), report)
}

// reportOf is an experiment's report with a note under every table that says
// where its numbers are from.
func reportOf(e Experiment, log, reference *Log) (*Report, error) {
	report, err := understood(e, log, reference)
	if err != nil {
		return nil, err
	}
	for _, t := range report.Tables {
		t.Notes = append(t.Notes, seedsNote(log), provenanceNote(log))
	}
	return report, nil
}

// understood is an experiment's report. Records of another version of this
// program, or changed by hand, may lack what the report counts on: that is an
// error.
func understood(e Experiment, log, reference *Log) (report *Report, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: its records are not what this version writes (%v): want others, by --fresh", e.ID(), p)
		}
	}()
	return e.Report(log, reference)
}

// reference loads the run to show beside an experiment, if there is one.
func (r Reproducing) reference(e Experiment, p Progress) *Log {
	if r.Reference == "" {
		return nil
	}
	if r.Out != "" && sameDir(r.Out, r.Reference) {
		return nil // it is the reference that is being made
	}
	log, err := LoadLog(filepath.Join(r.Reference, "records", e.ID()+".jsonl"), e.ID())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		p.Say(fmt.Sprintf("%s: no reference: %v", e.ID(), err))
		return nil
	}
	return log
}

func sameDir(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// engineNote says so if samples that are there were measured by another engine
// than this program's. They count all the same: most changes decide nothing.
func engineNote(log *Log, engine string) string {
	for _, s := range log.measuring() {
		switch s.Engine {
		case engine:
		case "":
			return "the engine that measured these records is not recorded; --fresh measures anew"
		default:
			return fmt.Sprintf("these records were measured by another engine (%s, this one is %s); --fresh measures anew", s.Engine, engine)
		}
	}
	return ""
}

// seedsNote lists every seed of an experiment's samples.
func seedsNote(log *Log) string {
	seeds := log.seeds()
	if len(seeds) == 0 {
		return "Seeds: none; no random number goes into this."
	}
	var all []string
	for _, s := range seeds {
		all = append(all, fmt.Sprint(s))
	}
	return "Seeds: " + strings.Join(all, ", ") + "."
}

// provenanceNote says when, by what and where an experiment's samples were
// measured. Of several processes, it has the first's and the last's time, and
// every commit.
func provenanceNote(log *Log) string {
	when := log.Session.Time
	commits := []string{commitName(log.Session)}
	if all := log.measuring(); len(all) > 1 {
		when = fmt.Sprintf("%s to %s by %d processes", all[0].Time, all[len(all)-1].Time, len(all))
		commits = nil
		for _, s := range all {
			if c := commitName(s); !slices.Contains(commits, c) {
				commits = append(commits, c)
			}
		}
	}
	return fmt.Sprintf("Measured %s, commit %s, profile %s, spec %s, %s.", when, strings.Join(commits, ", "), log.Key.Profile, log.Key.Spec, log.Session.Machine)
}

// writeReport writes tables as Markdown and CSV, and the other files.
func writeReport(dir string, r *Report) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, f := range r.files() {
		if err := files.Write(filepath.Join(dir, f.Name), f.write); err != nil {
			return err
		}
	}
	return nil
}

// ExpectedTotal is how long measuring everything takes, about.
func (r Reproducing) ExpectedTotal() (time.Duration, error) {
	list, _, err := r.load()
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, e := range list {
		sum += e.Expected(r.Profile)
	}
	return sum, nil
}
