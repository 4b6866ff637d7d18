// Package gnmt builds the recurrent translator of MLPerf, GNMT (Wu et al. 2016, as in the reference implementation,
// github.com/mlcommons/training, rnn_translator: its README describes the structure).
//
// The encoder's first layer has both directions. The first decoder layer's states are the
// queries of an additive attention, whose result stands beside the input of all later layers;
// residuals begin with the third layer. The attention needs no state of an earlier step (the
// reference calls this gnmt_v2), so each layer's scan stays one operation, and the attention
// of all steps is another. Initial weights are within 0.1 at every width, as in the reference;
// with scaled initial values the limit grows with the inverse root of the width.
package gnmt
