// Package planner searches for the best way to train a network on modelled
// accelerators: over replicas, K, M, mini-batch, schedule, chunks, partition and checkpoint
// mode, and on clusters over T, ZeRO's stages and recomputation.
//
// # The search
//
// It goes over all R, K and M that are powers of two or the largest, with R K up to the
// devices and one group for each replica. Layers are cut by their modelled time; if that does
// not fit, by time among the cuts whose estimated memory fits, and by memory. More schedules
// may be named; interleaved 1f1b also varies the pieces of each device, and searched looks for
// a schedule under the modelled times and what devices have left for activations
// ([schedule.Search]).
//
// Each candidate has an upper bound of its throughput: first a closed one, then that of a
// replay of the layers' times. The search takes the most promising candidate again and again,
// replays it or, if it has been replayed, simulates it, and stops when no other can enter the
// list. A test compares the list with that of a search that simulates everything. One replica
// is simulated for all that are alike, so a search over 1,024 devices takes seconds.
//
// Candidates that do not fit however their layers are cut are left out before: stages take as many
// layers, one after another, as they have room for with what their schedule is sure to hold. On a cluster
// ([gpipe.Parallel]) layers are costed once for all ways with the same T and micro-batches, the cut of
// equal costs is shared, and a step is replayed only if it fits and the sums of its devices' tasks do not
// say that it is too long. There a test compares with simulating every way, of all schedules, for few devices.
//
// What a cut needs at least is known before there are lists: parameters, and the micro-batches that a
// schedule begins before its first backward ([schedule.Ahead]). A candidate is simulated only if that fits.
package planner
