// Package plan computes everything about a pipeline that follows from shapes alone, before it
// runs: its pieces and their programs, the task list of each device, memory to the byte, the
// reductions over replicas, and the traffic between places. [New] makes a plan from a [Config];
// package gpipe runs it, on devices that compute or on the virtual clock. This package starts no
// goroutine and uses no transport.
//
// # A device's memory
//
// There are six regions: parameters, gradients (one accumulator for each use of a parameter),
// optimiser state, boundary stash, residuals, workspace. Tensors start at multiples of 64
// bytes; a region ends with its last element. All offsets are fixed when the pipeline is
// opened, so a peak cannot depend on timing:
//
//   - The receiver owns boundary inputs: slot m mod s for micro-batch m, kept until B(m),
//     where s is the number that the sender can have in flight (M in fill-drain, K-k+1 in
//     1f1b, 1 in naive). Output gradients have two slots. A sender has two outbox slots in
//     each direction and waits while both are on their way.
//   - There is a residual slot for each micro-batch in flight: one if micro-batches are
//     recomputed, M (or K-k) with checkpoint never.
//   - The workspace has the size that the largest program needs. Buffers are packed by liveness, largest
//     first; an operation whose input dies there may write over it.
//
// Training, evaluation and prediction share the same regions, each as large as the purpose that
// needs most of it. A purpose for which a pipeline was not opened is refused.
// Smaller mini-batches run in the plan of the largest: a program that would take more is
// compiled again with every buffer at the place that it has in the largest.
//
// The first piece that does not fit a device is an error with the device, the layer, the
// bytes wanted and the bytes free. With Overcommit the plan is not checked, and the fault of
// the first instruction beyond the capacity becomes that error.
//
// # Accounting
//
// There are two ways to count a modelled device's memory. Paper, as in Table 1: parameters
// with the optimiser's state, 12 bytes a parameter for two slots, and activations (boundary
// stash, residuals, workspace). Full adds the gradients' accumulators and is what a host
// device allocates, to the byte. Every value has the size of its own dtype. Nothing is padded
// in memory. Without re-materialisation the residuals of the whole mini-batch are kept, with
// it those of one micro-batch; `--keep-scores` makes attention keep its probabilities. Full is
// the default of simulate and plan.
//
// On a modern cluster (gpipe.Parallel) layers are planned one by one and stages are their sums:
// weights in their precision, float32 copies, and gradients, as sharded over replicas; the
// activations kept for each micro-batch in flight, whose largest number depends on the schedule; and
// the largest workspace of a layer, with its recomputed activations. A dropout keeps a mask of one
// byte per element, as frameworks do. Fragmentation and the framework's own memory are not counted.
package plan
