package graph

// Ender marks ops that end a loss: their gradient needs none from outside. The
// gradient of such an op is that of the sum of its first output, the losses of
// the rows, times the run's loss scale, one over the mini-batch's count.
type Ender interface{ EndsLoss() }

// EndLossOp passes on the losses of rows and ends the loss.
type EndLossOp struct{ overFirst }

// EndLoss ends a loss that was computed by other ops: rows has one loss for each
// row, such as an example (n) or a token (n, t), and 0 where a row is masked. It
// returns the same values, which are to be the first result of an nn.Loss.
//
// The run divides by the mini-batch's count, so rows are not averaged here: the
// step's loss is their sum in float64, in the order of the examples, divided by
// the count, whatever M is. What is computed from the result changes the loss
// that is reported, but no gradient.
func (g *Graph) EndLoss(rows *Node) *Node { return g.apply1(EndLossOp{}, rows) }

func (EndLossOp) EndsLoss()    {}
func (EndLossOp) Name() string { return "end-loss" }
func (EndLossOp) Infer(in []*Node) []Type {
	wantFloat("end-loss", in...)
	wantExamples("end-loss", in[0], 1)
	return []Type{{Shape{in[0].Elems()}, in[0].DType}}
}
func (EndLossOp) Gradient(g *Graph, c *Call, _ []*Node) []*Node {
	return []*Node{g.apply1(LossScaleOp{}, c.In[0])}
}

// LossScaleOp returns the gradient of each row: the loss scale. The rows are read
// for their shape only.
type LossScaleOp struct{ backwardOnly }

func (LossScaleOp) Name() string            { return "loss-scale" }
func (LossScaleOp) Infer(in []*Node) []Type { return sameAs(in[0]) }
func (LossScaleOp) InPlace() []int          { return []int{0} }
