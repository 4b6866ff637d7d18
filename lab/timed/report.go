package timed

import (
	"fmt"
	"slices"

	"gpipebench/internal/machine"
	"gpipebench/lab"
	"gpipebench/lab/records"
)

// emulated says how steps of emulated devices are timed in a number of rounds; %s is for whatever is compared.
const emulated = "Measured on emulated devices: every task runs alone and is timed, each kind of task is assigned the median of its repeats, and the schedule is replayed with these times. Median of %d rounds, each of which times every %%s, ratios within a round; in brackets, 95%%%% intervals from order statistics."

// Reporting is a report in the making: the times, and what Show adds.
type Reporting[P timing] struct {
	Making[P]
	Rounds *Rounds              // with the runs that were measured
	Runs   map[string]*Measured // by name
	Refs   map[string]*Measured // the reference's; nil: none is shown
	Parts  *lab.Table           // a PartsTable, or none, after those of the spec
	Tables []*lab.Table         // after these
}

// Report makes the tables of the rows that Show returns, their notes and the figure.
func (t *Timed[S, P]) Report(log, reference *records.Log) (*lab.Report, error) {
	r, err := t.read(log, false)
	if err != nil {
		return nil, err
	}
	r.refer(reference, func() error {
		of, err := t.read(reference, t.Partly)
		if err == nil {
			r.Refs = of.Runs
		}
		return err
	})
	rows, err := t.Show(r)
	if err != nil {
		return nil, err
	}
	if r.Parts != nil {
		r.Parts.Notes = lab.FewRoundsNote(r.Rounds.Count)
		r.Tables = slices.Insert(r.Tables, 0, r.Parts)
	}
	if r.Refs == nil {
		reference = nil
	}
	return t.report(&r.Making, rows, r.notes(), reference, r.Tables...)
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
	m, err := t.make(log)
	if err != nil {
		return nil, err
	}
	r := &Reporting[P]{Making: m, Rounds: all}
	if t.Reduce != nil {
		r.Runs, err = t.Reduce(all, log, p)
	} else {
		r.Runs, err = all.All(log)
	}
	return r, err
}

// Over is a run's throughput relative to a base's, by round; none if a run is missing.
func Over(runs map[string]*Measured, base, run string) (all []float64) {
	if runs[base] == nil || runs[run] == nil {
		return nil
	}
	return Quotients(runs[base].Rounds, runs[run].Rounds)
}

// Quotients divides the figures of one run by those of another, round by round.
func Quotients(over, under []float64) (all []float64) {
	for round, x := range over[:min(len(over), len(under))] {
		all = append(all, x/under[round])
	}
	return all
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
