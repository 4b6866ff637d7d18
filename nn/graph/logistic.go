package graph

import "gpipebench/nn/internal/gradop"

// ExpOp is y = exp(x). Its gradient needs only y.
type ExpOp struct{ noProducts }

// Exp returns exp(x).
func (g *Graph) Exp(x *Node) *Node { return g.apply1(ExpOp{}, x) }

func (ExpOp) Name() string            { return "exp" }
func (ExpOp) Infer(in []*Node) []Type { wantFloat("exp", in...); return sameAs(in[0]) }
func (ExpOp) Gradient(g *Graph, c *Call, dout []*Node) []*Node {
	return []*Node{g.Mul(dout[0], c.Out[0])}
}
func (ExpOp) InPlace() []int { return []int{0} }

// LogOp is the natural logarithm, -Inf at 0 and NaN below.
type LogOp struct{ noProducts }

// Log returns the natural logarithm of x.
func (g *Graph) Log(x *Node) *Node { return g.apply1(LogOp{}, x) }

func (LogOp) Name() string            { return "log" }
func (LogOp) Infer(in []*Node) []Type { wantFloat("log", in...); return sameAs(in[0]) }
func (LogOp) Gradient(g *Graph, c *Call, dout []*Node) []*Node {
	return []*Node{g.apply1(logGradOp{}, dout[0], c.In[0])}
}
func (LogOp) InPlace() []int { return []int{0} }

// logGradOp takes dy, x.
type logGradOp struct {
	pointwiseGrad
	gradop.Log
}

func (logGradOp) Name() string   { return "log-grad" }
func (o logGradOp) Derived() any { return o.Log }

// SigmoidOp is the logistic function, y = 1/(1 + exp(-x)). Its gradient needs
// only y.
type SigmoidOp struct{ noProducts }

// Sigmoid returns 1/(1 + exp(-x)).
func (g *Graph) Sigmoid(x *Node) *Node { return g.apply1(SigmoidOp{}, x) }

func (SigmoidOp) Name() string            { return "sigmoid" }
func (SigmoidOp) Infer(in []*Node) []Type { wantFloat("sigmoid", in...); return sameAs(in[0]) }
func (SigmoidOp) Gradient(g *Graph, c *Call, dout []*Node) []*Node {
	return []*Node{g.apply1(sigmoidGradOp{}, dout[0], c.Out[0])}
}
func (SigmoidOp) InPlace() []int { return []int{0} }

// sigmoidGradOp takes dy, y.
type sigmoidGradOp struct {
	pointwiseGrad
	gradop.Sigmoid
}

func (sigmoidGradOp) Name() string   { return "sigmoid-grad" }
func (o sigmoidGradOp) Derived() any { return o.Sigmoid }

// TanhOp is y = tanh(x). Its gradient needs only y.
type TanhOp struct{ noProducts }

// Tanh returns the hyperbolic tangent of x.
func (g *Graph) Tanh(x *Node) *Node { return g.apply1(TanhOp{}, x) }

func (TanhOp) Name() string            { return "tanh" }
func (TanhOp) Infer(in []*Node) []Type { wantFloat("tanh", in...); return sameAs(in[0]) }
func (TanhOp) Gradient(g *Graph, c *Call, dout []*Node) []*Node {
	return []*Node{g.apply1(tanhGradOp{}, dout[0], c.Out[0])}
}
func (TanhOp) InPlace() []int { return []int{0} }

// tanhGradOp takes dy, y.
type tanhGradOp struct {
	pointwiseGrad
	gradop.Tanh
}

func (tanhGradOp) Name() string   { return "tanh-grad" }
func (o tanhGradOp) Derived() any { return o.Tanh }

// SoftmaxOp turns each row of x (..., n) into probabilities: exp(x) divided by
// the row's sum of them. Its gradient needs only y.
type SoftmaxOp struct{ noProducts }

// Softmax returns the softmax over the last axis of x. A loss of class labels is
// cheaper and more exact with [Graph.CrossEntropy], which takes logits.
func (g *Graph) Softmax(x *Node) *Node { return g.apply1(SoftmaxOp{}, x) }

func (SoftmaxOp) Name() string { return "softmax" }
func (SoftmaxOp) Infer(in []*Node) []Type {
	wantFloat("softmax", in...)
	wantExamples("softmax", in[0], 2)
	return sameAs(in[0])
}
func (SoftmaxOp) Gradient(g *Graph, c *Call, dout []*Node) []*Node {
	return []*Node{g.apply1(softmaxGradOp{}, dout[0], c.Out[0])}
}
func (SoftmaxOp) InPlace() []int { return []int{0} }

// softmaxGradOp takes dy, y.
type softmaxGradOp struct {
	noProducts
	noGradient
	gradop.Softmax
}

func (softmaxGradOp) Name() string            { return "softmax-grad" }
func (softmaxGradOp) Infer(in []*Node) []Type { return sameAs(in[0]) }
func (softmaxGradOp) InPlace() []int          { return []int{0} }
func (o softmaxGradOp) Derived() any          { return o.Softmax }

// pointwiseGrad is embedded by gradients that take dy and one more value of its
// shape, element by element.
type pointwiseGrad struct {
	noProducts
	noGradient
}

func (pointwiseGrad) Infer(in []*Node) []Type { return sameAs(in[0]) }
func (pointwiseGrad) InPlace() []int          { return []int{0, 1} }
