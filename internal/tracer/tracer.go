// Package tracer traces consecutive layers as one function, for a stage of a
// pipeline.
package tracer

import (
	"fmt"
	"slices"

	"gpipebench/internal/tracer/state"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// Stage is the trace of consecutive layers.
type Stage struct {
	Function program.Function
	Params   []*nn.Param  // of Function.Params, in this order; tied ones once
	Out      []graph.Type // the types of Function.Out
	Layers   []LayerIO    // one per layer, without the loss
	Moving   []Moving     // of Function.Tallies, in this order
}

// LayerIO has the inputs and outputs of one layer of a stage.
type LayerIO struct{ In, Out []*graph.Node }

// Moving is a pair of moving averages and the tally of their statistics.
type Moving = state.Moving[nn.Param]

// Trace traces layers as one function. First is the index of layers[0] in the
// network; loss is nil unless the last layer of the network is among them. In
// are the types of the input tuple and targets those of the labels, both for
// one micro-batch.
func Trace(layers []nn.Layer, first int, loss nn.Loss, in, targets []graph.Type, train bool) *Stage {
	g := &graph.Graph{}
	st := &state.Trace[nn.Param]{Params: map[*nn.Param]*graph.Node{}}
	t := nn.NewTrace(g, train, st)
	s := &Stage{Function: program.Function{Graph: g}}
	f := &s.Function
	for _, l := range layers {
		for _, p := range l.Params() {
			if st.Params[p] != nil {
				continue
			}
			role := graph.Param
			if p.Frozen {
				role = graph.Const
			}
			n := g.NewNode(role, nn.ScopeOf(l)+"/"+p.Name, graph.F32, p.Shape...)
			st.Params[p] = n
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
		st.Layer = nn.ScopeOf(l)
		out := distinct(t, l.Forward(t, flow...))
		s.Layers = append(s.Layers, LayerIO{flow, out})
		flow = out
	}
	if loss != nil {
		g.Layer = first + len(layers)
		st.Layer = "loss"
		for i, ty := range targets {
			f.Feeds = append(f.Feeds, g.NewNode(graph.Input, fmt.Sprintf("target%d", i), ty.DType, ty.Shape...))
		}
		flow = loss.Loss(t, flow, f.Feeds)
	}
	f.Out = flow
	s.Moving = st.Moving
	for _, m := range s.Moving {
		f.Tallies = append(f.Tallies, m.Tally)
	}
	for _, n := range flow {
		s.Out = append(s.Out, graph.Type{Shape: n.Shape, DType: n.DType})
	}
	return s
}

// distinct copies a value that leaves a layer twice. Each of the two then has a
// gradient of its own, and they are added at the layer's edge: in the same
// order whether the network is cut there or not.
func distinct(t *nn.Trace, out []*graph.Node) []*graph.Node {
	out = slices.Clone(out)
	for i, n := range out {
		if slices.Contains(out[:i], n) {
			out[i] = t.Copy(n)
		}
	}
	return out
}
