package clock

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
)

// Costs gives the virtual clock its durations, in seconds. Each must be finite
// and at least 0.
type Costs struct {
	Task     func(at place.Place, t schedule.Task) float64 // required
	Setup    func(at place.Place) float64                  // before the stage's first task; nil: none
	Update   func(at place.Place) float64                  // after a barrier over all stages; nil: neither update nor barrier, as with U in the lists
	Boundary func(at place.Place, micro int) int64         // bytes that the place sends forward; the gradient that comes back has as many; nil: 0
	Link     Link
	// Hop is the link of one place to another of its replica, where not all are alike; nil: Link.
	Hop func(from, to place.Place) Link
	// Group is the time for adding up groups after the B of a micro-batch that ends one,
	// during which the device is occupied; nil: none. Where it is not 0 on one stage of a
	// replica, all of its stages exchange (see Exchanges) before they add up.
	Group func(at place.Place, micro int) float64
	// Meetings are the times at which a task meets the same task of other replicas, in
	// order; nil: none. Replicas that meet have as many. Together is how many consecutive
	// replicas meet, and divides their number; 0: all.
	Meetings func(at place.Place, t schedule.Task) []Meeting
	Together int
	// Replicas is the number of copies of the pipeline; 0 means one. Reduce is the time
	// that adding up gradients takes on a place, once the last of its replicas has done its
	// tasks; it occupies the device. Nil or 0: none.
	Replicas int
	Reduce   func(at place.Place) float64
	// Rows is the time that gathering rows of tied tables' gradients, and adding them up,
	// takes on a place after Reduce; else as that.
	Rows func(at place.Place) float64
	// Gather is the time that handing on updated weights takes on a place, once the last of
	// its replicas has updated; it occupies the device. Nil or 0: none.
	Gather func(at place.Place) float64
	// Placement is where the pieces of the network are, the same in all replicas; zero: one
	// on each device, in order. Functions of a place and a task get the place of the task's
	// chunk, all others that of the device.
	Placement schedule.Placement
	// Exchanges happen at the end of each group but the last, and, with Update, when their
	// sender has done its list.
	Exchanges []Exchange
	// Last returns a replica's exchanges at the end of the step alone, after Exchanges; nil: none.
	Last func(replica int) []Exchange
}

// Meeting is a point within a task at which the same stage of several replicas adds up a
// value of each. No replica goes on before the last has come; then all do, after the
// longest of their Seconds.
type Meeting struct {
	At      float64 // the part of the task's own time that comes before it, 0 to 1
	Seconds float64 // that the meeting takes once all are there
	Bytes   int64   // of the value
}

// Link is the connection between devices of neighbouring pieces of the network. There is
// one for each such pair and direction, which carries what is produced first first; a transfer
// takes Latency + bytes/Bandwidth. Chunks of one device hand over without a link, at once.
// The zero value is free: its transfers take no time.
type Link struct {
	Bandwidth float64 // bytes per second; 0: infinite
	Latency   float64 // seconds per transfer (per leg, through the host)
	// ThroughHost: the devices reach each other only by way of the host's
	// memory (GPipe, section 3: P100 without NVLink). A transfer is then two
	// legs, from device to host and from host to device, each as long as a
	// direct transfer and each occupying its device, which computes nothing
	// meanwhile.
	ThroughHost bool
}

// seconds is the time of a transfer, or of a leg through the host.
func (c *Costs) seconds(from, to place.Place, bytes int64) float64 {
	if c.Hop != nil {
		return c.Hop(from, to).seconds(bytes)
	}
	return c.Link.seconds(bytes)
}

// Seconds is the time of a transfer; through the host, both legs together.
func (l Link) Seconds(bytes int64) float64 {
	if l.ThroughHost {
		return 2 * l.seconds(bytes)
	}
	return l.seconds(bytes)
}

func (l Link) seconds(bytes int64) float64 {
	if l.Bandwidth == 0 {
		return l.Latency
	}
	return l.Latency + float64(bytes)/l.Bandwidth
}

// Replay runs each stage's list on a virtual clock and returns what happened, in
// order of start and device. Everything starts at the earliest instant at which
// all that it waits for is over:
//
//   - A device does one thing at a time, Setup first, then its list in order.
//   - F(k,m) waits for its input from stage k-1, B(k,m) or I(k,m) for its output gradient
//     from stage k+1, and R(k,m) for that gradient only if AwaitGrad says so.
//     The last stage's gradient is made by its own F, where the loss is. W and U wait for
//     nothing. With several chunks on a device, stages are the pieces of the network.
//   - A transfer waits until its data is produced, its link has carried all that
//     was produced before it, and the receiver has a slot free: one per
//     micro-batch for activations, which is always free, and two for gradients,
//     each freed at the end of the B or I that consumes it (see GradientSlots).
//   - A task with Meetings waits at each of them for the same stage of the other
//     replicas that meet with its own.
//   - A task whose output goes to a neighbour waits until its outbox in that
//     direction has a slot free: two in each direction, each occupied from the
//     task's start to the end of the transfer. So a task that would write a third
//     waits for the oldest.
//   - Through the host, the sender's leg occupies its device right after the
//     task that produced the data, so no task ever waits for the outbox; the host
//     has room for everything. The receiver's leg is served, in order of
//     production, as soon as the sender's is over, the receiver has a slot, and
//     the device is between tasks; legs go before the next task, activations
//     before gradients. The devices are busy then, and no link is.
//   - After the B that ends a group, and with Update after a stage's last task,
//     Exchanges leave a stage, and the receiver waits for them. They do not wait for
//     each other, unless they have the same ends, or occupy a device on their way
//     through the host.
//   - With Update, a device that has nothing left to do waits at a Barrier until
//     all have (the global norm needs every gradient), then updates.
//
// A crossing that takes no time is in the timeline as well, as an event (or two
// legs) of length 0 that carries the bytes.
//
// The clock is max-plus: each time is a sum of durations along one path, added
// up in order, so a replay has the same bits on every machine.
//
// The lists of each replica must be a schedule as [schedule.Complete] checks it, of as many
// micro-batches as the first device has F of its first chunk. If stages wait for each other
// in a circle, the error names the first of them and its task.
func Replay(tasks [][]schedule.Task, c Costs) (*timeline.Timeline, error) {
	s, err := Run(tasks, c)
	if err != nil {
		return nil, err
	}
	tl := s.Timeline()
	if tl.Stream != nil {
		tl.Events, tl.Stream, tl.Length = slices.Collect(tl.Stream(true)), nil, 0
	}
	return tl, nil
}

// Run is [Replay] without a list of all events.
func Run(tasks [][]schedule.Task, c Costs) (*Step, error) {
	micro, err := c.micro(tasks)
	if err != nil {
		return nil, err
	}
	return run(tasks, micro, c)
}

// micro counts the micro-batches of each replica, and refuses costs and lists that cannot be replayed.
func (c Costs) micro(tasks [][]schedule.Task) ([]int, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	replicas := max(c.Replicas, 1)
	if len(tasks) == 0 || len(tasks)%replicas != 0 {
		return nil, fmt.Errorf("clock: lists of %d stages for %d replicas: want one or more, and as many for each", len(tasks), replicas)
	}
	stages := len(tasks) / replicas
	if together := cmp.Or(c.Together, replicas); together < 1 || replicas%together != 0 {
		return nil, fmt.Errorf("clock: %d of %d replicas meet together: want a number that divides theirs, or 0 for all", together, replicas)
	}
	micro := make([]int, replicas)
	for i := range micro {
		lists := tasks[i*stages : (i+1)*stages]
		for _, t := range lists[0] {
			if t.Kind == schedule.Forward && t.Chunk == 0 {
				micro[i]++
			}
		}
		if err := schedule.Complete(lists, c.Placement.Or(stages), micro[i]); err != nil {
			return nil, fmt.Errorf("clock: %w", err)
		}
	}
	return micro, nil
}

func (c Costs) check() error {
	switch {
	case c.Task == nil:
		return fmt.Errorf("clock: Costs.Task is nil: want a function")
	case !(c.Link.Bandwidth >= 0):
		return fmt.Errorf("clock: link bandwidth %v: want bytes per second, or 0 for infinite", c.Link.Bandwidth)
	case !duration(c.Link.Latency):
		return fmt.Errorf("clock: link latency %v: want seconds, finite and not negative", c.Link.Latency)
	}
	return nil
}

func duration(seconds float64) bool { return seconds >= 0 && !math.IsInf(seconds, 1) }
