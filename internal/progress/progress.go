// Package progress is how work reports its progress, and shows it: as a bar on a terminal, as
// lines elsewhere.
package progress

// Progress is called by long work.
type Progress interface {
	// Begin is called before a piece of work of the given number of units.
	Begin(what string, units int)
	// Advance is called after each unit, with a detail about it.
	Advance(detail string)
	// End is called after the piece of work.
	End()
	// Say is called with a line that is not about a unit.
	Say(line string)
}

// Silent is a Progress that shows nothing.
type Silent struct{}

func (Silent) Begin(string, int) {}
func (Silent) Advance(string)    {}
func (Silent) End()              {}
func (Silent) Say(string)        {}
