package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/diff/fd"
)

// attentionReference computes Attention in float64 from rows without gaps,
// directly by the definition, without blocks.
func attentionReference(s AttentionShape, q, k, v []float64) (o, lse []float64, p [][]float64) {
	o, lse = make([]float64, s.Queries*s.HeadDim), make([]float64, s.Queries)
	for i := range s.Queries {
		row := make([]float64, s.Keys)
		largest := math.Inf(-1)
		for j := range row {
			row[j] = math.Inf(-1)
			if j >= s.Valid || s.Causal && j > i+s.Keys-s.Queries {
				continue
			}
			row[j] = 0
			for c := range s.HeadDim {
				row[j] += float64(s.Scale) * q[i*s.HeadDim+c] * k[j*s.HeadDim+c]
			}
			largest = max(largest, row[j])
		}
		sum := 0.0
		for j, x := range row {
			row[j] = 0
			if !math.IsInf(x, -1) {
				row[j] = math.Exp(x - largest)
			}
			sum += row[j]
		}
		lse[i] = largest + math.Log(sum)
		for j := range row {
			if sum > 0 {
				row[j] /= sum
			}
			for c := range s.HeadDim {
				o[i*s.HeadDim+c] += row[j] * v[j*s.HeadDim+c]
			}
		}
		p = append(p, row)
	}
	return o, lse, p
}

// attentionGradReference computes AttentionGrad in float64 by the softmax's
// Jacobian, dS = P (dP - Σ P dP).
func attentionGradReference(s AttentionShape, do, q, k, v []float64) (dq, dk, dv []float64) {
	_, _, p := attentionReference(s, q, k, v)
	dq, dk, dv = make([]float64, len(q)), make([]float64, len(k)), make([]float64, len(v))
	d := s.HeadDim
	for i := range s.Queries {
		dp := make([]float64, s.Keys)
		mean := 0.0
		for j := range dp {
			for c := range d {
				dp[j] += do[i*d+c] * v[j*d+c]
				dv[j*d+c] += p[i][j] * do[i*d+c]
			}
			mean += p[i][j] * dp[j]
		}
		for j := range dp {
			ds := p[i][j] * (dp[j] - mean) * float64(s.Scale)
			for c := range d {
				dq[i*d+c] += ds * k[j*d+c]
				dk[j*d+c] += ds * q[i*d+c]
			}
		}
	}
	return dq, dk, dv
}

func attentionNormals(n int, seed uint64) []float64 {
	r := rand.New(rand.NewPCG(seed, 1))
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(float32(r.NormFloat64()))
	}
	return x
}

// The reference's gradient is itself compared with central differences.
func TestAttentionGradReference(t *testing.T) {
	for _, s := range []AttentionShape{
		{Queries: 4, Keys: 4, HeadDim: 3, Valid: 4, Scale: 0.6},
		{Queries: 4, Keys: 4, HeadDim: 3, Valid: 3, Causal: true, Scale: 0.6},
		{Queries: 3, Keys: 5, HeadDim: 2, Valid: 4, Causal: true, Scale: 1.5},
		{Queries: 5, Keys: 3, HeadDim: 2, Valid: 3, Causal: true, Scale: 0.7},
		{Queries: 2, Keys: 3, HeadDim: 2, Valid: 0, Scale: 0.7},
	} {
		nq, nk := s.Queries*s.HeadDim, s.Keys*s.HeadDim
		x := attentionNormals(nq+2*nk, 1)
		do := attentionNormals(nq, 2)
		want := fd.Gradient(nil, func(x []float64) float64 {
			o, _, _ := attentionReference(s, x[:nq], x[nq:nq+nk], x[nq+nk:])
			loss := 0.0
			for i := range o {
				loss += o[i] * do[i]
			}
			return loss
		}, x, &fd.Settings{Formula: fd.Central})
		dq, dk, dv := attentionGradReference(s, do, x[:nq], x[nq:nq+nk], x[nq+nk:])
		got := append(append(dq, dk...), dv...)
		for i := range want {
			if math.Abs(got[i]-want[i]) > 1e-8 {
				t.Errorf("%v: gradient %d is %g, by differences %g", s, i, got[i], want[i])
			}
		}
	}
}

func (s AttentionShape) String() string {
	return fmt.Sprintf("Tq=%d/Tk=%d/dh=%d/causal=%t/valid=%d", s.Queries, s.Keys, s.HeadDim, s.Causal, s.Valid)
}

// attentionShapes lists the shapes of the tests, with strides that leave gaps.
func attentionShapes() []AttentionShape {
	var shapes []AttentionShape
	add := func(queries, keys, dim int, causal bool, valid int) {
		shapes = append(shapes, AttentionShape{
			Queries: queries, Keys: keys, HeadDim: dim, Causal: causal, Valid: valid,
			QStride: 3*dim + 1, KStride: 3 * dim, VStride: 2*dim + 5, OStride: dim + 2,
			Scale: float32(1 / math.Sqrt(float64(dim))),
		})
	}
	for _, t := range []int{1, 3, 17, 64, 128, 200} {
		for _, dim := range []int{1, 5, 16, 32, 64, 80} {
			add(t, t, dim, false, t)
			add(t, t, dim, true, t)
		}
		for _, dim := range []int{5, 32} {
			add(t, t, dim, false, (t+1)/2)
			add(t, t, dim, true, (2*t+2)/3)
			add(t, t+37, dim, false, t+36) // decoder over encoder
			add(t+37, t, dim, false, t)
			add(t, t+5, dim, true, t+5) // a cache of five keys
			add(t+5, t, dim, true, t)   // five queries see nothing
			add(t+70, t, dim, true, t)  // more than a block sees nothing
			add(t, t, dim, true, 0)     // nothing is seen
		}
	}
	// Several blocks of keys.
	add(300, 300, 16, true, 300)
	add(300, 520, 5, false, 519)
	add(300, 520, 5, true, 500)
	add(520, 300, 5, true, 290)
	return some(shapes)
}
