package trained

import (
	"errors"
	"fmt"
	"slices"

	"gpipebench/lab"
)

// Seeding are the seeds over which a profile's trainings are repeated.
type Seeding struct {
	// Seeds were fixed before anything was measured.
	Seeds []uint64 `yaml:"seeds" want:"optional"`
	// Added are further ones, fixed when the results of Seeds were known and had left
	// something open, which a report says. They are no part of the key: what a training gives
	// does not depend on the other seeds, so those that are measured stay.
	Added []uint64 `yaml:"added_seeds" want:"shown,optional"`
}

// AllSeeds are both.
func (s Seeding) AllSeeds() []uint64 { return slices.Concat(s.Seeds, s.Added) }

// CheckSeeds refuses no seeds, and seeds that stand twice.
func (s Seeding) CheckSeeds() *lab.Problem {
	if len(s.Seeds) == 0 {
		return lab.At(errors.New("no seeds: want at least one"))
	}
	for i, seed := range s.Added {
		if slices.Contains(s.Seeds, seed) || slices.Contains(s.Added[:i], seed) {
			return lab.At(fmt.Errorf("%d stands twice: want other seeds", seed), "added_seeds", fmt.Sprint(i))
		}
	}
	return nil
}

// SeedNotes say of means over seeds that these are few, and which were added.
func (s Seeding) SeedNotes() []string {
	return append(lab.FewSeedsNote(len(s.AllSeeds())), s.AddedNotes()...)
}

// RunNotes say so of rates and medians over seeds.
func (s Seeding) RunNotes() []string {
	return append(lab.FewRunsNote(len(s.AllSeeds())), s.AddedNotes()...)
}

// AddedNotes say which seeds were added, if any were.
func (s Seeding) AddedNotes() []string {
	if len(s.Added) == 0 {
		return nil
	}
	return []string{"Added when the results of the other seeds were known and had left something open: seeds " + lab.FormatSeeds(s.Added) +
		". Intervals are as if all seeds had been fixed beforehand; for this second look they are somewhat too narrow."}
}
