package nn

import "gpipebench/nn/graph"

// Sequential joins several layers, run one after another, into one pipeline
// layer. Their names are relative: the parameter weight of a Dense named
// "hidden" in a Sequential named "mlp" has the path mlp/hidden/weight. A layer
// whose name is empty adds nothing to the path, which suits a pipeline layer of
// a single part.
func Sequential(name string, layers ...Layer) (l Layer) {
	defer refused(&l, name)
	if name == "" {
		misuse("sequential", name, "want a name: it is the path of the layer's parameters")
	}
	return &sequential{name, name, layers}
}

// Part joins layers into one pipeline layer that is a part of a Sequential
// named scope. Its name distinguishes it from the other parts; the paths are
// the whole's.
func Part(scope, name string, layers ...Layer) (l Layer) {
	defer refused(&l, name)
	if scope == "" || name == "" {
		misuse("part", name, "want the name of the whole and one of its own")
	}
	return &sequential{name, scope, layers}
}

// Cut returns one pipeline layer of the parts or, if fine, one for each, whose name is the whole's and the
// part's. The paths are the same in both cuts, and so is every bit.
func Cut(fine bool, name string, parts ...Layer) []Layer {
	if !fine {
		return []Layer{Sequential(name, parts...)}
	}
	var all []Layer
	for _, p := range parts {
		all = append(all, Part(name, name+"/"+p.Name(), p))
	}
	return all
}

type sequential struct {
	name, scope string
	layers      []Layer
}

func (s *sequential) Name() string { return s.name }

func (s *sequential) Scope() string { return s.scope }

func (s *sequential) Params() []*Param { return ParamsOf(s.layers...) }

func (s *sequential) Forward(t *Trace, in ...*graph.Node) []*graph.Node {
	for _, l := range s.layers {
		in = l.Forward(t, in...)
	}
	return in
}

// ParamsOf lists the parameters of layers, one layer after another: the pointers
// themselves, since a parameter is identified by its pointer.
func ParamsOf(layers ...Layer) []*Param {
	var all []*Param
	for _, l := range layers {
		all = append(all, l.Params()...)
	}
	return all
}
