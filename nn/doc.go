// Package nn has the layers, losses, initialisers, optimisers and learning rate
// schedules that the models are built of.
//
// A layer is written once, as a forward function over an expression graph
// (package graph); its backward function, programs, costs and memory are
// derived from that. Layers exchange tuples of tensors whose first dimension
// is the examples of the micro-batch.
//
// A constructor returns a layer for any configuration; if the configuration is wrong, tracing the
// layer panics with a [*graph.Misuse] that names it, and opening a pipeline returns this as an
// error.
//
// # Batch norm
//
// Training normalises by the micro-batch's own statistics (GPipe, section 2.2), so a network
// with batch norm computes a different function for each M. Training on fewer than two values for
// each channel is refused. Every forward task adds its micro-batch's count, mean and sum of
// squared deviations to a tally of the layer, in float64 (Chan, Golub and LeVeque);
// micro-batches come in ascending order in every schedule, so the tally has the same bits for
// all of them. A recomputation does not change it. The update moves the averages once, by the
// statistics of the whole mini-batch; evaluation reads these averages, and gives the same bits
// for every M. They are parameters that are not trained ([Param.State]): planned, hashed,
// saved and loaded like weights. The derived backward treats statistics as functions of the
// input.
//
// # Recurrent layers
//
// A layer of LSTM ([NewLSTM]) is one operation, a scan over time, and not a graph unrolled
// over the steps: each weight has one accumulator. The input of all steps is projected by one
// matrix product before the loop, and the backward loop computes only the gradients of the
// gates' pre-activations; the gradients of weights, bias and input are products after it
// (hoisting; Kumar et al. 2019, section 3). Rows are added in the order of examples, within one of its steps,
// so bits do not depend on M. With [LSTMConfig.Inside] each step projects its input, for
// comparison: the terms of the weights' gradients are the same in another order, which depends
// on M. At and beyond a length, gates, cells, states and their gradients are zero, and a
// reverse scan starts at the length. A scan's FLOPs count all steps, padding included.
//
// # Operations of a caller
//
// A layer may use operations of its own. They keep the arithmetic contract (docs/design.md) if
// they are element-wise, or if the caller promises that the results of an example depend on
// this example alone ([graph.PerExample]). Without the promise an operation runs on whole
// micro-batches, on one thread, and the description of the network names it as outside the
// contract.
package nn
