package graph

// DropPathOp zeroes whole examples with probability Rate and scales the others
// by 1/(1-Rate), which removes a branch for those examples (Larsson et al.
// 2016; AmoebaNet's drop-path). As for a dropout, the mask is drawn again
// whenever it is needed; it is a function of (seed, step, Path, example).
type DropPathOp struct {
	overFirst
	Rate float32
	Path string
	Over int // steps over which the probability rises from 0 to Rate; 0: it is Rate at all steps
}

// DropPath drops examples of x, whose first dimension counts them, with a rate
// that rises from 0 over a number of steps (0: it does not).
func (g *Graph) DropPath(x *Node, rate float32, over int, path string) *Node {
	return g.apply1(DropPathOp{Rate: rate, Path: path, Over: over}, x)
}

// At returns the probability at a step, which counts from 1.
func (o DropPathOp) At(step uint64) float64 {
	if o.Over == 0 {
		return float64(o.Rate)
	}
	return float64(o.Rate) * min(1, float64(step-1)/float64(o.Over))
}

func (DropPathOp) Name() string { return "drop-path" }
func (o DropPathOp) Infer(in []*Node) []Type {
	wantFloat("drop-path", in...)
	if !(o.Rate > 0 && o.Rate < 1) {
		misuse("drop-path", "rate %v is not between 0 and 1", o.Rate)
	}
	if o.Over < 0 {
		misuse("drop-path", "a rise over %d steps, want 0 or more", o.Over)
	}
	return sameAs(in[0])
}
func (o DropPathOp) Gradient(g *Graph, _ *Call, dout []*Node) []*Node {
	return []*Node{g.apply1(o, dout[0])}
}
