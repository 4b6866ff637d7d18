// Package snapshot keeps the states of trainings on disk, so that a training that was
// stopped goes on with the same bits, also if it is run in another way.
//
// A directory has one folder for each snapshot, named by its step:
//
//	step-0000000100/
//	  manifest.json             what there is, with the SHA-256 of each file and of itself
//	  weights.safetensors       parameters and moving averages, as gpipe.Trainer.Save writes them
//	  optimizer-NAME.safetensors  a slot of the optimiser's state, tensors by the same paths
//	  average.safetensors       the weights' average, if one is kept
//	  best.safetensors          the best weights so far, if a training keeps them
//	  progress.json             what the program that trains has reported so far
//
// A folder appears under its name when all of it is on the disk, and disappears at once, so
// it is whole unless the disk or a hand has changed it. [Open] finds any such change.
//
// Several processes that run one pipeline all call [gpipe.Trainer.State], which gives each
// of them the whole state; one of them writes.
//
// # What a snapshot holds
//
// A step depends on the weights, the optimiser's slots, the weights' average, batch norm's
// moving averages and the step's number: mini-batches and learning rates are functions of that
// number and the settings, and random numbers are keyed by it. So K, M (without batch norm),
// cut, schedule, checkpoint mode, device, threads, the number of processes, and R with the
// same G, may change when a training is resumed.
//
// Every file is synced before the folder gets its name. A damaged snapshot is named, and the
// one before it is taken; it stays, and does not count among those that are kept, until a later one is
// written. If none is whole, that is an error. A snapshot of another version is
// refused by its number.
//
// # What must be the same
//
// The manifest's settings: every size and rate of the network, optimiser, learning rate and
// its schedule, seed, batch, groups, kind of data with the SHA-256 of what was read from
// files, and with batch norm M; where the best weights are kept, also how often to evaluate, and with
// how many examples' statistics. A difference is refused with its name and both values. Names of files and
// the number of steps decide nothing, nor do evaluations where the last weights are kept.
// Another engine is reported and not refused.
//
// # Order and interrupts
//
// At each position a snapshot comes after the record of the step before and before an
// evaluation. A step waits only for the copy of the state; goroutines write the files. The
// first SIGINT, SIGTERM or SIGHUP lets a training with snapshots finish its step and write
// one; a second signal ends the process at once. Of several processes it is enough that one
// gets the signal: the reports at the end of each step say so, and all end at the same
// position. A snapshot that cannot be written is a line; the training goes on, older snapshots
// stay, and the exit status is 1 at the end. So it is with the file of the best weights: until it can be
// written no snapshot is, as a training that goes on would lack them, and at the end it is an error if the
// best weights are not in it.
package snapshot
