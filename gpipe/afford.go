package gpipe

import (
	"fmt"

	"gpipebench/gpipe/plan"

	"gpipebench/gpipe/place"
	"gpipebench/internal/machine"
)

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
// whereas Open must compile the network to know the rest of its memory.
func (p Pipeline) CheckMemory(in Input) error {
	if err := p.Validate(in); err != nil {
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
