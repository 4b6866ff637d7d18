package program

import (
	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// Scans of recurrent layers. Threads share the examples: each has a loop of its own.

func init() {
	// of are the traits of a scan, or of its gradient, with these sizes of a step's product.
	of := func(c *graph.Call, examples, width, hidden int, kernel func(s *step, accumulates bool, threads int) (kernelFunc, int)) traits {
		return traits{
			product: product{"dense", min(examples, width+hidden), []int{4 * hidden, width + hidden}, Dims{}},
			scan:    c.In[0].Shape[1], kernel: kernel,
		}
	}
	register(func(o op.LSTM, c *graph.Call) traits {
		examples, _, width, hidden := o.Dims(c.In[0].Shape, c.In[o.Weight()].Shape)
		return of(c, examples, width, hidden, func(_ *step, _ bool, threads int) (kernelFunc, int) {
			return lowerLSTM(o, c, threads)
		})
	})
	register(func(o op.LSTMGrad, c *graph.Call) traits {
		dy, width := c.In[0].Shape, 0
		if o.Of.Inside {
			width = c.In[3].Shape[0]
		}
		return of(c, dy[0], width, dy[2], func(_ *step, _ bool, threads int) (kernelFunc, int) {
			return lowerLSTMGrad(o.Of, dy, width, threads)
		})
	})
	register(func(o op.LSTMWeightGrad, c *graph.Call) traits {
		x, hidden := c.In[0].Shape, c.In[1].Shape[2]
		return of(c, x[0], x[2], hidden, func(_ *step, accumulates bool, threads int) (kernelFunc, int) {
			return lowerLSTMWeightGrad(o.Of, x, hidden, accumulates, threads)
		})
	})
	register(func(o op.Previous, c *graph.Call) traits {
		x := c.In[0].Shape
		all := lstmOf(op.LSTM{Reverse: o.Reverse}, x[0], x[1], 0, x[2])
		return traits{kernel: plain(func(_ *worker, in, out [][]float32, part, parts int) {
			s := all.thread(part, parts)
			kernel.Previous(s.LSTMShape, s.of(out[0]), s.of(in[0]))
		})}
	})
}

// scan is the part of a scan that a thread has.
type scan struct {
	kernel.LSTMShape
	all, from, to int // examples
}

func lstmOf(o op.LSTM, examples, time, width, hidden int) scan {
	return scan{kernel.LSTMShape{Examples: examples, Time: time, Hidden: hidden, Input: width, Reverse: o.Reverse}, examples, 0, examples}
}

// thread returns the part of one of some threads.
func (s scan) thread(part, parts int) scan {
	s.from, s.to = share(s.all, part, parts, 1)
	s.Examples = s.to - s.from
	return s
}

// largest returns the largest part that one of some threads has.
func (s scan) largest(threads int) kernel.LSTMShape {
	s.Examples = (s.all + threads - 1) / threads
	return s.LSTMShape
}

// of returns the part's examples of a tensor of all.
func (s scan) of(x []float32) []float32 {
	each := len(x) / s.all
	return x[s.from*each : s.to*each : s.to*each]
}

// lengths returns the lengths of the part's examples, the last of the inputs, if there are any.
func (s scan) lengths(o op.LSTM, in [][]float32) []int32 {
	if !o.Padded {
		return nil
	}
	return ints(in[len(in)-1])[s.from:s.to]
}

func lowerLSTM(o op.LSTM, c *graph.Call, threads int) (kernelFunc, int) {
	examples, time, width, hidden := o.Dims(c.In[0].Shape, c.In[o.Weight()].Shape)
	all := lstmOf(o, examples, time, width, hidden)
	return func(w *worker, in, out [][]float32, part, parts int) {
		s := all.thread(part, parts)
		if s.Examples == 0 {
			return
		}
		given := kernel.LSTMInput{Z: s.of(in[0])}
		if o.Inside {
			given = kernel.LSTMInput{X: s.of(in[0]), W: in[1], Bias: in[2]}
		}
		kernel.LSTM(s.LSTMShape, s.of(out[0]), s.of(out[1]), s.of(out[2]), given, in[o.Weight()], s.lengths(o, in), w.scratch)
	}, all.largest(threads).Scratch()
}

// lowerLSTMGrad: inputs are dh, the gates, c, Wx if inside, W, and the lengths.
func lowerLSTMGrad(o op.LSTM, dy graph.Shape, width, threads int) (kernelFunc, int) {
	all := lstmOf(o, dy[0], dy[1], width, dy[2])
	return func(w *worker, in, out [][]float32, part, parts int) {
		s := all.thread(part, parts)
		if s.Examples == 0 {
			return
		}
		var dx, wx []float32
		recurrent := in[3]
		if o.Inside {
			dx, wx, recurrent = s.of(out[1]), in[3], in[4]
		}
		kernel.LSTMGrad(s.LSTMShape, s.of(out[0]), dx, s.of(in[0]), s.of(in[1]), s.of(in[2]), wx, recurrent, s.lengths(o, in), w.scratch)
	}, all.largest(threads).GradScratch()
}

// lowerLSTMWeightGrad: inputs are x, h and dz. Threads share the columns.
func lowerLSTMWeightGrad(o op.LSTM, x graph.Shape, hidden int, accumulates bool, threads int) (kernelFunc, int) {
	s := lstmOf(o, x[0], x[1], x[2], hidden).LSTMShape
	columns := 0
	for p := range threads {
		from, to := share(4*hidden, p, threads, colUnit)
		columns = max(columns, to-from)
	}
	if !accumulates {
		columns = 4 * hidden // fromZero runs on one thread
	}
	return fromZero(!accumulates, func(w *worker, in, out [][]float32, part, parts int) {
		if from, to := share(4*hidden, part, parts, colUnit); from < to {
			kernel.LSTMWeightGrad(s, out[0], out[1], out[2], in[0], in[1], in[2], from, to, w.scratch)
		}
	}), s.WeightGradScratch(columns)
}
