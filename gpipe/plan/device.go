package plan

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/clock"
)

// Kind is a kind of device.
type Kind uint8

const (
	// Host computes and is timed by the wall clock. K host devices overlap
	// only as far as there are cores.
	Host Kind = iota
	// Emulated computes the same bits, one task at a time so that each is
	// timed alone, and its clock is virtual: the schedule's dependencies are
	// replayed with the measured times. It stands for K accelerators on fewer
	// cores. While a step runs the process's garbage collector is off (see
	// pauseCollector).
	Emulated
	// Modelled computes nothing: it has shapes only, and a roofline as its clock.
	Modelled
)

var kinds = [...]string{"host", "emulated", "modelled"}

func (k Kind) String() string { return kinds[k] }

// ParseKind reads what String writes.
func ParseKind(s string) (Kind, error) {
	if i := slices.Index(kinds[:], s); i >= 0 {
		return Kind(i), nil
	}
	return 0, fmt.Errorf("unknown device %q: want %s", s, strings.Join(kinds[:], ", "))
}

// Device describes what one partition runs on.
type Device struct {
	Kind     Kind
	Threads  int   // workers of its kernels; 0 means 1
	Capacity int64 // bytes of memory; 0 means no limit
	// Overcommit enforces the capacity at run time instead of comparing it with the
	// plan: the memory after it is protected, and the first access to that fails with
	// an *OutOfMemoryError. For host devices on unix systems, with a capacity that is
	// a multiple of the page size.
	Overcommit bool
	// Link carries boundary tensors, on emulated and modelled devices. The zero value
	// takes no time.
	Link        clock.Link
	Accelerator *accelerator.Accelerator // of a modelled device
}

// DeviceOf is a modelled device of an accelerator's kind, with its memory as
// capacity and its link as it is reached.
func DeviceOf(a *accelerator.Accelerator) Device {
	return Device{Kind: Modelled, Accelerator: a, Capacity: a.Memory, Link: a.Hop()}
}

func (d Device) Workers() int { return max(d.Threads, 1) }

func (d Device) validate() error {
	switch {
	case int(d.Kind) >= len(kinds):
		return fmt.Errorf("unknown kind %d: want host, emulated or modelled", d.Kind)
	case d.Threads < 0 || d.Threads > MaxThreads:
		return fmt.Errorf("%d threads: want 1 to %d", d.Threads, MaxThreads)
	case d.Capacity < 0:
		return fmt.Errorf("a capacity of %d bytes: want a positive one, or 0 for no limit", d.Capacity)
	case (d.Kind == Modelled) != (d.Accelerator != nil):
		return fmt.Errorf("a modelled device needs an accelerator, and no other has one")
	case d.Overcommit:
		return checkWall(d.Kind, d.Capacity)
	}
	return nil
}

// MaxThreads is the most threads that a device may have.
const MaxThreads = 256

// checkWall refuses a device or capacity that cannot be overcommitted.
func checkWall(kind Kind, capacity int64) error {
	page := int64(os.Getpagesize())
	switch {
	case kind != Host:
		return fmt.Errorf("an overcommitted capacity on a device of kind %v: want a host device", kind)
	case capacity < page || capacity%page != 0:
		return fmt.Errorf("an overcommitted capacity of %d bytes: want a multiple of the page size, %d", capacity, page)
	}
	return nil
}
