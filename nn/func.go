package nn

import (
	"path"
	"slices"

	"gpipebench/nn/graph"
)

// named is embedded by layers: a name, the parameters, and what is wrong with the configuration, if anything. A
// constructor returns a layer in any case; its Params panics then, and so does tracing it, with the
// [*graph.Misuse] that names it. So a pipeline returns it as an error when it is opened.
type named struct {
	name   string
	params []*Param
	wrong  *graph.Misuse
}

func (n *named) Name() string { return n.name }

func (n *named) Params() []*Param {
	n.fit()
	return slices.Clip(n.params)
}

// own adds a parameter of the layer, whose path begins with the layer's name.
func (n *named) own(what string, p Param) *Param {
	p.Name = path.Join(n.name, what)
	n.params = append(n.params, &p)
	return &p
}

// keep, deferred by a constructor, keeps its misuse for later.
func (n *named) keep() { n.wrong = misused(recover()) }

// fit panics with a misuse that was kept.
func (n *named) fit() {
	if n.wrong != nil {
		panic(n.wrong)
	}
}

// refused, deferred by a constructor of a [Layer], returns one that keeps its misuse.
func refused(l *Layer, name string) {
	if wrong := misused(recover()); wrong != nil {
		*l = &function{named: named{name: name, wrong: wrong}}
	}
}

// misused returns what a constructor has panicked with, nil if it has not.
func misused(v any) *graph.Misuse {
	if v == nil {
		return nil
	}
	wrong, ok := v.(*graph.Misuse)
	if !ok {
		panic(v)
	}
	return wrong
}

// Func makes a layer of a forward function. The name is the layer's, and params
// are what it uses by [Trace.Param]: see the examples Func and Param.
func Func(name string, forward func(t *Trace, in ...*graph.Node) []*graph.Node, params ...*Param) (l Layer) {
	defer refused(&l, name)
	if forward == nil {
		misuse("func", name, "want a forward function")
	}
	return &function{named{name: name, params: params}, forward}
}

type function struct {
	named
	forward func(t *Trace, in ...*graph.Node) []*graph.Node
}

func (f *function) Forward(t *Trace, in ...*graph.Node) []*graph.Node {
	f.fit()
	return f.forward(t, in...)
}

// unary is a layer without parameters that maps one tensor to one.
func unary(kind, name string, f func(t *Trace, x *graph.Node) *graph.Node) Layer {
	return Func(name, func(t *Trace, in ...*graph.Node) []*graph.Node {
		WantTuple(kind, name, in, 1)
		return []*graph.Node{f(t, in[0])}
	})
}

// NewFlatten returns a layer that makes one row of each example: (n, ...) becomes
// (n, elements).
func NewFlatten(name string) Layer {
	return unary("flatten", name, (*Trace).Flatten)
}

// NewActivation returns a layer that applies an activation, element by element.
func NewActivation(name string, a Activation) (l Layer) {
	defer refused(&l, name)
	if !a.valid() {
		misuse("activation", name, "unknown activation %s", a)
	}
	return unary("activation", name, activations[a].apply)
}
