// Package nn has the layers, losses, initialisers, optimisers and learning rate
// schedules of which the models are built.
//
// A layer is written once, as a forward function over an expression graph
// (package graph); its backward function, programs, costs and memory are
// derived from that. What flows between layers is a tuple of tensors whose
// first dimension is the micro-batch's examples.
package nn

import (
	"fmt"
	"slices"

	"gpipebench/nn/graph"
	"gpipebench/nn/philox"
	"gpipebench/nn/program"
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
// token), 0 where the row is masked; the second is 1 for each row whose
// prediction was right. A third, if there is one, is the rank of each row's
// target, -1 where masked.
type Loss interface {
	Loss(t *Trace, out, targets []*graph.Node) []*graph.Node
}

// Param is a trained parameter, a moving average or a constant table. It has a
// shape and an initialiser and holds no data: the device that owns the layer
// does.
type Param struct {
	Name   string // within its layer, such as "attention/qkv/weight"
	Shape  graph.Shape
	Init   Initializer
	Frozen bool // a constant: not trained, not counted, not hashed
	// State marks a moving average among the frozen ones: like weights it is
	// hashed (after them), saved and loaded.
	State bool
	// NoDecay excludes the parameter from L2 and decoupled weight decay
	// (biases and the gains and offsets of norms).
	NoDecay bool
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

	layer  string
	params map[*Param]*graph.Node
	moving []Moving
	tally  []*graph.Node
}

// Move registers a pair of moving averages. At the update they move by the
// mini-batch statistics that the micro-batches have accumulated in tally.
func (t *Trace) Move(tally *graph.Node, m Moving) {
	t.tally = append(t.tally, tally)
	t.moving = append(t.moving, m)
}

// Path names something within the layer that is being traced, such as the key
// of a dropout.
func (t *Trace) Path(name string) string { return t.layer + "/" + name }

// Param returns the value of a parameter of the layer that is being traced.
func (t *Trace) Param(p *Param) *graph.Node {
	n := t.params[p]
	if n == nil {
		graph.Refuse("nn", "layer %s uses the parameter %s that its Params does not list", t.layer, p.Name)
	}
	return n
}

// Stage is the trace of consecutive layers.
type Stage struct {
	Function program.Function
	Params   []*Param     // of Function.Params, in this order; tied ones once
	Out      []graph.Type // the types of Function.Out
	Layers   []LayerIO    // one per layer, without the loss
	Moving   []Moving     // of Function.Tallies, in this order
}

// LayerIO has the inputs and outputs of one layer of a stage.
type LayerIO struct{ In, Out []*graph.Node }

// TraceStage traces layers as one function. First is the index of layers[0] in
// the network; loss is nil unless the last layer of the network is among them.
// In are the types of the input tuple and targets those of the labels, both for
// one micro-batch.
func TraceStage(layers []Layer, first int, loss Loss, in, targets []graph.Type, train bool) *Stage {
	g := &graph.Graph{}
	t := &Trace{Graph: g, Train: train, params: map[*Param]*graph.Node{}}
	s := &Stage{Function: program.Function{Graph: g}}
	f := &s.Function
	for _, l := range layers {
		for _, p := range l.Params() {
			if t.params[p] != nil {
				continue
			}
			role := graph.Param
			if p.Frozen {
				role = graph.Const
			}
			n := g.NewNode(role, ScopeOf(l)+"/"+p.Name, graph.F32, p.Shape...)
			t.params[p] = n
			s.Params = append(s.Params, p)
			f.Params = append(f.Params, n)
		}
	}
	for i, ty := range in {
		f.In = append(f.In, g.NewNode(graph.Input, fmt.Sprintf("in%d", i), ty.DType, ty.Shape...))
	}
	flow := f.In
	for i, l := range layers {
		g.Layer = first + i
		t.layer = ScopeOf(l)
		out := distinct(t, l.Forward(t, flow...))
		s.Layers = append(s.Layers, LayerIO{flow, out})
		flow = out
	}
	if loss != nil {
		g.Layer = first + len(layers)
		t.layer = "loss"
		for i, ty := range targets {
			f.Feeds = append(f.Feeds, g.NewNode(graph.Input, fmt.Sprintf("target%d", i), ty.DType, ty.Shape...))
		}
		flow = loss.Loss(t, flow, f.Feeds)
	}
	f.Out = flow
	f.Tallies, s.Moving = t.tally, t.moving
	for _, n := range flow {
		s.Out = append(s.Out, graph.Type{Shape: n.Shape, DType: n.DType})
	}
	return s
}

// distinct copies a value that leaves a layer twice. Each of the two then has a
// gradient of its own, and they are added at the layer's edge: in the same
// order whether the network is cut there or not.
func distinct(t *Trace, out []*graph.Node) []*graph.Node {
	out = slices.Clone(out)
	for i, n := range out {
		if slices.Contains(out[:i], n) {
			out[i] = t.Copy(n)
		}
	}
	return out
}
