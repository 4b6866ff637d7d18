// Package op has the operations of a graph's calls: one struct each, whose fields are its
// attributes. Package graph creates them, by methods of graph.Graph, and defines the shapes of
// their results and their gradients; package program has their kernels. Two operations with equal
// types and attributes are the same operation, compared by ==.
//
// In comments, capitals and letters in brackets are shapes: (b, t, d) is a tensor of b examples,
// each of t rows of d elements. An operation that only gradients use says so by its name, and
// lists its inputs in their order.
package op

// Exchange copies rows of images between the parts of a divided program, and stands for
// instructions of other parts at which a part has nothing to do. No graph has it.
type Exchange struct{}

// Moved is the operation Of on a part's rows of images: By is the same with another number of
// rows before the first in its window. No graph has it.
type Moved struct{ Of, By any }
