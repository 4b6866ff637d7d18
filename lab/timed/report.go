package timed

import (
	"fmt"
	"slices"

	"gpipebench/internal/machine"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
)

// EmulatedCaption says how steps of emulated devices are timed, in rounds of
// whatever is compared.
func EmulatedCaption(rounds int, what string) string {
	return fmt.Sprintf("Measured on emulated devices: every task runs alone and is timed, a kind of task takes the median of its repeats, the schedule is replayed with these times. Median of %d rounds, each with every %s in it, ratios within a round; in brackets the 95%% interval of order statistics.", rounds, what)
}

// Reporting is a report in the making: what Timed.Show computes it from, and what
// it adds to.
type Reporting[P any] struct {
	Log     *records.Log
	Profile P
	Rounds  *Rounds              // with the runs that were measured
	Runs    map[string]*Measured // by name
	Refs    map[string]*Measured // the reference's; nil: none is shown
	Beside  string               // names the reference's columns

	Table  *lab.Table   // the main one; it has its id and title
	Parts  *lab.Table   // a PartsTable, or none
	Tables []*lab.Table // after these
	Panels []plot.Axes  // of the figure
	Files  []lab.File   // after the figure
}

// Report makes the tables that Show fills, their notes and the figure.
func (t *Timed[S, P]) Report(log, reference *records.Log) (*lab.Report, error) {
	r, err := t.read(log, false)
	if err != nil {
		return nil, err
	}
	r.Table = &lab.Table{ID: t.ID(), Title: t.Title()}
	if r.Table.Caption, err = captions(t.Spec.timed().Caption, &t.Spec, r.Profile, r.Rounds.Count); err != nil {
		return nil, err
	}
	if reference != nil {
		if of, err := t.read(reference, t.Partly); err != nil {
			r.Table.Notes = []string{fmt.Sprintf("The reference is not shown: %v.", err)}
		} else {
			r.Refs, r.Beside = of.Runs, lab.ReferenceName(log, reference)
		}
	}
	if err := t.Show(r); err != nil {
		return nil, err
	}
	r.Table.Notes = append(r.Table.Notes, r.notes()...)
	if r.Refs != nil {
		r.Table.Notes = append(r.Table.Notes, lab.ReferenceNote(reference))
	}
	report := &lab.Report{Tables: []*lab.Table{r.Table}}
	if r.Parts != nil {
		r.Parts.Notes = lab.FewRoundsNote(r.Rounds.Count)
		report.Tables = append(report.Tables, r.Parts)
	}
	report.Tables = append(report.Tables, r.Tables...)
	if report.Files, err = plot.Figure(t, lab.N(r.Rounds.Count, "round"), report.Tables, r.Panels); err != nil {
		return nil, err
	}
	report.Files = append(report.Files, r.Files...)
	return report, nil
}

// read reads a log's samples; partly: of the runs that it has.
func (t *Timed[S, P]) read(log *records.Log, partly bool) (*Reporting[P], error) {
	all, p, err := t.Rounds(log.Key.Profile)
	if err != nil {
		return nil, err
	}
	if partly {
		all.Runs = slices.DeleteFunc(all.Runs, func(run Run) bool { return !log.Has(run.Sample(0, 0)) })
	}
	r := &Reporting[P]{Log: log, Profile: p, Rounds: all}
	if t.Reduce != nil {
		r.Runs, err = t.Reduce(all, log, p)
	} else {
		r.Runs, err = all.All(log)
	}
	return r, err
}

// Relative are the cells of a run's throughput relative to a base's, round by round:
// the median and its interval.
func Relative(runs map[string]*Measured, base, run string) []lab.Value {
	return lab.Ratio(stats.RatioOf(runs[base].Rounds, runs[run].Rounds), run == base)
}

// Growth names two columns for Relative to the smallest K at the same M, paired within
// rounds as the other columns are.
func Growth(k int, of string) []string {
	name := fmt.Sprintf("measured / K = %d%s", k, of)
	return []string{name, "95%, " + name}
}

// Measured are these cells, and the median over what the paper has.
func (r *Reporting[P]) Measured(base, run string, paper lab.Verbatim) []lab.Value {
	cells := Relative(r.Runs, base, run)
	return append(cells, paper.Under(cells[0].Numbers[0]))
}

// Referred is the reference's median, if it has both runs; no cell if none is shown.
func (r *Reporting[P]) Referred(base, run string) []lab.Value {
	switch {
	case r.Refs == nil:
		return nil
	case r.Refs[base] == nil || r.Refs[run] == nil:
		return []lab.Value{lab.Absent}
	}
	return []lab.Value{lab.Fixed(Relative(r.Refs, base, run)[0].Numbers[0], 2)}
}

// ReferredTo is a column of what the reference's runs have, if it is shown: what it is of, after the
// reference's name.
func ReferredTo[P, T any](r *Reporting[P], what string, of func(refs map[string]*Measured, row T) any) Column[T] {
	if r.Refs == nil {
		return Column[T]{}
	}
	return Number(r.Beside+what, func(row T) any { return of(r.Refs, row) })
}

// ReferenceColumns adds columns for what Referred has: of is what each is of, after the
// reference's name.
func (r *Reporting[P]) ReferenceColumns(of ...string) {
	if r.Refs == nil {
		return
	}
	for _, what := range of {
		r.Table.Numbers(r.Beside + what)
	}
}

// notes say what a reader of times should know: how busy the machine was, whether there are too few
// rounds, and which processes they ran in.
func (r *Reporting[P]) notes() []string {
	return slices.Concat(r.crowdNotes(), lab.FewRoundsNote(r.Rounds.Count), []string{ProcessNote(r.Rounds, r.Log)})
}

// crowdNotes says in how many steps other processes took cores that were needed.
func (r *Reporting[P]) crowdNotes() []string {
	here := r.Log.Session.Machine
	cores := min(here.Cores, here.GOMAXPROCS)
	steps, disturbed := 0, 0
	for _, m := range r.Runs {
		for _, s := range m.samples {
			steps++
			if machine.Crowded(s.Others, m.run.cores(), cores) {
				disturbed++
			}
		}
	}
	if disturbed == 0 {
		return nil
	}
	return []string{fmt.Sprintf("The machine was busy: in %d of these %d steps other processes took cores that the step needed. The median tolerates this in fewer than half of the steps.", disturbed, steps)}
}
