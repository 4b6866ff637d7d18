package kernel

// additiveShapes has padding, and a shape without a valid key.
var additiveShapes = []AdditiveShape{{1, 1, 1, 1, 1}, {3, 4, 5, 2, 4}, {3, 4, 5, 2, 2}, {2, 3, 16, 17, 0}, {7, 33, 35, 41, 20}}

// An additiveCase has the operands of both passes.
type additiveCase struct {
	AdditiveShape
	q, k, u, v, do []float32
}

func newAdditiveCase(s AdditiveShape) *additiveCase {
	return &additiveCase{
		s, randomFloats(1, s.Queries*s.Hidden), randomFloats(2, s.Keys*s.Hidden), randomFloats(3, s.Hidden),
		randomFloats(4, s.Keys*s.Values), randomFloats(5, s.Queries*s.Values),
	}
}

// run returns o, p and the gradients of q, k, u and v, with all operands where place
// copies them.
func (c *additiveCase) run(place func(x []float32) []float32) [][]float32 {
	q, k, u, v, do := place(c.q), place(c.k), place(c.u), place(c.v), place(c.do)
	of := func(n int) []float32 { return place(filled(n)) }
	o, p, scratch, gradScratch := of(len(do)), of(c.Queries*c.Keys), of(c.Scratch()), of(c.GradScratch())
	dq, dk, du, dv := of(len(q)), of(len(k)), of(len(u)), of(len(v))
	AdditiveAttention(c.AdditiveShape, o, p, q, k, u, v, scratch)
	AdditiveAttentionGrad(c.AdditiveShape, dq, dk, du, dv, do, p, q, k, u, v, gradScratch)
	return [][]float32{o, p, dq, dk, du, dv}
}
