package gpipe

import (
	"cmp"
	"math"
	"slices"

	"gpipebench/gpipe/plan"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/timeline"
)

// results makes the Result of each of the step's mini-batches from the reports of all stages.
func (s *step) results(reports []report) ([]*Result, error) {
	n := s.trainer.net
	s.trainer.note(reports)
	s.trainer.stopAsked = slices.ContainsFunc(reports, func(r report) bool { return r.Stop })
	if len(s.trainer.peers) > 1 {
		onOneClock(reports)
	}
	slices.SortFunc(reports, func(a, b report) int { return a.At.Compare(b.At) })
	r := Result{Times: newTimes(n, s.portions, n.Together())}
	r.Times.Last = func(replica int) []clock.Exchange { return n.RowExchanges(s.tables, replica) }
	r.Times.Window = len(s.batches)
	if s.purpose == plan.Training {
		r.planTraffic = func() []Traffic { return n.PlanTraffic(s.portions) }
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
	r.Seconds = r.Timeline.Span() / float64(len(s.batches))
	for replica, p := range s.portions { // of several processes
		for m, outputs := range s.ofLast(reports, replica).Outputs {
			if err := s.each(p.Firsts[m], outputs); err != nil {
				return nil, err
			}
		}
	}
	var all []*Result
	for mini := range s.batches {
		of := r
		s.scored(&of, reports, mini)
		all = append(all, &of)
	}
	return all, nil
}

// ofLast is the report of a replica's last stage.
func (s *step) ofLast(reports []report, replica int) *report {
	n := s.trainer.net
	return &reports[n.Pieces.Index(n.Pieces.At(replica, n.Pieces.Len()-1))]
}

// scored sets what a result says of its mini-batch alone, which has a place in the step.
func (s *step) scored(r *Result, reports []report, mini int) {
	n, count := s.trainer.net, s.batches[mini].Count
	var loss float64
	for replica := range s.portions {
		last := s.ofLast(reports, replica)
		groups := last.Scores
		if len(s.batches) > 1 {
			groups = groups[mini : mini+1]
		}
		for _, group := range groups {
			if len(last.Rows) == 0 {
				loss += group.Loss
			}
			r.Correct += int(group.Correct)
			r.Ranks = append(r.Ranks, group.Ranks...)
		}
		for _, v := range last.Rows {
			loss += float64(v)
		}
	}
	r.Count, r.Loss, r.GradNorm = count, loss/float64(count), reports[0].Norm
	if s.purpose != plan.Training {
		return
	}
	if n.Asynchronous() {
		var squares float64
		for _, of := range reports {
			squares += float64(of.Norms[mini] * of.Norms[mini])
		}
		r.GradNorm = math.Sqrt(squares)
	}
	r.LR = n.LR.Rate(s.number(mini))
	r.Clipping = float64(clipping(n.ClipNorm, r.GradNorm))
}
