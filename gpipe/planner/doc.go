// Package planner searches for the best way to train a network on modelled
// accelerators: over replicas, K, M, mini-batch, schedule, chunks, partition and checkpoint
// mode.
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
package planner
