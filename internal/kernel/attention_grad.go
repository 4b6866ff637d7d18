package kernel

// The weights and their gradients exist for one block of queries and keys at a
// time. Together with the rows involved a block fits in the second-level cache.
// No result's bits depend on these sizes.
const (
	attentionGradQueries = 8 * attentionTile
	attentionGradKeys    = 256
)

// AttentionGrad computes the gradients dq, dk and dv of a scalar whose gradient
// by o is do, given the inputs and the results of Attention. It overwrites dq,
// dk and dv: queries that see no key and keys that no query sees have zero
// gradients, unless AddKeys says that dk and dv are added to. scratch has GradScratch floats.
//
// The weights are not stored. They are computed again from the log-sum-exp, one
// block at a time (Dao et al. 2022, section 3.1 and appendix B.4):
//
//	P  = exp(Scale q kᵀ - lse)
//	dP = do vᵀ
//	dS = Scale P (dP - D),  D_i = Σ_j P_ij dP_ij = do_i · o_i
//	dq = dS k,  dk = dSᵀ q,  dv = Pᵀ do
//
// An element of dq is one chain over the keys in ascending order, and one of dk
// or dv is one over the queries.
func AttentionGrad(s AttentionShape, dq, dk, dv, do, q, k, v, o, lse, scratch []float32) {
	for j := range s.Keys {
		if s.AddKeys {
			break
		}
		clear(dk[j*s.KStride:][:s.HeadDim])
		clear(dv[j*s.VStride:][:s.HeadDim])
	}
	first := s.first()
	for i := range first {
		clear(dq[i*s.QStride:][:s.HeadDim])
	}
	if first == s.Queries {
		return
	}

	g := attentionGrad{AttentionShape: s, do: do, q: q, lse: lse, ld: s.gradStride()}
	cut := func(n int) []float32 {
		x := scratch[:n]
		scratch = scratch[n:]
		return x
	}
	g.d = cut(s.Queries)
	g.kt, g.vt = cut(s.HeadDim*g.ld), cut(s.HeadDim*g.ld)
	g.p, g.ds = cut(attentionGradQueries*g.ld), cut(attentionGradQueries*g.ld)

	for i := first; i < s.Queries; i++ {
		g.d[i] = vector.dot(do[i*s.OStride:][:s.HeadDim], o[i*s.OStride:][:s.HeadDim])
	}
	for j0 := 0; j0 < s.keys(); j0 += attentionGradKeys {
		g.j0, g.j1 = j0, min(j0+attentionGradKeys, s.keys())
		attention.transpose(g.kt, g.ld, k[j0*s.KStride:], s.KStride, g.j1-j0, s.HeadDim)
		attention.transpose(g.vt, g.ld, v[j0*s.VStride:], s.VStride, g.j1-j0, s.HeadDim)
		for i0 := g.firstToSee(j0); i0 < s.Queries; i0 += attentionGradQueries {
			g.i0, g.i1 = i0, min(i0+attentionGradQueries, s.Queries)
			g.queries(dq, k)
			g.keysOf(dk, dv)
		}
	}
}

// GradScratch returns the length of AttentionGrad's scratch: D, and kᵀ, vᵀ, P
// and dS of a block. It does not depend on the strides, Causal or Valid.
func (s AttentionShape) GradScratch() int {
	return s.Queries + 2*(s.HeadDim+attentionGradQueries)*s.gradStride()
}

func (s AttentionShape) gradStride() int { return scratchStride(min(s.Keys, attentionGradKeys)) }

// firstToSee returns the first query that sees key j.
func (s AttentionShape) firstToSee(j int) int {
	if s.Causal {
		return max(0, j-(s.Keys-s.Queries))
	}
	return 0
}

// attentionGrad is the state of AttentionGrad: the inputs, and the contents of
// scratch for queries i0 to i1-1 and keys j0 to j1-1.
type attentionGrad struct {
	AttentionShape
	do, q, lse     []float32
	d              []float32 // of all queries
	kt, vt, p, ds  []float32 // rows are ld apart
	ld             int
	i0, i1, j0, j1 int
}

// queries computes P and dS of the block, and adds dS k to dq.
func (g *attentionGrad) queries(dq, k []float32) {
	for i := g.i0; i < g.i1; i += attentionTile {
		m := min(attentionTile, g.i1-i)
		n := min(g.sees(i+m-1), g.j1) - g.j0
		p, ds := g.p[(i-g.i0)*g.ld:], g.ds[(i-g.i0)*g.ld:]
		attention.mul(m, roundUp16(n), g.HeadDim, g.q[i*g.QStride:], g.QStride, 1, g.kt, g.ld, p, g.ld, false)
		attention.mul(m, roundUp16(n), g.HeadDim, g.do[i*g.OStride:], g.OStride, 1, g.vt, g.ld, ds, g.ld, false)
		for r := range m {
			seen := min(g.sees(i+r), g.j1) - g.j0
			p, ds := p[r*g.ld:][:roundUp16(n)], ds[r*g.ld:][:roundUp16(n)]
			vector.expShift(p[:seen], p[:seen], g.Scale, g.lse[i+r])
			attention.gradRow(ds[:roundUp16(seen)], p[:roundUp16(seen)], g.d[i+r], g.Scale)
			// Other queries of the tile see more keys, and keys are handled in
			// tiles too: the elements for keys that this query does not see
			// must be zero.
			clear(p[seen:])
			clear(ds[seen:])
		}
		attention.mul(m, g.HeadDim, n, ds, g.ld, 1, k[g.j0*g.KStride:], g.KStride, dq[i*g.QStride:], g.QStride, g.j0 > 0)
	}
}

// keysOf adds dSᵀ q to dk and Pᵀ do to dv.
func (g *attentionGrad) keysOf(dk, dv []float32) {
	seen := min(g.sees(g.i1-1), g.j1)
	for j := g.j0; j < seen; j += attentionTile {
		m := min(attentionTile, seen-j)
		i := max(g.i0, g.firstToSee(j))
		at := (i-g.i0)*g.ld + j - g.j0
		attention.mul(m, g.HeadDim, g.i1-i, g.ds[at:], 1, g.ld, g.q[i*g.QStride:], g.QStride, dk[j*g.KStride:], g.KStride, true)
		attention.mul(m, g.HeadDim, g.i1-i, g.p[at:], 1, g.ld, g.do[i*g.OStride:], g.OStride, dv[j*g.VStride:], g.VStride, true)
	}
}
