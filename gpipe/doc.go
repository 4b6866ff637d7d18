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
// [Trainer.Step] executes one mini-batch. [Pipeline.Simulate] plans and times
// the same programs on modelled accelerators without any arithmetic. Package plan
// makes the plans.
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
//     that the groups of a replica are a whole subtree: bits depend on G, and not on R.
//   - With ShardUpdate a replica updates the chunks that it owns, between the two halves of
//     the all-reduce, with optimiser state for these alone, and hands the new weights to the
//     others. ZeRO calls this stage 1.
//   - Losses are added within a group, then over groups in ascending order. In an evaluation
//     the losses of all replicas are added in example order, and the last mini-batch is padded
//     with masked examples to a multiple of the replicas.
//   - Norms: with one group a sum of squares for each tensor, otherwise one for each block of
//     65,536 elements; blocks are added in ascending order.
//   - Random numbers are keyed by the example's index within the whole mini-batch.
//   - Before the first use of weights that were set, and before anything that shows the
//     weights of one replica, replicas compare the seed, the number of steps and a CRC-32C of
//     each weight. A difference is an error that names replica, stage and tensor.
//
// With several chunks on a device, or with I and W in place of B, a replica finishes each
// group before it begins the next.
//
// # Batch norm over replicas
//
// By default each replica has its own statistics. With Pipeline.BatchNormScope the statistics
// of micro-batch m cover micro-batch m of N consecutive replicas (GPipe, section 2.2:
// "over replicas if necessary"; Ying et al., arXiv 1811.06992). It wants one group on each
// replica. The first replica of a scope adds up the counts, means and squared deviations of
// all, in ascending order, and hands out the sum; backward it does the same with two sums for
// each channel. A program has an instruction in its middle for this, a [program.Meeting], at
// which the replicas of a scope wait for each other. All have the same lists, so they come to
// the same meetings in the same order. A recomputation meets nobody: F keeps the statistics.
//
// # Gathered gradients of tied tables
//
// With Pipeline.TiedGradients the gradient of a table that embeddings share with a softmax is
// accumulated as TensorFlow did (Cavdar et al. 2019, Algorithm 1): the embedding's gradient as
// a row for each token, the softmax's as all rows of the table, all of them gathered from all
// replicas before any is added. It exists to measure what it costs. The rows are added in the
// order of the contract, so the bits are as with reduced gradients. A table that is used once
// is reduced. Divided updates are refused beside it.
//
// # A step
//
// Read its code in this order: trainer.go, step.go, tasks.go, links.go; update.go, reduce.go, norm.go;
// report.go.
//
// Each stage has a goroutine for its list and, for each neighbour, one that receives and one
// that sends. They are connected only by a session of package transport, a new one for each
// step, so that nothing of a failed step remains for the next. Each process of a run opens the
// same pipeline, allocates its own stages and makes the same calls; at the end of a step the
// processes exchange reports, and weights when they are asked for.
//
// The first error or panic ends the step in all processes and names stage and task, and every
// goroutine ends before Step returns. If a loss is not finite, the forward functions of that
// micro-batch run once more, instruction by instruction, to name the operation in which such a
// value first appeared.
//
// On emulated devices a task holds a token while it runs, so that no other runs beside it, and
// the collector is off. Package clock then replays the lists with the measured times. A task
// that waits at a meeting gives the token away.
//
// Opening a pipeline writes to every page of its memory, so that the first step takes as long
// as the second.
//
// # Windows of asynchronous schedules
//
// With an asynchronous schedule ([schedule.Window]) a step is a window of mini-batches,
// [Trainer.Window]: they follow one another through the pipeline, every stage updates its
// weights by itself after each (task U), and at the window's end the pipeline drains, so that all
// stages have made the same number of updates. Only then can a trainer evaluate, save or stop.
// Slot 0 of the parameters' memory always has the newest version. U copies the one that it
// replaces to another slot if a mini-batch in flight still reads it, so a device has as many
// slots as its list needs at once, planned to the byte. State, files and hashes are of the newest
// version; there is one copy of the optimiser's state.
//
// The window is a setting like G: it decides the bits, and so do, but for pipedream-2bw, K and,
// for pipedream and pipedream-nostash, the cut. Kinds of devices, threads and processes do not.
// On one stage pipedream is plain training, to the bit. A global norm, replicas and groups, parts
// of images, a weight on several stages, late recomputation and several chunks are refused.
// Result.GradNorm is the norm of the stages' gradients, which are of different versions, and no
// update depends on it.
//
// # Parts of images
//
// With Pipeline.Spatial each stage runs on S parts that divide images by their rows; package
// program has the rules. Part 0 is the stage's device: what crosses the stage's edge,
// accumulators, optimiser state and the update are on it alone, so stages, replicas and
// transports know nothing of parts. [Pipeline.ModelSpatial] models one micro-batch on parts,
// with partial sums and with turns. bfloat16, batch norm over replicas, schedules with W, and
// overcommitted devices are refused beside parts.
//
// # Parts of operations
//
// With Pipeline.Tensor each stage runs on T parts that divide its operations, and Pipeline.Blocks says
// in which blocks sums are made; package program has the rules, and which bits they keep. A part has its
// slices of weights, gradients and optimiser state, and updates them; what all parts have alike (norms,
// batch norm's averages, biases after a sum, recurrent layers) the first part updates and hands out.
// Initial weights are drawn by slice. [State], hashes and files have whole tensors, so a training goes on
// with another T. The parts of a stage are in one process; replicas and stages may be in others. On
// emulated devices parts work one after another, each timed alone, and Device.Link carries what they send
// each other. Result.Traffic has that by kind (PartEdges, PartReduces, PartGathers, PartTurns, PartSlices),
// and [Pipeline.PlannedTraffic] before anything runs.
// [Pipeline.DividedShare] is how much of a network parts divide. Modelled clusters have a T of their
// own, in [Parallel].
//
// Refused are parts of images beside them, asynchronous schedules, divided updates, gathered
// gradients of tied tables, batch norm over replicas, a weight on several stages, and axes with fewer
// units than parts or blocks.
//
// # Clusters of today
//
// [Parallel], a part of [Modelling], says how large networks are trained now: T parts of each
// stage (the pipeline's layers are then those of one part), ZeRO, what is computed again, precisions,
// and where parts, replicas and stages are on nodes. [Pipeline.Simulate] then takes one replica for
// all. Its tasks are F and B, or I and W; what is computed again is in B. After its list a stage adds
// up its gradients with its replicas, updates, and hands on weights. What that leaves out: data,
// evaluations, the time between steps, and whatever a framework does besides.
//
// # Gradients and frozen parameters
//
// [Trainer.Gradients] shows the sums that the update reads: means over the mini-batch's count,
// before L2 and clipping. [Trainer.Differentiate] is a step without its update. Pipeline.Rates
// multiplies the learning rate of parameters by path. A parameter with factor 0 is frozen: the
// optimiser does not see it, and its gradient is left out of the clipped norm. Moving averages
// of batch norm are not frozen.
//
// # Files of weights
//
// A file (safetensors) says what decides the meaning of its weights, and [Trainer.Load] checks
// it: the hash of the values, the fingerprint of the function ([Pipeline.Fingerprint]), the
// settings of the network, and for data the vocabularies, classes and scaling of pixels.
// Another function with the same shapes is refused, with the settings that make the
// difference. Settings of training alone are not compared. What a file does not say is
// reported and not checked. [Trainer.LoadPart] loads what fits by path and shape and reports
// the rest.
//
// # How each tensor is added up
//
// With Pipeline.RecordsReductions a run on host devices records for each tensor when its
// gradients were complete and, for each message, the wait and the copy or addition. `train
// --trace` writes this as Horovod's timeline shows it.
package gpipe
