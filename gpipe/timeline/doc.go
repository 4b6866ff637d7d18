// Package timeline records what happened when in a training step: events on
// devices and links, in seconds from the step's start.
//
// A timeline comes from a run (the runtime, on the wall clock) or from package clock,
// the virtual clock that emulated and modelled devices run on. It is drawn by
// package draw.
//
// The package is pure: it starts no goroutine, reads no clock and opens no
// file. A step is one mini-batch; with one replica, stage k of the pipeline is device
// k. A device may have several chunks of the network: see schedule.Placement.
//
// # Causes of idle time
//
// [Timeline.Causes] gives each idle instant of a device one cause, the first that applies:
// the barrier (its tasks are done and the update waits for others); a link (the input of its next
// task is in transit); imbalance (the task that makes this input has run for longer than the mean of
// its kind); warm-up (before the device's first B or I) or drain (after its last F); a neighbour.
// So causes are never negative and add up to the idle time on every timeline, unlike the parts
// of [clock.Breakdown], which compares replays.
package timeline
