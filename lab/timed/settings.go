package timed

import (
	"context"
	"fmt"

	"gpipebench/lab/records"
)

// Settings is a measurement of the same at several settings of one number, each once a
// round. Which comes first moves from round to round.
type Settings struct {
	ID      string // of the experiment
	Rounds  int
	All     []int
	Seed    uint64 // of every sample
	Name    func(setting, round int) string
	Measure func(ctx context.Context, setting int) (sample any, err error)
}

func (s Settings) Samples() [][]string {
	all := make([][]string, s.Rounds)
	for round := range all {
		for i := range s.All {
			all[round] = append(all[round], s.Name(s.at(round, i), round))
		}
	}
	return all
}

// at is the setting in a place of a round.
func (s Settings) at(round, i int) int { return s.All[(round+i)%len(s.All)] }

func (s Settings) Round(ctx context.Context, round int, log *records.Log) error {
	for i := range s.All {
		setting := s.at(round, i)
		name := s.Name(setting, round)
		if log.Has(name) {
			continue
		}
		made, err := s.Measure(ctx, setting)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", s.ID, name, err)
		}
		if err := log.Add(name, s.Seed, made); err != nil {
			return err
		}
	}
	return nil
}
