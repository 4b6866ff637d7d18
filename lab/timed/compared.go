package timed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpipebench/gpipe/cluster"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/lab/shown"
	"gpipebench/train"
)

// Compared is what an experiment embeds, instead of lab.Base, that compares runs by records of
// its own: a round has one record of each. S is its spec, which embeds Profiled, P a profile,
// which embeds Size, V a run, and R a record. Its New sets the functions.
type Compared[S interface{ profiled() Profiled[P] }, P sized, V comparable, R any] struct {
	kind[S, P]
	cluster.Program
	// Starts says that each run has processes of its own, which Make starts by Program. Otherwise
	// each round has one, where a program can be started for it.
	Starts bool
	// Runs returns the runs of a round. Which comes first moves from round to round.
	Runs func(P) []V
	// Name is a run's, in the names of its samples; "": the round is the name.
	Name func(V) string
	// Make makes a run's record.
	Make func(ctx context.Context, p P, run V) (*R, error)
	// Together, in place of Make, makes the records of all runs, in their order, also of those
	// that the log has: they belong together.
	Together func(ctx context.Context, p P, round int) ([]*R, error)
	// Network is what connects a run's processes; nil: what every program has.
	Network func(V) string
	// Training is what a run trains, for specs to be checked; nil: nothing.
	Training func(P, V) train.Training
	// Show returns the rows of tables, whose columns are words of the spec, and adds to a report what only
	// this experiment shows.
	Show func(*Comparison[P, V, R]) (shown.Rows, error)
}

// Sample names a run's record of a round.
func (x *Compared[S, P, V, R]) Sample(run V, round int) string { return sampleOf(x.Name(run), round) }

// Sample names a run's record of a round.
func (c *Comparison[P, V, R]) Sample(run V, round int) string { return sampleOf(c.Name(run), round) }

func sampleOf(run string, round int) string {
	return strings.TrimPrefix(fmt.Sprintf("%s/round=%d", run, round), "/")
}

// lacks says why this program cannot make a run; "": it can.
func (x *Compared[S, P, V, R]) lacks(run V) string {
	if x.Network == nil {
		return ""
	}
	return cluster.Lacks(x.Network(run))
}

// inRounds are a profile's rounds.
type inRounds[S interface{ profiled() Profiled[P] }, P sized, V comparable, R any] struct {
	*Compared[S, P, V, R]
	p P
}

// order is the runs of a round, from first to last, without those that this program lacks.
func (r inRounds[S, P, V, R]) order(round int) []V {
	runs := slices.DeleteFunc(slices.Clone(r.Runs(r.p)), func(run V) bool { return r.lacks(run) != "" })
	from := round % max(len(runs), 1)
	return slices.Concat(runs[from:], runs[:from])
}

func (r inRounds[S, P, V, R]) Samples() [][]string {
	names := make([][]string, r.p.size().Rounds)
	for round := range names {
		for _, run := range r.order(round) {
			names[round] = append(names[round], r.Sample(run, round))
		}
	}
	return names
}

func (r inRounds[S, P, V, R]) Round(ctx context.Context, round int, log *records.Log) error {
	if r.Together != nil {
		made, err := r.Together(ctx, r.p, round)
		for i, run := range r.Runs(r.p) {
			if err == nil && !log.Has(r.Sample(run, round)) {
				err = log.Add(r.Sample(run, round), r.Spec.profiled().Seed, made[i])
			}
		}
		return err
	}
	for _, run := range r.order(round) {
		name := r.Sample(run, round)
		if log.Has(name) {
			continue
		}
		made, err := r.Make(ctx, r.p, run)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", r.ID(), name, err)
		}
		if err := log.Add(name, r.Spec.profiled().Seed, made); err != nil {
			return err
		}
	}
	return nil
}

// Repeated are a profile's rounds; nil if runs start processes of their own.
func (x *Compared[S, P, V, R]) Repeated(profile string) (Repeated, error) {
	p, err := x.profile(profile)
	if err != nil || x.Starts {
		return nil, err
	}
	return inRounds[S, P, V, R]{x, p}, nil
}

// Measure takes the rounds in this process.
func (x *Compared[S, P, V, R]) Measure(ctx context.Context, log *records.Log, to progress.Progress) error {
	p, err := x.profile(log.Key.Profile)
	if err != nil {
		return err
	}
	where := "in this process"
	if x.Starts {
		where = "each in processes of its own"
	}
	rounds := inRounds[S, P, V, R]{x, p}
	return EachRound(rounds, log, to, where, func(round int) error { return rounds.Round(ctx, round, log) })
}

// Planned are the trainings of all runs, and what Also has.
func (x *Compared[S, P, V, R]) Planned(profile string) (list []lab.PlannedRun) {
	if x.Also != nil {
		list = x.Also()
	}
	p, err := x.profile(profile)
	if err != nil || x.Training == nil {
		return list
	}
	for _, run := range x.Runs(p) {
		list = append(list, lab.PlannedRun{Path: []string{"profiles", profile}, Run: x.Training(p, run)})
	}
	return list
}

// Comparison is a report in the making: the records, and what Show adds.
type Comparison[P sized, V comparable, R any] struct {
	Making[P]
	Of     map[V][]*R           // by round; without runs that the program lacks which measured
	Name   func(V) string       // a run's
	Before *Comparison[P, V, R] // the reference's; nil: none is shown
	Lacks  map[V]string         // why runs are not in Of

	others []string // runs with other bits
}

// read reads all of a log's records.
func (x *Compared[S, P, V, R]) read(log *records.Log) (*Comparison[P, V, R], error) {
	m, err := x.make(log)
	if err != nil {
		return nil, err
	}
	c, p := &Comparison[P, V, R]{Making: m, Of: map[V][]*R{}, Name: x.Name, Lacks: map[V]string{}}, m.Profile
	for _, run := range x.Runs(p) {
		if why := x.lacks(run); why != "" && !log.Has(x.Sample(run, 0)) {
			c.Lacks[run] = why
			continue
		}
		for round := range p.size().Rounds {
			r := new(R)
			if err := log.Get(x.Sample(run, round), r); err != nil {
				return nil, err
			}
			c.Of[run] = append(c.Of[run], r)
		}
	}
	return c, nil
}

// Report makes the tables of the rows that Show returns, their notes and the figure.
func (x *Compared[S, P, V, R]) Report(log, reference *records.Log) (*lab.Report, error) {
	c, err := x.read(log)
	if err != nil {
		return nil, err
	}
	c.refer(reference, func() (err error) {
		c.Before, err = x.read(reference)
		return err
	})
	rows, err := x.Show(c)
	if err != nil {
		return nil, err
	}
	notes := lab.FewRoundsNote(c.Profile.size().Rounds)
	if !x.Starts {
		notes = append(notes, ProcessNote(inRounds[S, P, V, R]{x, c.Profile}, log))
	}
	if c.Before == nil {
		reference = nil
	}
	return x.report(&c.Making, rows, notes, reference)
}

// Each is a figure of a run's records, by round; none of a comparison that there is not, and of a run that
// was not measured.
func (c *Comparison[P, V, R]) Each(run V, of func(*R) float64) (all []float64) {
	if c == nil {
		return nil
	}
	for _, r := range c.Of[run] {
		all = append(all, of(r))
	}
	return all
}

// SameBits reports whether all records of a run have the outcome of a base's. If they do not, it adds the run
// to the verdict, in which what has a %s for these runs.
func (c *Comparison[P, V, R]) SameBits(run, base V, what string, same func(a, b *R) bool) bool {
	if !slices.ContainsFunc(c.Of[run], func(r *R) bool { return !same(r, c.Of[base][0]) }) {
		return true
	}
	c.others = append(c.others, fmt.Sprint(run))
	c.Verdict = errors.New(fmt.Sprintf(what, strings.Join(c.others, ", ")) + " have OTHER bits than on one")
	return false
}

// Sampled are a profile's runs, and how many rounds it has.
func (x *Compared[S, P, V, R]) Sampled(profile string) (runs []V, rounds int, err error) {
	p, err := x.profile(profile)
	if err != nil {
		return nil, 0, err
	}
	return x.Runs(p), p.size().Rounds, nil
}
