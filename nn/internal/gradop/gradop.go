// Package gradop has the attributes of the operations that occur only in
// backward functions. Package graph derives them from its gradient rules and
// package program has their kernels; nobody else needs their names.
package gradop

// Op is implemented by such an operation in a graph.
type Op interface {
	// Derived returns one of the types of this package.
	Derived() any
}

// Gradients of products and attention. A window or an operation has the type that
// package graph has for it.
type (
	ConvInput[Window any]   struct{ Window Window } // dx, of dy and w
	ConvWeight[Window any]  struct{ Window Window } // adds to dw, of x and dy
	DepthwiseInput[Op any]  struct{ Of Op }         // dx, of dy and w
	DepthwiseWeight[Op any] struct{ Of Op }         // adds to dw, of x and dy
	Attention[Op any]       struct{ Of Op }         // of do, o, lse and the attention's inputs
	Embed                   struct{ Scale float32 } // adds to the rows of the table, of dy and ids

	AdditiveAttention[Op any] struct{ Of Op } // of do, the softmax and the attention's inputs
)

// Gradients of recurrent layers.
type (
	LSTM[Op any]       struct{ Of Op }        // dz and perhaps dx, of dh, gates, c, weights and lengths
	LSTMWeight[Op any] struct{ Of Op }        // adds to dWx, db and dW, of x, h and dz
	Previous           struct{ Reverse bool } // the states before each step, of all states
)

// Gradients of norms.
type (
	LayerNorm           struct{}
	LayerNormParams     struct{}            // adds to dgamma and dbeta
	BatchNormSums       struct{ ReLU bool } // of each chunk of rows
	BatchNormTotals     struct{}
	BatchNormWideTotals struct{} // of all replicas
	BatchNorm           struct{ ReLU bool }
	BatchNormParams     struct{} // adds to dgamma and dbeta
)

// Gradients of pools and losses.
type (
	MaxPool[Window any] struct{ Window Window } // of dy, x and y
	AvgPool[Window any] struct{ Window Window }
	GlobalAvgPool       struct{}
	CrossEntropy        struct{ Smoothing float32 } // of logits, log-sum-exp and targets
)

// Gradients of element-wise operations and of the bias.
type (
	ReLU      struct{} // of dy and y
	GELU      struct{} // of dy and x
	Clip      struct{ Limit float32 }
	ColumnSum struct{} // adds the rows of its input to a bias
)

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
