package trained

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"gpipebench/lab"
	"gpipebench/lab/records"
)

// checkFrom refuses arms that begin with the weights of what has none to give.
func (f *Frame) checkFrom(a ArmSpec) error {
	of := f.Named(a.From)
	switch {
	case a.From == "":
	case f.Whole, of < 0, f.Arms[of].From != "":
		return errors.New("want an arm that begins with none's weights, of records by seed")
	case f.Watch != nil, slices.ContainsFunc(lab.Profiles, func(p string) bool { return len(f.Profiles[p].Pilots.Rates) > 0 || f.Profiles[p].Until > 0 }):
		return errors.New("want none where rates are chosen by pilots or trainings end early, which have no weights to begin with")
	}
	return nil
}

func weightsOf(dir string, arm int, seed uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%d-%d.safetensors", arm, seed))
}

// lacking returns the seeds for which the log lacks a training of some arms.
func lacking(log *records.Log, arms []Arm, seeds []uint64) (some []uint64) {
	for _, seed := range seeds {
		if slices.ContainsFunc(arms, func(a Arm) bool { return !log.Has(a.Sample(seed)) }) {
			some = append(some, seed)
		}
	}
	return some
}

// again makes sure that the weights of a trial that has a record are there: its bits are the same if it is made
// again.
func (a Arm) again(ctx context.Context, id string, seed uint64, log *records.Log) error {
	t := a.Training(seed)
	if _, err := os.Stat(t.Save); err == nil {
		return nil
	}
	var was Trial
	if err := log.Get(a.Sample(seed), &was); err != nil {
		return err
	}
	now, err := Train(ctx, t)
	if err != nil {
		return fmt.Errorf("%s, %s: %w", id, a.Sample(seed), err)
	}
	if now.SHA256 != was.SHA256 {
		return errors.Join(fmt.Errorf("%s, %s: it ends with other weights than its record's: want --fresh, which measures anew", id, a.Sample(seed)), os.Remove(t.Save))
	}
	return nil
}
