package graph

import (
	"fmt"
	"reflect"
	"slices"

	"gpipebench/nn/graph/op"
)

// What this package knows of an operation is in one place: its entry, which a call of define
// adds in the file of the operation's family. Package program has a register like this one, of
// kernels.

// rules is what is known of an operation with given attributes.
type rules struct {
	// name is the operation's name in listings and errors.
	name string
	// infer returns the types of the outputs, or panics through [misuse].
	infer func(in []*Node) []Type
	// gradient appends to g the calls that compute the gradients of the inputs
	// from those of the outputs (nil for an output without one) and returns
	// them, nil for an input without one. An operation of backward functions has none.
	gradient gradient
	// flops counts 2 x multiply-adds of matrix products, and nothing else; nil: 0.
	flops func(c *Call) int64

	inPlace     []int
	accumulates bool
	endsLoss    bool
	index       func(c *Call) Index
	hidden      func(c *Call) (s Shape, flopsEach float64)
}

type gradient = func(g *Graph, c *Call, dout []*Node) []*Node

var defined = map[reflect.Type]func(any) *rules{}

// define adds the entry of a type of operation. One without attributes has the same rules always.
func define[O any](of func(o O) rules) {
	entry := func(o any) *rules {
		r := of(o.(O))
		return &r
	}
	if reflect.TypeFor[O]().Size() == 0 {
		same := entry(*new(O))
		entry = func(any) *rules { return same }
	}
	defined[reflect.TypeFor[O]()] = entry
}

func rulesOf(o any) *rules {
	of := defined[reflect.TypeOf(o)]
	if of == nil {
		panic(fmt.Sprintf("graph: no rules for an operation of type %T", o))
	}
	return of(o)
}

// known is what is known of a call's operation: a graph has asked once for its own calls, and for a
// copy of one whose operation is moved it is the same.
func (c *Call) known() *rules {
	if c.rules != nil {
		return c.rules
	}
	return rulesOf(c.Op)
}

// Name is the operation's name in listings and errors.
func (c *Call) Name() string { return c.known().name }

// Infer returns the types of the outputs that the operation has for some inputs. It panics with
// a [*Misuse] if these do not fit.
func (c *Call) Infer(in []*Node) []Type { return c.known().infer(in) }

// FLOPs counts 2 x multiply-adds of matrix products, and nothing else but what a caller's
// operation says of itself.
func (c *Call) FLOPs() int64 {
	if flops := c.known().flops; flops != nil {
		return flops(c)
	}
	return 0
}

// InPlace lists the inputs that the first output may overwrite.
func (c *Call) InPlace() []int { return c.known().inPlace }

// Accumulates reports whether the kernel adds to the contents of its outputs, as one chain over
// the examples in ascending order. Gradients of parameters must come from such calls, since
// micro-batches add to them one after another (the arithmetic contract, rule 2).
func (c *Call) Accumulates() bool { return c.known().accumulates }

// EndsLoss reports whether the call ends a loss: its gradient needs none from outside. It is the
// gradient of the sum of the first output, the losses of the rows, times the run's loss scale,
// one over the mini-batch's count.
func (c *Call) EndsLoss() bool { return c.known().endsLoss }

// Index describes the values that an int32 input which is used as an index may hold.
type Index struct {
	In    int    // index of the input among the call's
	What  string // name of an element: token, target
	Least int32  // smallest valid value; math.MinInt32: negative ones are masked
	Limit int    // all values are below it
}

// Index describes the input that the call uses as an index; nil: there is none.
func (c *Call) Index() *Index {
	if index := c.known().index; index != nil {
		i := index(c)
		return &i
	}
	return nil
}

// Hidden returns the shape of a value which the call computes, which is in none of its tensors and
// may be larger than all of them, and the FLOPs per element; their product is the call's FLOPs
// unless it overflows. A call without one has no shape.
func (c *Call) Hidden() (s Shape, flopsEach float64) {
	if hidden := c.known().hidden; hidden != nil {
		return hidden(c)
	}
	return nil, 0
}

func init() {
	define(func(op.Exchange) rules { return rules{name: "exchange"} })
	define(func(o op.Moved) rules { return *rulesOf(o.Of) })
	define(func(o op.Local) rules {
		return rules{name: o.Name, inPlace: o.InPlace, flops: func(*Call) int64 { return o.FLOPs }}
	})
}

// Parts of rules that several operations share.

var (
	first  = []int{0} // to overwrite
	either = []int{0, 1}
)

// unary is y = f(x), element by element.
func unary(name string, of gradient) rules {
	return rules{name: name, infer: alike(name), gradient: of, inPlace: first}
}

// binary is z = f(a, b), element by element.
func binary(name string, of gradient) rules {
	return rules{name: name, infer: alike(name), gradient: of, inPlace: either}
}

// gradientOf is the gradient of an element-wise operation, from dy and perhaps more values, the
// first of its shape.
func gradientOf(name string) rules { return rules{name: name, infer: sameAsFirst, inPlace: either} }

// ofInput is a gradient that an operation computes from dy and the input.
func ofInput(o any) gradient {
	return func(g *Graph, c *Call, dout []*Node) []*Node { return []*Node{g.apply1(o, dout[0], c.In[0])} }
}

// ofOutput is a gradient that an operation computes from dy and the output.
func ofOutput(o any) gradient {
	return func(g *Graph, c *Call, dout []*Node) []*Node { return []*Node{g.apply1(o, dout[0], c.Out[0])} }
}

// ofNone stops the gradient.
func ofNone(_ *Graph, c *Call, _ []*Node) []*Node { return make([]*Node, len(c.In)) }

func sameAs(n *Node) []Type         { return []Type{{n.Shape, n.DType}} }
func sameAsFirst(in []*Node) []Type { return sameAs(in[0]) }

// alike infers the type of floating-point inputs that have all the same one.
func alike(name string) func(in []*Node) []Type {
	return func(in []*Node) []Type {
		wantFloat(name, in...)
		for _, n := range in[1:] {
			if !slices.Equal(n.Shape, in[0].Shape) || n.DType != in[0].DType {
				misuse(name, "inputs %s and %s differ", in[0], n)
			}
		}
		return sameAs(in[0])
	}
}
