package trained

import (
	"errors"

	"gpipebench/lab"
)

// Seeding are the seeds over which a profile's trainings are repeated: all that there will ever be.
// A seed that is added when results are known is another design.
type Seeding struct {
	Seeds []uint64 `yaml:"seeds" want:"optional"`
}

// CheckSeeds refuses no seeds.
func (s Seeding) CheckSeeds() *lab.Problem {
	if len(s.Seeds) == 0 {
		return lab.At(errors.New("no seeds: want at least one"))
	}
	return nil
}
