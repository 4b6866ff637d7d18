// Package train trains, evaluates and times networks: it knows networks by name, their data
// sets, and the settings of a training run.
//
// One loop, [Loop], runs the steps of every training: for train and bench, trials, timed
// rounds and probes. Its position is the number of completed steps. Hooks are called at each
// position and after each step, and an error of a hook ends the run, which can continue from
// there. The data of a step depends only on the position and the training's settings, so a
// snapshot of the state at a position is all that another process needs.
//
// Read its code in this order: train.go, what a training is; loop.go, how it runs; open.go, how it
// starts; processes.go, how several processes run it together.
package train
