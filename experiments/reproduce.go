package experiments

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gpipebench"
	"gpipebench/gpipe/cluster"
	"gpipebench/internal/failure"
	"gpipebench/internal/files"
	"gpipebench/internal/machine"
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
	Paper     string   // one of PaperNames; "": the first, without what is apart, or, with Only or Spec, any
	Out       string   // directory; "": nothing is written, and nothing reused
	Reference string   // directory with a run to compare with; "" or missing: none
	Fresh     bool     // measure again what there are records of
	Spec      string   // file of a spec; only the experiment that it is for runs, by it
	K, M      []int    // in place of those of each spec, in ascending order; nil: as it says
	DType     string   // of activations, for the one experiment in Only, whose spec takes one; "": as the spec says
	// Executable is a program that calls Round when it is started with timed.RoundCommand,
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
	l, err := r.Load()
	if err != nil {
		return err
	}
	return l.Run(ctx, p, show)
}

// Loaded are experiments that are loaded, and run as Reproducing says.
type Loaded struct {
	Reproducing
	list []running
}

// Run is Reproducing.Run.
func (r Loaded) Run(ctx context.Context, p progress.Progress, show func(lab.Experiment, *lab.Report) error) error {
	if err := r.checkOut(); err != nil {
		return err
	}
	p, next, end := progress.Over(p, r.Expected())
	defer end()
	var verdicts []string
	for _, e := range r.list {
		report, err := r.one(ctx, e, p, next)
		if err != nil {
			return err
		}
		end() // what is shown begins a line of its own
		if err := show(e.Experiment, report); err != nil {
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

// running is an experiment that is to run.
type running struct {
	lab.Experiment
	spec lab.SpecFile
	from []lab.SpecFile // the spec, unless it is the program's

	expected time.Duration
	as       string // whose time that is, in words
}

// Load loads the experiments that are to run.
func (r Reproducing) Load() (l Loaded, err error) {
	if st, err := os.Stat(r.Out); err == nil && !st.IsDir() {
		return l, fmt.Errorf("--out %s: it is a file: want a directory, or a name that is not there yet", files.Printable(r.Out))
	}
	specs, err := r.specs()
	if err != nil {
		return l, err
	}
	l.Reproducing = r
	edited := r.Spec+r.DType != "" || r.K != nil || r.M != nil
	for _, spec := range specs {
		e := running{spec: spec}
		if edited {
			e.from = []lab.SpecFile{spec}
		}
		e.Experiment, err = Load(spec.Experiment, e.from...)
		if err != nil && (r.K != nil || r.M != nil) {
			err = failure.Usagef("with other K or M: %v", err)
		}
		if err != nil {
			return l, err
		}
		e.expected, e.as = r.expect(e)
		l.list = append(l.list, e)
	}
	return l, nil
}

// Expected returns how long each of the experiments takes, about.
func (r Loaded) Expected() (each []time.Duration) {
	for _, e := range r.list {
		each = append(each, e.expected)
	}
	return each
}

// Specs are those by which the experiments run.
func (r Loaded) Specs() (specs []lab.SpecFile) {
	for _, e := range r.list {
		specs = append(specs, e.spec)
	}
	return specs
}

// expect is how long an experiment took when it was measured here last, by the records of Out or of the reference,
// or else how long its spec says that it takes, and which of both. Records that this run goes on with do not count.
func (r Reproducing) expect(e running) (time.Duration, string) {
	for _, dir := range []string{r.Out, r.Reference} {
		if dir == "" {
			continue
		}
		log, err := records.LoadLast(records.File(dir, e.ID()), func(k records.Key) bool {
			return k.Profile == r.Profile && (dir != r.Out || r.Fresh || k != e.Key(r.Profile))
		})
		if err != nil || log == nil || log.Session.Machine.Key() != machine.This().Key() {
			continue
		}
		if c := log.Cost(); c.Processor > 0 { // not of a version that did not record all of its time
			return time.Duration(c.Seconds * float64(time.Second)), "as the last time on this machine"
		}
	}
	return e.Expected(r.Profile), "on two cores"
}

// specs returns the specs of the experiments that are to run.
func (r Reproducing) specs() (list []lab.SpecFile, err error) {
	ids, err := r.chosen()
	if err != nil {
		return nil, err
	}
	if r.DType != "" && (r.Spec != "" || len(ids) != 1) {
		return nil, failure.Usagef("activations of type %s: want one experiment by its own spec; a spec of yours says dtype: %s", r.DType, r.DType)
	}
	for _, id := range ids {
		d, err := definition(id)
		if err != nil {
			return nil, err
		}
		list = append(list, d.SpecFile())
	}
	if r.Spec != "" {
		spec, err := lab.ReadSpec(r.Spec, IDs())
		if err != nil {
			return nil, err
		}
		if !slices.Contains(ids, spec.Experiment) {
			return nil, failure.Usagef("%s is a spec of %s: want one of %s", r.Spec, spec.Experiment, strings.Join(ids, ", "))
		}
		list = []lab.SpecFile{spec}
	}
	axes := []struct {
		name    string
		numbers []int
	}{{"k", r.K}, {"m", r.M}}
	for i := range list {
		if r.DType != "" {
			list[i].Text = append(list[i].Text, "\ndtype: "+r.DType+"\n"...)
		}
		for _, axis := range axes {
			if axis.numbers == nil {
				continue
			}
			if list[i], err = list[i].With(axis.name, axis.numbers); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// chosen returns the IDs of the experiments that are asked for.
func (r Reproducing) chosen() ([]string, error) {
	paper := r.Paper
	switch {
	case paper != "":
	case r.Only == nil && r.Spec == "":
		first := slices.DeleteFunc(slices.Clone(Papers[0].Experiments), func(d lab.Definition) bool { return d.Apart })
		return idsOf(first), nil
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
func (r Reproducing) one(ctx context.Context, e running, p progress.Progress, next func(string)) (report *lab.Report, err error) {
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
	measuring := fmt.Sprintf("%s, profile %s: about %s %s", e.ID(), r.Profile, units.FormatWait(e.expected), e.as)
	if of, ok := e.Experiment.(lab.Lasting); ok && log.Reused > 0 {
		if left, all := of.Left(log); left > 0 && left < all {
			wait := time.Duration(float64(e.expected) * float64(left) / float64(all))
			measuring += fmt.Sprintf(", of which %s for %d of %d trainings that are left", units.FormatWait(wait), left, all)
		}
	}
	if log.Reused > 0 {
		measuring = fmt.Sprintf("%s, less %d samples that are in %s already (%s)", measuring, log.Reused, filepath.Join(r.Out, "records"), log.Session.Time)
	}
	next(measuring)
	if note := engineNote(log, gpipebench.Engine()); note != "" {
		p.Say(e.ID() + ": " + note)
	}
	if err := r.earlier(e, log); err != nil {
		return nil, err
	}
	before := len(log.Names)
	start := time.Now()
	if s, ok := e.Experiment.(cluster.Starter); ok {
		s.StartWith(r.Executable)
	}
	if t, ok := e.Experiment.(timed.Experiment); ok && r.Executable != "" {
		err = timed.InProcesses(ctx, r.Executable, t, e.from, log, p)
	} else {
		err = e.Measure(ctx, log, p)
	}
	if err != nil {
		return nil, err
	}
	if log.Taken > 0 {
		p.Say(fmt.Sprintf("%s: %d of %d samples are from runs with other K or M, under the same conditions; --fresh measures anew", e.ID(), log.Taken, len(log.Names)))
	}
	if len(log.Names) == before+log.Taken {
		p.Say(fmt.Sprintf("%s: complete records of %s on this machine are used again; --fresh measures anew", e.ID(), log.Session.Time))
	} else {
		p.Say(fmt.Sprintf("%s: measured in %s", e.ID(), units.FormatWait(time.Since(start))))
	}
	if report, err = lab.ReportOf(e.Experiment, log, lab.ReferenceOf(r.Reference, r.Out, e.Experiment, p)); err != nil {
		return nil, err
	}
	if r.Out == "" {
		return report, nil
	}
	return report, WriteReport(filepath.Join(r.Out, "tables"), report)
}

// Round is what a process does that one starts with timed.RoundCommand: it reads on in which round of
// which experiment it is to measure, and writes records to out.
func Round(ctx context.Context, in io.Reader, out io.Writer) error {
	request, err := timed.ReadRequest(in)
	if err != nil {
		return err
	}
	e, err := Load(request.Key.Experiment, request.Spec...)
	if err != nil {
		return err
	}
	return request.Run(ctx, e, out)
}

// earlier lets a log take samples of the program's own cells, in Out and the reference, where K or M
// are others and nothing else is. There are none if everything is measured anew.
func (r Reproducing) earlier(e running, log *records.Log) error {
	if e.from == nil || r.Fresh {
		return nil
	}
	own, err := Load(e.ID())
	if err != nil || own.Conditions(r.Profile) != e.Conditions(r.Profile) {
		return err
	}
	key := own.Key(r.Profile)
	if key == log.Key {
		return nil
	}
	for _, dir := range []string{r.Out, r.Reference} {
		of, err := records.LoadLast(records.File(dir, e.ID()), func(k records.Key) bool {
			k.Machine = key.Machine // only what was timed depends on it
			return k == key
		})
		if err == nil && of != nil { // without them, everything is measured
			log.Earlier = append(log.Earlier, of)
		}
	}
	return nil
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
