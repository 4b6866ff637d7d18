// Package train is what runs: networks by name, what they learn from, how they are
// trained, evaluated and timed.
//
// One loop, [Loop], makes the steps of every training: of train and bench, of trials, timed
// rounds and probes. Its position is the number of completed steps. Hooks are called at each
// position and after each step, and an error of a hook ends the run, which can go on from
// there. The data of a step depend only on the position and the training's settings, so a
// snapshot of the state at a position is all that another process needs.
//
// Read its code in this order: train.go, what a training is; loop.go, how it runs; open.go, how it
// begins; processes.go, how several processes run it together.
package train
