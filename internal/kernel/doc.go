// Package kernel has the float32 kernels that programs consist of.
//
// # Contract
//
// Every output element is a fixed chain of operations. The chain does not
// depend on the number of rows or columns of the call, on how the work is cut
// into tiles, cache blocks or threads, nor on the place of an element in its
// buffer. A caller may therefore split the rows (or, if a kernel says so, the
// columns) of a call in any way without changing a bit.
//
//   - Gemm: fused multiply-adds over k in ascending order, starting from C
//     when it accumulates and from zero when it does not.
//   - Convolutions, depthwise ones as well: as Gemm, over the taps and channels
//     (or the pixels) in the order that ConvForward, DepthwiseForward and their
//     gradients say, without the taps that fall outside the image.
//   - Attention's gradients of keys and values that several heads share: one chain over these heads
//     in ascending order, within each over the queries.
//   - Column reductions (bias, gamma and beta gradients, embedding rows): one
//     chain over the rows in ascending order, starting from the accumulator.
//   - Batch norm: one chain for each NormChunk rows and column in ascending
//     order, then one in float64 over the chunks.
//   - Pools: one chain over a window's pixels by rows, and for gradients over the
//     outputs in ascending order.
//   - Row reductions (softmax, layer norm, RMS norm, sums of squares): a tree of 64 lanes, or 32 for sums
//     of exponentials and the gradient of layer norm. Element i of the whole blocks of that length
//     goes to lane i modulo it, what is left to the first 16 lanes, 16 elements at a time; the last
//     time, lanes without an element add +0. A lane is one chain from +0, of fused multiply-adds
//     where products are summed. Then the upper half of the lanes is added to the lower, until one
//     is left.
//   - Tails of vector kernels use masks and the same instructions; NEON has no masks and moves
//     their lanes one by one.
//
// The bits are the same on every profile and processor, but for the sign and payload of NaNs:
// a multiply-add rounds once everywhere (portable Go has fma32), functions such as exp are the same
// polynomials, and what Go computes has a conversion after each product that is added, so that no
// compiler fuses them. definition_test.go defines every kernel, and TestContract compares. The price
// is paid by portable Go, where an exact multiply-add takes 3.9 times as long as one that rounds
// twice, and a step of the networks that are compared 2.0 to 2.4 times (2026-11, AMD Zen 5, 2 threads).
//
// Kernels start no goroutines, allocate nothing, write no element outside their
// outputs and read none outside their inputs (a guard page may follow
// directly). Lengths are trusted: the program checked them when it was
// compiled. Matrices are row-major.
//
// # Convolutions
//
// Convolutions are implicit matrix products: x (N, H, W, C) and w (KH, KW, C, O), with no
// patch matrix and no padded copy. In channels-last images the inputs of one row of the kernel
// are KW x C contiguous floats, so the tile kernel of the matrix product gets a list of runs
// (offset in x, offset in w, length) and walks them with its accumulators in registers. Output
// pixels with the same taps inside the image form a tile. The gradient of the input is a
// convolution of dy with the reversed kernel, one for each phase of the stride; the gradient
// of the weight is a product over the output pixels of all examples.
//
// A depthwise convolution has a kernel for each channel, w (KH, KW, C), and its vectors run
// over channels. The forward computes four neighbouring outputs at once, which share the loads
// of w; the gradient of the weight keeps the sums of three taps in registers, which share the
// loads of dy.
//
// # bfloat16
//
// Rounding is integer arithmetic, with the same bits in all profiles.
//
// # Assembly
//
// The directory asm has a generator for each set of kernels: gemm, vector and attention for amd64,
// each for AVX-512 and AVX2 from one description, and neon for arm64. vector and neon write the tables
// of vector kernels too, neon with the signatures that vector has written: a new one needs a description
// in both and a portable function whose name ends in Generic. On arm64 only the statistics of batch norm's chunks are portable, which take little time.
package kernel
