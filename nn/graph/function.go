package graph

import (
	"slices"

	"gpipebench/nn/graph/op"
)

// Elementwise describes an element-wise op of one's own by a scalar function.
// Its kernel is a loop in Go, in float64 and rounded once. An element's result
// depends on that element only, so the op keeps the arithmetic contract: F and
// Derivative must be pure, and may run on several threads at once.
type Elementwise struct {
	// Name is the op's name in listings and errors. It stands for the function in
	// a network's fingerprint, so functions with other constants have other names:
	// "leaky-relu 0.1".
	Name string
	// F is the function, and Derivative its derivative at x. Both are needed.
	F, Derivative func(x float64) float64
	// FLOPs counts the floating-point operations of an element, for modelled
	// devices and the balance of partitions; at least 0. Zero is like the ops of
	// this package, whose elements count as moved bytes only.
	FLOPs int64
}

// Map returns f.F(x), element by element.
func (g *Graph) Map(f Elementwise, x *Node) *Node {
	switch {
	case f.Name == "":
		misuse("element-wise", "an op without a name")
	case f.F == nil || f.Derivative == nil:
		misuse(f.Name, "want a function F and its Derivative")
	case f.FLOPs < 0:
		misuse(f.Name, "%d FLOPs for an element, want at least 0", f.FLOPs)
	}
	return g.apply1(ElementwiseOp{&f}, x)
}

// ElementwiseOp is an op made by [Graph.Map].
type ElementwiseOp struct{ of *Elementwise }

// F returns the op's scalar function.
func (o ElementwiseOp) F() func(x float64) float64 { return o.of.F }

// String is empty: the name says all.
func (ElementwiseOp) String() string { return "" }

// ElementwiseGradOp is the gradient of an op made by [Graph.Map]; inputs dy, x.
type ElementwiseGradOp struct{ of *Elementwise }

// Derivative returns the derivative of the op's scalar function.
func (o ElementwiseGradOp) Derivative() func(x float64) float64 { return o.of.Derivative }

// String is empty: the name says all.
func (ElementwiseGradOp) String() string { return "" }

func init() {
	define(func(o ElementwiseOp) rules {
		r := unary(o.of.Name, ofInput(ElementwiseGradOp(o)))
		r.flops = o.of.flops
		return r
	})
	define(func(o ElementwiseGradOp) rules {
		r := gradientOf(o.of.Name + "-grad")
		r.flops = o.of.flops
		return r
	})
}

func (f *Elementwise) flops(c *Call) int64 { return f.FLOPs * int64(c.Out[0].Elems()) }

// Promise says what the results of a [Function] depend on.
type Promise uint8

const (
	// NoPromise puts an op outside the arithmetic contract: its results may depend
	// on all examples of a micro-batch, and so on K, M and the schedule. Networks
	// with it train, but the same bits for every way to run are not promised; see
	// [Graph.OutsideContract].
	NoPromise Promise = iota
	// PerExample promises that what the op computes for an example is a function
	// of this example of its inputs, and of parameters and constants, alone: the
	// same bits whichever examples are beside it, on every call and on every
	// thread. The op then keeps the arithmetic contract.
	PerExample
)

// Function describes an op of one's own: types, kernel, gradient and cost. The
// kernel runs on host and emulated devices; modelled ones use the cost.
type Function struct {
	// Name is the op's name in listings, errors and fingerprints, as that of an
	// [Elementwise].
	Name string
	// Types returns the types of the outputs, at least one, from those of the
	// inputs, or the reason why the inputs do not fit. The first dimension of a
	// value counts the examples: any number.
	Types func(in []Type) ([]Type, error)
	// Run computes the outputs. With PerExample it is called for a few examples at
	// a time, by several threads at once, and the tensors hold just these (of
	// parameters and constants: the whole); otherwise, and if it Accumulates, once
	// for a micro-batch. Outputs start with any contents. Run must not write its
	// inputs or keep a tensor.
	Run func(out, in []Tensor)
	// Gradient adds to g what computes the gradients of the inputs, from those of
	// the outputs (nil for one without), with ops of g or a Function of its own. It
	// returns one for each input, nil for one without. A nil Gradient stops the
	// gradient.
	Gradient func(g *Graph, in, out, dout []*Node) []*Node
	// Accumulates says that the outputs are gradients of parameters: Run adds to
	// their contents, one example after another in ascending order, so that
	// micro-batches continue each other's sums (the arithmetic contract, rule 2).
	Accumulates bool
	// FLOPs counts the floating-point operations of a call; nil: 0.
	FLOPs func(in, out []Type) int64
	// Promise is what the caller promises about Run.
	Promise Promise
}

// Tensor has values of a call: row-major, in exactly one of F32 and I32.
type Tensor struct {
	Shape Shape
	F32   []float32
	I32   []int32
}

// Compute applies f to its inputs, at most 7, and returns its outputs.
func (g *Graph) Compute(f Function, in ...*Node) []*Node {
	switch {
	case f.Name == "":
		misuse("function", "an op without a name")
	case f.Types == nil || f.Run == nil:
		misuse(f.Name, "want Types and Run")
	case f.Promise > PerExample:
		misuse(f.Name, "promise %d, want NoPromise or PerExample", f.Promise)
	case len(in) < 1 || len(in) > maxOperands:
		misuse(f.Name, "%d inputs, want 1 to %d", len(in), maxOperands)
	}
	return g.apply(FunctionOp{&f}, in...)
}

const maxOperands = 7

// FunctionOp is an op made by [Graph.Compute].
type FunctionOp struct{ of *Function }

// Function returns the op's description.
func (o FunctionOp) Function() *Function { return o.of }

// String is empty: the name says all.
func (FunctionOp) String() string { return "" }

func init() {
	define(func(o FunctionOp) rules {
		r := rules{name: o.of.Name, infer: o.infer, gradient: o.gradient, accumulates: o.of.Accumulates}
		if o.of.FLOPs != nil {
			r.flops = func(c *Call) int64 { return o.of.FLOPs(typesOf(c.In), typesOf(c.Out)) }
		}
		return r
	})
}

func (o FunctionOp) infer(in []*Node) []Type {
	out, err := o.of.Types(typesOf(in))
	if err != nil {
		misuse(o.of.Name, "%v", err)
	}
	if len(out) < 1 || len(out) > maxOperands {
		misuse(o.of.Name, "%d outputs, want 1 to %d", len(out), maxOperands)
	}
	if o.of.Promise == PerExample {
		examples := o.Examples(in)
		for i, t := range out {
			if !o.of.Accumulates && (len(t.Shape) == 0 || t.Shape[0] != examples) {
				misuse(o.of.Name, "output %d of shape %s does not have the %d examples of the inputs", i, t.Shape, examples)
			}
		}
	}
	return out
}

// Examples returns the number of examples of a call with the inputs in.
func (o FunctionOp) Examples(in []*Node) int {
	examples := 0
	for _, n := range in {
		switch {
		case n.Role == Param || n.Role == Const:
		case len(n.Shape) == 0 || examples != 0 && n.Shape[0] != examples:
			misuse(o.of.Name, "input %s does not have the %d examples of the others", n, examples)
		default:
			examples = n.Shape[0]
		}
	}
	if examples == 0 {
		misuse(o.of.Name, "no input has examples")
	}
	return examples
}

func (o FunctionOp) gradient(g *Graph, c *Call, dout []*Node) []*Node {
	if o.of.Gradient == nil {
		return make([]*Node, len(c.In))
	}
	d := o.of.Gradient(g, c.In, c.Out, dout)
	if len(d) != len(c.In) {
		misuse(o.of.Name, "%d gradients for %d inputs, want one for each, nil where there is none", len(d), len(c.In))
	}
	for i, n := range d {
		if n != nil && (n.DType != c.In[i].DType || !slices.Equal(n.Shape, c.In[i].Shape)) {
			misuse(o.of.Name, "gradient %s of input %s has another type", n, c.In[i])
		}
	}
	return d
}

func typesOf(nodes []*Node) []Type {
	types := make([]Type, len(nodes))
	for i, n := range nodes {
		types[i] = Type{n.Shape, n.DType}
	}
	return types
}

// OutsideContract lists the names of the ops outside the arithmetic contract, each
// once: those of a [Function] that promises nothing, and [Graph.LSTMInside]. The same
// bits for every way to run are not promised for a network that has any.
func (g *Graph) OutsideContract() []string {
	var names []string
	for _, c := range g.Calls {
		outside := false
		switch o := c.Op.(type) {
		case FunctionOp:
			outside = o.of.Promise == NoPromise
		case op.LSTM:
			outside = o.Inside
		}
		if outside && !slices.Contains(names, c.Name()) {
			names = append(names, c.Name())
		}
	}
	return names
}
