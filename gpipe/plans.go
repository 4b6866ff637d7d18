package gpipe

import "slices"

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
