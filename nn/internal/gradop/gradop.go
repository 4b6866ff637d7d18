// Package gradop has the attributes of the operations that occur only in
// backward functions. Package graph derives them from its gradient rules and
// package program has their kernels; nobody else needs their names.
package gradop

// Op is implemented by such an operation in a graph.
type Op interface {
	// Derived returns one of the types of this package.
	Derived() any
}

// Operations on the gradient of y and the value of y.
type (
	Sigmoid struct{} // dy y (1 - y)
	Tanh    struct{} // dy (1 - y²)
	Softmax struct{} // y (dy - Σ dy y), row by row
)

// Log is dy / x, of the gradient of y and the value of x.
type Log struct{}

// Elementwise is dy times the derivative at x, of the gradient of y and the value
// of x.
type Elementwise struct{ Derivative func(x float64) float64 }

// ExampleSum adds the examples of its input to an accumulator, in ascending
// order.
type ExampleSum struct{}

// LossScale sets every element to the factor of the loss: one over the
// mini-batch's count. Its input only has the shape.
type LossScale struct{}
