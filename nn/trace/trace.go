// Package trace traces consecutive layers as one function, for a stage of a
// pipeline.
package trace

import (
	"fmt"
	"slices"

	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// Stage is the trace of consecutive layers.
type Stage struct {
	Function program.Function
	Params   []*nn.Param     // of Function.Params, in this order; tied ones once
	Out      []graph.Type    // the types of Function.Out
	LayerOut [][]*graph.Node // the results of each layer, without the loss
	Moving   []nn.Moving     // of Function.Tallies, in this order
}

// Layers traces layers as one function. First is the index of layers[0] in the
// network; loss is nil unless the last layer of the network is among them. In
// are the types of the input tuple and targets those of the labels, both for
// one micro-batch. A [*graph.Misuse] panic names the layer that does not fit.
func Layers(layers []nn.Layer, first int, loss nn.Loss, in, targets []graph.Type, train bool) *Stage {
	return Into(&graph.Graph{}, layers, first, loss, in, targets, train)
}

// Into is Layers into g, which is empty but for its settings.
func Into(g *graph.Graph, layers []nn.Layer, first int, loss nn.Loss, in, targets []graph.Type, train bool) *Stage {
	st := &nn.TraceState{Params: map[*nn.Param]*graph.Node{}}
	t := nn.NewTrace(g, train, st)
	s := &Stage{Function: program.Function{Graph: g}}
	f := &s.Function
	for i, l := range layers {
		if l == nil {
			graph.Refuse("nn", "layer %d of the network is nil", first+i)
		}
		for _, p := range l.Params() {
			if p == nil {
				graph.Refuse("nn", "layer %s lists a parameter that is nil", l.Name())
			}
			if st.Params[p] != nil {
				continue
			}
			role := graph.Param
			if p.Frozen {
				role = graph.Const
			}
			n := g.NewNode(role, nn.ScopeOf(l)+"/"+p.Name, graph.F32, p.Shape...)
			n.Split = p.Split
			st.Params[p] = n
			s.Params = append(s.Params, p)
			f.Params = append(f.Params, n)
		}
	}
	for i, ty := range in {
		f.In = append(f.In, g.NewNode(graph.Input, fmt.Sprintf("input %d", i), ty.DType, ty.Shape...))
	}
	flow := f.In
	for i, l := range layers {
		g.Layer = first + i
		st.Layer = nn.ScopeOf(l)
		out := distinct(t, within(l.Name(), func() []*graph.Node { return l.Forward(t, flow...) }))
		for _, n := range out {
			if n.Role == graph.Computed { // for messages of the layers that it flows into
				n.Name = "the output of layer " + l.Name()
			}
		}
		s.LayerOut = append(s.LayerOut, out)
		flow = out
	}
	if loss != nil {
		g.Layer = first + len(layers)
		st.Layer = "loss"
		for i, ty := range targets {
			f.Feeds = append(f.Feeds, g.NewNode(graph.Input, fmt.Sprintf("target %d", i), ty.DType, ty.Shape...))
		}
		flow = within("loss", func() []*graph.Node { return loss.Loss(t, flow, f.Feeds) })
		if !ended(g) {
			graph.Refuse("nn", "the loss %T starts no gradient: want its first result from EndLoss or a cross-entropy", loss)
		}
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

// within runs f, which traces a layer, and adds the layer's name to a misuse.
func within(layer string, f func() []*graph.Node) []*graph.Node {
	defer func() {
		v := recover()
		if m, ok := v.(*graph.Misuse); ok && m.Layer == "" {
			m.Layer = layer
		}
		if v != nil {
			panic(v)
		}
	}()
	out := f()
	for i, n := range out {
		if n == nil {
			graph.Refuse("nn", "result %d is nil", i)
		}
	}
	return out
}

// ended reports whether a call of g ends a loss.
func ended(g *graph.Graph) bool {
	return slices.ContainsFunc(g.Calls, (*graph.Call).EndsLoss)
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
