package graph

// CopyOp is y = x. Programs use it where a stage hands on what it was given.
type CopyOp struct {
	noProducts
	noGradient
}

// Copy returns a copy of x, of any dtype.
func (g *Graph) Copy(x *Node) *Node { return g.apply1(CopyOp{}, x) }

func (CopyOp) Name() string            { return "copy" }
func (CopyOp) Infer(in []*Node) []Type { return sameAs(in[0]) }
