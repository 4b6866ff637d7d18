package gpipe

import (
	"fmt"
	"slices"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/plan"
	"gpipebench/internal/machine"
)

// Planned is a pipeline whose memory has been planned but not allocated.
type Planned struct {
	Sizes []int   // layers of each partition
	Note  string  // the layers that the partitioner moved to fill empty partitions; "" if none
	Plans []*Plan // of the devices
	// OutOfMemory is nil, or the *OutOfMemoryError with which Open would fail.
	OutOfMemory error
}

// Plans plans the devices' memory from shapes alone, on devices of any kind. A
// plan that exceeds a capacity is not an error: see Planned.OutOfMemory.
func (p Pipeline) Plans(in Input) (*Planned, error) {
	n, err := p.network(in)
	if err != nil {
		return nil, err
	}
	out := &Planned{Sizes: slices.Clone(n.Sizes), Note: n.Note, Plans: n.MemoryPlans()}
	for _, plan := range out.Plans {
		if out.OutOfMemory == nil {
			out.OutOfMemory = n.CheckCapacity(plan)
		}
	}
	return out, nil
}

// PlannedTraffic is [Result.PlannedTraffic] of a mini-batch, or window, like in, before anything runs, in the order of
// receivers, kinds and senders. Nil: there are no examples.
func (p Pipeline) PlannedTraffic(in Input) ([]Traffic, error) {
	n, err := p.network(in)
	if err != nil || !n.Trains() {
		return nil, err
	}
	return n.PlanTraffic(n.LargestPortions(plan.Training)), nil
}

// Estimate returns the memory of Simulation.Devices: Simulate without a clock.
func (p Pipeline) Estimate(in Input, how Modelling) ([]DeviceEstimate, error) {
	n, err := p.modelled(in, how)
	if err != nil {
		return nil, err
	}
	var all []DeviceEstimate
	for _, plan := range n.FullestPlans(n.Alike()) {
		all = append(all, estimate(plan, n.Devices[plan.At.Stage].Capacity, how.Accounting))
	}
	return all, nil
}

// affordable plans all devices. It is an error if those of this process and what it has
// beside them take more than the machine's memory: the system would grant that, and kill
// the process once it is used.
func affordable(n *plan.Network, keepsState bool, here func(place.Place) bool) ([]*Plan, error) {
	var sum int64
	plans := n.MemoryPlans()
	for _, plan := range plans {
		takes := plan.Peak
		if d := n.Devices[plan.At.Stage]; d.Overcommit {
			takes = min(takes, d.Capacity)
		} else if err := n.CheckCapacity(plan); err != nil {
			return nil, err
		}
		if here(plan.At) {
			sum += takes
			for _, part := range plan.Parts {
				sum += part.Peak
			}
		}
	}
	bytes, beside := besideDevices(n.Config, n.Input, keepsState)
	return plans, checkMachine(float64(sum)+bytes, fmt.Sprintf("all %d devices%s take", len(plans), beside))
}

// CheckMemory refuses a network whose weights, gradients and optimiser state alone, with
// the copy of [Pipeline.KeepsState], are more than the machine's memory, however it is cut. It takes almost no time,
// whereas Open must compile the network to know the rest of its memory. Of several processes, which may
// have machines of their own, Open alone knows what each holds.
func (p Pipeline) CheckMemory(in Input) error {
	if err := p.Validate(in); err != nil || p.Transport != nil {
		return err
	}
	c := p.config().WithDefaults().WithoutState(in)
	for _, d := range c.Devices {
		if d.Kind == Modelled || d.Overcommit { // which are not allocated by their plan
			return nil
		}
	}
	sum, beside := besideDevices(c, in, p.KeepsState)
	return checkMachine(sum+c.LeastBytes(in), "weights, gradients, optimiser state"+beside+" take")
}

// besideDevices returns the bytes that a process needs beside its devices' memory, and words
// for them.
func besideDevices(c plan.Config, in Input, keepsState bool) (bytes float64, what string) {
	if keepsState {
		return c.LargestBatch(in) + c.StateBytes(), ", a mini-batch and a copy of the state for snapshots"
	}
	return c.LargestBatch(in), " and a mini-batch"
}

// checkMachine is an error if bytes exceeds the machine's memory; what names the things
// that take them, with a verb.
func checkMachine(bytes float64, what string) error {
	memory, swap := machine.MemoryAndSwap()
	if has := float64(memory + swap); has > 0 && bytes > has {
		return fmt.Errorf("%s %.0f bytes of memory, and this machine has %.0f: want a smaller network or mini-batch, or more micro-batches", what, bytes, has)
	}
	return nil
}
