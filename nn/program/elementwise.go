package program

import (
	"math"
	"slices"

	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
	"gpipebench/nn/philox"
)

func init() {
	register(func(_ op.Add, c *graph.Call) traits {
		t := pointwise(c, func(b stretch) {
			if b.step.act != nil {
				kernel.AddRelu(b.out[0], b.in[0], b.in[1])
			} else {
				kernel.Add(b.out[0], b.in[0], b.in[1])
			}
		})
		t.fuse, t.activation = fuseReLU, ofLosses(c)
		return t
	})
	register(func(_ op.Sub, c *graph.Call) traits { return binary(c, kernel.Sub) })
	register(func(_ op.Mul, c *graph.Call) traits { return binary(c, kernel.Mul) })
	register(func(_ op.Div, c *graph.Call) traits {
		return binary(c, func(dst, a, b []float32) {
			for i := range dst {
				dst[i] = a[i] / b[i]
			}
		})
	})
	register(func(_ op.Sqrt, c *graph.Call) traits {
		return unary(c, func(dst, x []float32) {
			for i := range dst {
				dst[i] = float32(math.Sqrt(float64(x[i])))
			}
		})
	})
	register(func(o op.Scale, c *graph.Call) traits {
		t := unary(c, func(dst, x []float32) { kernel.Scale(dst, x, o.S) })
		t.activation = ofLosses(c)
		return t
	})
	register(func(o op.Shift, c *graph.Call) traits {
		return unary(c, func(dst, x []float32) { kernel.Shift(dst, x, o.S) })
	})
	register(func(_ op.Copy, c *graph.Call) traits {
		t := unary(c, func(dst, x []float32) { copy(dst, x) })
		t.blocks = asItIs
		t.activation = func(s *storage) (is, known bool) { return s.activation(c.In[0]), true }
		return t
	})

	register(func(_ op.Exp, c *graph.Call) traits { return unary(c, kernel.Exp) })
	register(func(_ op.Log, c *graph.Call) traits { return unary(c, kernel.Log) })
	register(func(_ op.LogGrad, c *graph.Call) traits { return binary(c, kernel.LogGrad) })
	register(func(_ op.Sigmoid, c *graph.Call) traits { return unary(c, kernel.Sigmoid) })
	register(func(_ op.SigmoidGrad, c *graph.Call) traits { return binary(c, kernel.SigmoidGrad) })
	register(func(_ op.Tanh, c *graph.Call) traits { return unary(c, kernel.Tanh) })
	register(func(_ op.TanhGrad, c *graph.Call) traits { return binary(c, kernel.TanhGrad) })
	register(func(_ op.ReLU, c *graph.Call) traits { return unary(c, kernel.Relu) })
	register(func(_ op.ReLUGrad, c *graph.Call) traits { return binary(c, kernel.ReluGrad) })
	register(func(_ op.GELU, c *graph.Call) traits { return unary(c, kernel.Gelu) })
	register(func(_ op.GELUGrad, c *graph.Call) traits { return binary(c, kernel.GeluGrad) })
	register(func(_ op.SwiGLU, c *graph.Call) traits { return binary(c, kernel.SwiGLU) })
	register(func(_ op.SwiGLUGrad, c *graph.Call) traits {
		t := pointwise(c, func(b stretch) { kernel.SwiGLUGrad(b.out[0], b.out[1], b.in[0], b.in[1], b.in[2]) })
		t.rows.out = []int{1, 1}
		return t
	})
	register(func(o op.Clip, c *graph.Call) traits {
		return unary(c, func(dst, x []float32) { kernel.Clip(dst, x, o.Limit) })
	})
	register(func(o op.ClipGrad, c *graph.Call) traits {
		return binary(c, func(dst, dy, x []float32) { kernel.ClipGrad(dst, dy, x, o.Limit) })
	})
	register(func(o graph.ElementwiseOp, c *graph.Call) traits {
		f := o.F()
		return unary(c, func(dst, x []float32) {
			for i := range dst {
				dst[i] = float32(f(float64(x[i])))
			}
		})
	})
	register(func(o graph.ElementwiseGradOp, c *graph.Call) traits {
		derivative := o.Derivative()
		return binary(c, func(dst, dy, x []float32) {
			for i := range dst {
				dst[i] = float32(float64(dy[i]) * derivative(float64(x[i])))
			}
		})
	})

	register(func(_ op.AddBias, c *graph.Call) traits {
		rows, cols := matrix(c.In[0])
		return traits{elementwise: true, columns: true, rule: ownRows(c), rows: &byRow{rows: rows, in: []int{cols, 0}, out: []int{cols}, run: func(b stretch) {
			kernel.AddBias(b.out[0], b.in[0], b.in[1], b.n, cols, cols)
		}}}
	})
	register(func(_ op.ColumnSum, c *graph.Call) traits {
		_, cols := matrix(c.In[0])
		return traits{
			columns: true,
			rows:    sumOfRows(c.In[0].Shape.Rows(), cols),
			rule:    rule{Division: Partial, needs: sameRows, over: c.In[0]},
			area: func(n, of int) area {
				from, to := shareColumns(cols, n, of)
				return areaOf(0, 1, from, to, cols)
			},
		}
	})

	register(func(o op.Dropout, c *graph.Call) traits {
		t := pointwise(c, func(b stretch) {
			dropout(b.w, o, b.out[0], b.in[0], b.addend(), perExample(c), b.first, b.step.within)
		})
		t.fuse = fuseAdd
		return t
	})
	register(func(o op.DropPath, c *graph.Call) traits {
		return pointwise(c, func(b stretch) { dropPath(b.w, o, b.out[0], b.in[0], perExample(c), b.first) })
	})
}

// ofLosses says that a result is a loss, or a statistic, if no operand is an activation.
func ofLosses(c *graph.Call) func(s *storage) (is, known bool) {
	return func(s *storage) (is, known bool) { return false, s.Rounded && !slices.ContainsFunc(c.In, s.activation) }
}

// asItIs moves values that are stored alike as memory.
func asItIs(k *conversion, _ bool, _ int) (kernelFunc, int) {
	if k.in[0] != k.out[0] {
		return nil, 0
	}
	return moveAll, 0
}

// moveAll moves an operand, whatever its elements.
func moveAll(_ *worker, in, out [][]float32, part, parts int) {
	from, to := share(len(out[0]), part, parts, align)
	move(out[0][from:to], in[0][from:to])
}

// sumOfRows adds rows as one chain for each column.
func sumOfRows(rows, cols int) *byRow {
	return &byRow{rows: rows, in: []int{cols}, out: []int{0}, adds: true, run: func(b stretch) {
		from, to := shareColumns(cols, b.part, b.parts)
		kernel.ColSum(b.out[0][from:to], b.in[0][from:], b.n, to-from, cols)
	}}
}

// dropout computes the elements of a micro-batch from first on. An example has per of
// them, after a number before the part's first.
func dropout(w *worker, o op.Dropout, dst, x, add []float32, per, first, before int) {
	key := philox.KeyOf(w.env.Seed, o.Path)
	for i := 0; i < len(dst); {
		example, within := (first+i)/per, (first+i)%per
		end := min(len(dst), i+per-within)
		var addend []float32
		if add != nil {
			addend = add[i:end]
		}
		kernel.Dropout(dst[i:end], x[i:end], addend, o.Rate, key, w.env.Step, w.env.Example+uint64(example), before+within)
		i = end
	}
}

// perExample returns the number of elements of each example of a call's input.
func perExample(c *graph.Call) int { return c.In[0].Elems() / c.In[0].Shape[0] }

// dropPath computes the elements of a micro-batch from first on. An example has per of
// them. It draws one number for each example.
func dropPath(w *worker, o op.DropPath, dst, x []float32, per, first int) {
	rate := o.At(w.env.Step)
	keep := float32(1 / (1 - rate))
	key := philox.KeyOf(w.env.Seed, o.Path)
	for i := 0; i < len(dst); {
		example, within := (first+i)/per, (first+i)%per
		end := min(len(dst), i+per-within)
		index := w.env.Example + uint64(example)
		word := philox.Block(key, [4]uint32{0, uint32(w.env.Step), uint32(index), uint32(w.env.Step>>32) ^ uint32(index>>32)<<16})[0]
		if word < uint32(rate*(1<<32)) {
			kernel.Zero(dst[i:end])
		} else {
			kernel.Scale(dst[i:end], x[i:end], keep)
		}
		i = end
	}
}
