package planner

import (
	"io"
	"math"

	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
)

// patience is how many schedules each part of a search for one tries without a better one:
// few, since there is a search for every way that may be among the best.
const patience = 300

// again is how often a schedule is looked for in less memory if its plan does not fit: slots
// of each kind are as many as are needed at any time, which may be at different times.
const again = 4

// CSV writes a plan's schedule as PyTorch does, without recomputation, which that has not.
func (c *Candidate) CSV(w io.Writer) error {
	if c.Lists != nil {
		return schedule.WriteCSV(w, c.Lists, schedule.Straight(c.K), c.M)
	}
	lists, place, err := schedule.Generate(c.Schedule, c.K, c.Chunks, c.M)
	if err != nil {
		return err
	}
	return schedule.WriteCSV(w, lists, place, c.M)
}

// searched looks for a schedule under the times of the cut by time and within what devices
// have left for activations, and simulates it. Nothing is found if no schedule fits.
func (s *search) searched(c cut) ([]Candidate, error) {
	p := s.pipeline(c, c.sizes)
	p.Checkpoint = schedule.Never
	how := s.how(c.Way, c.tried[0].zero)
	base, err := p.Simulate(s.input(c.Batch), how)
	if err != nil {
		return nil, err
	}
	lists, _, err := schedule.Lists(c.Schedule, c.K, c.Chunks, c.M, schedule.Never, false)
	if err != nil {
		return nil, err
	}
	w := schedule.Wanted{Place: c.pieces, Micro: c.M, Times: durations(base.Timeline, c.K), Limit: math.MaxInt64, Makespan: true, Seed: s.Seed, Patience: patience}
	if capacity := s.device().Capacity; capacity > 0 {
		w.Limit = float64(capacity)
	}
	for k := range c.K { // the fullest of several kinds of replicas
		of := base.Devices[k]
		for i := k; i < len(base.Devices); i += c.K {
			if base.Devices[i].PeakBytes > of.PeakBytes {
				of = base.Devices[i]
			}
		}
		holds := of.Footprints[0]
		holds.Residuals = max(holds.Residuals, holds.Weights) // a search wants W to need no more than I
		w.Memory = append(w.Memory, holds)
		w.Always = append(w.Always, max(0, float64(of.PeakBytes)-schedule.Peak(lists[k], []schedule.Footprint{holds})))
	}
	for range again {
		found, err := schedule.Search(w)
		if err != nil {
			return nil, nil // none fits
		}
		p.Tasks = func(int, int) [][]schedule.Task { return found.Lists }
		sim, err := p.Simulate(s.input(c.Batch), how)
		if err != nil {
			return nil, err
		}
		now := s.candidate(c, sim, c.tried[0], "time")
		if now.LacksBytes == 0 {
			now.Lists = found.Lists
			return []Candidate{now}, nil
		}
		w.Limit -= float64(now.LacksBytes)
	}
	return nil, nil
}

// durations are the means of the tasks of a timeline's first k devices, and of the transfers.
func durations(tl *timeline.Timeline, k int) schedule.Durations {
	d := schedule.Durations{Stages: make([]schedule.Duration, k)}
	counts := make([][3]float64, k)
	transfers := 0.0
	for e := range tl.All() {
		if e.At.Replica > 0 {
			continue
		}
		of, n := &d.Stages[e.At.Stage], &counts[e.At.Stage]
		switch e.Kind {
		case timeline.Forward:
			n[0]++
			of.F += e.Seconds()
		case timeline.BackwardInput:
			n[1]++
			of.I += e.Seconds()
		case timeline.BackwardWeights:
			n[2]++
			of.W += e.Seconds()
		case timeline.Transfer:
			transfers++
			d.Comm += e.Seconds()
		}
	}
	for i, n := range counts {
		of := &d.Stages[i]
		of.F, of.I, of.W = of.F/n[0], of.I/n[1], of.W/n[2]
	}
	d.Comm /= max(transfers, 1)
	return d
}
