package nn

import "gpipebench/nn/graph"

// Sequential makes one pipeline layer of several layers, run one after
// another. Theirs are relative names: the parameter weight of a Dense named
// "hidden" in a Sequential named "mlp" has the path mlp/hidden/weight. An empty
// name leaves no trace in the path, for a pipeline layer of a single part.
func Sequential(name string, layers ...Layer) Layer {
	if name == "" {
		misuse("sequential", name, "want a name: it is the path of the layer's parameters")
	}
	return &sequential{name, layers}
}

type sequential struct {
	name   string
	layers []Layer
}

func (s *sequential) Name() string { return s.name }

func (s *sequential) Params() []*Param { return paramsOf(s.layers...) }

func (s *sequential) Forward(t *Trace, in ...*graph.Node) []*graph.Node {
	for _, l := range s.layers {
		in = l.Forward(t, in...)
	}
	return in
}

// paramsOf lists the parameters of sub-layers: the pointers themselves, since
// a parameter is told by its pointer.
func paramsOf[L Layer](layers ...L) []*Param {
	var all []*Param
	for _, l := range layers {
		all = append(all, l.Params()...)
	}
	return all
}
