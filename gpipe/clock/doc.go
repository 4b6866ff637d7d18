// Package clock is the virtual clock, on which emulated and modelled devices run: it
// replays the lists of a step with given durations and returns the step's timeline
// ([Replay]), or where its time goes, as in the paper's time-step breakdown
// ([Breakdown]).
//
// The package is pure, as package timeline is: it starts no goroutine, reads no clock
// and opens no file. Package schedule has a smaller one ([schedule.Run]), for tasks alone.
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
