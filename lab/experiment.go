package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"gpipebench/internal/failure"
	"gpipebench/internal/files"
	"gpipebench/internal/progress"
	"gpipebench/internal/stats"
	"gpipebench/lab/records"
)

// Lasting is an experiment whose samples can be counted before they are made.
type Lasting interface {
	// Left is how many trainings of a log's profile it still lacks, of how many.
	Left(log *records.Log) (left, all int)
}

// Experiment is one of the suite: it measures into a log, and reports from one.
// Every one embeds Base.
type Experiment interface {
	ID() string
	Title() string
	// Expected is how long measuring takes on two cores of a few years ago.
	Expected(profile string) time.Duration
	// Key returns the key of a profile's samples on this machine.
	Key(profile string) records.Key
	// Conditions is what decides a sample of a profile besides its name.
	Conditions(profile string) string
	// Read decodes a spec. It returns the document, in which a problem has its place.
	Read(from SpecFile) (*yaml.Node, error)
	// DoNotTime makes one key for all machines, since all give the same bits.
	DoNotTime()
	// Registration is the design by which samples of a profile are judged; nil: there is none.
	Registration(profile string) *Registration

	// Resolve settles what the spec names, and refuses values that do not go together.
	Resolve() *Problem
	// Measure adds the samples that the log lacks.
	Measure(ctx context.Context, log *records.Log, p progress.Progress) error
	// Report computes what is shown from a complete log, and shows a reference, if there
	// is one, beside it.
	Report(log, reference *records.Log) (*Report, error)
}

// Report is what an experiment has to show.
type Report struct {
	Tables []*Table
	Files  []File // beside the tables
	// Verdict is nil unless the experiment has found something that must not be.
	Verdict error
	// Family are the comparisons that claims name; nil: there is no design. Reported sets it.
	Family *Family
}

// ReferenceOf loads an experiment's records in a directory with a reference, which is shown beside those
// of another directory; nil if there are none, or if the two are the same. What is wrong with them is said.
func ReferenceOf(reference, results string, e Experiment, p progress.Progress) *records.Log {
	if reference == "" {
		return nil
	}
	if results != "" && files.SameDir(results, reference) {
		return nil // it is the reference that is being made
	}
	log, err := records.Load(records.File(reference, e.ID()), e.ID())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		p.Say(fmt.Sprintf("%s: no reference: %v", e.ID(), err))
		return nil
	}
	return log
}

// File is a file of a report.
type File struct {
	Name string
	Text string
}

func (f File) Write(w io.Writer) error {
	_, err := io.WriteString(w, f.Text)
	return err
}

// Rendered returns every file of a report, tables included.
func (r *Report) Rendered() []File {
	var files []File
	for _, t := range r.Tables {
		for _, f := range []struct{ format, extension string }{{"markdown", ".md"}, {"csv", ".csv"}} {
			var text strings.Builder
			if err := t.Write(&text, f.format); err != nil {
				panic(err) // memory takes everything
			}
			files = append(files, File{t.ID + f.extension, text.String()})
		}
	}
	return append(files, r.Files...)
}

// Reported is what an experiment has to show, beginning with what it can see.
func Reported(e Experiment, log, reference *records.Log) (*Report, error) {
	report, err := e.Report(log, reference)
	registered := e.Registration(log.Key.Profile)
	if err != nil || registered == nil {
		return report, err
	}
	scores, err := e.(Scored).Scores(log) // Load has checked that it has some
	if err != nil {
		return nil, err
	}
	if report.Family, err = registered.family(scores); err != nil {
		return nil, err
	}
	first := report.Tables[0]
	first.Caption = slices.Insert(first.Caption, 0, report.Family.Sees())
	if report.Family.Looks[log.Key.Profile] != nil {
		first.Notes = append(first.Notes, report.Family.status())
	}
	return report, nil
}

// ReportOf is what Reported returns with a note under every table that says
// where its numbers are from.
func ReportOf(e Experiment, log, reference *records.Log) (*Report, error) {
	report, err := Reported(e, log, reference)
	if err != nil {
		return nil, err
	}
	return report.Noted(log), nil
}

// Noted is a report with a note under every table that says where its numbers are from.
func (r *Report) Noted(log *records.Log) *Report {
	noted := *r
	noted.Tables = nil
	for _, t := range r.Tables {
		one := *t
		one.Notes = append(slices.Clone(t.Notes), SeedsNote(log), ProvenanceNote(log))
		noted.Tables = append(noted.Tables, &one)
	}
	return &noted
}

// ProfileOf returns a spec's profile of a name, or an error that lists the names.
func ProfileOf[P any](profiles map[string]P, name string) (P, error) {
	p, ok := profiles[name]
	if !ok {
		return p, failure.Usage(CheckProfile(name))
	}
	return p, nil
}

// CheckMost refuses a profile whose field asks for more of something than there are.
func CheckMost[P any](profiles map[string]P, field string, asked func(P) int, there int, what string) *Problem {
	for _, name := range Profiles {
		if asked(profiles[name]) > there {
			return At(fmt.Errorf("want at most %d, the number of %s", there, what), "profiles", name, field)
		}
	}
	return nil
}

// CheckEach refuses a profile whose field does not have one for each of something.
func CheckEach[P any](profiles map[string]P, field string, has func(P) int, there int, what string) *Problem {
	for _, name := range Profiles {
		if n := has(profiles[name]); n != there {
			return At(fmt.Errorf("%d: want one for each of %d %s", n, there, what), "profiles", name, field)
		}
	}
	return nil
}

// checkProfiles reports a profile that a spec lacks, or one of an unknown name.
func checkProfiles[P any](profiles map[string]P) *Problem {
	for _, name := range slices.Sorted(maps.Keys(profiles)) {
		if err := CheckProfile(name); err != nil {
			return At(err, "profiles", name)
		}
	}
	for _, name := range Profiles {
		if _, ok := profiles[name]; !ok {
			return At(errors.New("no profile "+name+": want "+strings.Join(Profiles, ", ")), "profiles")
		}
	}
	return nil
}

func CommitName(s records.Provenance) string {
	if s.Commit == "" {
		return "unknown"
	}
	name := s.Commit[:min(12, len(s.Commit))]
	if s.Dirty {
		name += " with changes"
	}
	return name
}

// FewRoundsNote warns of medians without an interval, if n rounds give none.
func FewRoundsNote(n int) []string {
	least := stats.LeastForInterval(0.95)
	if n >= least {
		return nil
	}
	return []string{fmt.Sprintf("Warning: n = %d rounds. A 95%% interval from order statistics needs at least %d rounds, so the medians have no interval here, and how far another run would differ is unknown.", n, least)}
}

// StarNote says what an asterisk means, if a table has one.
func StarNote(t *Table) []string {
	for _, row := range t.Rows {
		if slices.ContainsFunc(row, Value.IsStarred) {
			return []string{"Asterisk: the step, or the one that it is relative to, needs more memory than a device has."}
		}
	}
	return nil
}

// FewSeedsNote warns if n seeds are few: Student's t assumes normal values, which few
// values cannot show.
func FewSeedsNote(n int) []string {
	least := stats.LeastForInterval(0.95)
	switch {
	case n >= least:
		return nil
	case n < 2:
		return []string{fmt.Sprintf("Warning: n = %d seed. One seed gives no standard deviation, no interval and no test, and shows nothing about other seeds.", n)}
	}
	return []string{fmt.Sprintf("Warning: n = %d seeds. Student's t has %d degrees of freedom and assumes that the values are normally distributed, which %[1]d values cannot show. A 95%% interval without this assumption (order statistics) needs at least %[3]d seeds.", n, n-1, least)}
}

// SeedsNote lists every seed of an experiment's samples.
func SeedsNote(log *records.Log) string {
	seeds := log.Seeds()
	if len(seeds) == 0 {
		return "Seeds: none; no random numbers are used."
	}
	return "Seeds: " + JoinWith(seeds, ", ") + "."
}

// ProvenanceNote says when, by what and where an experiment's samples were
// measured. Of several processes, it has the first's and the last's time, and
// every commit.
func ProvenanceNote(log *records.Log) string {
	when := log.Session.Time
	commits := []string{CommitName(log.Session)}
	if all := log.Measuring(); len(all) > 1 {
		when = fmt.Sprintf("%s to %s by %d processes", all[0].Time, all[len(all)-1].Time, len(all))
		commits = nil
		for _, s := range all {
			if c := CommitName(s); !slices.Contains(commits, c) {
				commits = append(commits, c)
			}
		}
	}
	return fmt.Sprintf("Measured %s, commit %s, profile %s, spec %s, %s.", when, strings.Join(commits, ", "), log.Key.Profile, log.Key.Spec, log.Session.Machine)
}

// ReferenceName names the columns of a reference that is shown beside a log: with its
// profile, if that is another.
func ReferenceName(log, reference *records.Log) string {
	if reference.Key.Profile == log.Key.Profile {
		return "reference"
	}
	return "reference (" + reference.Key.Profile + ")"
}

func ReferenceNote(reference *records.Log) string {
	return fmt.Sprintf("Reference: %s, profile %s, %s.", reference.Session.Machine, reference.Key.Profile, reference.Session.Time)
}
