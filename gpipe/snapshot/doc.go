// Package snapshot stores training states on disk, so that a stopped training run resumes
// with the same bits, even if it is run in another way.
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
// A folder gets its name when all of it is on the disk, and is removed atomically, so it is
// complete unless the disk or a person has changed it. [Open] detects any such change.
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
// Every file is synced before the folder gets its name. If the newest snapshot is damaged, a message
// names it and the one before it is used; the damaged one stays, and does not count among those to
// keep, until a later one is written. It is an error if none is intact. A snapshot with another format
// version is refused.
//
// # What must be the same
//
// The manifest's settings: every size and rate of the network, optimiser, learning rate and
// its schedule, seed, batch, groups, kind of data with the SHA-256 of what was read from
// files, and with batch norm M; where the best weights are kept, also how often to evaluate, and with
// how many examples' statistics. A difference is refused with its name and both values. File names, the
// number of steps and, if the last weights are kept, the evaluations may differ.
// Another engine is reported and not refused.
//
// # Order and interrupts
//
// At each position a snapshot is taken after the previous step has been recorded and before an
// evaluation. A step waits only until the state is copied; goroutines write the files. The
// first SIGINT, SIGTERM or SIGHUP lets a training with snapshots finish its step and write
// one; a second signal ends the process at once. With several processes it is enough that one
// gets the signal: the reports at the end of each step pass it on, and all end at the same
// position. If a snapshot cannot be written, a line says so, training continues, older snapshots
// stay, and the exit status is 1 at the end. The same holds for the file of the best weights: until it can
// be written no snapshot is, since a resumed run would lack them, and at the end it is an error if the
// best weights are not in it.
package snapshot
