package planner

import (
	"math"
	"slices"

	"gpipebench/gpipe"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/schedule"
)

// cut is a way and an upper bound of its throughput.
type cut struct {
	Way
	layers   []gpipe.LayerEstimate
	pieces   schedule.Placement
	sizes    []int                           // layers of the pieces, in the best cut by time
	stages   []gpipe.LayerEstimate           // of these pieces
	bounds   map[schedule.Checkpoint]float64 // examples per second, of the modes that may fit
	replayed bool                            // the bounds come from a replay
}

// bound is the bound of the best mode.
func (c cut) bound() (most float64) {
	for _, b := range c.bounds {
		most = max(most, b)
	}
	return most
}

// limit sets the stages, and the bounds without a replay: a device begins when the first
// micro-batch has passed all stages before its first one, computes all micro-batches of its
// stages, and then the last gradient passes those before the first. Mode never has no bound
// if its residuals and the parameters would not fit a replica's devices together even if
// spread evenly; a fifth of the residuals is not counted, since a cut saves some.
func (s *search) limit(c *cut) error {
	sizes, err := partition.Split(partition.MinMax, gpipe.LayerSeconds(c.layers), c.pieces.Stages())
	if err != nil {
		return err
	}
	c.sizes = sizes.Sizes
	next := 0
	for _, n := range c.sizes {
		var sum gpipe.LayerEstimate
		for _, l := range c.layers[next : next+n] {
			sum.Forward, sum.Recompute, sum.Backward = sum.Forward+l.Forward, sum.Recompute+l.Recompute, sum.Backward+l.Backward
			sum.Input, sum.Weights = sum.Input+l.Input, sum.Weights+l.Weights
		}
		next += n
		c.stages = append(c.stages, sum)
	}
	c.bounds = map[schedule.Checkpoint]float64{}
	micro := c.M * s.window(c.Way)
	for _, mode := range c.modes() {
		e := s.memory(*c, mode)
		if mode == schedule.Never && e.capacity > 0 && e.params+float64(0.8*e.residuals) > e.capacity*float64(c.K) {
			continue
		}
		ends, drains := make([]float64, c.K), make([]float64, c.K) // of devices
		var fill, drain float64
		for stage, l := range c.stages {
			backward, after := l.Backward, l.Backward
			if parts := l.Input + l.Weights; parts > 0 { // the stage before may end while W runs
				backward, after = parts, 0
				if c.Schedule == schedule.DualPipeV { // which has both
					backward = min(backward, l.Backward)
				}
			}
			d := c.pieces.Device[stage]
			if ends[d] == 0 {
				ends[d], drains[d] = fill, drain
			}
			ends[d] += float64(float64(micro)*(l.Forward+backward)) + float64(float64(mode.Recomputed(micro))*l.Recompute)
			fill, drain = fill+l.Forward, drain+after
		}
		var span float64
		for d, end := range ends {
			span = max(span, end+drains[d])
		}
		const rounding = 1 - 1e-9 // no more than the sums of a replay
		c.bounds[mode] = s.throughput(c, rounding*span, rounding*slices.Min(ends))
	}
	return nil
}

// replay sets the bounds by the step of the cut's stages; of a schedule that is yet to be
// found, by the least time of any.
func (s *search) replay(c *cut) error {
	if c.Searched {
		c.replayed = true
		w := schedule.Wanted{Place: c.pieces, Micro: c.M}
		first := math.Inf(1)
		for _, l := range c.stages {
			d := schedule.Duration{F: l.Forward, I: l.Input, W: l.Weights}
			w.Times.Stages = append(w.Times.Stages, d)
			first = min(first, float64(c.M)*(d.F+d.I+d.W))
		}
		for mode, bound := range c.bounds {
			const rounding = 1 - 1e-9
			c.bounds[mode] = min(bound, s.throughput(c, rounding*w.Least(), rounding*first))
		}
		return nil
	}
	times, micro := &gpipe.Times{}, c.M*s.window(c.Way)
	if !c.pieces.IsStraight() {
		times.Placement = c.pieces
	}
	for _, chunks := range c.pieces.Chunks() {
		for _, stage := range chunks {
			l := c.stages[stage]
			times.Stages = append(times.Stages, gpipe.StageTimes{
				F: slices.Repeat([]float64{l.Forward}, micro), R: slices.Repeat([]float64{l.Recompute}, micro), B: slices.Repeat([]float64{l.Backward}, micro),
				I: slices.Repeat([]float64{l.Input}, micro), W: slices.Repeat([]float64{l.Weights}, micro), U: make([]float64, micro),
			})
		}
	}
	for mode := range c.bounds {
		lists, err := s.lists(c.Way, mode)
		if err != nil {
			return err
		}
		times.Lists = lists
		tl, err := times.Replay()
		if err != nil {
			return err
		}
		ends := make([]float64, c.K)
		for _, e := range tl.Events {
			if e.Kind.Task() {
				ends[e.At.Stage] = max(ends[e.At.Stage], e.End)
			}
		}
		c.bounds[mode] = s.throughput(c, tl.Span(), slices.Min(ends))
	}
	c.replayed = true
	return nil
}

// throughput is an upper bound in examples per second, if tasks take span seconds and no
// stage ends before first: without updates and the links between stages. The stage with
// most parameters has at least an even part of them, and adds up its gradients when it
// has ended.
func (s *search) throughput(c *cut, span, first float64) float64 {
	reduce, gather := s.links(c.R).Seconds(c.R, 4*float64(s.described.Params)/float64(c.K))
	if !s.Pipeline.ShardUpdate {
		reduce, gather = reduce+gather, 0
	}
	return float64(c.Batch*s.window(c.Way)) / (max(span, first+reduce) + gather)
}
