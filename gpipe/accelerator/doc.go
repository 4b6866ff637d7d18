// Package accelerator models devices by a roofline. It reads a device's figures from
// a file, computes how long a compiled program takes on the device, and can calibrate:
// it makes such a file from instructions timed on this machine.
//
// # The timing model
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
//   - Layer norms, their gradients and dropouts may have their own shares of the memory bandwidth.
//   - FLOPs are counted with the widths of products padded to the lanes. Rows are not padded.
//   - Traffic counts every operand once, an accumulator twice, and of an embedding table only the
//     rows that are looked up. Activations and their gradients have the size of the chosen dtype,
//     everything else four bytes. Tiled (TPUs): activations move with their last dimension padded
//     to the lanes.
//   - Fused (TPUs): an element-wise instruction that reads the result of the previous one is merged
//     with it: no traffic between them, and a single overhead.
//   - Arithmetic other than products has no rate: it is limited by its traffic.
//   - A file may state a slower link between groups of devices, such as nodes: it connects
//     replicas, or on a cluster (gpipe.Parallel) whatever is in several groups.
//
// # Kernels of GPUs
//
// A file with kernels describes a GPU that runs one kernel after another ([Kernels]):
//
//   - A product is split into tiles over the processors. Waves are rounded up, a tile has a start-up
//     time, and small tiles are limited by the second-level cache. The dense share is then the rate
//     that large products reach.
//   - Element-wise operations are fused with each other, but not with products.
//   - Attention is unfused or flash, as the simulation requests. Unfused: its products, softmax,
//     dropout and rearrangement of heads are separate kernels, and all scores are computed and moved.
//     Flash computes half of them with a causal mask, at the efficiency of attention. A loss over
//     logits is then computed in float32, one pass after another.
//   - Operations at which parts of a stage communicate take the time of a ring: within a node at the
//     near link's rate; between nodes each device sends its share at the far link's rate.
//   - The host launches operations ahead of the device: a task takes at least as long as all its
//     launches, in every simulation. Each sum of [Timing] counts the larger of the two.
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
