package program_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
	"gpipebench/nn/philox"
	"gpipebench/nn/program"
	"gpipebench/nn/program/programtest"
)

// opCase is a small function of one or a few ops. The same table serves the
// tests of gradients and those of invariance.
type opCase struct {
	name  string
	trace func(b *builder) []*graph.Node
	// absent lists the outputs without a gradient from outside.
	absent []int
	// loss: output 0 holds the rows' losses and starts the chain itself.
	loss bool
	// whole: some input has no examples, so a batch cannot be split.
	whole bool
	// exact: for exact comparisons only. Finite differences would cross a
	// ReLU's kink, or take too long.
	exact bool
	// fma: when fused, a product and a sum are rounded once.
	fma bool
	// first: a first stage, whose inputs have no gradient.
	first bool
	// storage of the values; the table has float32.
	storage program.Storage
}

// builder traces a case for a number of examples and remembers the values of
// its inputs: numbers that depend on the name, the example and the element, so
// that a part of a batch gets the same values as in the whole.
type builder struct {
	*programtest.Trace
	examples int
	fill     map[string]func(r *philox.Stream) float64
	ints     map[string]func(r *philox.Stream) int32
	shared   map[string]bool
}

// x adds an input (examples, dims...) of normal numbers.
func (b *builder) x(name string, dims ...int) *graph.Node { return b.values(name, normal, dims...) }

func (b *builder) values(name string, fill func(r *philox.Stream) float64, dims ...int) *graph.Node {
	b.fill[name] = fill
	return b.In(name, graph.F32, append([]int{b.examples}, dims...)...)
}

// common adds an input without examples.
func (b *builder) common(name string, dims ...int) *graph.Node {
	b.fill[name], b.shared[name] = normal, true
	return b.In(name, graph.F32, dims...)
}

// w adds a parameter. Matrices have small weights, so that a step of the finite
// differences stays small in the layers after it.
func (b *builder) w(name string, dims ...int) *graph.Node {
	b.fill[name] = normal
	if len(dims) > 1 {
		b.fill[name] = small
	}
	return b.Param(name, dims...)
}

// constant adds a table that is not trained.
func (b *builder) constant(name string, dims ...int) *graph.Node {
	n := b.w(name, dims...)
	n.Role = graph.Const
	return n
}

// ids adds an integer input (examples, dims...), from low to high.
func (b *builder) ids(name string, low, high int, dims ...int) *graph.Node {
	b.ints[name] = between(low, high)
	return b.In(name, graph.I32, append([]int{b.examples}, dims...)...)
}

// targets adds labels, -1 (masked) among them.
func (b *builder) targets(classes int, dims ...int) *graph.Node {
	b.ints["targets"] = between(-1, classes-1)
	return b.Feed("targets", graph.I32, append([]int{b.examples}, dims...)...)
}

// normal draws multiples of 1/64: with a step that is a power of two, a
// perturbed input is exact in float32 too.
func normal(r *philox.Stream) float64 { return math.Round(64*r.Normal()) / 64 }

func small(r *philox.Stream) float64 { return math.Round(16*r.Normal()) / 64 }

// offKinks draws as normal does, but further than twice the step from zero and
// from the clip's limits.
func offKinks(r *philox.Stream) float64 {
	for {
		v := normal(r)
		if a := math.Abs(v); a > 3*programtest.GradientStep && math.Abs(a-clipLimit) > 3*programtest.GradientStep {
			return v
		}
	}
}

func between(low, high int) func(r *philox.Stream) int32 {
	return func(r *philox.Stream) int32 { return int32(low + r.Intn(high-low+1)) }
}

const clipLimit = 1

// runner compiles the case for examples [from, to) of a mini-batch and fills
// all inputs of the stage.
func (c opCase) runner(t testing.TB, from, to, threads int) *programtest.Runner {
	t.Helper()
	return c.bind(t, c.traced(to-from), from, threads)
}

// compile compiles the case and leaves its inputs as they are.
func (c opCase) compile(t testing.TB, b *builder, threads int) *programtest.Runner {
	t.Helper()
	gradOut := make([]bool, len(b.Function.Out))
	for i := range gradOut {
		gradOut[i] = !c.loss
	}
	for _, i := range c.absent {
		gradOut[i] = false
	}
	return programtest.CompileStored(t, b.Function, gradOut, !c.first, threads, c.storage)
}

func (c opCase) bind(t testing.TB, b *builder, from, threads int) *programtest.Runner {
	t.Helper()
	r := c.compile(t, b, threads)
	r.Env.Example = uint64(from)
	r.Env.LossScale = 0.125
	for _, p := range b.Function.Params {
		fillFloats(p.Name, 0, r.Param(p.Name), b.fill[p.Name])
	}
	given := func(n *graph.Node, at program.Tensor) {
		rows, x := n.Shape[0], make([]float32, n.Elems())
		defer func() { at.Fill(r.Space(program.In), x) }()
		if b.shared[n.Name] {
			fillFloats(n.Name, 0, x, b.fill[n.Name])
			return
		}
		for i := range rows {
			per := len(x) / rows
			row := x[i*per : (i+1)*per]
			if n.DType == graph.I32 {
				stream := philox.NewStream(philox.KeyOf(3, n.Name), uint64(from+i))
				for j := range row {
					programtest.Ints(row)[j] = b.ints[n.Name](stream)
				}
			} else {
				fillFloats(n.Name, from+i, row, b.fill[n.Name])
			}
		}
	}
	for i, n := range b.Function.In {
		given(n, r.Stage.In[i])
	}
	for i, n := range b.Function.Feeds {
		given(n, r.Stage.Feeds[i])
	}
	for i, n := range b.Function.Out {
		if len(r.DOut(i)) == 0 {
			continue
		}
		rows, d := n.Shape[0], make([]float32, n.Elems())
		for e := range rows {
			per := len(d) / rows
			fillFloats(fmt.Sprint("dout", i), from+e, d[e*per:(e+1)*per], normal)
		}
		r.Stage.DOut[i].Fill(r.Space(program.DOut), d)
	}
	return r
}

// traced returns the case's function.
func (c opCase) traced(examples int) *builder {
	b := &builder{
		programtest.NewTrace(), examples,
		map[string]func(*philox.Stream) float64{}, map[string]func(*philox.Stream) int32{}, map[string]bool{},
	}
	b.Function.Out = c.trace(b)
	return b
}

func fillFloats(name string, index int, x []float32, fill func(*philox.Stream) float64) {
	stream := philox.NewStream(philox.KeyOf(3, name), uint64(index))
	for i := range x {
		x[i] = float32(fill(stream))
	}
}

func one(n *graph.Node) []*graph.Node { return []*graph.Node{n} }

// attend is an attention with 2 heads of 3 over 5 queries and, in cross
// attention, 4 keys.
func attend(cross, causal, padded bool) opCase {
	name := "attention"
	attention := op.Attention{Heads: 2, HeadDim: 3, Cross: cross, Causal: causal, Padded: padded}
	for _, part := range []struct {
		on   bool
		name string
	}{{cross, "/cross"}, {causal, "/causal"}, {padded, "/padded"}} {
		if part.on {
			name += part.name
		}
	}
	return opCase{name: name, trace: func(b *builder) []*graph.Node {
		var in []*graph.Node
		keys := 5
		if cross {
			keys = 4
			in = append(in, b.x("q", 5, 6), b.x("kv", keys, 12))
		} else {
			in = append(in, b.x("qkv", keys, 18))
		}
		if padded {
			in = append(in, b.ids("lengths", 1, keys))
		}
		return one(b.Attention(attention, in...))
	}}
}

// grouped is an attention with 4 heads of 3 over 5 queries, and kvHeads heads of keys and values
// over 6 keys.
func grouped(kvHeads int, causal, padded bool) opCase {
	o := op.Attention{Heads: 4, HeadDim: 3, KVHeads: kvHeads, Causal: causal, Padded: padded}
	return opCase{name: fmt.Sprintf("attention/grouped by %d/causal=%v/padded=%v", kvHeads, causal, padded), trace: func(b *builder) []*graph.Node {
		in := []*graph.Node{b.x("q", 5, 12), b.x("k", 6, 3*kvHeads), b.x("v", 6, 3*kvHeads)}
		if padded {
			in = append(in, b.ids("lengths", 1, 6))
		}
		return one(b.Attention(o, in...))
	}}
}

// scanned is a scan of 5 steps with 3 units over inputs of 2 columns.
func scanned(reverse, padded, inside bool) opCase {
	name := "lstm"
	for _, part := range []struct {
		on   bool
		name string
	}{{inside, "-inside"}, {reverse, "/reverse"}, {padded, "/padded"}} {
		if part.on {
			name += part.name
		}
	}
	// Inside, gradients of weights add up step by step, so each cut of the batch has its own.
	return opCase{name: name, whole: inside, trace: func(b *builder) []*graph.Node {
		var lengths *graph.Node
		if padded {
			lengths = b.ids("lengths", 0, 5)
		}
		if inside {
			return one(b.LSTMInside(b.x("x", 5, 2), b.w("wx", 2, 12), b.w("bias", 12), b.w("w", 3, 12), lengths, reverse))
		}
		return one(b.LSTM(b.x("z", 5, 12), b.w("w", 3, 12), lengths, reverse))
	}}
}

// conv is a convolution of images of 5x6 pixels.
func conv(name string, in, out, kh, kw int, win op.Window) opCase {
	return opCase{name: "conv2d/" + name, trace: func(b *builder) []*graph.Node {
		return one(b.Conv2D(b.x("x", 5, 6, in), b.w("w", kh, kw, in, out), win))
	}}
}

// depthwise is a depthwise convolution of images of 5x6 pixels.
func depthwise(name string, channels, kh, kw int, win op.Window, dilation int) opCase {
	return opCase{name: "depthwise/" + name, trace: func(b *builder) []*graph.Node {
		return one(b.Depthwise(b.x("x", 5, 6, channels), b.w("w", kh, kw, channels), win, dilation))
	}}
}

// norm is a case with a batch norm over images of 3x2 pixels and 19 channels,
// whose statistics cover the whole batch.
func norm(name string, f func(b *builder, x *graph.Node) *graph.Node) opCase {
	return opCase{name: name, whole: true, exact: strings.Contains(name, "+relu"), trace: func(b *builder) []*graph.Node {
		return one(f(b, b.x("x", 3, 2, 19)))
	}}
}

// normed returns the batch norm of x.
func normed(b *builder, x *graph.Node, name string, relu bool) *graph.Node {
	c := x.Shape.Last()
	y, tally := b.BatchNorm(x, b.w("gamma"+name, c), b.w("beta"+name, c), 1e-3, relu)
	b.Function.Tallies = append(b.Function.Tallies, tally)
	return y
}

// apart draws numbers that are almost never close to each other.
func apart(r *philox.Stream) float64 { return float64(r.Intn(1<<16)) / 4 }

// aboveOne draws numbers of at least 1.
func aboveOne(r *philox.Stream) float64 { return 1 + math.Abs(normal(r)) }

// softplus is log(1 + exp(x)).
var softplus = graph.Elementwise{
	Name: "softplus", FLOPs: 4,
	F:          func(x float64) float64 { return math.Log1p(math.Exp(x)) },
	Derivative: func(x float64) float64 { return 1 / (1 + math.Exp(-x)) },
}

// rowScale multiplies each row of x (n, ..., d) by w (d).
func rowScale() graph.Function {
	scale := graph.Function{
		Name:    "row-scale",
		Promise: graph.PerExample,
		Types:   func(in []graph.Type) ([]graph.Type, error) { return in[:1], nil },
		Run: func(out, in []graph.Tensor) {
			x, w := in[0].F32, in[1].F32
			for i := range out[0].F32 {
				out[0].F32[i] = x[i] * w[i%len(w)]
			}
		},
		FLOPs: func(in, out []graph.Type) int64 { return int64(out[0].Shape.Elems()) },
	}
	inputGrad := scale
	inputGrad.Name = "row-scale-input-grad"
	scale.Gradient = func(g *graph.Graph, in, out, dout []*graph.Node) []*graph.Node {
		weightGrad := graph.Function{
			Name: "row-scale-weight-grad", Promise: graph.PerExample, Accumulates: true,
			Types: func([]graph.Type) ([]graph.Type, error) {
				return []graph.Type{{Shape: in[1].Shape, DType: graph.F32}}, nil
			},
			Run: func(out, in []graph.Tensor) {
				dw, x := out[0].F32, in[1].F32
				for i, dy := range in[0].F32 {
					dw[i%len(dw)] += dy * x[i]
				}
			},
		}
		return []*graph.Node{g.Compute(inputGrad, dout[0], in[1])[0], g.Compute(weightGrad, dout[0], in[0])[0]}
	}
	return scale
}

// centred subtracts the mean over all elements of the micro-batch. It is its own
// gradient.
func centred() graph.Function {
	grad := graph.Function{
		Name:  "centred-grad",
		Types: func(in []graph.Type) ([]graph.Type, error) { return in, nil },
		Run: func(out, in []graph.Tensor) {
			mean := 0.0
			for _, v := range in[0].F32 {
				mean += float64(v) / float64(len(in[0].F32))
			}
			for i, v := range in[0].F32 {
				out[0].F32[i] = float32(float64(v) - mean)
			}
		},
	}
	f := grad
	f.Name = "centred"
	f.Gradient = func(g *graph.Graph, _, _, dout []*graph.Node) []*graph.Node { return g.Compute(grad, dout...) }
	return f
}

// farFromZero draws 8 or -8.
func farFromZero(r *philox.Stream) float64 { return float64(16*r.Intn(2) - 8) }
