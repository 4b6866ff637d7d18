package planner

import (
	"math"
	"slices"

	"gpipebench/gpipe"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/schedule"
)

// mode is one of the ways in which a way is tried.
type mode struct {
	schedule.Checkpoint
	zero int // stage of ZeRO
}

// cut is a way and an upper bound of its throughput.
type cut struct {
	Way
	layers   []gpipe.LayerEstimate
	pieces   schedule.Placement
	sizes    []int                 // layers of the pieces, in the best cut by time
	stages   []gpipe.LayerEstimate // of these pieces
	tried    []mode                // that may fit: all of them recompute, or none does
	bounds   map[mode]float64      // examples per second of those
	bound    float64               // of the best mode
	replayed bool                  // the bounds come from a replay
}

// set sets the bounds of the modes that are tried.
func (c *cut) set(of func(mode) float64) {
	bounds := map[mode]float64{}
	c.bound = 0
	for _, m := range c.tried {
		bounds[m] = of(m)
		c.bound = max(c.bound, bounds[m])
	}
	c.bounds = bounds
}

// split is the best cut by time of layers into a number of pieces, and the pieces' costs.
type split struct {
	sizes  []int
	stages []gpipe.LayerEstimate
}

// splitKey is what a cut by time depends on.
type splitKey struct {
	layers *gpipe.LayerEstimate // the first of those that ways share
	kept   bool
	pieces int
}

// costs are what a cut by time balances.
func (c *cut) costs() []float64 { return gpipe.LayerSeconds(c.layers, c.tried[0].Checkpoint) }

// cutByTime cuts a way's layers; ways with the same costs share the cut.
func (s *search) cutByTime(c *cut) error {
	of := splitKey{&c.layers[0], c.tried[0].Checkpoint == schedule.Never, c.pieces.Stages()}
	known, ok := s.splits[of]
	if !ok {
		cut, err := partition.Split(partition.MinMax, c.costs(), of.pieces)
		if err != nil {
			return err
		}
		known.sizes = cut.Sizes
		next := 0
		for _, n := range cut.Sizes {
			known.stages = append(known.stages, gpipe.Together(c.layers[next:next+n]))
			next += n
		}
		s.splits[of] = known
	}
	c.sizes, c.stages = known.sizes, known.stages
	return nil
}

// limit sets the stages, and the bounds without a replay: a device begins when the first
// micro-batch has passed all stages before its first one, computes all micro-batches of its
// stages, and then the last gradient passes those before the first. Modes that do not fit,
// however layers are cut, are no longer tried.
func (s *search) limit(c *cut) error {
	if err := s.cutByTime(c); err != nil {
		return err
	}
	c.tried = slices.DeleteFunc(c.tried, func(m mode) bool {
		lacks := s.lacks(*c, m)
		if lacks > 0 {
			s.near(*c, m, lacks)
		}
		return lacks > 0
	})
	c.set(func(m mode) float64 {
		span, first := c.span(m.Checkpoint, c.M*s.window(c.Way))
		return s.throughput(c, span, first)
	})
	return nil
}

// span is a lower bound of the seconds of all tasks of a number of micro-batches, and of the first
// device's end.
func (c *cut) span(mode schedule.Checkpoint, micro int) (span, first float64) {
	ends, drains := make([]float64, c.K), make([]float64, c.K) // of devices
	var fill, drain, turns float64
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
		own := float64(float64(micro)*(l.Forward+backward)) + float64(float64(mode.Recomputed(micro))*l.Recompute)
		ends[d], turns = ends[d]+own, turns+own
		fill, drain = fill+l.Forward, drain+after
	}
	if c.Schedule == schedule.Naive { // one device at a time
		span = turns
	}
	for d, end := range ends {
		span = max(span, end+drains[d])
	}
	const rounding = 1 - 1e-9 // no more than the sums of a replay
	return rounding * span, rounding * slices.Min(ends)
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
		const rounding = 1 - 1e-9
		c.set(func(m mode) float64 { return min(c.bounds[m], s.throughput(c, rounding*w.Least(), rounding*first)) })
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
	bounds := map[mode]float64{}
	for _, m := range c.tried {
		lists, err := s.lists(c.Way, m.Checkpoint)
		if err != nil {
			return err
		}
		times.Lists = lists
		step, err := times.Run()
		if err != nil {
			return err
		}
		ends := make([]float64, c.K)
		for e := range step.Timeline().OnDevices() {
			if e.Kind.Task() {
				ends[e.At.Stage] = max(ends[e.At.Stage], e.End)
			}
		}
		bounds[m] = s.throughput(c, step.Span(), slices.Min(ends))
	}
	c.set(func(m mode) float64 { return bounds[m] })
	c.replayed = true
	return nil
}

// throughput is an upper bound in examples per second, if tasks take span seconds and no
// stage ends before first: without updates and the links between stages. The stage with
// most parameters has at least an even part of them, and adds up its gradients when it
// has ended. On a cluster, parts of the sums may run beside tasks, on several links.
func (s *search) throughput(c *cut, span, first float64) float64 {
	if s.onCluster() {
		return float64(c.Batch) / span
	}
	reduce, gather := s.links(c.R).Seconds(c.R, 4*float64(s.described.Params)/float64(c.K))
	if s.How.Zero == 0 {
		reduce, gather = reduce+gather, 0
	}
	return float64(c.Batch*s.window(c.Way)) / (max(span, first+reduce) + gather)
}
