package timed

import (
	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/place"
	"gpipebench/train"
)

// Crossing is a link and what crosses it. Emulated devices are timed without
// links, and a replay on the virtual clock adds the transfers, so that steps over
// different links differ by these alone.
type Crossing struct {
	Link clock.Link
	Out  []int64 // bytes that a layer passes on for each example
}

// Crossed adds the run's link, if it has one, to times of a network with that
// partition.
func (r *Run) Crossed(t *gpipe.Times, partition []int) *gpipe.Times {
	if r.Over == nil {
		return t
	}
	micro := r.Sizes()
	t.Link = r.Over.Link
	t.Boundary = func(at place.Place, m int) int64 {
		last := -1
		for _, n := range partition[:at.Stage+1] {
			last += n
		}
		return r.Over.Out[last] * int64(micro[m])
	}
	return t
}

// Over is the run on emulated devices as if over another link: of the result, Rounds alone is set.
func (m *Measured) Over(link clock.Link) (*Measured, error) {
	over := &Measured{}
	for _, times := range m.rounds {
		t := *times
		t.Link = link
		step, err := t.Replay()
		if err != nil {
			return nil, err
		}
		over.Rounds = append(over.Rounds, step.Span())
	}
	return over, nil
}

// HandedOn returns the bytes that each layer of a network passes on for an example,
// in float32, and the network's FLOPs for it.
func HandedOn(m train.Model) (out []int64, flops float64, err error) {
	d, err := train.Described(m)
	if err != nil {
		return nil, 0, err
	}
	for _, l := range d.Layers {
		var bytes int64
		for _, s := range l.OutShape {
			bytes += 4 * int64(s.Elems())
		}
		out = append(out, bytes)
		flops += float64(l.FLOPs)
	}
	return out, flops, nil
}

// Traffic is the number of bytes that a network's layers pass on for each of its FLOPs, as HandedOn
// has both: about what the cuts of pipelines with many stages carry. The last layer's output is passed
// to none.
func Traffic(out []int64, flops float64) float64 {
	var bytes float64
	for _, b := range out[:len(out)-1] {
		bytes += float64(b)
	}
	return bytes / flops
}

// Links are those that stand for an accelerator's between cores of this machine on which a smaller network runs.
type Links struct {
	Rate    float64    // of a core here, in FLOP/s
	Peak    float64    // of the accelerator
	Traffic float64    // bytes passed on for each FLOP, relative to the paper's network
	Of      clock.Link // the accelerator's
	Out     []int64    // see Crossing
}

// LinksOf are those for a network of the paper on an accelerator that is measured as a small one.
func LinksOf(rate float64, on string, papers, small train.Model) (l Links, err error) {
	a, err := accelerator.Named(on)
	if err != nil {
		return l, err
	}
	out, flops, err := HandedOn(small)
	if err != nil {
		return l, err
	}
	papersOut, papersFLOPs, err := HandedOn(papers)
	if err != nil {
		return l, err
	}
	return Links{rate, a.F32, Traffic(out, flops) / Traffic(papersOut, papersFLOPs), a.Link, out}, nil
}

// Strict has the accelerator's bytes for each floating-point operation. The latency, an assumption of
// microseconds beside tasks of many milliseconds at the paper's scale, is left out.
func (l Links) Strict() clock.Link {
	return clock.Link{Bandwidth: l.Of.Bandwidth * l.Rate / l.Peak, ThroughHost: l.Of.ThroughHost}
}

// Scaled is as much faster as the smaller network has more traffic for each operation than the paper's,
// so that transfers take the share of a step that they would take at the paper's scale.
func (l Links) Scaled() clock.Link {
	link := l.Strict()
	link.Bandwidth *= l.Traffic
	return link
}

// Slowed is Scaled beside an accelerator that reaches a share of its peak: its links are as much faster
// beside its work.
func (l Links) Slowed(share float64) clock.Link {
	link := l.Scaled()
	link.Bandwidth /= share
	return link
}
