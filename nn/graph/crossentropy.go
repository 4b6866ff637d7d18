package graph

import "math"

// CrossEntropyOp is softmax cross-entropy with label smoothing (Szegedy et al.
// 2016): logits (..., v) and targets (...) int32, where a negative target is
// masked. Outputs, each (rows): the row's loss, whether the target had the
// highest logit (1 or 0), the log-sum-exp that the backward needs, and with
// Ranks the number of classes that come before the target (-1 where masked).
//
// It ends a loss, see [Ender].
type CrossEntropyOp struct {
	noProducts
	Smoothing float32
	Ranks     bool
	// Weight is the factor of this loss in the network's loss. It applies to
	// the gradient, not to the outputs; 0: 1.
	Weight float32
}

// WeightedCrossEntropy returns the rows' losses times a weight other than 0,
// for a loss that is added to another.
func (g *Graph) WeightedCrossEntropy(logits, targets *Node, smoothing, weight float32) *Node {
	loss := g.Apply(CrossEntropyOp{Smoothing: smoothing, Weight: weight}, logits, targets)[0]
	return g.Scale(loss, weight)
}

// CrossEntropyRanks returns the rows' losses, hits and targets' ranks.
func (g *Graph) CrossEntropyRanks(logits, targets *Node, smoothing float32) (loss, correct, ranks *Node) {
	out := g.Apply(CrossEntropyOp{Smoothing: smoothing, Ranks: true}, logits, targets)
	return out[0], out[1], out[3]
}

// CrossEntropy returns the rows' losses and hits.
func (g *Graph) CrossEntropy(logits, targets *Node, smoothing float32) (loss, correct *Node) {
	out := g.Apply(CrossEntropyOp{Smoothing: smoothing}, logits, targets)
	return out[0], out[1]
}

func (CrossEntropyOp) EndsLoss()    {}
func (CrossEntropyOp) Name() string { return "cross-entropy" }
func (CrossEntropyOp) Index(c *Call) Index {
	return Index{In: 1, What: "target", Least: math.MinInt32, Limit: c.In[0].Shape.Last()}
}
func (o CrossEntropyOp) Infer(in []*Node) []Type {
	logits, targets := in[0], in[1]
	wantFloat("cross-entropy", logits)
	if targets.DType != I32 || targets.Elems() != logits.Shape.Rows() {
		misuse("cross-entropy", "targets %s are not one int32 per row of %s", targets, logits)
	}
	if !(o.Smoothing >= 0 && o.Smoothing < 1) {
		misuse("cross-entropy", "label smoothing %v is not in [0,1)", o.Smoothing)
	}
	row := Type{Shape{logits.Shape.Rows()}, F32}
	if o.Ranks {
		return []Type{row, row, row, row}
	}
	return []Type{row, row, row}
}
func (o CrossEntropyOp) Gradient(g *Graph, c *Call, _ []*Node) []*Node {
	d := g.apply1(CrossEntropyGradOp{Smoothing: o.Smoothing}, c.In[0], c.Out[2], c.In[1])
	if o.Weight != 0 {
		d = g.Scale(d, o.Weight)
	}
	return []*Node{d, nil}
}

// CrossEntropyGradOp takes logits, log-sum-exp, targets.
type CrossEntropyGradOp struct {
	backwardOnly
	Smoothing float32
}

func (CrossEntropyGradOp) Name() string            { return "cross-entropy-grad" }
func (CrossEntropyGradOp) Infer(in []*Node) []Type { return sameAs(in[0]) }
func (CrossEntropyGradOp) InPlace() []int          { return []int{0} }
