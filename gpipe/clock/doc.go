// Package clock is the virtual clock, on which emulated and modelled devices run: it
// replays the lists of a step with given durations and returns the step's timeline
// ([Replay]), without a list of its events for those who read them once ([Run]), or where its
// time goes, as in the paper's time-step breakdown ([Breakdown]).
//
// The package is pure, as package timeline is: it starts no goroutine, reads no clock
// and opens no file. Package schedule has a smaller one ([schedule.Run]), for tasks alone.
//
// # Two clocks
//
// Most costs need no clock that ticks. With one piece of the network on each device and direct
// links, the sender's list says what goes first over a link, so each time is a maximum of known
// ones plus a duration: a recurrence over the lists, linear in tasks, which keeps a start and an
// end of each task and transfer, 80 bytes for each stage and micro-batch with F, R and B. It
// serves all schedules without chunks, with split backward functions and updates within the
// lists too, links that differ, outboxes and slots, groups, exchanges of shared weights, replicas.
//
// Where times decide what goes first, events take place in order of time, with a heap of those
// that are under way and a list of all (about 1 KB each): legs through the host, which occupy a
// device that is free at that time; links that several chunks share, of which the oldest output
// with a slot goes first; and replicas that meet within tasks. A test compares both.
//
// # Breakdown
//
// There are four replays, compared by mean waiting time over the devices. First every stage
// takes the mean of all and links are free: its idle time is the bubble. The stages' own times
// add load imbalance, the links communication, and the wait of early stages for the last one,
// before the update, the barrier. Computation (F and B), recomputation, setup (clearing
// accumulators) and update are the mean over devices of the times themselves. The parts add up
// to the step; none is a remainder. Imbalance may be negative: with M = 1 where the last stage
// is shorter, and where early stages recompute while they would wait in any case.
package clock
