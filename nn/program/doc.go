// Package program compiles a traced graph into programs and runs them.
//
// A [Program] is an ordered list of kernel calls whose operands have fixed
// addresses: a region of the device's memory and an offset in it, assigned by
// liveness analysis. Floating-point work, bytes moved, saved activations and peak memory
// are properties of the program, known before anything runs.
//
// [Compile] makes the three programs of a pipeline stage from one traced
// forward function: Forward, Keep (a Forward that stores the residuals) and
// Backward; with [Function.Split] also Backward in two parts, Input and Weights. [CompileEvaluate]
// makes the program of an evaluation. Forward and Keep store different values and compute the same bits.
//
// # The split backward
//
// With [Function.Split] the backward function B of a stage is also
// compiled as two programs (Qi et al., Zero Bubble Pipeline Parallelism, arXiv 2401.10241,
// section 2): Input (I), whose results the previous stage waits for, and Weights (W), which
// may run later. I followed by W gives the bits of B.
//
// I computes the gradients of all activations, and copies what W reads of In, DOut and
// Statistics, so that these are free when it ends. It does the same on the first stage,
// whose inputs have no gradient: W then takes as long, and needs as much, as elsewhere. W
// computes the products among the gradients of weights, and the sums that read nothing
// more than these products do, such as those for biases. It reads Lasting, Between and
// Params, writes Grads, and contains no [Meeting]. The other sums (norms' parameters,
// embeddings) stay in I, since keeping their inputs would take more memory than I frees;
// the paper counts in the same way.
//
// Every micro-batch in flight therefore has, in floats of [Stage.Span],
//
//	Residual + Lasting  from its F (if that keeps) or R on to the end of I: the M_B of the paper
//	Lasting + Between   from then on to the end of W: its M_W
//
// with Between from the start of I. B frees both kinds of residuals.
//
// I and W have different accumulators, and each of the two runs over micro-batches in
// ascending order. If there are several groups, no I of a group may run before the
// last W of the group before it.
//
// No kernel here computes gradients of weights and of activations at once, so
// every instruction of B is in exactly one of the two programs. An op of a caller with
// such a kernel is refused.
//
// In bfloat16 a Transformer layer keeps for W 32 bytes for each element of its input, the
// paper's M_W to the byte. Fusing is decided for B as a whole, so that I has its roundings.
//
// # bfloat16
//
// With graph.BF16 activations and their gradients are bfloat16 values in two bytes: the result
// of every operation is rounded to the nearest, ties to even, whether or not it is stored. So
// rounding is part of the graph, and bits do not depend on the cut, checkpoint mode, threads
// or devices. Weights, optimiser state, accumulators, statistics of norms and of softmax,
// losses, norms and the update stay in float32. Losses are not scaled. Nothing is fused, since each
// result is rounded.
//
// A conversion widens a block of each operand into the thread's scratch, calls the float32
// kernel there and rounds its results. Blocks are cut where the contract allows it, so every element has
// the same chain as with whole operands and is rounded once; their size is fixed, so scratch does not
// grow with the micro-batch. The AVX512_BF16 instructions are not used: they take subnormals for zero and
// add pairs of terms in another order. PyTorch's autocast is the oracle of a step; it keeps
// the residual stream in float32, whereas this package rounds it.
//
// # Parts of images
//
// [Stage.Divide] compiles a stage for S parts that divide images by their rows (Kumar et al., Scale
// MLPerf-0.6 models on Google TPU-v3 Pods, section 2 and Figure 3). Part s has the rows h s / S to h (s+1) / S of an image of h
// rows, and all weights. Everything that parts do and copy is a pure plan (spatial.go):
//
//   - By rows: convolutions, pools, their input gradients, and all element-wise operations.
//     Before a windowed operation a part copies the rows that its windows need beyond its own
//     (the halo) from the parts that have them.
//   - Statistics of batch norm: the chunks of 128 consecutive pixels are fixed by the
//     contract. The part that has a chunk's first pixel computes it, all parts get all chunks
//     and combine them in ascending order.
//   - Gradients of weights are one chain: examples ascending, within an example parts
//     ascending, within a part its rows. The parts take turns (turns.go).
//   - Alone: operations without a rule, and images with fewer rows than parts, run on part 0,
//     which gathers their rows.
//
// So every S gives the bits of the undivided network. Each part has programs of its own, whose
// instructions all parts run in lock step, and memory planned with its own liveness.
//
// # Parts of operations
//
// [Stage.Split] compiles a stage for T parts that divide its operations (Shazeer et al., Mesh-TensorFlow,
// arXiv 1811.02084; Shoeybi et al., Megatron-LM, arXiv 1909.08053):
// attention by heads, feed-forward layers by columns and then rows, embedding and softmax by the
// vocabulary, convolutions and the operations between them by channels. Layers declare which parameters
// can be split, and into which units (graph.Split); a few rules propagate the split from value to value
// (tensorrules.go), and operations without a rule are computed by all parts, from whole values. Unlike
// with parts of images, each part has only its slices of the weights and their accumulators.
//
// Channels are independent of each other in batch norm, pools and additions, but not in a convolution, for
// which parts gather all channels of its images: forward, and again for the weight gradient, since each part
// keeps only its own channels. All parts have copies of batch norm's parameters, statistics and tallies.
//
// A product whose terms are divided is the only place where bits could change. With one block (B = 1)
// its chain goes through the parts in turns, over blocks of rows or columns of the result, so every T has
// the bits of the undivided network; the sums of a softmax hand on the 64 lanes of their trees, so
// its vocabulary is divided at multiples of 64. With B blocks a sum has a chain from zero for each block of
// units, and the blocks are added by the tree of package reduction: every part adds up its own, and then
// some rows of all parts' sums, which it hands to the others (an all-reduce). The chain of a convolution's
// gradient of its images alternates taps and channels, so that it cannot go from part to part: with one block
// a part computes its channels of it, for which it gathers their weights. With several, blocks are added, and
// each part gets the sums of its channels. Bits depend on B, and T = 1 computes the same chains. A row of an
// embedding is copied from the part that has it, since adding zeros would turn -0 into 0.
//
// The first part owns the tensors at the stage's boundaries, and sends the others what they read of them.
// With bfloat16, sums stay in float32 between parts and blocks, and are rounded once. Batch norm over
// replicas is not supported.
package program
