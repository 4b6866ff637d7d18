package gpipe

import (
	"cmp"
	"slices"

	"gpipebench/gpipe/plan"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/timeline"
)

// result makes the step's Result from the reports of all stages.
func (s *step) result(reports []report) (*Result, error) {
	n := s.trainer.net
	s.trainer.note(reports)
	s.trainer.stopAsked = slices.ContainsFunc(reports, func(r report) bool { return r.Stop })
	if len(s.trainer.peers) > 1 {
		onOneClock(reports)
	}
	slices.SortFunc(reports, func(a, b report) int { return a.At.Compare(b.At) })
	r := &Result{
		Count: s.batch.Count, GradNorm: reports[0].Norm,
		Times: newTimes(n, s.portions, n.Together()),
	}
	r.Times.Last = func(replica int) []clock.Exchange { return n.RowExchanges(s.tables, replica) }
	ofLast := func(replica int) *report { return &reports[n.Pieces.Index(n.Pieces.At(replica, n.Pieces.Len()-1))] }
	var loss float64
	for replica := range s.portions {
		last := ofLast(replica)
		switch {
		case len(last.Rows) > 0:
			for _, v := range last.Rows {
				loss += float64(v)
			}
		default:
			for _, group := range last.Losses {
				loss += group
			}
		}
		r.Correct += int(last.Correct)
		r.Ranks = append(r.Ranks, last.Ranks...)
	}
	r.Loss = loss / float64(s.batch.Count)
	if s.purpose == plan.Training {
		r.planTraffic = func() []Traffic { return n.PlanTraffic(s.portions) }
		r.LR = n.LR.Rate(s.trainer.steps + 1)
		r.Clipping = float64(clipping(n.ClipNorm, r.GradNorm))
	}
	wall := &timeline.Timeline{Devices: n.Replicas * n.Partitions, Replicas: n.Replicas, Placement: n.OwnPlacement()}
	for _, of := range reports {
		addLinks(n, &of.Times, of.At, s.tables)
		r.Times.Stages = append(r.Times.Stages, of.Times)
		wall.Events = append(wall.Events, of.Events...)
		wall.Reductions = append(wall.Reductions, of.Reductions...)
		r.Traffic = append(r.Traffic, of.Traffic...)
	}
	slices.SortStableFunc(wall.Events, func(a, b timeline.Event) int { return cmp.Compare(a.Start, b.Start) })
	r.Timeline = wall
	if n.Devices[0].Kind == Emulated && s.purpose == plan.Training {
		virtual, err := r.Times.Replay()
		if err != nil {
			return nil, err
		}
		r.Timeline = virtual
	}
	r.Seconds = r.Timeline.Span()
	for replica, p := range s.portions { // of several processes
		for m, outputs := range ofLast(replica).Outputs {
			if err := s.each(p.Firsts[m], outputs); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}
