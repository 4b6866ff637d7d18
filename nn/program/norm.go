package program

import (
	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// Norms and losses, row by row.

func init() {
	register(func(o op.LayerNorm, c *graph.Call) traits {
		rows, cols := matrix(c.In[0])
		return traits{rows: &byRow{rows: rows, in: []int{cols, 0, 0}, out: []int{cols, 2}, run: func(b stretch) {
			kernel.LayerNorm(b.out[0], b.out[1], b.in[0], b.in[1], b.in[2], b.n, cols, o.Eps)
		}}}
	})
	register(func(_ op.LayerNormGrad, c *graph.Call) traits {
		rows, cols := matrix(c.In[0])
		return traits{fuse: fuseAdd, rows: &byRow{rows: rows, in: []int{cols, cols, 0, 2}, out: []int{cols}, run: func(b stretch) {
			kernel.LayerNormGrad(b.out[0], b.in[0], b.in[1], b.in[2], b.in[3], b.addend(), b.n, cols)
		}}}
	})
	register(func(_ op.LayerNormParamGrad, c *graph.Call) traits {
		rows, cols := matrix(c.In[0])
		return traits{rows: &byRow{rows: rows, in: []int{cols, cols, 2}, out: []int{0, 0}, adds: true, run: func(b stretch) {
			from, to := shareColumns(cols, b.part, b.parts)
			kernel.LayerNormParamGrad(b.out[0][from:to], b.out[1][from:to], b.in[0][from:], b.in[1][from:], b.in[2], b.n, to-from, cols)
		}}}
	})

	register(func(o op.RMSNorm, c *graph.Call) traits {
		rows, cols := matrix(c.In[0])
		return traits{rows: &byRow{rows: rows, in: []int{cols, 0}, out: []int{cols, 1}, run: func(b stretch) {
			kernel.RMSNorm(b.out[0], b.out[1], b.in[0], b.in[1], b.n, cols, o.Eps)
		}}}
	})
	register(func(_ op.RMSNormGrad, c *graph.Call) traits {
		rows, cols := matrix(c.In[0])
		return traits{rows: &byRow{rows: rows, in: []int{cols, cols, 0, 1}, out: []int{cols}, run: func(b stretch) {
			kernel.RMSNormGrad(b.out[0], b.in[0], b.in[1], b.in[2], b.in[3], b.n, cols)
		}}}
	})
	register(func(_ op.RMSNormParamGrad, c *graph.Call) traits {
		rows, cols := matrix(c.In[0])
		return traits{rows: &byRow{rows: rows, in: []int{cols, cols, 1}, out: []int{0}, adds: true, run: func(b stretch) {
			from, to := shareColumns(cols, b.part, b.parts)
			kernel.RMSNormParamGrad(b.out[0][from:to], b.in[0][from:], b.in[1][from:], b.in[2], b.n, to-from, cols)
		}}}
	})

	register(func(_ op.Softmax, c *graph.Call) traits {
		rows, cols := matrix(c.In[0])
		return traits{rows: &byRow{rows: rows, in: []int{cols}, out: []int{cols}, run: func(b stretch) {
			kernel.Softmax(b.out[0], b.in[0], b.n, cols)
		}}}
	})
	register(func(_ op.SoftmaxGrad, c *graph.Call) traits {
		rows, cols := matrix(c.In[0])
		return traits{rows: &byRow{rows: rows, in: []int{cols, cols}, out: []int{cols}, run: func(b stretch) {
			kernel.SoftmaxGrad(b.out[0], b.in[0], b.in[1], b.n, cols)
		}}}
	})

	register(func(o op.CrossEntropy, c *graph.Call) traits {
		rows, cols := matrix(c.In[0])
		r := &byRow{rows: rows, in: []int{cols, 1}, out: []int{1, 1, 1}, run: func(b stretch) {
			kernel.CrossEntropy(b.out[0], b.out[1], b.out[2], b.in[0], ints(b.in[1]), b.n, cols, o.Smoothing)
			if o.Ranks {
				kernel.TargetRanks(b.out[3], b.in[0], ints(b.in[1]), b.n, cols)
			}
		}}
		if o.Ranks {
			r.out = append(r.out, 1)
		}
		return traits{rows: r}
	})
	register(func(o op.CrossEntropyGrad, c *graph.Call) traits {
		return lossGrad{o.Smoothing, 0, c.In[0].Shape.Last()}.traits(c)
	})
	register(func(_ op.EndLoss, c *graph.Call) traits {
		t := unary(c, move)
		t.rule, t.reshapes = rule{}, true
		t.activation = func(s *storage) (is, known bool) { return false, s.Rounded }
		return t
	})
	register(func(_ op.LossScale, c *graph.Call) traits {
		t := pointwise(c, func(b stretch) {
			for i := range b.out[0] {
				b.out[0][i] = b.w.env.LossScale
			}
		})
		t.rule = rule{}
		return t
	})
}
