package cells

// FilledFrom is Filled with a guess of its own.
var FilledFrom = (*Modeller).filledFrom

// Simulations is how many steps were simulated.
func (m *Modeller) Simulations() int { return len(m.steps.made) }
