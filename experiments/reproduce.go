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
	"gpipebench/gpipe/cluster"
	"gpipebench/internal/failure"
	"gpipebench/internal/files"
	"gpipebench/internal/printable"
	"gpipebench/internal/progress"
	"gpipebench/internal/units"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
)

// Reproducing runs experiments and writes their records to Out/records and their tables
// to Out/tables.
type Reproducing struct {
	Profile   string
	Only      []string // ids, each once; nil: all of Paper
	Paper     string   // one of PaperNames; "": the first, or, with Only or Spec, any
	Out       string   // directory; "": nothing is written, and nothing reused
	Reference string   // directory with a run to compare with; "" or missing: none
	Fresh     bool     // measure again what there are records of
	Spec      string   // file of a spec; only the experiment that it is for runs, by it
	DType     string   // of activations, for the one experiment in Only, whose spec takes one; "": as the spec says
	// Executable is a program that calls timed.RunRound when it is started with its RoundCommand,
	// and cluster.Obey with RankCommand, such as gpipebench itself: each timed round then
	// has a process of its own. If empty, rounds share this process, and the records and
	// tables say so; experiments on processes fail.
	Executable string
}

// Run runs one experiment after another and calls show with each report as soon as it
// is complete. At the end it returns the verdicts' error, if there is one.
func (r Reproducing) Run(ctx context.Context, p progress.Progress, show func(lab.Experiment, *lab.Report) error) error {
	if err := lab.CheckProfile(r.Profile); err != nil {
		return failure.Usage(err)
	}
	list, spec, err := r.load()
	if err != nil {
		return err
	}
	if err := r.checkOut(); err != nil {
		return err
	}
	p, next, end := progress.Over(p, r.expected(list))
	defer end()
	var verdicts []string
	for _, e := range list {
		report, err := r.one(ctx, e, spec, p, next)
		if err != nil {
			return err
		}
		end() // what is shown begins a line of its own
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

// checkOut fails, before anything is measured, if the outcome could not be written.
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

// load loads the experiments that are to run, and the spec that replaces the program's,
// if there is one.
func (r Reproducing) load() (list []lab.Experiment, from []lab.SpecFile, err error) {
	ids, err := r.chosen()
	if err != nil {
		return nil, nil, err
	}
	if r.Spec != "" {
		spec, err := lab.ReadSpec(r.Spec, IDs())
		if err != nil {
			return nil, nil, err
		}
		if !slices.Contains(ids, spec.Experiment) {
			return nil, nil, failure.Usagef("%s is a spec of %s: want one of %s", r.Spec, spec.Experiment, strings.Join(ids, ", "))
		}
		ids, from = []string{spec.Experiment}, []lab.SpecFile{spec}
	}
	if r.DType != "" {
		if r.Spec != "" || len(ids) != 1 {
			return nil, nil, failure.Usagef("activations of type %s: want one experiment by its own spec; a spec of yours says dtype: %s", r.DType, r.DType)
		}
		d := List()[slices.IndexFunc(List(), func(d lab.Definition) bool { return d.ID == ids[0] })]
		from = []lab.SpecFile{{Name: ids[0] + "/spec.yaml", Experiment: ids[0], Text: []byte(d.Spec() + "\ndtype: " + r.DType + "\n")}}
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

// chosen returns the IDs of the experiments that are asked for.
func (r Reproducing) chosen() ([]string, error) {
	paper := r.Paper
	switch {
	case paper != "":
	case r.Only == nil && r.Spec == "":
		paper = Papers[0].Name
	default:
		paper = AllPapers
	}
	all, err := IDsOf(paper)
	if err != nil || r.Only == nil {
		return all, err
	}
	if len(r.Only) == 0 {
		return nil, failure.Usagef("no experiment: want some of %s", strings.Join(all, ", "))
	}
	for i, id := range r.Only {
		switch {
		case slices.Contains(r.Only[:i], id):
			return nil, failure.Usagef("experiment %s is named twice: want it once", printable.Quoted(id))
		case !slices.Contains(all, id) && slices.Contains(IDs(), id):
			return nil, failure.Usagef("experiment %s is not of %s: want some of %s", printable.Quoted(id), paper, strings.Join(all, ", "))
		}
	}
	return r.Only, nil
}

// one runs an experiment, and calls next with a line before it measures.
func (r Reproducing) one(ctx context.Context, e lab.Experiment, spec []lab.SpecFile, p progress.Progress, next func(string)) (report *lab.Report, err error) {
	log := records.New(e.Key(r.Profile))
	if r.Out != "" {
		if log, err = records.Open(records.File(r.Out, e.ID()), e.Key(r.Profile), r.Fresh); err != nil {
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
	if design := e.Registration(r.Profile); design != nil {
		if err := design.Holds(log); err != nil {
			return nil, fmt.Errorf("%s: %w; --fresh measures anew", e.ID(), err)
		}
		log.Design, log.Admits = design.Digest(), design.Admits
	}
	measuring := fmt.Sprintf("%s, profile %s: about %s on two cores", e.ID(), r.Profile, units.FormatWait(e.Expected(r.Profile)))
	if log.Reused > 0 {
		measuring = fmt.Sprintf("%s, less %d samples that are in %s already (%s)", measuring, log.Reused, filepath.Join(r.Out, "records"), log.Session.Time)
	}
	next(measuring)
	if note := engineNote(log, gpipebench.Engine()); note != "" {
		p.Say(e.ID() + ": " + note)
	}
	before := len(log.Names)
	start := time.Now()
	if t, ok := e.(timed.Experiment); ok && r.Executable != "" {
		if err := timed.InProcesses(ctx, r.Executable, t, spec, log, p); err != nil {
			return nil, err
		}
	}
	if s, ok := e.(cluster.Starter); ok {
		s.StartWith(r.Executable)
	}
	if err := e.Measure(ctx, log, p); err != nil {
		return nil, err
	}
	if len(log.Names) == before {
		p.Say(fmt.Sprintf("%s: complete records of %s on this machine are used again; --fresh measures anew", e.ID(), log.Session.Time))
	} else {
		p.Say(fmt.Sprintf("%s: measured in %s", e.ID(), units.FormatWait(time.Since(start))))
	}
	if report, err = lab.ReportOf(e, log, r.ReferenceOf(e, p)); err != nil {
		return nil, err
	}
	if r.Out == "" {
		return report, nil
	}
	return report, WriteReport(filepath.Join(r.Out, "tables"), report)
}

// ReferenceOf loads the run to compare an experiment with, nil if there is none.
func (r Reproducing) ReferenceOf(e lab.Experiment, p progress.Progress) *records.Log {
	if r.Reference == "" {
		return nil
	}
	if r.Out != "" && files.SameDir(r.Out, r.Reference) {
		return nil // it is the reference that is being made
	}
	log, err := records.Load(records.File(r.Reference, e.ID()), e.ID())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		p.Say(fmt.Sprintf("%s: no reference: %v", e.ID(), err))
		return nil
	}
	return log
}

// engineNote returns a note if samples in the log were measured by another engine than
// this program's. They count all the same: most changes decide nothing.
func engineNote(log *records.Log, engine string) string {
	for _, s := range log.Measuring() {
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

// WriteReport writes a report's files: tables as Markdown and CSV, and the others.
func WriteReport(dir string, r *lab.Report) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, f := range r.Rendered() {
		if err := files.Write(filepath.Join(dir, f.Name), f.Write); err != nil {
			return err
		}
	}
	return nil
}

// Expected returns how long each of the experiments takes that Run runs, about.
func (r Reproducing) Expected() ([]time.Duration, error) {
	list, _, err := r.load()
	return r.expected(list), err
}

func (r Reproducing) expected(list []lab.Experiment) (each []time.Duration) {
	for _, e := range list {
		each = append(each, e.Expected(r.Profile))
	}
	return each
}
