package graph

// DropPathOp zeroes whole examples with probability Rate and scales the others
// by 1/(1-Rate), which removes a branch for those examples (Larsson et al.
// 2016; AmoebaNet's drop-path). As for a dropout, the mask is drawn again
// whenever it is needed; it is a function of (seed, step, Path, example).
type DropPathOp struct {
	noProducts
	Rate float32
	Path string
}

// DropPath drops examples of x, whose first dimension counts them.
func (g *Graph) DropPath(x *Node, rate float32, path string) *Node {
	return g.apply1(DropPathOp{Rate: rate, Path: path}, x)
}

func (DropPathOp) Name() string { return "drop-path" }
func (o DropPathOp) Infer(in []*Node) []Type {
	wantFloat("drop-path", in...)
	if !(o.Rate > 0 && o.Rate < 1) {
		misuse("drop-path", "rate %v is not between 0 and 1", o.Rate)
	}
	return sameAs(in[0])
}
func (o DropPathOp) Gradient(g *Graph, _ *Call, dout []*Node) []*Node {
	return []*Node{g.apply1(o, dout[0])}
}
func (DropPathOp) InPlace() []int { return []int{0} }
