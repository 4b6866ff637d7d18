// Package planner searches for the best way to train a network on modelled
// accelerators: replicas, K, M, mini-batch, schedule, chunks, partition and checkpoint
// mode, and on clusters also T, ZeRO stage and recomputation.
//
// # The search
//
// It covers all R, K and M that are powers of two or the largest value, with R K up to the
// number of devices and one group per replica. Layers are cut by their modelled time; if that
// does not fit, by time among the cuts whose estimated memory fits, and by memory. More schedules
// may be named; interleaved 1f1b also varies the chunks per device, and searched looks for
// a schedule for the modelled times and the memory that devices have left for activations
// ([schedule.Search]).
//
// Each candidate has an upper bound on its throughput: first from a closed form, then from a
// replay of the layers' times. The search repeatedly takes the most promising candidate,
// replays it or, if it has been replayed, simulates it, and stops when no other can enter the
// list. A test compares the list with that of a search that simulates everything. Identical
// replicas are simulated once, so a search over 1,024 devices takes seconds.
//
// Candidates that cannot fit under any cut are dropped first: stages are filled greedily with as many
// layers as they have room for, given a lower bound on what their schedule holds. On a cluster
// ([gpipe.Parallel]) layers are costed once for all candidates with the same T and micro-batches, the cut
// for equal costs is shared, and a step is replayed only if it fits and the sums of its devices' tasks do
// not already show that it is too long. A test compares this with simulating every candidate, of all
// schedules, for few devices.
//
// A lower bound on a cut's memory is known before there are lists: its parameters, and the micro-batches
// that a schedule starts before its first backward task ([schedule.Ahead]). A candidate is simulated only
// if that fits.
package planner
