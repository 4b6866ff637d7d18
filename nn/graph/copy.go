package graph

// CopyOp is y = x. Programs use it where a stage passes an input on as an
// output, and networks where a layer returns one value twice.
type CopyOp struct{ noProducts }

// Copy returns a copy of x, of any dtype.
func (g *Graph) Copy(x *Node) *Node { return g.apply1(CopyOp{}, x) }

func (CopyOp) Name() string            { return "copy" }
func (CopyOp) Infer(in []*Node) []Type { return sameAs(in[0]) }

func (CopyOp) Gradient(_ *Graph, _ *Call, dout []*Node) []*Node { return []*Node{dout[0]} }
