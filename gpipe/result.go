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
	last := &reports[len(reports)-1]
	r := &Result{
		Loss: last.Loss / float64(s.batch.Count), Correct: int(last.Correct), Count: s.batch.Count,
		Ranks: last.Ranks, GradNorm: last.Norm,
		Times: &Times{
			Lists: s.lists, Link: n.Devices[0].Link, Exchanges: n.exchanges(),
			Boundary: func(at place.Place, micro int) int64 { return s.programs[micro].boundaryBytes(at.Stage) },
		},
	}
	if s.purpose == training {
		r.LR = n.LR.Rate(s.trainer.steps + 1)
		r.Clipping = float64(n.clipping(r.GradNorm))
	}
	wall := &timeline.Timeline{Devices: len(reports)}
	for _, of := range reports {
		r.Times.Stages = append(r.Times.Stages, of.Times)
		wall.Events = append(wall.Events, of.Events...)
	}
	slices.SortStableFunc(wall.Events, func(a, b timeline.Event) int { return cmp.Compare(a.Start, b.Start) })
	r.Timeline = wall
	if n.Devices[0].Kind == Emulated && s.purpose == training {
		virtual, err := timeline.Replay(s.lists, r.Times.Costs())
		if err != nil {
			return nil, err
		}
		r.Timeline = virtual
	}
	r.Seconds = r.Timeline.Span()
	for m, outputs := range last.Outputs { // of several processes
		if err := s.each(s.firsts[m], outputs); err != nil {
			return nil, err
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
