package planner

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"gpipebench/gpipe"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/schedule"
)

// place is where the pieces are; an error: there is no such schedule.
func (w Way) place() (schedule.Placement, error) {
	if s := w.Schedule; s.Asynchronous() {
		if least := w.K; w.R > 1 || s == schedule.PipeDream2BW && w.M < least || s != schedule.PipeDream2BW && w.M > 1 {
			return schedule.Placement{}, fmt.Errorf("%v with R=%d K=%d M=%d: want one replica, and the schedule's own micro-batches", s, w.R, w.K, w.M)
		}
		return schedule.Straight(w.K), nil
	}
	return schedule.Place(w.Schedule.String(), w.K, w.Chunks, w.M)
}

// window is the number of mini-batches that a way's lists have.
func (s Search) window(w Way) int {
	if w.Schedule.Asynchronous() {
		return s.Window
	}
	return 1
}

// lists are the task lists of a way's step or window.
func (s Search) lists(w Way, mode schedule.Checkpoint) (lists [][]schedule.Task, err error) {
	if !w.Schedule.Asynchronous() {
		lists, _, err = schedule.Lists(w.Schedule, w.K, w.Chunks, w.M, mode, false)
		return lists, err
	}
	return schedule.Window(w.Schedule, w.K, schedule.Ends(s.Window, w.M), mode)
}

// size is the number of examples of the largest micro-batch.
func (w Way) size() int {
	return gpipe.MicroBatchSizes(gpipe.MicroBatchSizes(w.Batch, w.R)[0], w.M)[0]
}

// links returns how r replicas add up gradients.
func (s Search) links(r int) gpipe.AllReduce {
	a := s.Pipeline.AllReduce
	if a.Kind == reduction.Torus && a.Torus == [2]int{} {
		y := int(math.Sqrt(float64(r)))
		for r%y != 0 {
			y--
		}
		a.Torus = [2]int{r / y, y}
	}
	return a
}

// onCluster reports whether ways are modelled as on a cluster.
func (s Search) onCluster() bool {
	return s.Zeros != nil || s.Recomputes != nil || s.Parts != nil || s.How.Used()
}

// parallel is how a way is spread over a cluster, with a stage of ZeRO.
func (s Search) parallel(w Way, zero int) gpipe.Parallel {
	p := s.How.Parallel
	if s.onCluster() {
		p.Tensor, p.Zero, p.Recompute, p.SequenceParallel = w.T, zero, w.Recompute, p.SequenceParallel && w.T > 1
	}
	return p
}

// how is how a way is modelled, with a stage of ZeRO.
func (s *search) how(w Way, zero int) gpipe.Modelling {
	how := s.How
	how.Brief, how.Costs, how.Parallel = true, s.costs, s.parallel(w, zero)
	return how
}

// tensors are the numbers of devices of each stage that are tried, ascending.
func (s Search) tensors() []int {
	if s.Parts == nil {
		return []int{max(s.How.Tensor, 1)}
	}
	return slices.Sorted(maps.Keys(s.Parts))
}

// recomputes are what ways may recompute.
func (s Search) recomputes() []gpipe.Recompute {
	if s.Recomputes == nil {
		return []gpipe.Recompute{s.How.Recompute}
	}
	return s.Recomputes
}

// zeros are the stages of ZeRO that are tried with r replicas; with one, all are alike.
func (s Search) zeros(r int) []int {
	switch {
	case s.Zeros == nil:
		return []int{s.How.Zero}
	case r == 1:
		return s.Zeros[:1]
	}
	return s.Zeros
}

// stateBytes is the memory of a parameter and of all that one of r replicas keeps for it,
// in bytes, on average, with a stage of ZeRO.
func (s Search) stateBytes(r, zero int) float64 {
	p := s.How.Parallel
	p.Zero = zero
	weights, gradients, state := p.PerReplica(len(s.Pipeline.Optimizer.Slots()), r)
	if s.How.Accounting != gpipe.FullAccounting {
		gradients = 0
	}
	return weights + gradients + state
}

// holdsParams reports whether the devices of one of r replicas can hold the parameters,
// with nothing else.
func (s Search) holdsParams(params int64, r, devices, zero int) bool {
	capacity := s.device().Capacity
	return capacity == 0 || s.stateBytes(r, zero)*float64(params)/float64(devices) <= float64(capacity)
}

// replicas are the numbers of replicas of a number of devices that take part in a mini-batch.
func (s Search) replicas(devices, batch int) []int {
	most := min(s.Devices/devices, batch, gpipe.MaxReplicas)
	switch {
	case s.Replicas == 0:
		return slices.DeleteFunc(doublings(most), func(r int) bool { return !s.meets(r) })
	case s.Replicas <= most:
		return []int{s.Replicas}
	}
	return nil
}

// chunks are the numbers of pieces on each of k devices that are tried with a schedule.
func (s Search) chunks(of schedule.Schedule, k int) (all []int) {
	switch {
	case of != schedule.Interleaved:
		return []int{0} // as many as it has
	case k == 1 && slices.Contains(s.Schedules, schedule.OneFOneB):
		return nil // which is then the same
	case s.Chunks != nil:
		return s.Chunks
	}
	for v := 2; v*k <= len(s.Pipeline.Layers); v *= 2 {
		all = append(all, v)
	}
	return all
}

// doublings are 1, 2, 4, ... below most, and most.
func doublings(most int) (ns []int) {
	for n := 1; n < most; n *= 2 {
		ns = append(ns, n)
	}
	return append(ns, most)
}

// estimated is what layers' estimates depend on.
type estimated struct {
	size      int // of a micro-batch
	split     bool
	parts     int // T
	recompute gpipe.Recompute
}

// estimates returns the layers' costs in a way, which many ways share.
func (s *search) estimates(w Way) ([]gpipe.LayerEstimate, error) {
	of := estimated{w.size(), w.Schedule.Splits(), w.T, w.Recompute}
	if known, ok := s.layers[of]; ok {
		return known, nil
	}
	p := s.Pipeline
	p.Schedule = w.Schedule
	if s.onCluster() { // which takes any that is defined for one stage
		p.Schedule = schedule.OneFOneB
		if of.split {
			p.Schedule = schedule.ZBH1
		}
	}
	if s.Parts != nil {
		p.Layers = s.Parts[w.T]
	}
	layers, err := p.ModelLayers(s.input(of.size), s.how(w, s.zeros(w.R)[0]))
	s.layers[of] = layers
	return layers, err
}

// cuts lists every way that may be worth simulating. Modes whose devices do not hold what they
// keep, however layers are cut, are left out and counted.
func (s *search) cuts(ctx context.Context) (cuts []cut, unfit int, err error) {
	layers := len(s.Pipeline.Layers)
	add := func(w Way) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		pieces, err := w.place()
		if err != nil || pieces.Stages() > layers || w.R*pieces.Stages()*w.M*s.window(w) > gpipe.MaxTasks || s.onCluster() && w.Batch%(w.R*w.M) != 0 {
			return nil
		}
		modes := s.modes(cut{Way: w, pieces: pieces})
		unfit += len(modes)
		for _, kept := range []bool{false, true} {
			c := cut{Way: w, pieces: pieces}
			c.tried = slices.DeleteFunc(slices.Clone(modes), func(m mode) bool {
				return (m.Checkpoint == schedule.Never) != kept || !s.holdsParams(s.described.Params, w.R, w.K*w.T, m.zero)
			})
			if len(c.tried) == 0 {
				continue
			}
			if c.layers, err = s.estimates(w); err != nil {
				return err
			}
			if err := s.limit(&c); err != nil {
				return err
			}
			if unfit -= len(c.tried); len(c.tried) > 0 {
				cuts = append(cuts, c)
			}
		}
		return nil
	}
	of := func(w Way) error { // of every schedule
		for _, w.Recompute = range s.recomputes() {
			for _, w.Schedule = range s.Schedules {
				for _, w.Chunks = range s.chunks(w.Schedule, w.K) {
					if err := add(w); err != nil {
						return err
					}
				}
			}
			if s.Searched {
				w.Schedule, w.Chunks, w.Searched = schedule.ZBH1, 0, true
				if err := add(w); err != nil {
					return err
				}
				w.Searched = false
			}
		}
		return nil
	}
	for batch := s.Input.Examples; batch <= s.MaxBatch; batch *= 2 {
		for _, t := range s.tensors() {
			most := min(s.Devices/t/max(s.Replicas, 1), layers)
			if most == 0 {
				continue
			}
			for _, k := range doublings(most) {
				for _, r := range s.replicas(k*t, batch) {
					for _, m := range doublings(batch / r) {
						if err := of(Way{R: r, K: k, T: t, M: m, Batch: batch}); err != nil {
							return nil, 0, err
						}
					}
				}
			}
		}
	}
	return cuts, unfit, nil
}
