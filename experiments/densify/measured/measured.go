// Package measured accumulates the gradient of a tied table in processes, gathered and
// reduced, and compares bytes with the formulas and times with a model.
package measured

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpipebench/experiments/densify/accumulate"
	"gpipebench/experiments/densify/exchange"
	"gpipebench/experiments/launch"
	"gpipebench/internal/machine"
	"gpipebench/internal/progress"
	"gpipebench/internal/units"
	"gpipebench/lab"
	"gpipebench/lab/records"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "accumulation-measured", Folder: folder, New: lab.New[measured]}

// spec is spec.yaml.
type spec struct {
	lab.Head  `yaml:",inline"`
	Network   string `yaml:"network" want:"network"`
	Processes []int  `yaml:"processes" want:"1..64"`
	Modelled  []int  `yaml:"modelled" want:"2..65536"`
	Paper     paper  `yaml:"paper" want:"shown"`

	Profiles map[string]profile `yaml:"profiles"`
}

// paper is what was measured on one number of ranks.
type paper struct {
	Ranks  int          `yaml:"ranks" want:"2..65536"`
	Gather lab.Verbatim `yaml:"gather"` // milliseconds
	Reduce lab.Verbatim `yaml:"reduce"` // milliseconds
}

type profile struct {
	Expected    lab.Span           `yaml:"expected" want:"shown"`
	Table       accumulate.Table   `yaml:"table"`
	Calibration []accumulate.Table `yaml:"calibration"`
	Rounds      int                `yaml:"rounds" want:"1..1000"`
	Resident    float64            `yaml:"resident" want:"0..100"` // the most, over the formula; 0: not compared
}

// measured starts processes.
type measured struct {
	lab.Base[spec]
	launch.Program

	available func() int64 // bytes of memory; nil: the machine's
}

func (x *measured) Resolve() *lab.Problem {
	s := &x.Spec
	switch {
	case s.Processes[0] != 1 || !slices.IsSorted(s.Processes) || len(s.Processes) < 2:
		return lab.At(errors.New("want 1 first, then others in ascending order"), "processes")
	case !slices.IsSorted(s.Modelled) || s.Modelled[0] <= slices.Max(s.Processes):
		return lab.At(errors.New("want more than are measured, in ascending order"), "modelled")
	case !slices.Contains(s.Modelled, s.Paper.Ranks):
		return lab.At(errors.New("want one of those that are modelled"), "paper", "ranks")
	}
	for _, name := range lab.Profiles {
		p := s.Profiles[name]
		for i, t := range p.Calibration {
			if t.Rows() >= p.Table.Rows() {
				return lab.At(errors.New("want a smaller table than the one that is compared"), "profiles", name, "calibration", fmt.Sprint(i))
			}
		}
		for i, t := range append([]accumulate.Table{p.Table}, p.Calibration...) {
			if t.Vocab < 2 || t.Source+t.Target < 1 || t.Rows()*int64(t.Dim) > 1<<32 {
				return lab.At(fmt.Errorf("want 2 rows and 1 token or more, and at most %d values of a rank", int64(1<<32)), slices.Concat([]string{"profiles", name}, tablePath(i))...)
			}
		}
	}
	return nil
}

// tablePath is where a profile has a table: the one that is compared, or one of the others.
func tablePath(i int) []string {
	if i == 0 {
		return []string{"table"}
	}
	return []string{"calibration", fmt.Sprint(i - 1)}
}

// run is one accumulation by some processes.
type run struct {
	table     accumulate.Table
	processes int
	way       accumulate.Way
}

// runs are those of each round.
func (x *measured) runs(p profile) (all []run) {
	for i, table := range append([]accumulate.Table{p.Table}, p.Calibration...) {
		for _, n := range x.Spec.Processes {
			if i > 0 && n == 1 {
				continue // nothing is exchanged, and one core is busy
			}
			for _, way := range exchange.Ways() {
				all = append(all, run{table, n, way})
			}
		}
	}
	return all
}

// sample is the name of a run's sample.
func (r run) sample(round int) string {
	return fmt.Sprintf("%v/V=%d/H=%d/tokens=%d+%d/processes=%d/round=%d", r.way, r.table.Vocab, r.table.Dim, r.table.Source, r.table.Target, r.processes, round)
}

// needs is the memory of all processes.
func (r run) needs() int64 {
	each := r.table.GatheredBytes(1) + r.table.IndexBytes(1)
	if r.way == accumulate.Gather {
		each *= int64(r.processes)
	}
	return int64(r.processes) * (each + each/10 + programBytes)
}

// programBytes is about what a process needs for the program itself.
const programBytes = 32 << 20

// arguments are a run's command.
func (x *measured) arguments(r run) []string {
	return []string{
		exchange.Command, "--way", r.way.String(), "--vocab", strconv.Itoa(r.table.Vocab), "--dim", strconv.Itoa(r.table.Dim),
		"--source", strconv.Itoa(r.table.Source), "--target", strconv.Itoa(r.table.Target), "--seed", strconv.FormatUint(x.Spec.Seed, 10),
	}
}

// Record is one accumulation.
type Record struct {
	Command []string           `json:"command"` // of each process
	Cores   int                `json:"cores"`   // that the processes share
	Ranks   []exchange.Outcome `json:"ranks"`
}

// Check requires ranks in their order, each with a hash, bytes and time.
func (r *Record) Check() error {
	if len(r.Ranks) == 0 || r.Cores < 1 {
		return fmt.Errorf("%d ranks on %d cores: want 1 or more", len(r.Ranks), r.Cores)
	}
	for i, o := range r.Ranks {
		if o.Rank != i || o.Held < 1 || o.Indices < 0 || o.Received < 0 || o.Seconds() <= 0 {
			return fmt.Errorf("rank %d: %d bytes held, %d of indices, %d received, in %v s", i, o.Held, o.Indices, o.Received, o.Seconds())
		}
		if err := records.CheckHash("sha256", o.SHA256); err != nil {
			return err
		}
	}
	return nil
}

// checkMemory refuses runs that would make the machine swap, or end processes.
func (x *measured) checkMemory(runs []run) error {
	available := machine.AvailableMemory
	if x.available != nil {
		available = x.available
	}
	has := available()
	for _, r := range runs {
		if r.needs() > has {
			return fmt.Errorf("%s: %d processes that %v a table of %d rows need %s of memory, and %s are free: want as much, or a spec with fewer processes or a smaller table",
				x.ID(), r.processes, r.way, r.table.Vocab, units.FormatBytes(r.needs()), units.FormatBytes(has))
		}
	}
	return nil
}

// Measure runs what the log lacks, round after round. Which run is first moves.
func (x *measured) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	profile, err := lab.ProfileOf(x.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	runs := x.runs(profile)
	var lacks []run
	for round := range profile.Rounds {
		for _, r := range runs {
			if !log.Has(r.sample(round)) {
				lacks = append(lacks, r)
			}
		}
	}
	if len(lacks) == 0 {
		return nil
	}
	if err := x.checkMemory(lacks); err != nil {
		return err
	}
	p.Begin(fmt.Sprintf("%s: %d rounds of %d accumulations, each in processes of its own", x.ID(), profile.Rounds, len(runs)), len(lacks))
	defer p.End()
	for round := range profile.Rounds {
		for i := range runs {
			r := runs[(i+round)%len(runs)]
			name := r.sample(round)
			if log.Has(name) {
				continue
			}
			made := Record{Command: x.arguments(r), Cores: machine.This().GOMAXPROCS}
			if err := x.Run(ctx, r.processes, x.Spec.Network, made.Command, &made.Ranks); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if err := log.Add(name, x.Spec.Seed, made); err != nil {
				return err
			}
			p.Advance(name + "  " + units.FormatSeconds(made.slowest((*exchange.Outcome).Seconds)))
		}
	}
	return nil
}

// slowest is the longest time of a rank.
func (r *Record) slowest(of func(*exchange.Outcome) float64) (longest float64) {
	for i := range r.Ranks {
		longest = max(longest, of(&r.Ranks[i]))
	}
	return longest
}

// read reads what the log has of a run, by round.
func (x *measured) read(log *records.Log, rounds int, r run) ([]Record, error) {
	all := make([]Record, rounds)
	for round := range all {
		if err := log.Get(r.sample(round), &all[round]); err != nil {
			return nil, err
		}
		if n := len(all[round].Ranks); n != r.processes {
			return nil, fmt.Errorf("%s: %d ranks", r.sample(round), n)
		}
	}
	return all, nil
}

// joined is a list of what is wrong, in a line.
func joined(all []string) string { return strings.Join(all, ", ") }
