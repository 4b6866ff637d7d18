// Package gpipe trains a sequence of layers cut into K partitions on K devices,
// as GPipe does (Huang et al. 2019): every mini-batch of N examples is split
// into M micro-batches that flow through the partitions as a pipeline,
// activations are recomputed in the backward pass, and one synchronous update
// is applied per mini-batch.
//
// The result does not depend on how the network is run: after n steps the weights
// have the same bits for every K, partition, synchronous schedule, checkpoint mode, device
// kind and number of threads, and, for networks without statistics across
// examples, for every M.
//
// [Pipeline] describes a run, [Pipeline.Open] plans and allocates it, and
// [Trainer.Step] runs one mini-batch. [Pipeline.Simulate] plans and times the same
// programs on modelled accelerators without computing any values. Package plan makes
// the plans.
//
// # Groups and replicas
//
// A mini-batch of N examples is cut into G consecutive groups (Pipeline.Groups), whose sizes
// differ by at most one. Each of R replicas takes G/R of them and runs them one after another;
// M counts the micro-batches of one group. Within a group, sums over examples are one chain.
// Between groups everything has one fixed order:
//
//   - Gradients are added by the balanced tree of package reduction. A parameter's uses are
//     added within each group first, also across stages. G/R is a power of two, or R is 1, so
//     the groups of a replica form a whole subtree: bits depend on G, and not on R.
//   - With ShardUpdate each replica updates the chunks that it owns, between the two halves of
//     the all-reduce, keeps optimiser state only for these, and sends the new weights to the
//     others. This is ZeRO stage 1.
//   - Losses are added within a group, then over groups in ascending order. In an evaluation
//     the losses of all replicas are added in example order, and the last mini-batch is padded
//     with masked examples to a multiple of the replicas.
//   - Norms: with one group there is a sum of squares per tensor, otherwise one per block of
//     65,536 elements; blocks are added in ascending order.
//   - Random numbers are keyed by the example's index within the whole mini-batch.
//   - Before the first use of weights that were set from outside, and before the weights of one
//     replica are shown, replicas compare the seed, the number of steps and a CRC-32C of each
//     weight. A difference is an error that names replica, stage and tensor.
//
// With several chunks on a device, or with I and W instead of B, a replica finishes each
// group before it starts the next.
//
// # Batch norm over replicas
//
// By default each replica has its own statistics. With Pipeline.BatchNormScope the statistics
// of micro-batch m cover micro-batch m of N consecutive replicas (GPipe, section 2.2:
// "over replicas if necessary"; Ying et al., arXiv 1811.06992). This requires one group per
// replica. The first replica of a scope adds up the counts, means and squared deviations of
// all, in ascending order, and distributes the sum; the backward pass does the same with two
// sums per channel. For this a program contains an instruction, a [program.Meeting], at which
// the replicas of a scope wait for each other. All have the same lists, so they reach the same
// meetings in the same order. A recomputation needs no meeting: F keeps the statistics.
//
// # Gathered gradients of tied tables
//
// With Pipeline.TiedGradients the gradient of a table that embeddings share with a softmax is
// accumulated as in TensorFlow (Cavdar et al. 2019, Algorithm 1): one row per token for the
// embedding's gradient, all rows of the table for the softmax's, and all of them gathered from
// all replicas before any is added. It exists to measure its cost. Rows are added in the order
// of the contract, so the bits are the same as with reduced gradients. A table that is used
// only once is reduced. It cannot be combined with sharded updates.
//
// # A step
//
// Read its code in this order: trainer.go, step.go, tasks.go, links.go; update.go, reduce.go, norm.go;
// report.go.
//
// Each stage has a goroutine for its list and, for each neighbour, one that receives and one
// that sends. They are connected only by a session of package transport, a new one for each
// step, so nothing of a failed step remains for the next. Each process of a run opens the
// same pipeline, allocates its own stages and makes the same calls; at the end of a step the
// processes exchange reports, and weights if they are requested.
//
// The first error or panic ends the step in all processes, with a message that names stage and
// task, and every goroutine ends before Step returns. If a loss is not finite, the forward
// functions of that micro-batch run again, instruction by instruction, to name the operation in
// which such a value first appeared.
//
// On emulated devices a task holds a token while it runs, so that no two tasks run at the same
// time, and the garbage collector is off. Package clock then replays the lists with the measured
// times. A task that waits at a meeting passes the token on.
//
// Opening a pipeline writes to every page of its memory, so that the first step is not slower
// than the second.
//
// # Windows of asynchronous schedules
//
// With an asynchronous schedule ([schedule.Window]) a step is a window of mini-batches,
// [Trainer.Window]. They follow one another through the pipeline, every stage updates its own
// weights after each (task U), and at the end of the window the pipeline drains, so that all
// stages have made the same number of updates. Only then can a trainer evaluate, save or stop.
// Slot 0 of the parameters' memory always has the newest version. U copies the version that it
// replaces to another slot if a mini-batch in flight still reads it, so a device has as many
// slots as its list needs at once, planned to the byte. State, files and hashes use the newest
// version; there is one copy of the optimiser's state.
//
// The window is a setting like G: it affects the bits. So does K, except with pipedream-2bw, and
// with pipedream and pipedream-nostash also the cut. Kinds of devices, threads and processes do
// not. On one stage pipedream is plain training, to the bit. Not supported are a global norm,
// replicas and groups, parts of images, a weight on several stages, late recomputation and several
// chunks. Result.GradNorm is the norm of the stages' gradients, which belong to different
// versions, and no update depends on it.
//
// # Parts of images
//
// With Pipeline.Spatial each stage runs on S parts that split images by rows; package program
// has the rules. Part 0 is the stage's device: it alone holds the tensors at the stage's
// boundaries, accumulators and optimiser state, and runs the update, so stages, replicas and
// transports need not know about parts. [Pipeline.ModelSpatial] models one micro-batch on parts,
// with partial sums and with turns. Parts cannot be combined with bfloat16, batch norm over
// replicas, schedules with W, or overcommitted devices.
//
// # Parts of operations
//
// With Pipeline.Tensor each stage runs on T tensor-parallel parts, and Pipeline.Blocks sets the blocks
// in which sums are computed; package program has the rules, and says which bits they preserve. A part
// has its slices of weights, gradients and optimiser state, and updates them; weights that all parts share
// (norms, batch norm's averages, biases after a sum, recurrent layers) are updated by the first part and
// copied to the others. Initial weights are drawn by slice. [State], hashes and files have whole tensors, so
// a run can resume with another T. The parts of a stage are in one process; replicas and stages may be in
// others. On emulated devices parts work one after another, each timed alone, and Device.Link is the link
// between them. Result.Traffic shows that traffic by kind (PartEdges, PartReduces, PartGathers, PartTurns,
// PartSlices), and [Pipeline.PlannedTraffic] predicts it. [Pipeline.DividedShare] is the share of a network
// that is split. Modelled clusters have a T of their own, in [Parallel].
//
// It cannot be combined with parts of images, asynchronous schedules, sharded updates, gathered gradients
// of tied tables, batch norm over replicas, a weight on several stages, or axes with fewer units than parts
// or blocks.
//
// # Modern clusters
//
// [Parallel], a field of [Modelling], describes how large networks are trained today: T parts of each
// stage (the pipeline's layers are then those of one part), ZeRO, recomputation, precisions, and the
// placement of parts, replicas and stages on nodes. [Pipeline.Simulate] then simulates one replica, as
// all are alike. Its tasks are F and B, or I and W; recomputation is included in B. After its list a
// stage reduces its gradients over the replicas, updates, and sends weights. Not modelled are data
// loading, evaluations, the time between steps, and other work of a framework.
//
// # Gradients and frozen parameters
//
// [Trainer.Gradients] returns the gradients that the update reads: means over the mini-batch's
// count, before L2 and clipping. [Trainer.Differentiate] is a step without its update.
// Pipeline.Rates has factors of the learning rate by parameter path. A parameter with factor 0 is
// frozen: the optimiser skips it, and its gradient is excluded from the clipped norm. Moving
// averages of batch norm are not frozen.
//
// # Files of weights
//
// A file (safetensors) contains everything that determines the meaning of its weights, and
// [Trainer.Load] checks it: the hash of the values, the fingerprint of the function
// ([Pipeline.Fingerprint]), the settings of the network, and for data the vocabularies, classes
// and scaling of pixels. Weights of another function with the same shapes are refused, with the
// settings that differ. Settings that affect only training are not compared. Information that a
// file lacks is reported and not checked. [Trainer.LoadPart] loads the tensors that match by path
// and shape and reports the rest.
//
// # Timeline of reductions
//
// With Pipeline.RecordsReductions a run on host devices records when each tensor's gradients
// were complete and, for each message, the wait and the copy or addition. `train --trace` writes
// this in the form of Horovod's timeline.
package gpipe
