package gpipe

import (
	"cmp"
	"slices"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
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
		Times: &Times{
			Replicas: n.Replicas, Together: n.together(), Placement: n.placement(),
			Link: n.Devices[0].Link, Exchanges: n.exchanges(),
			Last: func(replica int) []clock.Exchange { return n.rowExchanges(s.tables, replica) },
			Boundary: func(at place.Place, micro int) int64 {
				return s.portions[at.Replica].programs[micro].boundaryBytes(n.pieces.Piece(at))
			},
		},
	}
	for _, p := range s.portions {
		r.Times.Lists = append(r.Times.Lists, p.lists...)
		r.Times.Examples = append(r.Times.Examples, p.sizes)
	}
	ofLast := func(replica int) *report { return &reports[n.pieces.Index(n.pieces.At(replica, n.pieces.Len()-1))] }
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
	if s.purpose == training {
		r.planTraffic = func() []Traffic { return n.planTraffic(s.portions) }
		r.LR = n.LR.Rate(s.trainer.steps + 1)
		r.Clipping = float64(n.clipping(r.GradNorm))
	}
	wall := &timeline.Timeline{Devices: n.Replicas * n.Partitions, Replicas: n.Replicas, Placement: n.placement()}
	for _, of := range reports {
		n.addLinks(&of.Times, of.At, s.tables)
		r.Times.Stages = append(r.Times.Stages, of.Times)
		wall.Events = append(wall.Events, of.Events...)
		wall.Reductions = append(wall.Reductions, of.Reductions...)
		r.Traffic = append(r.Traffic, of.Traffic...)
	}
	slices.SortStableFunc(wall.Events, func(a, b timeline.Event) int { return cmp.Compare(a.Start, b.Start) })
	r.Timeline = wall
	if n.Devices[0].Kind == Emulated && s.purpose == training {
		virtual, err := clock.Replay(r.Times.Lists, r.Times.Costs())
		if err != nil {
			return nil, err
		}
		r.Timeline = virtual
	}
	r.Seconds = r.Timeline.Span()
	for replica, p := range s.portions { // of several processes
		for m, outputs := range ofLast(replica).Outputs {
			if err := s.each(p.firsts[m], outputs); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// placement is where the pieces of the network are; zero: one on each device, in order.
func (n *network) placement() schedule.Placement {
	if n.placed.IsStraight() {
		return schedule.Placement{}
	}
	return n.placed
}

// boundaryBytes is the number of bytes that a piece sends forward for one micro-batch.
func (c compiled) boundaryBytes(stage int) int64 {
	if stage == len(c)-1 {
		return 0
	}
	return tensorBytes(c[stage].Out)
}
