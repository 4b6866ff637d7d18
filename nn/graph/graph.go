// Package graph is the expression graph that layers are traced into: shapes,
// dtypes, costs and gradient rules of operations, whose attributes are in package op.
// It does no arithmetic and holds no data, so 83.9 billion parameters are as cheap to
// trace as eighty.
//
// A [Graph] is a list of calls in the order they were made, which is a
// topological order. [Graph.Gradients] appends the calls of the backward
// function, derived from the gradient rules of the ops by reverse
// accumulation, as GPipe derives B_k from F_k (Huang et al. 2019, section 2.1).
//
// Misuse while tracing (a shape that does not fit) panics with a [*Misuse].
package graph

import (
	"fmt"
	"slices"
	"strings"
)

// DType is the type of a tensor's elements.
type DType uint8

const (
	F32  DType = iota // IEEE 754 binary32
	BF16              // bfloat16, of activations and their gradients; see package program
	I32               // token ids, lengths, labels: carries no gradient
)

// Bytes returns the size of one element.
func (d DType) Bytes() int64 {
	if d == BF16 {
		return 2
	}
	return 4
}

func (d DType) String() string { return [...]string{"f32", "bf16", "i32"}[d] }

// Shape lists a tensor's dimensions, outermost first. Data is row-major.
type Shape []int

// Elems returns the number of elements.
func (s Shape) Elems() int {
	n := 1
	for _, d := range s {
		n *= d
	}
	return n
}

// Last returns the innermost dimension. With Rows it gives the matrix that
// dense layers see.
func (s Shape) Last() int { return s[len(s)-1] }

// Rows returns the product of all dimensions but the last.
func (s Shape) Rows() int { return s[:len(s)-1].Elems() }

// With returns a copy whose last dimension is n.
func (s Shape) With(n int) Shape {
	c := slices.Clone(s)
	c[len(c)-1] = n
	return c
}

func (s Shape) String() string {
	parts := make([]string, len(s))
	for i, d := range s {
		parts[i] = fmt.Sprint(d)
	}
	return "(" + strings.Join(parts, ",") + ")"
}

// Role is the origin of a node's value.
type Role uint8

const (
	Computed Role = iota // by a call
	Input                // from outside: a boundary tensor, a label, an output's gradient
	Param                // a trained parameter
	Const                // a table that is computed once, when a device is opened
)

// Node is one value.
type Node struct {
	ID    int
	Role  Role
	Name  string // of an input, parameter or constant, or a layer's output; else empty
	Shape Shape
	DType DType
	Call  *Call // what computes it; nil unless Computed
	Index int   // which of the call's outputs
	Split Split // of a parameter
}

// Elems returns the number of the value's elements.
func (n *Node) Elems() int { return n.Shape.Elems() }

// String is the value's origin and type, such as "input 0 f32(8,3)", "relu
// f32(8,3)" or "the output of layer a f32(8,3)".
func (n *Node) String() string {
	name := n.Name
	if name == "" && n.Call != nil {
		name = n.Call.Name()
	}
	return fmt.Sprintf("%s %s%s", name, n.DType, n.Shape)
}

// Call is one application of an operation. What is known of it beside its attributes, its
// methods tell.
type Call struct {
	Op    any // a struct of package op, or an operation of a caller
	In    []*Node
	Out   []*Node
	Layer int // the pipeline layer it belongs to; nothing is fused across layers

	rules *rules // see known
}

// Type is the shape and dtype of a value.
type Type struct {
	Shape Shape
	DType DType
}

// Graph is a traced function. The zero value is empty and ready.
type Graph struct {
	Calls []*Call
	// Layer is the pipeline layer of calls added from now on.
	Layer int
	// OverReplicas says that batch norms take the statistics of the same micro-batch of
	// all replicas, not those of this one alone.
	OverReplicas bool

	nodes int
}

// NewNode adds a value that no call computes.
func (g *Graph) NewNode(role Role, name string, dt DType, shape ...int) *Node {
	n := &Node{ID: g.nodes, Role: role, Name: name, Shape: shape, DType: dt}
	g.nodes++
	return n
}

// apply adds a call and returns its outputs.
func (g *Graph) apply(o any, in ...*Node) []*Node {
	c := &Call{Op: o, In: in, Layer: g.Layer, rules: rulesOf(o)}
	for i, t := range c.Infer(in) {
		n := g.NewNode(Computed, "", t.DType, t.Shape...)
		n.Call, n.Index = c, i
		c.Out = append(c.Out, n)
	}
	g.Calls = append(g.Calls, c)
	return c.Out
}

// apply1 is apply for an operation whose first output is wanted.
func (g *Graph) apply1(o any, in ...*Node) *Node { return g.apply(o, in...)[0] }

// Misuse is the value with which tracing panics if layers and their inputs do
// not fit together. That is a programmer's error, unless a user chose the
// shapes: code that traces a user's shapes recovers a *Misuse and nothing else.
type Misuse struct {
	Layer string // the pipeline layer, if one was being traced
	Of    string // the package, and the op or the part of a layer
	Wrong string // the error, with all shapes concerned
}

func (m *Misuse) Error() string {
	if m.Layer != "" {
		return "layer " + m.Layer + ": " + m.Of + ": " + m.Wrong
	}
	return m.Of + ": " + m.Wrong
}

// Refuse panics with a [*Misuse].
func Refuse(of, format string, args ...any) {
	panic(&Misuse{Of: of, Wrong: fmt.Sprintf(format, args...)})
}

func misuse(name string, format string, args ...any) { Refuse("graph: "+name, format, args...) }

func wantFloat(name string, in ...*Node) {
	for _, n := range in {
		if n.DType == I32 {
			misuse(name, "input %s is not floating point", n)
		}
	}
}
