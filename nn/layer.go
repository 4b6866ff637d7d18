package nn

import (
	"gpipebench/nn/graph"
	"gpipebench/nn/philox"
)

// Layer is the unit of partition: a pipeline may cut a network after any layer.
type Layer interface {
	// Name is unique within a network. It is the path of the layer's
	// parameters and the key of its random numbers, unless the layer is a
	// Scoper.
	Name() string
	// Params lists the layer's parameters in a fixed order. A parameter that
	// two layers list (the same pointer) is tied.
	Params() []*Param
	// Forward traces the layer. The next layer receives what it returns.
	Forward(t *Trace, in ...*graph.Node) []*graph.Node
}

// Coster is implemented by a layer that overrides the cost derived from its
// graph: GPipe's optional cost estimation function c_i (section 2.1), in any
// unit, per example.
type Coster interface {
	Cost() float64
}

// Scoper is implemented by a layer that is a part of a layer in another cut of
// the same network. The paths of its parameters begin with the name of the
// whole, so that they, and with them every bit, are the same for both cuts.
type Scoper interface {
	Scope() string
}

// ScopeOf returns the beginning of the paths of a layer's parameters and random
// keys.
func ScopeOf(l Layer) string {
	if s, ok := l.(Scoper); ok {
		return s.Scope()
	}
	return l.Name()
}

// Loss ends a network. Its first output is one loss per row (an example, or a
// token), 0 where the row is masked: what [graph.Graph.EndLoss] returns for a loss
// made of other ops, or the loss of a cross-entropy. The second, if there is one,
// is 1 for each row whose prediction was right. A third is the rank of each row's
// target, -1 where masked.
type Loss interface {
	Loss(t *Trace, out, targets []*graph.Node) []*graph.Node
}

// Param is a trained parameter, a moving average or a constant table. It has a
// shape and an initialiser and holds no data: the device that owns the layer
// does.
type Param struct {
	Name  string // within its layer, such as "attention/qkv/weight"
	Shape graph.Shape
	Init  Initializer
	// Published is the name of the tensor in files of weights as others publish them, of the same
	// shape and layout; files that a trainer saves have it too. "": the parameter's path.
	Published string
	Frozen    bool // a constant: not trained, not counted, not hashed
	// State marks a moving average among the frozen ones: like weights it is
	// hashed (after them), saved and loaded.
	State bool
	// NoDecay marks biases and the gains and offsets of norms: neither L2 nor
	// decoupled weight decay is for them, and LARS gives them no ratio of their own.
	NoDecay bool
	// Split says how parts of a stage can divide it (program.Stage.Split); zero: all have all of it.
	// Init is then called for consecutive elements, some at a time, with the whole shape.
	Split graph.Split
}

// Initializer fills a parameter. It draws from r only, which is keyed by the
// seed and the parameter's path, so that the values do not depend on where the
// parameter lives.
type Initializer func(r *philox.Stream, shape graph.Shape, dst []float32)

// CountParams returns the number of elements of the trained parameters; tied
// ones count once.
func CountParams(layers []Layer) int64 {
	var n int64
	seen := map[*Param]bool{}
	for _, l := range layers {
		for _, p := range l.Params() {
			if !p.Frozen && !seen[p] {
				seen[p] = true
				n += int64(p.Shape.Elems())
			}
		}
	}
	return n
}

// Trace is what a layer's Forward writes to: a graph, and the parameters that
// are used.
type Trace struct {
	*graph.Graph
	// Train is false while an evaluation is traced, which has neither dropout
	// nor label smoothing.
	Train bool

	state *TraceState
}

// TraceState is what package trace gives and takes while it traces the layers of a
// stage; no layer sees it.
type TraceState struct {
	Layer  string                 // scope of the layer that is being traced
	Params map[*Param]*graph.Node // the values of all parameters
	Moving []Moving               // the moving averages met so far
}

// Moving is a pair of moving averages that follow the statistics of
// mini-batches, which the micro-batches accumulate in Tally.
type Moving struct {
	Mean, Variance *Param
	Momentum       float64
	Unbiased       bool
	Tally          *graph.Node
}

// NewTrace is for package trace, which traces the layers of a stage into one
// graph.
func NewTrace(g *graph.Graph, train bool, s *TraceState) *Trace {
	return &Trace{g, train, s}
}

// Path names something within the layer that is being traced, such as the key
// of a dropout.
func (t *Trace) Path(name string) string { return t.state.Layer + "/" + name }

// Param returns the value of a parameter of the layer that is being traced.
func (t *Trace) Param(p *Param) *graph.Node {
	n := t.state.Params[p]
	if n == nil {
		graph.Refuse("nn", "layer %s uses the parameter %s that its Params does not list", t.state.Layer, p.Name)
	}
	return n
}
