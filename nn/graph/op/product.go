package op

import "fmt"

// MatMul is a product of two matrices, the second of which is a parameter. An operand with more
// than two dimensions is taken as the matrix (product of all but the last, last).
type MatMul struct {
	TransA, TransB bool
}

// Dims returns the sizes of the product of operands with the shapes a and b: it is (m, n), and
// each element a sum of k terms.
func (o MatMul) Dims(a, b []int) (m, n, k int) {
	m, k = matrix(a)
	_, n = matrix(b)
	if o.TransA {
		m, k = k, m
	}
	if o.TransB {
		n, _ = matrix(b)
	}
	return m, n, k
}

// BatchMatMul is a product of two values with the same number of matrices, those of the last two
// dimensions: a (n, ..., m, k) and b (n, ..., k, p) give (n, ..., m, p). With TransA the matrices
// of a are (k, m), with TransB those of b are (p, k). Each matrix belongs to one example, so bits
// do not depend on the others.
type BatchMatMul struct {
	TransA, TransB bool
}

// Dims returns the number of matrices, and the sizes of each product, as [MatMul.Dims] does.
func (o BatchMatMul) Dims(a, b []int) (count, m, n, k int) {
	last := len(a) - 2
	count = 1
	for _, d := range a[:last] {
		count *= d
	}
	m, n, k = MatMul(o).Dims(a[last:], b[last:])
	return count, m, n, k
}

// matrix returns the sizes of the matrix as which a product takes an operand.
func matrix(shape []int) (rows, cols int) {
	rows = 1
	for _, d := range shape[:len(shape)-1] {
		rows *= d
	}
	return rows, shape[len(shape)-1]
}

// Attention is scaled dot-product attention with Heads heads of HeadDim each
// (Vaswani et al. 2017, section 3.2). The heads are side by side in a row, so
// nothing is permuted. Inputs:
//
//	self:  qkv (b, t, 3*Heads*HeadDim), the projections side by side
//	cross: q (b, tq, Heads*HeadDim), kv (b, tk, 2*Heads*HeadDim)
//
// and, if Padded, lengths (b) int32: keys at and beyond a length are not seen.
// Causal lets query i see keys 0..i. Outputs: o (b, tq, Heads*HeadDim), and lse
// (b, Heads, tq), the log-sum-exp of each row of scores, from which the
// backward computes the probabilities again instead of storing them (Dao et al.
// 2022, section 3.1).
//
// With KVHeads above 0, a divisor of Heads, there are as many heads of keys and of values, each for
// Heads/KVHeads consecutive heads of queries (Ainslie et al. 2023, GQA). Cross is false then, and
// the inputs are three:
//
//	grouped: q (b, tq, Heads*HeadDim), k and v (b, tk, KVHeads*HeadDim)
//
// A gradient of k or v is one chain over the heads that share it in ascending order, within each
// over the queries.
type Attention struct {
	Heads, HeadDim        int
	Cross, Causal, Padded bool
	KVHeads               int
}

// String lists the fields; KVHeads only if it is above 0.
func (o Attention) String() string {
	text := fmt.Sprint(o.Heads, o.HeadDim, o.Cross, o.Causal, o.Padded)
	if o.KVHeads > 0 {
		text += fmt.Sprintf(" over %d", o.KVHeads)
	}
	return text
}

// Keys returns the index of the input that has the keys: 0 in self-attention.
func (o Attention) Keys() int {
	if o.Cross || o.KVHeads > 0 {
		return 1
	}
	return 0
}

// Values returns the index of the input that has the values, the last but for lengths.
func (o Attention) Values() int {
	if o.KVHeads > 0 {
		return 2
	}
	return o.Keys()
}

// Sharing returns the number of heads of queries for each head of keys and values.
func (o Attention) Sharing() int {
	if o.KVHeads > 0 {
		return o.Heads / o.KVHeads
	}
	return 1
}

// AttentionGrad takes do, o, lse and the inputs of the attention, and returns
// the gradients of its floating-point inputs.
type AttentionGrad struct{ Attention }

// Rotary rotates pairs of elements by angles that grow with a row's position (Su et al. 2021,
// section 3.2): of x (b, t, n*HeadDim), whose rows have heads side by side, and a table (t', HeadDim),
// t' >= t, each row of which has the cosines of the pairs' angles, then their sines. A pair is an
// element of the first half of a head and that of the second half at the same place, as weights of
// LLaMA are published; the paper pairs neighbours, which is the same up to the order of the columns
// of projections. Inverse rotates back, which is the gradient.
type Rotary struct {
	HeadDim int
	Inverse bool
}

// AdditiveAttention is attention whose scores are sums (Bahdanau et al. 2015, section
// 3.1 and appendix A.1.2): with queries q (b, tq, h), keys k (b, tk, h), a vector u (b, h)
// of each example and values v (b, tk, d),
//
//	s_ij = u · tanh(q_i + k_j),  o_i = Σ_j softmax_j(s_ij) v_j
//
// If Padded, a last input has lengths (b) int32: keys at and beyond a length are not seen;
// with a length of 0, o is 0. Outputs: o (b, tq, d) and the softmax (b, tq, tk). The
// tangents, which are h times as many, are not stored: the backward computes them again.
type AdditiveAttention struct{ Padded bool }

// AdditiveAttentionGrad takes do, the softmax and the inputs of the attention, and
// returns the gradients of q, k, u and v.
type AdditiveAttentionGrad struct{ Of AdditiveAttention }

// LSTM is a layer of long short-term memory as one scan over time (Hochreiter and
// Schmidhuber 1997, with the forget gate of Gers et al. 2000), from a state of zeros:
//
//	z_t = x_t·Wx + b + h_{t-1}·W          i, f, g, o side by side, in this order
//	c_t = σ(f) c_{t-1} + σ(i) tanh(g)
//	h_t = σ(o) tanh(c_t)
//
// Inputs:
//
//	hoisted: x·Wx + b (b, t, 4h) of all steps, W (h, 4h)
//	Inside:  x (b, t, d), Wx (d, 4h), b (4h), W (h, 4h)
//
// and, if Padded, lengths (b) int32: at and beyond a length everything is zero. A
// Reverse scan starts at the last step, or at that of the length. Outputs: the activated
// gates (b, t, 4h), h (b, t, h) and c (b, t, h).
//
// Both forms have the same bits but for the gradients of the parameters. Hoisted, these
// are products after the loop, over the rows of all examples and steps in this order.
// Inside, the loop adds up the products of each step, over the examples of a
// micro-batch: then bits depend on the micro-batches, and the op is outside the
// arithmetic contract. It is there to be compared with (Kumar et al. 2019, section 3,
// GNMT).
type LSTM struct{ Reverse, Padded, Inside bool }

func (o LSTM) String() string {
	if o.Reverse {
		return "reverse"
	}
	return ""
}

// Weight is the index of W among the inputs.
func (o LSTM) Weight() int {
	if o.Inside {
		return 3
	}
	return 1
}

// Dims returns the sizes of a scan with the shapes of its first input and of W: width, of x, is 0
// if its projection is hoisted.
func (o LSTM) Dims(x, w []int) (examples, time, width, hidden int) {
	if o.Inside {
		width = x[2]
	}
	return x[0], x[1], width, w[0]
}

// LSTMGrad takes dh, the gates, c, Wx if inside, W and the lengths if padded. It
// returns dz (b, t, 4h) and, if inside, dx (b, t, d).
type LSTMGrad struct{ Of LSTM }

func (o LSTMGrad) String() string { return o.Of.String() }

// LSTMWeightGrad adds to dWx, db and dW, step by step from the last one of the scan:
// inputs x, h and dz.
type LSTMWeightGrad struct{ Of LSTM }

func (o LSTMWeightGrad) String() string { return o.Of.String() }

// Previous is y_t = x_{t-1} of x (b, t, d), or x_{t+1} if Reverse, zero where there is
// none: the states that a scan has read.
type Previous struct{ Reverse bool }
