// Package accelerator models devices by a roofline. It reads a device's figures from
// a file, computes how long a compiled program takes on it, and calibrates: it makes
// such a file from instructions that were timed on this machine.
//
// # The model of time
//
// A file has peak rates by dtype, memory and its bandwidth, lanes, overhead, link, three
// conventions (tiled, fused, packing), and efficiencies: the shares of the peaks that others
// have measured and published. Each figure has a source that begins with verified, excerpt or
// assumed, and a share that was fitted to a network's published throughput with calibrated.
// Nothing in the files that come with the program was fitted to a table of a paper; kernels.issue
// was chosen with the errors of one in view, as its source says. Each figure
// also has a kind: datasheet, microbenchmark (of single products, copies or collectives), assumed,
// or training, which no figure of a GPU with kernels is. An instruction of a compiled program takes
//
//	max(FLOPs / (peak x efficiency), traffic / (bandwidth x efficiency)) + overhead
//
// with these rules:
//
//   - Efficiencies are by kind of product (dense, attention, convolutions by window, and their
//     gradients) and by the smallest of its three dimensions, interpolated over the size's
//     logarithm. A kind without one takes that of a more general kind, at last that of dense
//     products, and else runs at its peak. Those of GPUs are medians of DeepBench's points
//     (../accelerators/deepbench.py). `--peak` ignores all of them.
//   - Layer norms, their gradients and dropouts may have shares of the memory's bandwidth of their own.
//   - FLOPs have the widths of products padded to the lanes. Rows are not padded.
//   - Traffic counts every operand once, an accumulator twice, of an embedding's table the
//     rows that are looked up. Activations and their gradients count in the chosen dtype, all
//     else four bytes. Tiled (TPUs): activations move with their last dimension padded to the
//     lanes.
//   - Fused (TPUs): an element-wise instruction that reads the result of the one before it
//     joins that one, without the traffic between them and with one overhead.
//   - Arithmetic other than products has no rate: its traffic bounds it.
//   - A file may state a slower link between groups of devices, such as nodes: it connects
//     replicas, or on a cluster (gpipe.Parallel) whatever is in several groups.
//
// # Kernels of GPUs
//
// A file with kernels describes a GPU that runs one kernel after another ([Kernels]):
//
//   - A product is cut into tiles over the processors. Waves are whole, a tile has a start, and the
//     second-level cache bounds small tiles. The dense share is then what large products reach.
//   - Element-wise operations are fused with each other, and with no product.
//   - Attention is unfused or flash, as a simulation asks. Unfused, its products, its softmax, a
//     dropout and what rearranges heads are kernels of their own, and all scores are computed and
//     moved; flash computes half of them with a causal mask, at the share of attention. A loss over
//     logits is then in float32, pass after pass.
//   - Operations at which parts of a stage meet take the time of a ring, within a node at the near
//     link's rate, between nodes each device with its share at the far link's.
//   - The host starts operations ahead of the device: a task takes at least as long as all starts,
//     in every simulation. In each sum of [Timing] the larger of both counts.
//
// # Calibration
//
// [Calibrate] times the operations of small networks on this machine and makes such a file,
// whose ops are a sum for each kind of operation (overhead + FLOPs / rate + traffic / rate),
// for a core that does not compute while it waits for memory. The terms are weighted as in a Poisson
// regression: squared errors divided by the fitted times. With a model the file also has
// shapes: the operations of one network as timed, each measured once, as in FlexFlow's
// simulator (Jia et al., SysML 2019).
package accelerator
