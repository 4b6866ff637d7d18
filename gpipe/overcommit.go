package gpipe

import (
	"runtime/debug"

	"gpipebench/gpipe/internal/arena"
	"gpipebench/gpipe/plan"
	"gpipebench/internal/failure"
)

// allocateWalled maps exactly the capacity, and after it protected memory, which has
// addresses but cannot be touched.
func allocateWalled(p *Plan, capacity int64) (*memory, error) {
	all, free, err := arena.MapWalled(int(max(p.Peak, capacity)/plan.FloatBytes), int(capacity))
	if err != nil {
		return nil, err
	}
	m := newMemory(p, all)
	m.free, m.walled = free, all
	return m, nil
}

// fault is what the Go runtime panics with when protected memory is touched.
type fault interface {
	error
	Addr() uintptr
}

// overrun returns an *OutOfMemoryError if v is a fault at an address beyond the
// device's capacity, nil for any other panic. where is the layer or task that ran.
func (d *device) overrun(v any, where string) error {
	if p, ok := v.(*failure.Defect); ok { // of another thread
		v = p.Value
	}
	f, ok := v.(fault)
	if !ok || d.mem == nil {
		return nil
	}
	offset, ok := arena.Offset(d.mem.walled, f.Addr())
	capacity := d.net.Devices[d.k].Capacity
	if !ok || offset < capacity {
		return nil
	}
	for c := range Categories {
		r := d.mem.plan.Regions[c]
		if begin := int64(r.Base) * plan.FloatBytes; offset >= begin && offset < begin+d.mem.plan.Bytes[c] {
			if c == Boundary { // it came from outside the stage, or goes there
				where = d.net.LayerName(d.net.First[d.net.Pieces.On(d.k)[0]])
			}
			return &OutOfMemoryError{
				Device: d.net.DeviceOf(d.at), Layer: where, Category: c,
				Wanted: d.mem.plan.Bytes[c], Free: max(0, capacity-begin), Capacity: capacity,
			}
		}
	}
	return nil
}

// overrun returns the out-of-memory error of the device whose capacity the
// faulting address exceeds, or nil: the stage's own, or, while tensors are copied
// within this process, a neighbour's.
func (r *stageRun) overrun(v any, where string) error {
	for _, d := range r.trainer.devices {
		if err := d.overrun(v, where); err != nil {
			return err
		}
	}
	return nil
}

// where is the layer in which the goroutine of the stage's list is, or else the task.
func (r *stageRun) where(task string) string {
	if layer, ok := r.dev.tasks.Running(); ok {
		return r.trainer.net.LayerName(layer)
	}
	return task
}

// faultsPanic turns memory faults of this goroutine into panics if the device is
// overcommitted; the function that it returns undoes this.
func faultsPanic(d Device) func() {
	if !d.Overcommit {
		return func() {}
	}
	old := debug.SetPanicOnFault(true)
	return func() { debug.SetPanicOnFault(old) }
}
