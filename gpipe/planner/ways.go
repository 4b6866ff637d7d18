package planner

import (
	"context"
	"fmt"
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

// stateBytes is the memory of a parameter and of all that one of r replicas keeps for it,
// in bytes, on average.
func (s Search) stateBytes(r int) float64 {
	state := 4 * float64(len(s.Pipeline.Optimizer.Slots()))
	if s.Pipeline.ShardUpdate {
		state /= float64(r)
	}
	if s.How.Accounting == gpipe.FullAccounting {
		state += 4
	}
	return state + 4
}

// holdsParams reports whether the k devices of one of r replicas can hold the parameters,
// with nothing else.
func (s Search) holdsParams(params int64, r, k int) bool {
	capacity := s.device().Capacity
	return capacity == 0 || s.stateBytes(r)*float64(params)/float64(k) <= float64(capacity)
}

// replicas are the numbers of replicas of k devices that take part in a mini-batch.
func (s Search) replicas(k, batch int) []int {
	most := min(s.Devices/k, batch, gpipe.MaxReplicas)
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

// cuts lists every way that may be worth simulating. Those whose devices do not hold the
// parameters alone are left out.
func (s *search) cuts(ctx context.Context) ([]cut, error) {
	type estimated struct {
		size  int // of a micro-batch
		split bool
	}
	estimates := map[estimated][]gpipe.LayerEstimate{}
	var cuts []cut
	add := func(w Way) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		pieces, err := w.place()
		if err != nil || pieces.Stages() > len(s.Pipeline.Layers) || w.R*pieces.Stages()*w.M*s.window(w) > gpipe.MaxTasks {
			return nil
		}
		of := estimated{w.size(), w.Schedule.Splits()}
		if estimates[of] == nil {
			p := s.Pipeline
			p.Schedule = w.Schedule
			if estimates[of], err = p.ModelLayers(s.input(of.size), s.How); err != nil {
				return err
			}
		}
		c := cut{Way: w, layers: estimates[of], pieces: pieces}
		if err := s.limit(&c); err != nil {
			return err
		}
		if len(c.bounds) > 0 {
			cuts = append(cuts, c)
		}
		return nil
	}
	for batch := s.Input.Examples; batch <= s.MaxBatch; batch *= 2 {
		for _, k := range doublings(min(s.Devices/max(s.Replicas, 1), len(s.Pipeline.Layers))) {
			for _, r := range s.replicas(k, batch) {
				if !s.holdsParams(s.described.Params, r, k) {
					continue
				}
				for _, m := range doublings(batch / r) {
					for _, sched := range s.Schedules {
						for _, v := range s.chunks(sched, k) {
							if err := add(Way{r, k, m, batch, sched, v, false}); err != nil {
								return nil, err
							}
						}
					}
					if s.Searched {
						if err := add(Way{r, k, m, batch, schedule.ZBH1, 0, true}); err != nil {
							return nil, err
						}
					}
				}
			}
		}
	}
	return cuts, nil
}
