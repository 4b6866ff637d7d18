package timeline

import (
	"fmt"
	"iter"
	"slices"
	"strconv"

	"gpipebench/gpipe/internal/named"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
)

// Kind is what an event's time goes to.
type Kind uint8

const (
	Forward   Kind = iota // F
	Recompute             // R: the repeated forward of re-materialisation
	Backward              // B
	Transfer              // a boundary tensor or its gradient on a link; occupies no device
	Setup                 // dividing and reshaping the inputs, before a device's first task
	Barrier               // waiting until every device's gradients are complete (global norms)
	Update                // applying the gradients: after the last task, or U, a task of the list
	ToHost                // the first leg of a transfer that goes through the host; occupies the sender
	FromHost              // its second leg; occupies the receiver
	Gather                // handing updated weights to the other replicas
	Reduce                // adding up the gradients of groups, of the device's own or of all replicas
	Meet                  // within an F or B: adding up batch norm's statistics over replicas

	BackwardInput   // I: the part of B that makes the input gradient
	BackwardWeights // W: the part of B that makes the parameter gradients

	Rows // gathering the gradients of tied tables as rows, and adding them up
)

var kinds = [...]string{
	Forward: "F", Recompute: "R", Backward: "B", Transfer: "transfer", Setup: "setup",
	Barrier: "barrier", Update: "update", ToHost: "to-host", FromHost: "from-host", Gather: "gather", Reduce: "reduce",
	Meet: "meet", BackwardInput: "I", BackwardWeights: "W", Rows: "rows",
}

func (k Kind) String() string { return named.String(k, kinds[:], "Kind") }

// KindOf is the kind of a task's event.
func KindOf(t schedule.Task) Kind { return ofTasks[t.Kind] }

var ofTasks = [...]Kind{
	schedule.Forward: Forward, schedule.Recompute: Recompute, schedule.Backward: Backward,
	schedule.BackwardInput: BackwardInput, schedule.BackwardWeights: BackwardWeights, schedule.Update: Update,
}

// Task reports whether the kind is one of the schedule's: F, R, B, I or W.
func (k Kind) Task() bool {
	return k == Forward || k == Recompute || k == Backward || k == BackwardInput || k == BackwardWeights
}

// SendsGradient reports whether tasks of the kind make the input gradient: B and I.
func (k Kind) SendsGradient() bool { return k == Backward || k == BackwardInput }

// tasks are the kinds of a schedule's tasks.
var tasks = []Kind{Forward, Recompute, Backward, BackwardInput, BackwardWeights}

// OnDevice reports whether an event of the kind occupies its device. Only Transfer
// does not: it occupies a link.
func (k Kind) OnDevice() bool { return k != Transfer }

// Crosses reports whether the kind carries data between devices.
func (k Kind) Crosses() bool { return k == Transfer || k == ToHost || k == FromHost }

// Event is one interval of a timeline.
type Event struct {
	At       place.Place // where it happens; of a Transfer, the sender
	Peer     place.Place // of Transfer, ToHost and FromHost: the other end; else zero and without meaning
	Kind     Kind        //
	Micro    int         // the micro-batch; -1: none
	Start    float64     // seconds from the step's start
	End      float64     // seconds from the step's start; never before Start
	Bytes    int64       // of Transfer, ToHost and FromHost: what is carried; of Meet on the virtual clock: the value
	Backward bool        // of Transfer, ToHost and FromHost: a gradient, not an activation
	// Away is the part of a task, in seconds, in which its device waited for other
	// replicas or met them. Its Meet events lie in that part: on the virtual clock they
	// are without the waiting.
	Away float64
}

// Listed reports whether the event is a task of the schedule's lists: F, R, B, I, W or U.
func (e Event) Listed() bool { return e.Kind.Task() || e.Kind == Update && e.Micro >= 0 }

// Seconds is the event's length.
func (e Event) Seconds() float64 { return e.End - e.Start }

// Label names the event in drawings: F0, B12/1 of a device's second chunk, setup, and 3
// for the transfer of micro-batch 3 (its track says between which devices).
func (e Event) Label() string {
	switch {
	case e.Kind == Update && e.Micro >= 0:
		return schedule.Update.String() + strconv.Itoa(e.Micro)
	case e.Kind.Task():
		label := e.Kind.String() + strconv.Itoa(e.Micro)
		if e.At.Chunk > 0 {
			label += "/" + strconv.Itoa(e.At.Chunk)
		}
		return label
	case e.Kind == Transfer && e.Micro >= 0:
		return strconv.Itoa(e.Micro)
	case e.Micro >= 0:
		return e.Kind.String() + " " + strconv.Itoa(e.Micro)
	}
	return e.Kind.String()
}

// String says what, where and when: F0 on device 1 (0.5 to 0.75 s).
func (e Event) String() string {
	replica := ""
	if e.At.Replica > 0 {
		replica = fmt.Sprintf(" of replica %d", e.At.Replica)
	}
	return fmt.Sprintf("%s on device %d%s (%v to %v s)", e.Name(), e.At.Stage, replica, e.Start, e.End)
}

// Name is the event in a message: its label, and of a transfer "transfer of 3".
func (e Event) Name() string {
	if e.Kind == Transfer && e.Micro >= 0 {
		return fmt.Sprintf("transfer of %d", e.Micro)
	}
	return e.Label()
}

// Timeline is one step. The zero value is an empty one.
type Timeline struct {
	Devices  int     // how many, one a stage of each replica
	Replicas int     // 0: one
	Events   []Event // in no order that matters
	// Stream makes the events of a step on the virtual clock as they are asked for, in order of
	// start and device, with those on links or without; nil: Events has them.
	Stream func(links bool) iter.Seq[Event]
	Length float64 // of a step with a Stream, its span in seconds
	// Reductions are how tensors are added up over replicas; nil: there is one replica, or they
	// were not recorded.
	Reductions []Reduction
	// Placement is where the pieces of the network are; zero: one on each device of a
	// replica, in order.
	Placement schedule.Placement
}

// Pieces returns the network's pieces.
func (tl *Timeline) Pieces() place.Pieces { return tl.Placement.Or(tl.Stages()).Pieces() }

// Device is the number of a place's device: replica by replica, in the order of stages.
func (tl *Timeline) Device(at place.Place) int { return at.Replica*tl.Stages() + at.Stage }

// Stages is the number of devices of a replica.
func (tl *Timeline) Stages() int { return tl.Devices / max(tl.Replicas, 1) }

// All are the events.
func (tl *Timeline) All() iter.Seq[Event] {
	if tl.Stream != nil {
		return tl.Stream(true)
	}
	return slices.Values(tl.Events)
}

// OnDevices are the events that occupy devices.
func (tl *Timeline) OnDevices() iter.Seq[Event] {
	if tl.Stream != nil {
		return tl.Stream(false)
	}
	return func(yield func(Event) bool) {
		for _, e := range tl.Events {
			if e.Kind.OnDevice() && !yield(e) {
				return
			}
		}
	}
}

// Span is the step's length: from 0 to the end of its last event.
func (tl *Timeline) Span() float64 {
	end := tl.Length
	for _, e := range tl.Events {
		end = max(end, e.End)
	}
	return end
}

// Busy is the time that a device spends on events of the given kinds, or, if
// none is given, on its tasks: F, R, B, I and W. What a task is away does not count.
func (tl *Timeline) Busy(device int, kinds ...Kind) float64 {
	if len(kinds) == 0 {
		kinds = tasks
	}
	var sum float64
	for e := range tl.All() {
		if tl.Device(e.At) == device && slices.Contains(kinds, e.Kind) {
			sum += e.Seconds() - e.Away
		}
	}
	return sum
}
