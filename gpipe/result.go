package gpipe

import (
	"cmp"
	"slices"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/timeline"
)

// result makes the step's Result from the reports of all stages.
func (s *step) result(reports []report) (*Result, error) {
	n := s.trainer.net
	s.trainer.note(reports)
	slices.SortFunc(reports, func(a, b report) int { return a.At.Compare(b.At) })
	r := &Result{
		Count: s.batch.Count, GradNorm: reports[0].Norm,
		Times: &Times{
			Replicas: n.Replicas,
			Link:     n.Devices[0].Link, Exchanges: n.exchanges(),
			Boundary: func(at place.Place, micro int) int64 {
				return s.portions[at.Replica].programs[micro].boundaryBytes(at.Stage)
			},
		},
	}
	for _, p := range s.portions {
		r.Times.Lists = append(r.Times.Lists, p.lists...)
		r.Times.Examples = append(r.Times.Examples, p.sizes)
	}
	var loss float64
	for replica := range s.portions {
		last := &reports[(replica+1)*n.Partitions-1]
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
		r.LR = n.LR.Rate(s.trainer.steps + 1)
		r.Clipping = float64(n.clipping(r.GradNorm))
	}
	wall := &timeline.Timeline{Devices: len(reports), Replicas: n.Replicas}
	for _, of := range reports {
		n.addLinks(&of.Times, of.At.Stage)
		r.Times.Stages = append(r.Times.Stages, of.Times)
		wall.Events = append(wall.Events, of.Events...)
	}
	slices.SortStableFunc(wall.Events, func(a, b timeline.Event) int { return cmp.Compare(a.Start, b.Start) })
	r.Timeline = wall
	if n.Devices[0].Kind == Emulated && s.purpose == training {
		virtual, err := timeline.Replay(r.Times.Lists, r.Times.Costs())
		if err != nil {
			return nil, err
		}
		r.Timeline = virtual
	}
	r.Seconds = r.Timeline.Span()
	for replica, p := range s.portions { // of several processes
		for m, outputs := range reports[(replica+1)*n.Partitions-1].Outputs {
			if err := s.each(p.firsts[m], outputs); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// boundaryBytes is the number of bytes that a stage sends forward for one micro-batch.
func (c compiled) boundaryBytes(stage int) (n int64) {
	if stage == len(c)-1 {
		return 0
	}
	for _, t := range c[stage].Out {
		n += int64(t.Len) * floatBytes
	}
	return n
}
