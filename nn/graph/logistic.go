package graph

// ExpOp is y = exp(x). Its gradient needs only y.
type ExpOp struct{ overFirst }

// Exp returns exp(x).
func (g *Graph) Exp(x *Node) *Node { return g.apply1(ExpOp{}, x) }

func (ExpOp) Name() string            { return "exp" }
func (ExpOp) Infer(in []*Node) []Type { return alike("exp", in) }
func (ExpOp) Gradient(g *Graph, c *Call, dout []*Node) []*Node {
	return []*Node{g.Mul(dout[0], c.Out[0])}
}

// LogOp is the natural logarithm, -Inf at 0 and NaN below.
type LogOp struct{ overFirst }

// Log returns the natural logarithm of x.
func (g *Graph) Log(x *Node) *Node { return g.apply1(LogOp{}, x) }

func (LogOp) Name() string            { return "log" }
func (LogOp) Infer(in []*Node) []Type { return alike("log", in) }
func (LogOp) Gradient(g *Graph, c *Call, dout []*Node) []*Node {
	return []*Node{g.apply1(LogGradOp{}, dout[0], c.In[0])}
}

// LogGradOp takes dy, x.
type LogGradOp struct{ pointwiseGrad }

func (LogGradOp) Name() string { return "log-grad" }

// SigmoidOp is the logistic function, y = 1/(1 + exp(-x)). Its gradient needs
// only y.
type SigmoidOp struct{ overFirst }

// Sigmoid returns 1/(1 + exp(-x)).
func (g *Graph) Sigmoid(x *Node) *Node { return g.apply1(SigmoidOp{}, x) }

func (SigmoidOp) Name() string            { return "sigmoid" }
func (SigmoidOp) Infer(in []*Node) []Type { return alike("sigmoid", in) }
func (SigmoidOp) Gradient(g *Graph, c *Call, dout []*Node) []*Node {
	return []*Node{g.apply1(SigmoidGradOp{}, dout[0], c.Out[0])}
}

// SigmoidGradOp takes dy, y.
type SigmoidGradOp struct{ pointwiseGrad }

func (SigmoidGradOp) Name() string { return "sigmoid-grad" }

// TanhOp is y = tanh(x). Its gradient needs only y.
type TanhOp struct{ overFirst }

// Tanh returns the hyperbolic tangent of x.
func (g *Graph) Tanh(x *Node) *Node { return g.apply1(TanhOp{}, x) }

func (TanhOp) Name() string            { return "tanh" }
func (TanhOp) Infer(in []*Node) []Type { return alike("tanh", in) }
func (TanhOp) Gradient(g *Graph, c *Call, dout []*Node) []*Node {
	return []*Node{g.apply1(TanhGradOp{}, dout[0], c.Out[0])}
}

// TanhGradOp takes dy, y.
type TanhGradOp struct{ pointwiseGrad }

func (TanhGradOp) Name() string { return "tanh-grad" }

// SoftmaxOp turns each row of x (..., n) into probabilities: exp(x) divided by
// the row's sum of them. Its gradient needs only y.
type SoftmaxOp struct{ overFirst }

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
	return []*Node{g.apply1(SoftmaxGradOp{}, dout[0], c.Out[0])}
}

// SoftmaxGradOp takes dy, y.
type SoftmaxGradOp struct{ backwardOnly }

func (SoftmaxGradOp) Name() string            { return "softmax-grad" }
func (SoftmaxGradOp) Infer(in []*Node) []Type { return sameAs(in[0]) }
func (SoftmaxGradOp) InPlace() []int          { return []int{0} }
