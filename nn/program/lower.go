package program

import (
	"fmt"
	"unsafe"

	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
	"gpipebench/nn/internal/gradop"
	"gpipebench/nn/philox"
)

// kernelFunc computes one part of an instruction. Operands are in the order of
// the step's inputs and outputs.
type kernelFunc func(w *worker, in, out [][]float32, part, parts int)

// lower returns the kernel of a step and the scratch that a thread needs, in
// floats. Ops that accumulate add to their outputs if accumulates is true, and
// start from zero otherwise.
func lower(s *step, accumulates bool, threads int) (fn kernelFunc, scratch int) {
	switch op := attributesOf(s.call.Op).(type) {
	case graph.MatMulOp:
		return lowerMatMul(s, op, accumulates, threads)
	case graph.AttentionOp:
		return lowerAttention(op, s.call.In)
	case gradop.Attention[graph.AttentionOp]:
		return lowerAttentionGrad(op, s.call.In[3:])
	case graph.AdditiveAttentionOp:
		return lowerAdditive(op, s.call.In)
	case gradop.AdditiveAttention[graph.AdditiveAttentionOp]:
		return lowerAdditiveGrad(op, s.call.In[2:])
	case graph.LSTMOp:
		return lowerLSTM(op, s.call, threads)
	case gradop.LSTM[graph.LSTMOp]:
		return lowerLSTMGrad(op.Of, s.call, threads)
	case gradop.LSTMWeight[graph.LSTMOp]:
		return lowerLSTMWeightGrad(op.Of, s.call, accumulates, threads)
	case gradop.Previous:
		return lowerPrevious(op, s.call), 0
	case graph.EmbedOp:
		return lowerEmbed(op, s.call), 0
	case graph.DropoutOp:
		return lowerDropout(op, s), 0
	case graph.LayerNormOp:
		return lowerLayerNorm(op, s.call), 0
	case gradop.LayerNorm:
		return lowerLayerNormGrad(s), 0
	case graph.CrossEntropyOp:
		return lowerCrossEntropy(op, s.call), 0
	case gradop.CrossEntropy:
		return lowerCrossEntropyGrad(op, s.call), 0

	case graph.Conv2DOp:
		return lowerConv(op, s.call, threads)
	case gradop.ConvInput[graph.Window]:
		return lowerConvInputGrad(op, s.call, threads)
	case gradop.ConvWeight[graph.Window]:
		return lowerConvWeightGrad(op, s.call, accumulates, threads)
	case graph.DepthwiseOp:
		return lowerDepthwise(op, s.call), 0
	case gradop.DepthwiseInput[graph.DepthwiseOp]:
		return lowerDepthwiseInputGrad(op, s.call), 0
	case gradop.DepthwiseWeight[graph.DepthwiseOp]:
		return lowerDepthwiseWeightGrad(op, s.call, accumulates), 0
	case graph.MaxPoolOp:
		return lowerPool(poolOf(op.Window, s.call.In[0].Shape, s.call.Out[0].Shape), kernel.MaxPool), 0
	case gradop.MaxPool[graph.Window]:
		return lowerMaxPoolGrad(op, s.call), 0
	case graph.AvgPoolOp:
		return lowerPool(poolOf(op.Window, s.call.In[0].Shape, s.call.Out[0].Shape), kernel.AvgPool), 0
	case gradop.AvgPool[graph.Window]:
		return lowerAvgPoolGrad(op, s.call), 0
	case graph.GlobalAvgPoolOp:
		return lowerGlobalAvgPool(s.call), 0
	case gradop.GlobalAvgPool:
		return lowerGlobalAvgPoolGrad(s.call), 0
	case graph.ConcatOp:
		return lowerConcat(s.call), 0
	case graph.SliceOp:
		return lowerSlice(op, s.call), 0
	case graph.PadOp:
		return lowerPad(op, s.call), 0
	case graph.DropPathOp:
		return lowerDropPath(op, s.call), 0
	case graph.BatchNormMomentsOp:
		return lowerBatchNormMoments(s.call), 0
	case graph.BatchNormStatsOp:
		return lowerBatchNormStats(op, s.call), 0
	case graph.BatchNormTallyOp:
		return lowerBatchNormTally(op, s.call), 0
	case graph.BatchNormOverReplicasOp:
		return unary(move), 0 // in place; see Meeting for the rest
	case graph.BatchNormWideStatsOp:
		return lowerBatchNormWideStats(op, s.call), 0
	case graph.BatchNormOp:
		return lowerBatchNorm(op, s), 0
	case graph.BatchNormEvalOp:
		return lowerBatchNormEval(op, s), 0
	case gradop.BatchNormSums:
		return lowerBatchNormGradSums(op, s.call), 0
	case gradop.BatchNormTotals:
		return lowerBatchNormGradTotals(s.call), 0
	case gradop.BatchNormWideTotals:
		return lowerBatchNormWideTotals(s.call), 0
	case gradop.BatchNorm:
		return lowerBatchNormGrad(op, s), 0
	case gradop.BatchNormParams:
		return fromZero(!accumulates, lowerBatchNormParamGrad(s.call)), 0

	case gradop.ColumnSum:
		rows, cols := matrix(s.call.In[0])
		return fromZero(!accumulates, func(_ *worker, in, out [][]float32, part, parts int) {
			from, to := shareColumns(cols, part, parts)
			kernel.ColSum(out[0][from:to], in[0][from:], rows, to-from, cols)
		}), 0
	case gradop.LayerNormParams:
		rows, cols := matrix(s.call.In[0])
		return fromZero(!accumulates, func(_ *worker, in, out [][]float32, part, parts int) {
			from, to := share(cols, part, parts, align)
			kernel.LayerNormParamGrad(out[0][from:to], out[1][from:to], in[0][from:], in[1][from:], in[2], rows, to-from, cols)
		}), 0
	case gradop.Embed:
		dim := s.call.In[0].Shape.Last()
		return fromZero(!accumulates, func(_ *worker, in, out [][]float32, part, parts int) {
			from, to := share(dim, part, parts, align)
			kernel.EmbedGrad(out[0], in[0], ints(in[1]), dim, from, to, op.Scale)
		}), 0

	case graph.AddBiasOp:
		rows, cols := matrix(s.call.In[0])
		return func(_ *worker, in, out [][]float32, part, parts int) {
			from, to := share(rows, part, parts, 1)
			kernel.AddBias(out[0][from*cols:], in[0][from*cols:], in[1], to-from, cols, cols)
		}, 0
	case graph.AddOp:
		if s.act != nil {
			return binary(kernel.AddRelu), 0
		}
		return binary(kernel.Add), 0
	case graph.MulOp:
		return binary(kernel.Mul), 0
	case gradop.ReLU:
		return binary(kernel.ReluGrad), 0
	case gradop.GELU:
		return binary(kernel.GeluGrad), 0
	case gradop.Clip:
		return binary(func(dst, dy, x []float32) { kernel.ClipGrad(dst, dy, x, op.Limit) }), 0
	case graph.ReLUOp:
		return unary(kernel.Relu), 0
	case graph.GELUOp:
		return unary(kernel.Gelu), 0
	case graph.ClipOp:
		return unary(func(dst, x []float32) { kernel.Clip(dst, x, op.Limit) }), 0
	case graph.ScaleOp:
		return unary(func(dst, x []float32) { kernel.Scale(dst, x, op.S) }), 0
	case graph.CopyOp:
		return unary(func(dst, x []float32) { copy(dst, x) }), 0
	case exchangeOp: // see Program.runParts
		return func(*worker, [][]float32, [][]float32, int, int) {}, 0

	case graph.SubOp:
		return binary(kernel.Sub), 0
	case graph.ShiftOp:
		return unary(func(dst, x []float32) { kernel.Shift(dst, x, op.S) }), 0
	case graph.ExpOp:
		return unary(kernel.Exp), 0
	case graph.LogOp:
		return unary(kernel.Log), 0
	case gradop.Log:
		return binary(kernel.LogGrad), 0
	case graph.SigmoidOp:
		return unary(kernel.Sigmoid), 0
	case gradop.Sigmoid:
		return binary(kernel.SigmoidGrad), 0
	case graph.TanhOp:
		return unary(kernel.Tanh), 0
	case gradop.Tanh:
		return binary(kernel.TanhGrad), 0
	case graph.SoftmaxOp:
		rows, cols := matrix(s.call.In[0])
		return func(_ *worker, in, out [][]float32, part, parts int) {
			from, to := share(rows, part, parts, 1)
			kernel.Softmax(out[0][from*cols:to*cols], in[0][from*cols:to*cols], to-from, cols)
		}, 0
	case gradop.Softmax:
		rows, cols := matrix(s.call.In[0])
		return func(_ *worker, in, out [][]float32, part, parts int) {
			from, to := share(rows, part, parts, 1)
			kernel.SoftmaxGrad(out[0][from*cols:to*cols], in[0][from*cols:to*cols], in[1][from*cols:to*cols], to-from, cols)
		}, 0
	case graph.SumOp:
		return lowerSum(op, s.call), 0
	case graph.RepeatOp:
		return lowerRepeat(op, s.call), 0
	case graph.ReshapeOp:
		return unary(move), 0
	case graph.TransposeOp:
		return lowerTranspose(op, s.call), 0
	case graph.OneHotOp:
		return lowerOneHot(op, s.call), 0
	case graph.ElementwiseOp:
		f := op.F()
		return unary(func(dst, x []float32) {
			for i := range dst {
				dst[i] = float32(f(float64(x[i])))
			}
		}), 0
	case gradop.Elementwise:
		return binary(func(dst, dy, x []float32) {
			for i := range dst {
				dst[i] = float32(float64(dy[i]) * op.Derivative(float64(x[i])))
			}
		}), 0
	case graph.FunctionOp:
		return lowerFunction(op, s.call, accumulates, threads), 0
	case graph.EndLossOp:
		return unary(move), 0
	case gradop.LossScale:
		return func(w *worker, _, out [][]float32, part, parts int) {
			from, to := share(len(out[0]), part, parts, align)
			for i := range out[0][from:to] {
				out[0][from+i] = w.env.LossScale
			}
		}, 0
	case gradop.ExampleSum:
		return fromZero(!accumulates, lowerExampleSum(s.call)), 0
	}
	panic(fmt.Sprintf("program: no kernel for op %s", s.call.Op.Name()))
}

// attributesOf returns what decides an op's kernel: the op itself, or the
// attributes of one that package graph derives.
func attributesOf(op graph.Op) any {
	if d, ok := op.(gradop.Op); ok {
		return d.Derived()
	}
	return op
}

func matrix(n *graph.Node) (rows, cols int) { return n.Shape.Rows(), n.Shape.Last() }

// ints views as int32 a tensor of int32, which is in the arena like any other.
func ints(x []float32) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

func unary(f func(dst, x []float32)) kernelFunc {
	return func(_ *worker, in, out [][]float32, part, parts int) {
		from, to := share(len(out[0]), part, parts, align)
		f(out[0][from:to], in[0][from:to])
	}
}

func binary(f func(dst, a, b []float32)) kernelFunc {
	return func(_ *worker, in, out [][]float32, part, parts int) {
		from, to := share(len(out[0]), part, parts, align)
		f(out[0][from:to], in[0][from:to], in[1][from:to])
	}
}

// shareColumns divides sums over columns.
func shareColumns(columns, part, parts int) (from, to int) {
	return share(columns, part, parts, align)
}

// fromZero adapts a kernel that adds to its outputs to outputs that are not
// accumulators. The case is rare, and is not split over threads.
func fromZero(clear bool, f kernelFunc) kernelFunc {
	if !clear {
		return f
	}
	return func(w *worker, in, out [][]float32, part, parts int) {
		if part > 0 {
			return
		}
		for _, o := range out {
			kernel.Zero(o)
		}
		f(w, in, out, 0, 1)
	}
}

// epilogue is the work of a matrix product on a block of C after its values are
// final.
type epilogue struct {
	c, bias []float32
	ldc     int
	act     graph.Op // nil, ReLUOp or GELUOp
}

func (e *epilogue) block(i0, i1, j0, j1 int) {
	c := e.c[i0*e.ldc+j0:]
	switch e.act.(type) {
	case graph.ReLUOp:
		kernel.AddBiasRelu(c, c, e.bias[j0:j1], i1-i0, j1-j0, e.ldc)
	case graph.GELUOp:
		kernel.AddBiasGelu(c, c, e.bias[j0:j1], i1-i0, j1-j0, e.ldc)
	default:
		kernel.AddBias(c, c, e.bias[j0:j1], i1-i0, j1-j0, e.ldc)
	}
}

// shareProduct cuts C, (m, n), along its longer side.
func shareProduct(m, n, part, parts int) (i0, i1, j0, j1 int) {
	if m >= n {
		i0, i1 = share(m, part, parts, rowUnit)
		return i0, i1, 0, n
	}
	j0, j1 = share(n, part, parts, colUnit)
	return 0, m, j0, j1
}

func lowerMatMul(s *step, op graph.MatMulOp, accumulate bool, threads int) (kernelFunc, int) {
	m, n, k := op.Dims(s.call)
	ars, acs := k, 1
	if op.TransA {
		ars, acs = 1, m
	}
	brs, bcs := n, 1
	if op.TransB {
		brs, bcs = 1, k
	}
	var act graph.Op
	if s.act != nil {
		act = s.act.Op
	}
	fused := s.bias != nil
	scratch := 0
	for p := range threads {
		i0, i1, j0, j1 := shareProduct(m, n, p, threads)
		scratch = max(scratch, kernel.GemmScratch(i1-i0, j1-j0, k))
	}
	return func(w *worker, in, out [][]float32, p, parts int) {
		i0, i1, j0, j1 := shareProduct(m, n, p, parts)
		if i0 == i1 || j0 == j1 {
			return
		}
		c := out[0][i0*n+j0:]
		var block func(i0, i1, j0, j1 int)
		if fused {
			w.epi = epilogue{c: c, bias: in[2][j0:j1], ldc: n, act: act}
			block = w.block
		}
		kernel.Gemm(i1-i0, j1-j0, k, in[0][i0*ars:], ars, acs, in[1][j0*bcs:], brs, bcs, c, n, accumulate, w.scratch, block)
	}, scratch
}

// Parts of a product start at multiples of these, so that no thread has a
// narrow tile in the middle.
const rowUnit, colUnit = 14, 32

func lowerEmbed(op graph.EmbedOp, c *graph.Call) kernelFunc {
	b, t, dim := c.Out[0].Shape[0], c.Out[0].Shape[1], c.Out[0].Shape[2]
	return func(_ *worker, in, out [][]float32, part, parts int) {
		from, to := share(b, part, parts, 1)
		kernel.Embed(out[0][from*t*dim:to*t*dim], in[0], ints(in[1])[from*t:to*t], dim, op.Scale, in[2], t)
	}
}

func lowerDropout(op graph.DropoutOp, s *step) kernelFunc {
	per := perExample(s.call)
	return func(w *worker, in, out [][]float32, part, parts int) {
		from, to := share(len(out[0]), part, parts, align)
		dropout(w, op, out[0][from:to], in[0][from:to], s.addend(in, from, to), per, from, s.within)
	}
}

// dropout computes the elements of a micro-batch from first on, of which an example has
// per, after so many others before them.
func dropout(w *worker, op graph.DropoutOp, dst, x, add []float32, per, first, before int) {
	key := philox.KeyOf(w.env.Seed, op.Path)
	for i := 0; i < len(dst); {
		example, within := (first+i)/per, (first+i)%per
		end := min(len(dst), i+per-within)
		var addend []float32
		if add != nil {
			addend = add[i:end]
		}
		kernel.Dropout(dst[i:end], x[i:end], addend, op.Rate, key, w.env.Step, w.env.Example+uint64(example), before+within)
		i = end
	}
}

// perExample returns the number of elements of each example of a call's input.
func perExample(c *graph.Call) int { return c.In[0].Elems() / c.In[0].Shape[0] }

func lowerLayerNorm(op graph.LayerNormOp, c *graph.Call) kernelFunc {
	rows, d := matrix(c.In[0])
	return func(_ *worker, in, out [][]float32, part, parts int) {
		from, to := share(rows, part, parts, 1)
		kernel.LayerNorm(out[0][from*d:to*d], out[1][from*2:to*2], in[0][from*d:to*d], in[1], in[2], to-from, d, op.Eps)
	}
}

func lowerLayerNormGrad(s *step) kernelFunc {
	rows, d := matrix(s.call.In[0])
	return func(_ *worker, in, out [][]float32, part, parts int) {
		from, to := share(rows, part, parts, 1)
		kernel.LayerNormGrad(out[0][from*d:to*d], in[0][from*d:to*d], in[1][from*d:to*d], in[2], in[3][from*2:to*2], s.addend(in, from*d, to*d), to-from, d)
	}
}

func lowerCrossEntropy(op graph.CrossEntropyOp, c *graph.Call) kernelFunc {
	rows, v := matrix(c.In[0])
	return func(_ *worker, in, out [][]float32, part, parts int) {
		from, to := share(rows, part, parts, 1)
		kernel.CrossEntropy(out[0][from:to], out[1][from:to], out[2][from:to], in[0][from*v:to*v], ints(in[1])[from:to], to-from, v, op.Smoothing)
		if op.Ranks {
			kernel.TargetRanks(out[3][from:to], in[0][from*v:to*v], ints(in[1])[from:to], to-from, v)
		}
	}
}

func lowerCrossEntropyGrad(op gradop.CrossEntropy, c *graph.Call) kernelFunc {
	rows, v := matrix(c.In[0])
	return func(w *worker, in, out [][]float32, part, parts int) {
		from, to := share(rows, part, parts, 1)
		kernel.CrossEntropyGrad(out[0][from*v:to*v], in[0][from*v:to*v], in[1][from:to], ints(in[2])[from:to], w.env.LossScale, to-from, v, op.Smoothing)
	}
}
