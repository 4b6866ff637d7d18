// Package experiments regenerates the tables of the GPipe paper, and holds what
// the command's other subcommands run: a training, a benchmark, a description,
// a simulation.
//
// Every experiment has a spec, a YAML file that is part of the program: sizes
// for each profile, seeds, repetitions, what is discarded and the paper's
// values, all fixed before anything runs. What it measures goes into records
// (JSON lines, appended, with provenance and a checksum each), and what it shows
// is computed from records alone, so a table can be made again without
// measuring again. No number in a table is typed.
//
// What is timed is measured in rounds. With [Reproducing.Executable] each round is
// a process of its own, which hands its samples over as records ([RunRound]).
//
// Nothing here prints: results are returned, progress goes to a [Progress].
package experiments

// Progress is told how far long work is.
type Progress interface {
	// Begin starts a piece of work of so many units.
	Begin(what string, units int)
	// Advance says that one more unit is done, and something about it.
	Advance(detail string)
	// End ends the piece of work.
	End()
	// Say passes a line on that is not about any unit.
	Say(line string)
}

// Silent is a Progress that shows nothing.
type Silent struct{}

func (Silent) Begin(string, int) {}
func (Silent) Advance(string)    {}
func (Silent) End()              {}
func (Silent) Say(string)        {}
