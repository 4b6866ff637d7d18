// Package progress is how work tells how far it is.
package progress

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

func (Silent) Advance(string) {}

func (Silent) End() {}

func (Silent) Say(string) {}
