package kernel

// LSTMShape describes a scan of long short-term memory over Time steps of Examples
// examples, with Hidden units. Tensors are (Examples, Time, width), row-major; the four
// gates i, f, g, o of a step are side by side.
//
// The bits of an example depend on its inputs, its length and the weights alone: not on
// the other examples, nor on padding, which is never read. The gates' sums start from the
// projection of the input plus zero, and the gradients of h from those of the output plus
// zero: so a product with a state of zeros, which an example has if it is shorter than
// others, is the same as none.
type LSTMShape struct {
	Examples, Time, Hidden int
	// Input is the width of x if its projection is within the loop, else 0.
	Input   int
	Reverse bool // from the last step to the first
}

// LSTMInput is what a scan reads: Z, the projections of all steps (4*Hidden wide), or if
// Input is set X (Input wide), W (Input, 4*Hidden) and Bias (4*Hidden).
type LSTMInput struct{ Z, X, W, Bias []float32 }

// LSTM computes the activated gates, y, which is h, and the cells c of all steps, from
// states of zeros; see op.LSTM for the formulas. W is (Hidden, 4*Hidden). Lengths
// has one for each example; nil: all have Time steps. Beyond a length everything is 0.
// Gates may be Z. Scratch has Scratch floats.
func LSTM(s LSTMShape, gates, y, cells []float32, in LSTMInput, w []float32, lengths []int32, scratch []float32) {
	h, g := s.Hidden, 4*s.Hidden
	zeros, scratch := scratch[:g], scratch[g:]
	clear(zeros)
	// Every step multiplies few rows by the whole weight, which a product would pack each time.
	packed, scratch := scratch[:packedFloats(g, h)], scratch[packedFloats(g, h):]
	packed = packAhead(g, h, w, g, packed)
	s.clearPadding(gates, g, lengths)
	s.clearPadding(y, h, lengths)
	s.clearPadding(cells, h, lengths)
	steps := s.steps(lengths)
	for k := range steps {
		t := s.at(k, steps)
		if s.Input > 0 {
			d := s.Input
			Gemm(s.Examples, g, d, in.X[t*d:], s.Time*d, 1, in.W, g, 1, gates[t*g:], s.Time*g, false, scratch, nil)
		}
		for e := range s.Examples {
			switch row := s.row(gates, g, e, t); {
			case t >= s.length(lengths, e):
				clear(row)
			case s.Input > 0:
				Add(row, row, in.Bias)
				Add(row, row, zeros)
			default:
				Add(row, s.row(in.Z, g, e, t), zeros)
			}
		}
		before := s.at(k-1, steps)
		if k > 0 {
			multiply(s.Examples, g, h, y[before*h:], s.Time*h, packed, gates[t*g:], s.Time*g, true, scratch)
		}
		for e := range s.Examples {
			row := s.row(gates, g, e, t)
			if t >= s.length(lengths, e) {
				clear(row)
				continue
			}
			c, old := s.row(cells, h, e, t), zeros[:h]
			if k > 0 {
				old = s.row(cells, h, e, before)
			}
			Sigmoid(row[:2*h], row[:2*h])
			Tanh(row[2*h:3*h], row[2*h:3*h])
			Sigmoid(row[3*h:], row[3*h:])
			out := s.row(y, h, e, t)
			Mul(c, row[h:2*h], old)
			Mul(out, row[:h], row[2*h:3*h])
			Add(c, c, out)
			Tanh(out, c)
			Mul(out, out, row[3*h:])
		}
	}
}

// Scratch returns the length of LSTM's scratch. It does not depend on Time or Reverse,
// and is monotone in the sizes.
func (s LSTMShape) Scratch() int {
	return 4*s.Hidden + packedFloats(4*s.Hidden, s.Hidden) + max(GemmScratch(s.Examples, 4*s.Hidden, s.Hidden), GemmScratch(s.Examples, 4*s.Hidden, s.Input))
}

// LSTMGrad computes dz, the gradients of the gates' sums, from dy and the results of
// LSTM; and if Input is set dx from dz and wx (Input, 4*Hidden). Both are 0 beyond a
// length. Scratch has GradScratch floats.
func LSTMGrad(s LSTMShape, dz, dx, dy, gates, cells, wx, w []float32, lengths []int32, scratch []float32) {
	h, g, d := s.Hidden, 4*s.Hidden, s.Input
	cut := func(n int) []float32 {
		x := scratch[:n:n]
		scratch = scratch[n:]
		return x
	}
	zeros, tanh, v := cut(h), cut(h), cut(h)
	dh, dc := cut(s.Examples*h), cut(s.Examples*h)
	// A product with the transposed weight would copy it in every step.
	ld, ldx := roundUp16(h), roundUp16(d)
	turned, turnedX := cut(g*ld), cut(g*ldx)
	attention.transpose(turned, ld, w, g, h, g)
	if d > 0 {
		attention.transpose(turnedX, ldx, wx, g, d, g)
		s.clearPadding(dx, d, lengths)
	}
	clear(zeros)
	clear(dc)
	s.clearPadding(dz, g, lengths)
	steps := s.steps(lengths)
	for k := steps - 1; k >= 0; k-- {
		t := s.at(k, steps)
		for e := range s.Examples {
			if row := dh[e*h : (e+1)*h]; t < s.length(lengths, e) {
				Add(row, s.row(dy, h, e, t), zeros)
			} else {
				clear(row)
			}
		}
		if k < steps-1 {
			Gemm(s.Examples, h, g, dz[s.at(k+1, steps)*g:], s.Time*g, 1, turned, ld, 1, dh, h, true, scratch, nil)
		}
		for e := range s.Examples {
			if t >= s.length(lengths, e) {
				continue
			}
			row, dRow, old := s.row(gates, g, e, t), s.row(dz, g, e, t), zeros
			if k > 0 {
				old = s.row(cells, h, e, s.at(k-1, steps))
			}
			dh, dc := dh[e*h:(e+1)*h], dc[e*h:(e+1)*h]
			in, forget, candidate, out := row[:h], row[h:2*h], row[2*h:3*h], row[3*h:]
			Tanh(tanh, s.row(cells, h, e, t))
			Mul(v, dh, out)
			TanhGrad(v, v, tanh)
			Add(dc, dc, v)
			Mul(v, dh, tanh)
			SigmoidGrad(dRow[3*h:], v, out)
			Mul(v, dc, candidate)
			SigmoidGrad(dRow[:h], v, in)
			Mul(v, dc, old)
			SigmoidGrad(dRow[h:2*h], v, forget)
			Mul(v, dc, in)
			TanhGrad(dRow[2*h:3*h], v, candidate)
			Mul(dc, dc, forget)
		}
		if d > 0 {
			Gemm(s.Examples, d, g, dz[t*g:], s.Time*g, 1, turnedX, ldx, 1, dx[t*d:], s.Time*d, false, scratch, nil)
		}
	}
}

// GradScratch returns the length of LSTMGrad's scratch: the weights transposed, and rows
// of a step. It does not depend on Time or Reverse, and is monotone in the sizes.
func (s LSTMShape) GradScratch() int {
	h, g := s.Hidden, 4*s.Hidden
	return 3*h + 2*s.Examples*h + g*(roundUp16(h)+roundUp16(s.Input)) + max(GemmScratch(s.Examples, h, g), GemmScratch(s.Examples, s.Input, g))
}

// LSTMWeightGrad adds to the columns from from to to-1 of dwx (Input, 4*Hidden), dbias and
// dw (Hidden, 4*Hidden) the products of x and of the states before each step with dz, one
// step after another from the scan's last one: a chain over the steps, and within each
// over the examples. Scratch has WeightGradScratch floats for as many columns.
func LSTMWeightGrad(s LSTMShape, dwx, dbias, dw, x, y, dz []float32, from, to int, scratch []float32) {
	h, g, d := s.Hidden, 4*s.Hidden, s.Input
	for k := s.Time - 1; k >= 0; k-- {
		rows := dz[s.at(k, s.Time)*g+from:]
		Gemm(d, to-from, s.Examples, x[s.at(k, s.Time)*d:], 1, s.Time*d, rows, s.Time*g, 1, dwx[from:], g, true, scratch, nil)
		ColSum(dbias[from:to], rows, s.Examples, to-from, s.Time*g)
		if k > 0 {
			Gemm(h, to-from, s.Examples, y[s.at(k-1, s.Time)*h:], 1, s.Time*h, rows, s.Time*g, 1, dw[from:], g, true, scratch, nil)
		}
	}
}

// WeightGradScratch returns the length of LSTMWeightGrad's scratch for some columns.
func (s LSTMShape) WeightGradScratch(columns int) int {
	return max(GemmScratch(s.Hidden, columns, s.Examples), GemmScratch(s.Input, columns, s.Examples))
}

// Previous sets dst (Examples, Time, Hidden) to the state of x before each step of the
// scan, and to 0 in the first.
func Previous(s LSTMShape, dst, x []float32) {
	for k := range s.Time {
		for e := range s.Examples {
			if row := s.row(dst, s.Hidden, e, s.at(k, s.Time)); k > 0 {
				copy(row, s.row(x, s.Hidden, e, s.at(k-1, s.Time)))
			} else {
				clear(row)
			}
		}
	}
}

// at returns the time of the k-th of some steps.
func (s LSTMShape) at(k, steps int) int {
	if s.Reverse {
		return steps - 1 - k
	}
	return k
}

// steps returns the length of the longest example: what is beyond is only padding.
func (s LSTMShape) steps(lengths []int32) int {
	most := 0
	for e := range s.Examples {
		most = max(most, s.length(lengths, e))
	}
	return most
}

func (s LSTMShape) length(lengths []int32, e int) int {
	if lengths == nil {
		return s.Time
	}
	return max(0, min(s.Time, int(lengths[e])))
}

// row returns step t of example e of x.
func (s LSTMShape) row(x []float32, width, e, t int) []float32 {
	at := (e*s.Time + t) * width
	return x[at : at+width : at+width]
}

func (s LSTMShape) clearPadding(x []float32, width int, lengths []int32) {
	for e := range s.Examples {
		clear(x[(e*s.Time+s.length(lengths, e))*width : (e+1)*s.Time*width])
	}
}
