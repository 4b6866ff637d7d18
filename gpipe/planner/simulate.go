package planner

import (
	"fmt"
	"slices"

	"gpipebench/gpipe"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/schedule"
)

// simulate simulates the cut by time; for the modes in which that does not fit, also
// the cut by time among those whose estimated memory fits, and the cut by memory. Modes
// whose bound is no higher than enough are left out.
func (s *search) simulate(c cut, enough float64) ([]Candidate, error) {
	if c.Searched {
		return s.searched(c)
	}
	costs := gpipe.LayerSeconds(c.layers)
	found := map[schedule.Checkpoint]Candidate{}
	tried := map[string]bool{}
	try := func(by string, sizes []int, modes []schedule.Checkpoint) error {
		key := fmt.Sprint(sizes, modes)
		if tried[key] {
			return nil
		}
		tried[key] = true
		q := s.pipeline(c, sizes)
		var variants []gpipe.Variant
		for _, mode := range modes {
			v := q.Variant()
			v.Checkpoint = mode
			variants = append(variants, v)
		}
		sims, err := q.SimulateVariants(s.input(c.Batch), s.How, variants...)
		if err != nil {
			return err
		}
		for i, sim := range sims {
			now := c.candidate(sim, modes[i], by)
			if before, ok := found[modes[i]]; !ok || before.LacksBytes > now.LacksBytes {
				found[modes[i]] = now
			}
		}
		return nil
	}
	modes := slices.DeleteFunc(c.modes(), func(mode schedule.Checkpoint) bool { return c.bounds[mode] < enough })
	if err := try("time", c.sizes, modes); err != nil {
		return nil, err
	}
	for _, mode := range modes {
		if found[mode].LacksBytes == 0 {
			continue
		}
		memory := s.memory(c, mode)
		if within, err := partition.MinMaxUnderCapacity(costs, c.pieces.Stages(), memory.fits); err == nil {
			if err := try("time within memory", within.Sizes, []schedule.Checkpoint{mode}); err != nil {
				return nil, err
			}
		}
		if found[mode].LacksBytes == 0 {
			continue
		}
		byMemory, err := partition.Split(partition.MinMax, memory.perLayer, c.pieces.Stages())
		if err != nil {
			return nil, err
		}
		if err := try("memory", byMemory.Sizes, []schedule.Checkpoint{mode}); err != nil {
			return nil, err
		}
	}
	var all []Candidate
	for _, mode := range modes {
		all = append(all, found[mode])
	}
	return all, nil
}

// pipeline returns the pipeline of a cut whose pieces have sizes layers.
func (s *search) pipeline(c cut, sizes []int) gpipe.Pipeline {
	q := s.Pipeline
	q.Partitions, q.MicroBatches, q.Balance = c.K, c.M, sizes
	q.Schedule, q.Chunks = c.Schedule, c.Chunks
	if c.Schedule.Asynchronous() {
		q.Window, q.Checkpoint = s.Window, schedule.Never // a mode that all of them have; each variant has its own
	}
	q.Replicas, q.Groups, q.AllReduce = c.R, c.R, s.links(c.R)
	return q
}

// candidate is a way as simulated.
func (c cut) candidate(sim *gpipe.Simulation, mode schedule.Checkpoint, by string) Candidate {
	now := Candidate{
		ExamplesPerSecond: float64(c.Batch*sim.Window) / sim.Seconds, StepSeconds: sim.Seconds / float64(sim.Window), R: c.R, K: c.K, M: c.M, Batch: c.Batch,
		Schedule: c.Order(), Chunks: c.pieces.Stages() / c.K,
		Checkpoint: mode.String(), Partition: sim.Sizes, PartitionBy: by, BubbleFraction: sim.Parts.Bubble / sim.Seconds,
		ReduceSeconds: sim.ReduceSeconds,
	}
	if c.Schedule.Asynchronous() {
		now.Window = sim.Window
	}
	for _, d := range sim.Devices {
		now.Versions = max(now.Versions, d.Versions)
		now.PeakBytes = max(now.PeakBytes, d.PeakBytes)
		if !d.Fits() {
			now.LacksBytes = max(now.LacksBytes, d.PeakBytes-d.Capacity)
		}
	}
	return now
}

// modes are those in which a way is tried; for one micro-batch, except-last is the same as
// never.
func (c cut) modes() []schedule.Checkpoint {
	switch {
	case c.Searched || c.Schedule == schedule.PipeDreamNoStash:
		return []schedule.Checkpoint{schedule.Never}
	case c.M == 1 || c.Schedule.Asynchronous():
		return []schedule.Checkpoint{schedule.Always, schedule.Never}
	}
	return []schedule.Checkpoint{schedule.Always, schedule.ExceptLast, schedule.Never}
}

// planMemory estimates a stage's memory in bytes without a plan: parameters, residuals,
// and the stash of inputs, but no workspace.
type planMemory struct {
	perLayer []float64 // parameters and residuals
	stash    []float64 // by layer: of a stage that begins with it
	capacity float64
	chunks   float64 // of each device, which have the same part of its memory here

	params, residuals float64 // of all layers
}

func (s *search) memory(c cut, mode schedule.Checkpoint) planMemory {
	held := 1 // sets of residuals; a lower limit if the schedule is not fill-drain
	if mode == schedule.Never && c.Schedule == schedule.GPipe {
		held = c.M
	}
	size, state := float64(c.size()), s.stateBytes(c.R)
	e := planMemory{capacity: float64(s.device().Capacity), chunks: float64(c.pieces.Stages() / c.K)}
	incoming := 0.0
	for i, l := range s.described.Layers {
		params, residuals := float64(state*float64(l.Params)), float64(float64(held)*float64(c.layers[i].Residual))
		e.params += params
		e.residuals += residuals
		e.perLayer = append(e.perLayer, params+residuals)
		e.stash = append(e.stash, incoming*size*float64(c.M))
		incoming = 0
		for _, shape := range l.OutShape {
			incoming += float64(float64(shape.Elems()) * float64(s.How.DType.Bytes()))
		}
	}
	return e
}

// fits reports whether layers from to to-1 fit a device with a twentieth left
// for the workspace.
func (e planMemory) fits(from, to int) bool {
	sum := e.stash[from]
	for _, b := range e.perLayer[from:to] {
		sum += b
	}
	return e.capacity == 0 || sum <= 0.95*e.capacity/e.chunks
}
